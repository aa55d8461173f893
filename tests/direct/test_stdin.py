"""What a command reads: nothing, bytes, or what is sent to it."""

from __future__ import annotations

import os

import pytest
import trio
import trio.testing

from tests.direct.rig import Start, attended, everything, run, said, until


async def test_null_stdin_ends_at_once(start: Start) -> None:
    """C15: null stdin unless asked."""
    _, output = await run(start, "cat; echo rc=$?; readlink /proc/$$/fd/0")
    assert output == b"rc=0\n/dev/null\n"


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3_000_000])
async def test_bytes_are_fed_and_the_input_closed(start: Start, size: int) -> None:
    data = os.urandom(size)
    ending, output = await run(start, "exec cat", stdin=data)
    assert (ending.returncode, output) == (0, data)


async def test_bytes_that_nobody_reads_are_no_trouble(start: Start) -> None:
    ending, _ = await run(start, "exit 7", stdin=bytes(3_000_000))
    assert (ending.returncode, ending.trouble) == (7, None)


async def test_feeding_goes_on_after_a_cancelled_wait(start: Start) -> None:
    data = os.urandom(2_000_000)
    process = await start("exec cat", stdin=data)
    ending = None
    while ending is None:
        with trio.move_on_after(0.002):
            ending = await process.wait()
    assert everything(process) == data


async def test_stream_is_sent_and_closed(start: Start) -> None:
    process = await start("cat; echo done", stdin=True)
    other = await start("exec sleep 300", stdin=True)  # must not hold the end of the first
    assert process.stdin is not None
    async with attended(process):
        await process.stdin.wait_send_all_might_not_block()
        await process.stdin.send_all(b"hi\n")
        await said(process, b"hi\n")
        with trio.testing.assert_checkpoints():
            await process.stdin.aclose()
    assert everything(process) == b"hi\ndone\n"
    with pytest.raises(trio.ClosedResourceError):
        await process.stdin.send_all(b"more")
    other.kill(0)


async def test_stream_that_nobody_reads_breaks(start: Start) -> None:
    process = await start("exec <&-; echo closed; sleep 300", stdin=True)
    assert process.stdin is not None
    async with attended(process):
        await said(process, b"closed")
        with pytest.raises(trio.BrokenResourceError):
            await process.stdin.send_all(bytes(1_000_000))
        process.kill(1)


@pytest.mark.parametrize("background", ["kill", "keep"])
async def test_writer_is_freed_when_the_shell_ends(start: Start, background: str) -> None:
    """A descendant that left holds the reading end and never reads: nothing else would break it."""
    command = "exec 3<&0; (trap '' TERM; exec sleep 300 <&3) & echo $!; read x; exit 4"
    process = await start(command, stdin=True, background=background, grace=0.05)
    assert process.stdin is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        with trio.fail_after(10), pytest.raises(trio.BrokenResourceError):
            await process.stdin.send_all(b"\n" + bytes(1_000_000))
    with pytest.raises(trio.BrokenResourceError):
        await process.stdin.send_all(b"more")
    with pytest.raises(trio.BrokenResourceError):
        await process.stdin.wait_send_all_might_not_block()
    await process.stdin.aclose()
    await process.stdin.aclose()
    assert (await process.wait()).returncode == 4


async def test_stream_of_an_ended_shell_is_broken_not_closed(start: Start) -> None:
    process = await start("exit 0", stdin=True)
    await process.wait()
    assert process.stdin is not None
    with pytest.raises(trio.BrokenResourceError):
        await process.stdin.send_all(b"x")


async def test_our_end_is_the_only_one_that_does_not_block(start: Start) -> None:
    """C15: the command's descriptors are blocking."""
    script = "import os; print(*[os.get_blocking(fd) for fd in range(3)], flush=True); input()"
    process = await start(("/usr/bin/env", "python3", "-c", script), stdin=True)
    assert process.stdin is not None
    async with attended(process):
        await said(process, b"\n")
        await process.stdin.send_all(b"\n")
    assert everything(process) == b"True True True\n"


async def test_concurrent_senders_are_told(start: Start) -> None:
    process = await start("exec sleep 300", stdin=True)
    stdin = process.stdin
    assert stdin is not None
    sent: list[bool] = []

    async def send() -> None:
        with pytest.raises(trio.BrokenResourceError):
            await stdin.send_all(bytes(1_000_000))
        sent.append(True)

    async with attended(process), trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(trio.BusyResourceError):
            await stdin.send_all(b"x")
        process.kill(0)
    await until(lambda: sent == [True])
