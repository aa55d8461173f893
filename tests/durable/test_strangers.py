"""Nobody is signalled who was not started by us: reused numbers, reboots, edited records (C11)."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases.support import is_alive, left
from trioshell import Status
from trioshell._durable.identity import Identity
from trioshell.launchers._helpers import procfs

from .support import (
    ROOT,
    Host,
    bystander,
    check_lives,
    edit,
    record_of,
    reopened,
    said,
    until_none_left,
    wait_until,
)
from .test_crash import one

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what runs cannot be identified"),
]

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def crashed(directory: Path, tag: str) -> Host:
    """A host whose shell is gone: what its record says is true of nobody."""
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    wait_until(lambda: left(tag))
    host.crash()  # the supervisor ends the tree
    wait_until(lambda: not left(tag))
    notes = directory / "records" / f"{host.answer['id']}.notes"
    wait_until(lambda: "status" in notes.read_text())
    notes.unlink()
    return host


def becomes(pid: int, *, start: int | None = None) -> Change:
    """Everywhere in a record, the number of the leader is replaced."""

    def change(raw: dict[str, Any]) -> None:
        raw["info"]["pid"] = raw["process"]["pid"] = raw["process"]["session"] = pid
        if start is not None:
            raw["process"]["start"] = start

    return change


async def takes_over(directory: Path, host: Host) -> None:
    """The next scope finds the shell dead, says so, and forgets the number."""
    async with reopened(directory) as (shells, events):
        (shell,) = shells
        assert (shell.status, shell.info.returncode) == (Status.KILLED, None)
    check_lives(host.said(), said(events))
    assert not list((directory / "records").glob("*.running.json"))
    async with reopened(directory) as (_, events):
        assert events == []


async def test_number_of_a_bystander(crashed: Host, directory: Path) -> None:
    with bystander() as pid:
        edit(record_of(directory, crashed.answer["id"]), becomes(pid))
        await takes_over(directory, crashed)


async def test_number_and_command_of_a_bystander(crashed: Host, directory: Path) -> None:
    """The same program with the same arguments is still somebody else."""
    command = crashed.answer["command"].removeprefix("exec ").split()
    with bystander() as pid:
        assert Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1] == command
        edit(record_of(directory, crashed.answer["id"]), becomes(pid))
        await takes_over(directory, crashed)


@pytest.mark.parametrize(
    "pid",
    [os.getpid(), os.getppid(), 1, 0, -1, -os.getpid(), 2**31, 2**70],
    ids=["own", "parent", "init", "zero", "all", "own group", "too large", "far too large"],
)
async def test_numbers_that_are_nobodys(crashed: Host, directory: Path, pid: int) -> None:
    with bystander():
        edit(record_of(directory, crashed.answer["id"]), becomes(pid))
        await takes_over(directory, crashed)


@pytest.mark.parametrize("pid", [os.getpid(), 1], ids=["own", "init"])
async def test_identity_of_the_new_host_or_of_init(
    crashed: Host, directory: Path, pid: int
) -> None:
    """Even a record that names us, start time and all, does not make us signal ourselves."""
    process = procfs.look(pid)
    assert process is not None
    edit(record_of(directory, crashed.answer["id"]), becomes(pid, start=process.start))
    await takes_over(directory, crashed)


@pytest.mark.parametrize(
    "before",
    [{"boot": "00000000-0000-4000-8000-000000000000"}, {"namespace": 1}],
    ids=["reboot", "container"],
)
async def test_numbers_of_another_boot_or_namespace(
    crashed: Host, directory: Path, before: dict[str, Any]
) -> None:
    """There the same number, started at the same tick, is another process."""
    with bystander() as pid:
        identity = Identity.of(pid)
        assert identity is not None

        def change(raw: dict[str, Any]) -> None:
            for name in ("owner", "process", "keeper"):
                raw[name] = identity.as_dict() | before
            raw["info"]["pid"] = pid

        edit(record_of(directory, crashed.answer["id"]), change)
        if "boot" in before:
            await takes_over(directory, crashed)
        else:
            with pytest.warns(RuntimeWarning, match="another pid namespace"):
                await takes_over(directory, crashed)


@contextlib.contextmanager
def session_without_leader(marked: str | None = None) -> Iterator[tuple[int, int]]:
    """A session whose leader is gone and collected, and its one member."""
    env = dict(os.environ) if marked is None else os.environ | {"TRIOSHELL_ID": marked}
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!"], start_new_session=True, stdout=subprocess.PIPE, env=env
    )
    assert leader.stdout is not None
    with leader.stdout:
        member = int(leader.stdout.readline())
    leader.wait()
    try:
        yield leader.pid, member
    finally:
        process = procfs.look(member)
        if process is not None and not process.dead:
            os.kill(member, 9)


async def test_session_that_may_be_a_strangers_is_left_alone(
    crashed: Host, directory: Path
) -> None:
    """What cannot be told for sure is left alone, and named."""
    with session_without_leader() as (session, member):
        edit(record_of(directory, crashed.answer["id"]), becomes(session))
        with pytest.warns(RuntimeWarning, match=f"may be left of it: {member} "):
            async with reopened(directory) as (shells, _):
                (shell,) = shells
                assert [left.pid for left in shell.info.leftovers] == [member]
        assert is_alive(member)


async def test_session_with_a_marked_member_is_ours(crashed: Host, directory: Path) -> None:
    with session_without_leader(crashed.answer["id"]) as (session, member):
        edit(record_of(directory, crashed.answer["id"]), becomes(session))
        async with reopened(directory) as (shells, _):
            (shell,) = shells
            assert shell.info.leftovers == ()
        assert not is_alive(member)


async def test_live_host_without_its_lock_keeps_its_shells(directory: Path, tag: str) -> None:
    """Somebody moved what was locked away, and put a copy in its place."""
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    wait_until(lambda: left(tag))
    moved = directory.with_name("moved")
    directory.rename(moved)
    subprocess.run(["cp", "-R", moved, directory], check=True)
    with pytest.warns(RuntimeWarning, match=f"process {host.pid}, its host, is alive"):
        async with reopened(directory) as (shells, events):
            assert (len(shells), events) == (0, [])
    assert left(tag)
    assert record_of(directory, host.answer["id"]).exists()
    host.crash()
    async with reopened(directory) as (shells, events):
        await until_none_left(tag)
        check_lives(host.said(), said(events))


async def test_program_started_by_a_shell_does_not_reap_it(
    crashed: Host, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would reap itself, and the helpers that it has started."""
    program = """
import sys, trio, trioshell

async def main():
    async with trioshell.open_shells(directory=sys.argv[1]) as shells:
        (shell,) = shells
        print(shell.info.reason)

trio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        env=os.environ | {"TRIOSHELL_ID": crashed.answer["id"], "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "its host crashed; this program was started by it" in done.stdout
    assert "RuntimeWarning" in done.stderr


_REUSE = """
import os, subprocess, sys, trio
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.durable.support import *
from tests.durable.test_crash import one

