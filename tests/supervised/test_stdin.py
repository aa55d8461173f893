"""What a command reads."""

from __future__ import annotations

import os

import pytest
import trio

from tests.direct.rig import Start, alive, everything, run
from tests.supervised.rig import heard


async def test_nothing_to_read(start: Start) -> None:
    ending, output = await run(start, "cat; echo $?; readlink /proc/self/fd/0")
    assert (ending.returncode, output) == (0, b"0\n/dev/null\n")


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3_000_000])
async def test_bytes_are_fed_to_the_end(start: Start, size: int) -> None:
    data = os.urandom(size)
    ending, output = await run(start, ("/bin/cat",), stdin=data)
    assert ending.returncode == 0
    assert output == data


async def test_bytes_that_nobody_reads_are_no_error(start: Start) -> None:
    ending, output = await run(start, "exec <&-; echo done; exit 3", stdin=b"x" * 1_000_000)
    assert (ending.returncode, output) == (3, b"done\n")


async def test_bytes_that_a_grandchild_holds_do_not_delay_the_end(start: Start) -> None:
    command = "exec 3<&0; sleep 300 <&3 & exit 3"
    ending, _ = await run(start, command, stdin=b"x" * 1_000_000, background="keep")
    assert ending.returncode == 3


async def test_stdin_is_a_pipe(start: Start) -> None:
    """Some programs take a socket for a terminal's substitute, or refuse it."""
    for stdin in (b"", b"x" * 100_000, True):
        process = await start("readlink /proc/self/fd/0", stdin=stdin)
        await process.wait()
        assert everything(process).startswith(b"pipe:")


async def test_stream_reaches_the_command(start: Start) -> None:
    process = await start(("/bin/cat",), stdin=True)
    assert process.stdin is not None
    await process.stdin.send_all(b"one\n")
    assert await heard(process, b"one\n") == b"one\n"
    await process.stdin.send_all(b"two\n")
    await process.stdin.aclose()
    assert (await process.wait()).returncode == 0
    assert everything(process) == b"one\ntwo\n"


async def test_writing_to_a_command_that_stopped_reading_breaks(start: Start) -> None:
    process = await start("exec <&-; echo ready; read x", stdin=True)
    await heard(process, b"ready")
    assert process.stdin is not None
    with pytest.raises(trio.BrokenResourceError):
        await process.stdin.send_all(b"x" * 1_000_000)
    process.kill(0)
    await process.wait()


async def test_blocked_writer_is_freed_when_the_shell_ends(start: Start) -> None:
    """Although a descendant still holds the reading end."""
    process = await start(
        "exec 3<&0; sleep 300 <&3 & echo $!; exit 3", stdin=True, background="keep"
    )
    assert process.stdin is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        with pytest.raises(trio.BrokenResourceError):
            await process.stdin.send_all(b"x" * 1_000_000)
    assert alive(int(everything(process)))


async def test_stream_of_an_ended_command_is_broken(start: Start) -> None:
    process = await start("exit 0", stdin=True)
    await process.wait()
    assert process.stdin is not None
    with pytest.raises(trio.BrokenResourceError):
        await process.stdin.send_all(b"x")
    await process.stdin.aclose()
