"""Commands in a terminal."""

from __future__ import annotations

import sys

import pytest
import trio

from tests.direct.rig import Start, alive, everything, run
from tests.supervised.rig import heard
from trioshell._records import Pty


async def test_terminal_is_the_controlling_one(start: Start) -> None:
    command = "tty; stty size; tty < /dev/tty; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all"
    ending, output = await run(start, command, pty=Pty(rows=33, columns=101))
    lines = output.split(b"\r\n")
    assert ending.returncode == 0
    assert lines[0].startswith(b"/dev/pts/")
    assert lines[1:] == [b"33 101", lines[2], b"all", b""]


async def test_output_is_complete_and_as_written(start: Start) -> None:
    """The end of the terminal loses nothing of what was written before, and keeps CR and LF."""
    ending, output = await run(
        start, "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done", pty=Pty()
    )
    assert output == b"".join(b"%d\r\n" % number for number in range(5000))
    assert (ending.size, ending.cut) == (len(output), False)


async def test_output_is_complete_although_a_job_holds_the_terminal(start: Start) -> None:
    command = "trap '' HUP; sleep 300 & seq 2000; exit 3"
    process = await start(command, pty=Pty(), background="keep")
    ending = await process.wait()
    assert everything(process) == b"".join(b"%d\r\n" % number for number in range(1, 2001))
    assert ending.returncode == 3


async def test_input_is_echoed_and_read(start: Start) -> None:
    process = await start("stty -echo; echo ready; read x; echo got $x", pty=Pty())
    await heard(process, b"ready")
    assert process.stdin is not None
    await process.stdin.send_all(b"hello\n")
    assert (await process.wait()).returncode == 0
    assert everything(process).endswith(b"got hello\r\n")


async def test_interrupt_character_reaches_the_foreground_job(start: Start) -> None:
    process = await start(
        "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.01; done", pty=Pty()
    )
    await heard(process, b"ready")
    assert process.stdin is not None
    await process.stdin.send_all(b"\x03")
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (5, True)


@pytest.mark.parametrize("begun", [b"", b"line\n", b"no line"])
async def test_closing_stdin_is_the_end_of_the_file(start: Start, begun: bytes) -> None:
    process = await start("stty -echo; echo ready; cat; echo over", pty=Pty())
    await heard(process, b"ready")
    assert process.stdin is not None
    if begun:
        await process.stdin.send_all(begun)
    await process.stdin.aclose()
    ending = await process.wait()
    assert ending.returncode == 0
    assert everything(process).endswith(b"over\r\n")


async def test_resize_is_told_to_the_command(start: Start) -> None:
    code = (
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGWINCH})\n"
        "print(*os.get_terminal_size())\n"
    )
    process = await start((sys.executable, "-I", "-S", "-c", code), pty=Pty())
    await heard(process, b"ready")
    process.resize(Pty(rows=50, columns=132))
    await process.wait()
    assert everything(process).endswith(b"132 50\r\n")


async def test_kill_hangs_up(start: Start) -> None:
    """An interactive shell ignores SIGTERM; a terminal that goes away it does not."""
    process = await start(
        "trap '' TERM; trap 'exit 4' HUP; echo ready; while :; do sleep 0.01; done", pty=Pty()
    )
    await heard(process, b"ready")
    process.kill(60)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (4, False)
    assert not alive(process.pid)


async def test_terminal_may_be_closed_and_opened_again(start: Start) -> None:
    """Nobody has it open for a moment: that is no end."""
    command = "exec 3>&- ; exec <&- >&- 2>&-; sleep 0.1; exec >/dev/tty; echo back"
    _, output = await run(start, command, pty=Pty())
    assert output == b"back\r\n"


async def test_blocked_writer_is_freed(start: Start) -> None:
    process = await start("stty raw -echo; echo ready; sleep 0.2", pty=Pty())
    await heard(process, b"ready")
    assert process.stdin is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        with pytest.raises(trio.BrokenResourceError):
            await process.stdin.send_all(b"x" * 1_000_000)