directory = Path(sys.argv[2])
host = Host.start(one("exec sleep 600"), directory, tag="reuse")
pid = host.answer["pid"]
host.crash_totally()
os.kill(pid, 9)
try:
    while os.waitpid(-1, 0):  # we are process 1 here: its orphan is ours to collect
        pass
except ChildProcessError:
    pass
Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
assert stranger.pid == pid, (stranger.pid, pid)

async def main():
    async with reopened(directory) as (shells, events):
        (shell,) = shells
        assert shell.status == "killed" and shell.info.leftovers == (), shell.info
    check_lives(host.said(), said(events))

trio.run(main)
assert stranger.poll() is None
print("the stranger lives")
stranger.kill()
stranger.wait()
"""


def can_choose_pids() -> bool:
    """Whether we may make a pid namespace in which the next number can be chosen."""
    probe = ["unshare", "-rpfm", "--mount-proc", "test", "-w", "/proc/sys/kernel/ns_last_pid"]
    try:
        return subprocess.run(probe, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def test_number_that_was_really_given_out_again(directory: Path) -> None:
    """In a pid namespace of our own the kernel is made to give out the number again."""
    if not can_choose_pids():
        pytest.skip("no pid namespace may be made here")
    done = subprocess.run(
        ["unshare", "-rpfm", "--mount-proc", sys.executable, "-c", _REUSE, ROOT, directory],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "the stranger lives\n", done.stderr
