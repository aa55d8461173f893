"""Commands on a terminal of their own."""

from __future__ import annotations

import pytest
import trio

from tests.direct.rig import Start, attended, everything, linux_only, run, said
from trioshell._records import Pty

pytestmark = linux_only


async def test_terminal_is_the_controlling_one_and_has_the_size(start: Start) -> None:
    command = "test -t 0 && test -t 1 && test -t 2 && stty size && stty size </dev/tty"
    ending, output = await run(start, command, pty=Pty(33, 77))
    assert (ending.returncode, output) == (0, b"33 77\r\n33 77\r\n")


async def test_without_pty_there_is_no_controlling_terminal(start: Start) -> None:
    """C15."""
    ending, _ = await run(start, "exec 2>/dev/null; : </dev/tty")
    assert ending.returncode not in (0, None)


async def test_terminal_output_is_complete(start: Start) -> None:
    """C4: read until it would block; the kernel does not count what is on its way."""
    want = b"".join(b"%d\r\n" % number for number in range(1, 3001)) + b"END\r\n"
    for _ in range(15):
        ending, output = await run(start, "seq 1 3000; echo END", pty=Pty())
        assert (ending.returncode, output) == (0, want)


async def test_resize_reaches_the_command(start: Start) -> None:
    command = "trap 'stty size; exit 2' WINCH; echo up; read x"
    process = await start(command, pty=Pty(10, 20))
    async with attended(process):
        await said(process, b"up")
        process.resize(Pty(50, 132))
    assert everything(process).endswith(b"50 132\r\n")
    process.resize(Pty(1, 1))  # harmless after the end


async def test_interrupt_character_interrupts_the_foreground(start: Start) -> None:
    process = await start("echo up; exec sleep 300", pty=Pty())
    assert process.stdin is not None
    async with attended(process):
        await said(process, b"up")
        await process.stdin.send_all(b"\x03")
    assert (await process.wait()).returncode == -2


@pytest.mark.parametrize("text", [b"", b"hi\n", b"hi"], ids=["nothing", "a line", "half a line"])
async def test_closing_a_terminals_stdin_is_the_end_of_file(start: Start, text: bytes) -> None:
    process = await start("stty -echo; echo up; cat; echo done", pty=Pty())
    assert process.stdin is not None
    async with attended(process):
        await said(process, b"up\r\n")
        await process.stdin.send_all(text)
        await process.stdin.aclose()
    assert everything(process) == b"up\r\n" + text.replace(b"\n", b"\r\n") + b"done\r\n"
    assert (await process.wait()).returncode == 0


@pytest.mark.parametrize("text", [b"hi\n", b"hi"])
async def test_bytes_for_a_terminal_end_with_the_end_of_file(start: Start, text: bytes) -> None:
    ending, output = await run(start, "cat; echo done", pty=Pty(), stdin=text)
    assert ending.returncode == 0
    assert output.endswith(b"done\r\n")


async def test_closing_while_another_task_sends_just_closes(start: Start) -> None:
    process = await start("stty raw; echo up; sleep 300", pty=Pty())
    stdin = process.stdin
    assert stdin is not None

    async def send() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await stdin.send_all(bytes(1_000_000))

    async with attended(process), trio.open_nursery() as nursery:
        await said(process, b"up")
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.02)
        await stdin.aclose()
        process.kill(0)


async def test_background_of_a_terminal_is_hung_up(start: Start) -> None:
    """The kernel does that when the leader ends; nothing needs to be killed."""
    ending, output = await run(start, "sleep 300 & echo up; exit 3", pty=Pty())
    assert (ending.returncode, output, ending.leftovers) == (3, b"up\r\n", ())


async def test_terminal_that_nobody_has_open_can_be_opened_again(start: Start) -> None:
    command = "exec 3>/dev/tty 0<&- 1>&- 2>&- 3>&-; sleep 0.1; echo again >/dev/tty; exit 5"
    ending, output = await run(start, command, pty=Pty())
    assert (ending.returncode, output) == (5, b"again\r\n")


async def test_kill_of_a_terminal_shell(start: Start) -> None:
    process = await start("trap '' TERM HUP; echo up; while :; do sleep 300; done", pty=Pty())
    async with attended(process):
        await said(process, b"up")
        process.kill(0.05)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (-9, False, ())
