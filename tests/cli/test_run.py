"""``trioshell run``, as a person or a program calls it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PROGRAM = [sys.executable, "-m", "trioshell"]


def trioshell(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def events(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
    done = trioshell("run", "--json", *arguments)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def infos(*arguments: str) -> list[dict[str, Any]]:
    _, told = events(*arguments)
    ended = {event["id"]: event["info"] for event in told if event["type"] == "shell.exited"}
    return [ended[id] for id in sorted(ended)]


def test_run_tells_each_event_and_the_tail_of_what_failed() -> None:
    done = trioshell("run", "echo hello", "echo bad; exit 3", "--timeout", "50")
    assert done.returncode == 1
    assert Counter(re.findall(r"created|exited|deleted", done.stdout)) == {
        "created": 2,
        "exited": 2,
        "deleted": 2,
    }
    assert "code 3" in done.stdout
    assert "    bad\n" in done.stdout
    assert "    hello\n" not in done.stdout


def test_run_json_gives_every_life_in_order_and_nothing_else() -> None:
    """C1."""
    status, told = events("echo hello", "sleep 0.2; echo slow", "exit 3", "--timeout", "50")
    assert status == 1
    lives: dict[str, list[str]] = {}
    for event in told:
        lives.setdefault(event["id"], []).append(event["type"])
    assert list(lives.values()) == [["shell.created", "shell.exited", "shell.deleted"]] * 3
    assert [event["seq"] for event in told] == list(range(1, 10))


@pytest.mark.parametrize(("command", "status"), [("true", 0), ("false", 1), ("kill -9 $$", 1)])
def test_run_exit_status_tells_whether_all_went_well(command: str, status: int) -> None:
    assert trioshell("run", "true", command).returncode == status


def test_run_timeout_and_grace() -> None:
    (info,) = infos("trap '' TERM; sleep 60; :", "--timeout", "0.3", "--grace", "0.1")
    assert (info["status"], info["signal"]) == ("timeout", signal.SIGKILL)


def test_run_jobs_run_so_many_at_once() -> None:
    _, told = events("--jobs", "1", "echo a", "echo b", "echo c")
    kinds = [event["type"].removeprefix("shell.") for event in told]
    assert kinds == ["created", "exited"] * 3 + ["deleted"] * 3


def test_run_shell_cwd_and_env(tmp_path: Path) -> None:
    out = trioshell(
        *("run", "--plain", "--shell", "sh", "--cwd", str(tmp_path), "--env", "A=b=c"),
        *("--tail", "9", 'pwd; echo "$A $0"'),
    ).stdout
    assert f"    {tmp_path}\n" in out
    assert re.search(r"^    b=c .*sh$", out, re.MULTILINE)


def test_run_background_keep_leaves_the_job_until_the_end() -> None:
    (info,) = infos("--background", "keep", "sleep 60 & echo started")
    assert (info["status"], info["returncode"]) == ("exited", 0)


def test_run_file_lists_more_commands(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text("echo one\n\n# a remark\n  echo two\n")
    assert [info["command"] for info in infos("--file", str(file), "echo zero")] == [
        "echo zero",
        "echo one",
        "  echo two",
    ]
    done = trioshell("run", "--json", "--file", "-", stdin="echo piped\n")
    assert "echo piped" in done.stdout


def test_run_in_a_durable_directory_keeps_what_earlier_runs_left(tmp_path: Path) -> None:
    """And its exit status is about its own commands."""
    directory = str(tmp_path / "state")
    assert trioshell("run", "--directory", directory, "echo one; exit 3").returncode == 1
    assert trioshell("run", "--directory", directory, "echo two").returncode == 0
    listed = trioshell("list", directory).stdout
    assert "echo one" in listed
    assert "echo two" in listed


def test_run_prefix_gives_every_line_with_its_command() -> None:
    done = trioshell("run", "--prefix", "echo one; echo two; exit 1")
    assert done.returncode == 1
    ids = {line.split(" | ")[0] for line in done.stdout.splitlines()}
    assert len(ids) == 1
    lines = [line.split(" | ", 1)[1] for line in done.stdout.splitlines()]
    assert lines[0] == "$ echo one; echo two; exit 1"
    assert lines[1:3] == ["one", "two"]
    assert lines[3].startswith("exited: code 1")


def test_run_tail_is_cleaned_of_terminal_sequences() -> None:
    out = trioshell("run", "--tail", "1", r"printf '\033[31mred\033[0m\n'").stdout
    assert "    red\n" in out


def test_run_pty_gives_a_terminal() -> None:
    assert infos("--pty", "test -t 0 && test -t 1 && test -t 2")[0]["returncode"] == 0


def test_run_that_cannot_start_one_says_so_and_runs_the_others(tmp_path: Path) -> None:
    done = trioshell("run", "--cwd", str(tmp_path / "gone"), "echo hello")
    assert done.returncode == 1
    assert "gone" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "no command"),
        (["run", "--timeout", "0", "true"], "more than 0"),
        (["run", "--jobs", "0", "true"], "1 or more"),
        (["run", "--env", "x", "true"], "NAME=VALUE"),
        (["run", "--shell", "no-such-shell-xyz", "true"], "no-such-shell-xyz"),
        (["run", "--file", "/no/such/list"], "/no/such/list"),
        (["run", "--grace", "nan", "true"], "grace"),
        ([], "COMMAND"),
    ],
)
def test_run_names_bad_arguments(arguments: list[str], message: str) -> None:
    """C14."""
    done = trioshell(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_run_interrupted_kills_and_reports_every_command(number: signal.Signals) -> None:
    """C9: Ctrl+C kills all and still reports each."""
    process = subprocess.Popen(
        [*PROGRAM, "run", "--json", "echo up; sleep 60", "sleep 61"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    told = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.send_signal(number)
    told += [json.loads(line) for line in process.stdout]
    process.stdout.close()
    assert process.wait(timeout=30) == 128 + number
    assert Counter(event["type"] for event in told) == {
        "shell.created": 2,
        "shell.exited": 2,
        "shell.deleted": 2,
    }
    assert {e["info"]["status"] for e in told if e["type"] == "shell.exited"} == {"killed"}


def test_run_on_a_terminal_shows_a_table() -> None:
    """The last picture has a row for each command: status, size, last line."""
    pid, fd = pty.fork()
    if pid == 0:  # pragma: no cover - the other process
        os.environ.update(COLUMNS="140", LINES="24", TERM="xterm")
        os.execv(PROGRAM[0], [*PROGRAM, "run", "echo the last line", "exit 4"])
    shown = b""
    try:
        while data := os.read(fd, 65536):
            shown += data
    except OSError:  # EIO: the other side has closed the terminal
        pass
    os.close(fd)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    text = shown.decode()
    assert "last line" in text.splitlines()[-3]
    assert re.search(r"echo the last line.*code 0.*14 B.*the last line", text)
    assert re.search(r"exit 4.*code 4.*0 B", text)


def test_version() -> None:
    assert re.fullmatch(r"trioshell \d+\.\d+.*\n", trioshell("--version").stdout)
