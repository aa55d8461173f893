"""Kind (h): standard input, of the command and of the host."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing

from trioshell import Pty, Shell, Status

from .hosts import run_host
from .support import Case, read_all, until_output

# Only against hangs.
LONG = 20.0

READERS = [
    ("cat; echo rc=$?", b"rc=0\n"),
    ('read x; echo "rc=$?"', b"rc=1\n"),
    ([sys.executable, "-c", "print(repr(__import__('sys').stdin.read()))"], b"''\n"),
]

KIND = """
import os, stat
mode = os.fstat(0).st_mode
print(stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode), stat.S_ISREG(mode), stat.S_ISCHR(mode),
      os.isatty(0))
"""


@pytest.mark.parametrize("host", ["as it is", "pipe", "terminal"])
async def test_a_command_that_reads_finds_the_end(case: Case, host: str) -> None:
    """Case 58: standard input is a pipe that nobody feeds (C15).

    https://github.com/MoonshotAI/kimi-cli/issues/1117
    """
    with _stdin_of_host(host) as unread:
        async with case.open():
            for command, expected in READERS:
                with trio.fail_after(LONG):
                    info, output = await case.run(command)
                assert (info.status, info.returncode, output) == (Status.EXITED, 0, expected)
        assert unread() == (0 if host == "as it is" else 5)


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, "False False True False"),
        ({"stdin": subprocess.PIPE}, "True False False False"),
        ({"stdin": b""}, "True False False False"),
        ({"pty": Pty()}, "False False True True"),
    ],
)
async def test_what_standard_input_is(case: Case, options: dict[str, Any], kind: str) -> None:
    """Case 59: a search tool waits on a piped stdin instead of searching files (C15).

    https://github.com/BurntSushi/ripgrep/issues/2056
    """
    async with case.open():
        _, output = await case.run([sys.executable, "-c", KIND], **options)
    assert output.decode().split() == kind.split()


async def test_the_terminal_of_the_host_is_out_of_reach(case: Case) -> None:
    """Case 60: a grandchild takes the terminal, and the host no longer gets Ctrl+C (C15).

    https://github.com/python-trio/trio/issues/3300
    """
    program = """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    thief = '''
    import os, signal
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    fd = os.open("/dev/tty", os.O_RDWR)
    os.setpgid(0, 0)
    os.tcsetpgrp(fd, os.getpgrp())
    '''

    async def main():
        before = os.tcgetpgrp(0)
        async with case.open():
            taken, _ = await case.run([sys.executable, "-c", "\\n".join(thief.split("\\n    "))])
            read, text = await case.run("head -c1 </dev/tty; echo rc=$?")
            own = await case.start("head -c1 </dev/tty; echo rc=$?", pty=Pty())
            await own.stdin.send_all(b"x\\n")
            await own.wait()
            answer({
                "before": before,
                "after": os.tcgetpgrp(0),
                "group": os.getpgrp(),
                "taken": taken.returncode,
                "read": text.decode(),
                "own": (await read_all(own)).decode(),
            })

    trio.run(main)
    """
    master, slave = os.openpty()
    try:
        answer = await run_host(case, program, stdin=slave, start_new_session=True)
    finally:
        os.close(master)
        os.close(slave)
    assert answer["before"] == answer["after"] == answer["group"]
    assert answer["taken"] == 1
    assert "rc=0" not in answer["read"]
    assert answer["own"].endswith("xrc=0\r\n")


async def test_input_that_nobody_reads_is_an_error_of_the_sender(case: Case) -> None:
    """Case 61: the program ends before reading its input, and the broken pipe crashes the host.

    https://github.com/openai/codex-action/issues/153
    """
    async with case.open():
        other = await case.start("sleep 0.5; exit 3")
        shell = await case.start("exit 7", stdin=subprocess.PIPE)
        assert shell.stdin is not None
        with trio.fail_after(LONG):
            with pytest.raises(trio.BrokenResourceError):
                await shell.stdin.send_all(b"x" * 64 * 1024 * 1024)
            info = await shell.wait()
            with pytest.raises(trio.BrokenResourceError):
                await shell.stdin.send_all(b"more")
        await shell.stdin.aclose()
        await shell.stdin.aclose()
        assert (info.status, info.returncode) == (Status.EXITED, 7)
        assert (await other.wait()).returncode == 3


async def test_the_end_of_input_is_passed_on(case: Case) -> None:
    """Case 62: the end of input is not passed on.

    https://github.com/pyinvoke/invoke/issues/552
    """
    async with case.open():
        first = await case.start("cat; echo done", stdin=subprocess.PIPE)
        later = await case.start("sleep 30", stdin=subprocess.PIPE)
        assert first.stdin is not None
        await first.stdin.send_all(b"hi\n")
        await first.stdin.aclose()
        with trio.fail_after(LONG):
            assert (await first.wait()).returncode == 0
        assert await read_all(first) == b"hi\ndone\n"
        assert later.status is Status.RUNNING


@pytest.mark.parametrize("sent", [b"hi\n", b"hi", b""])
async def test_the_end_of_input_is_passed_on_by_a_terminal(case: Case, sent: bytes) -> None:
    """Case 62, with a pty: also in the middle of a line, where one end-of-file is not enough."""
    async with case.open():
        shell = await case.start("stty -echo; echo ready; cat; echo done", pty=Pty())
        assert shell.stdin is not None
        await until_output(shell, b"ready")
        await shell.stdin.send_all(sent)
        await shell.stdin.aclose()
        with trio.fail_after(LONG):
            assert (await shell.wait()).returncode == 0
        assert await read_all(shell) == b"ready\r\n" + sent.replace(b"\n", b"\r\n") + b"done\r\n"


# Neighbours that nobody has reported.


@pytest.mark.parametrize("closed", ["0", "0, 1, 2"])
async def test_a_host_without_standard_descriptors(case: Case, closed: str) -> None:
    """Pipes of ours that get the numbers 0 to 2 are not confused with those of the command."""
    program = f"""
    for fd in ({closed},):
        os.close(fd)

    async def main():
        async with trioshell.open_shells(launcher=case.launcher()) as shells:
            told = []
            for options in ({{}}, {{"stdin": b"in "}}, {{"pty": Pty()}}):
                shell = await shells.create("cat; echo out; echo err >&2; exit 3", **options)
                if shell.stdin is not None:
                    await shell.stdin.aclose()
                info = await shell.wait()
                told.append([info.returncode, (await read_all(shell)).decode()])
        answer(told)

    trio.run(main)
    """
    piped, fed, terminal = await run_host(case, program)
    assert piped == [3, "out\nerr\n"]
    assert fed == [3, "in out\nerr\n"]
    assert terminal[0] == 3
    assert terminal[1].endswith("out\r\nerr\r\n")


@pytest.mark.parametrize("command", ["exit 7", "exec <&-; sleep 0.2; exit 7", "head -c 5; exit 7"])
async def test_fed_bytes_that_are_not_all_read(case: Case, command: str) -> None:
    """More than a pipe holds, for a command that stops reading early, is no trouble."""
    async with case.open():
        with trio.fail_after(LONG):
            info, output = await case.run(command, stdin=b"x" * 8 * 1024 * 1024)
    assert (info.status, info.returncode) == (Status.EXITED, 7)
    assert output in (b"", b"xxxxx")


async def test_a_job_that_holds_the_input_does_not_hold_the_sender(case: Case) -> None:
    """What the leader leaves behind has the pipe open and never reads: sending ends all the same.

    Under ``background="keep"`` the shell has ended, and so has its input.
    """
    async with case.open():
        shell = await case.start("sleep 300 <&0 & exit 3", stdin=subprocess.PIPE, background="keep")
        assert shell.stdin is not None
        with trio.fail_after(LONG), pytest.raises(trio.BrokenResourceError):
            await shell.stdin.send_all(b"x" * 8 * 1024 * 1024)
        assert (await shell.wait()).returncode == 3


async def test_a_cancelled_or_contended_sender_leaves_the_stream_usable(case: Case) -> None:
    """A sender that gives up, and one that comes at the same time, harm nobody."""
    async with case.open():
        shell = await case.start("read line; cat | wc -c", stdin=subprocess.PIPE)
        assert shell.stdin is not None
        with trio.move_on_after(0.1) as given_up:
            await shell.stdin.send_all(b"x" * 1024 * 1024)
        assert given_up.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, shell, b"y" * 1024 * 1024)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(trio.BusyResourceError):
                await shell.stdin.send_all(b"z")
            nursery.cancel_scope.cancel()
        # The reader goes on with the rest once it has its line.
        with trio.fail_after(LONG):
            await shell.stdin.send_all(b"\nabc")
            await shell.stdin.aclose()
            assert (await shell.wait()).returncode == 0
        assert int(await read_all(shell)) == 3


async def _send(shell: Shell, data: bytes) -> None:
    assert shell.stdin is not None
    await shell.stdin.send_all(data)


@contextlib.contextmanager
def _stdin_of_host(kind: str) -> Iterator[Any]:
    """Make our standard input something with five unread bytes; yields how many there are."""
    if kind == "as it is":
        yield lambda: 0
        return
    ours, theirs = os.openpty() if kind == "terminal" else reversed(os.pipe())
    before = os.dup(0)
    os.dup2(theirs, 0)
    try:
        os.write(ours, b"mine\n")
        yield lambda: _unread(theirs)
    finally:
        os.dup2(before, 0)
        for fd in (before, ours, theirs):
            os.close(fd)


def _unread(fd: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize(
    ("character", "number"), [(b"\x03", signal.SIGINT), (b"\x1c", signal.SIGQUIT)]
)
async def test_a_control_character_is_a_signal_from_elsewhere(
    case: Case, character: bytes, number: signal.Signals
) -> None:
    """What is typed into a terminal ends a command by itself: nobody called `kill` (C3)."""
    async with case.open():
        # Not as a child of its own: one that is just being forked does not hear the signal, and
        # the interpreter heeds it only when that has ended.
        shell = await case.start("echo up; exec sleep 300", pty=Pty())
        await until_output(shell, b"up")
        assert shell.stdin is not None
        await shell.stdin.send_all(character)
        info = await shell.wait()
        assert (info.status, info.signal) == (Status.EXITED, number)


async def test_an_interactive_shell_on_a_terminal(case: Case) -> None:
    """It prompts, echoes, has jobs of its own, and ends with its own code."""
    async with case.open():
        env = {"PS1": "ready> ", "ENV": None, "TERM": "dumb"}
        shell = await case.start(["/bin/sh", "-i"], pty=Pty(), env=env)
        await until_output(shell, b"ready> ")
        assert shell.stdin is not None
        await shell.stdin.send_all(b"echo he''llo\nsleep 300 &\nexit 6\n")
        info = await shell.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 6)
        assert b"\r\nhello\r\n" in await read_all(shell)
