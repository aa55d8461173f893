"""``trioshell list``, ``show`` and ``reap``, as a person or a program calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.support import left

from .support import Host, check_lives, files, record_of, until_none_left, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what runs cannot be identified"),
]

TWO = """
async def main():
    async with scope() as shells:
        ended = await shells.create("seq 1 20; exit 4", metadata={"number": 1})
        await ended.wait()
        running = await shells.create(["sleep", "600"], env=env)
        ready([ended.id, running.id])
        await trio.sleep_forever()

trio.run(main)
"""


def trioshell(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "trioshell", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def json_lines(*arguments: object, code: int = 0) -> list[dict[str, Any]]:
    done = trioshell(*arguments, "--json", code=code)
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def host(directory: Path, tag: str) -> Iterator[Host]:
    host = Host.start(TWO, directory, tag=tag)
    yield host
    host.crash()
    trioshell("reap", directory)


def states(directory: Path) -> list[str]:
    return [info["state"] for info in json_lines("list", directory)]


async def test_list_and_reap(host: Host, directory: Path, tag: str) -> None:
    ended, running = host.answer
    lines = trioshell("list", directory).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [ended, running]
    assert "exited" in lines[0]
    assert lines[0].endswith("seq 1 20; exit 4")
    assert states(directory) == ["exited", "running"]
    assert f"process {host.pid}" in trioshell("reap", directory, code=2).stderr
    assert left(tag)
    host.crash_totally()
    assert states(directory) == ["exited", "lost"]
    assert left(tag)  # looking at it changes nothing
    told = json_lines("reap", directory)
    await until_none_left(tag, 0)
    assert [(event["type"], event["id"]) for event in told] == [("shell.exited", running)]
    check_lives(host.said(), [(event["type"], event["id"]) for event in told])
    assert states(directory) == ["exited", "killed"]
    assert json_lines("reap", directory) == []


async def test_reap_can_delete_everything(host: Host, directory: Path, tag: str) -> None:
    host.crash_totally()
    done = trioshell("reap", directory, "--delete")
    await until_none_left(tag, 0)
    assert "its host crashed" in done.stdout
    assert files(directory) == ["owner.json"]
    assert json_lines("list", directory) == []


async def test_show(host: Host, directory: Path) -> None:
    """Also while it is in use; a part of the id is enough if no other has it."""
    ended, running = host.answer
    shown = trioshell("show", directory, ended[-12:]).stdout.splitlines()
    assert shown[0].split() == ["id", ended]
    assert any(line.startswith("end ") and "code 4" in line for line in shown)
    assert 'metadata   {"number": 1}' in shown
    assert shown[-10:] == [f"    {number}" for number in range(11, 21)]
    assert trioshell("show", directory, ended, "--tail", 0).stdout.splitlines() == shown[:-10]
    (info,) = json_lines("show", directory, running)
    assert (info["command"], info["state"]) == (["sleep", "600"], "running")
    output = trioshell("show", directory, ended, "--output").stdout
    assert output.split() == [str(number) for number in range(1, 21)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("list", "nowhere"), "no durable directory"),
        (("reap", "nowhere"), "no durable directory"),
        (("show", "{directory}", "sh_"), "2 shells"),
        (("show", "{directory}", "nobody"), "has id 'nobody'"),
        (("show", "{directory}", "sh_", "--tail", "-1"), "--tail must be 0 or more"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], complaint: str, host: Host, directory: Path
) -> None:
    words = [word.format(directory=directory) for word in arguments]
    assert complaint in trioshell(*words, code=2).stderr
    assert not Path("nowhere").exists()


def test_damaged_record_is_named(host: Host, directory: Path) -> None:
    host.crash_totally()
    record = record_of(directory, host.answer[0])
    record.write_text("{")
    done = trioshell("list", directory)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr.startswith(f"trioshell: the record '{record}' is ignored")


def test_show_output_leaves_out_what_a_limit_dropped(directory: Path) -> None:
    program = """
    async def main():
        async with scope(output_limit=100_000) as shells:
            shell = await shells.create("head -c 3000000 /dev/zero | tr '\\\\0' x")
            await shell.wait()
            ready(shell.id)

    trio.run(main)
    """
    host = Host.start(program, directory)
    host.finish()
    output = trioshell("show", directory, host.answer, "--output").stdout
    assert set(output) == {"x"}
    assert 100_000 <= len(output) < 300_000
    wait_until(lambda: json_lines("list", directory)[0]["size"] == 3_000_000)
