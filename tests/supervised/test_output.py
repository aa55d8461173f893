"""What a command writes, while it runs and after it ended (C13)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.direct.rig import Start, alive, end, everything, run, until
from tests.supervised.rig import heard
from trioshell._exceptions import OutputLostError
from trioshell.launchers._helpers import storing


async def test_streams_are_interleaved_as_written(start: Start) -> None:
    command = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"
    _, output = await run(start, command)
    assert output == b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1, 6))


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 5_000_000])
async def test_every_byte_is_kept(start: Start, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "data").write_bytes(data)
    ending, output = await run(start, ("/bin/cat", str(tmp_path / "data")))
    assert (ending.size, output) == (size, data)


async def test_last_words_are_kept_however_others_flood(start: Start) -> None:
    """What the leader wrote before its end is there, although the pipe never runs dry."""
    process = await start("yes & echo $!; sleep 0.1; echo last words; exit 3", background="keep")
    ending = await process.wait()
    output = everything(process)
    assert b"last words\n" in output
    assert (ending.returncode, ending.cut, ending.size) == (3, True, len(output))
    assert process.capture.size == ending.size


async def test_kill_is_heard_in_a_flood(start: Start) -> None:
    process = await start(("/usr/bin/yes",))
    await heard(process, b"y")
    with trio.fail_after(10):
        process.kill(60)
        ending = await process.wait()
    assert ending.returncode == -signal.SIGTERM
    assert ending.size == process.capture.size


async def test_command_that_closes_its_output_goes_on(start: Start) -> None:
    """Case: all streams closed early is not the end of a command."""
    process = await start("echo first; exec >&- 2>&-; sleep 0.1; exit 3")
    ending = await process.wait()
    assert (ending.returncode, everything(process), ending.cut) == (3, b"first\n", False)


async def test_output_that_is_handed_out_of_the_tree_is_cut(start: Start) -> None:
    """Somebody else has the pipe: the end does not wait for them, and says so."""
    process = await start("echo first; read x", stdin=True)
    await heard(process, b"first")
    ours = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY)
    assert process.stdin is not None
    await process.stdin.aclose()
    ending = await process.wait()
    os.close(ours)
    assert (ending.returncode, ending.cut, ending.size) == (1, True, 6)


async def test_followers_are_woken_and_cost_nothing_otherwise(start: Start) -> None:
    process = await start("while read x; do echo $x; done; exit 3", stdin=True)
    stdin = process.stdin
    assert stdin is not None
    seen: list[int] = []

    async def follow(size: int) -> None:
        await process.wait_output(size)
        seen.append(size)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        async with trio.open_nursery() as followers:
            followers.start_soon(follow, 1)
            followers.start_soon(follow, 0)
            followers.start_soon(follow, 5)
            await stdin.send_all(b"a\n")
            await until(lambda: len(seen) == 2)
            assert sorted(seen) == [0, 1]
            await stdin.send_all(b"bbbbb\n")
        assert seen[2] == 5
        await process.wait_output(3)  # at once
        nursery.start_soon(follow, 1_000)  # never more than that; but the end comes
        await stdin.aclose()
    assert seen[3] == 1_000
    assert (await process.wait()).returncode == 3
    await process.wait_output(1_000)


async def test_follower_may_give_up(start: Start) -> None:
    process = await start("read x; echo $x; read x", stdin=True)
    stdin = process.stdin
    assert stdin is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        with trio.move_on_after(0.01):
            await process.wait_output(0)
        await stdin.send_all(b"a\n")
        await process.wait_output(0)
        assert everything(process) == b"a\n"
        await stdin.aclose()


@pytest.mark.parametrize("loss", ["unlink", "replace", "rename"])
async def test_lost_file_stays_readable(start: Start, loss: str) -> None:
    """While the command runs, and after it ended."""
    process = await start("echo one; read x; echo two", stdin=True)
    await heard(process, b"one")
    path = process.capture.path  # type: ignore[attr-defined]
    if loss == "rename":
        os.rename(path, path + ".old")
    else:
        os.unlink(path)
    if loss == "replace":
        Path(path).write_bytes(b"planted")
    assert everything(process) == b"one\n"
    assert process.stdin is not None
    await process.stdin.aclose()
    ending = await process.wait()
    assert (ending.size, everything(process), process.capture.size) == (8, b"one\ntwo\n", 8)


async def test_lost_file_of_a_lost_supervisor_is_lost(start: Start) -> None:
    """Nothing is made up: no output and lost output are different answers."""
    process = await start("echo one; echo ready; read x", stdin=True)
    await heard(process, b"ready")
    os.unlink(process.capture.path)  # type: ignore[attr-defined]
    os.kill(int(Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1].split()[1]), 9)
    await process.wait()
    with pytest.raises(OutputLostError):
        everything(process)


async def test_holder_of_the_output_does_not_delay_the_end(start: Start) -> None:
    """Case: a background job holds the pipe; the command has finished long ago."""
    process = await start("sleep 300 & echo $!; exit 3", background="keep")
    with trio.fail_after(10):
        ending = await process.wait()
    job = int(everything(process))
    assert (ending.returncode, alive(job)) == (3, True)
    process.kill(0)
    await process.wait_empty()
    end(job)


@pytest.mark.slow
async def test_many_small_writes_arrive(start: Start) -> None:
    code = "import os\nfor n in range(50000): os.write(1, b'%07d\\n' % n)"
    ending, output = await run(start, (sys.executable, "-I", "-S", "-c", code))
    assert output == b"".join(b"%07d\n" % number for number in range(50_000))
    assert ending.size == len(output)


def test_store_without_splice_keeps_the_same(tmp_path: Path) -> None:
    """Where the file system refuses splice: simulated by a file opened for appending."""
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    null = os.open(os.devnull, os.O_RDWR)
    reading, writing = os.pipe()
    store = storing.Store(file, null)
    os.write(writing, b"one")
    assert store.take(reading, 100) == 3
    with pytest.raises(BlockingIOError):
        store.take(reading, 100)
    os.write(writing, b"two")
    os.close(writing)
    assert (store.take(reading, 2), store.take(reading, 100), store.take(reading, 100)) == (2, 1, 0)
    assert (store.size, store.error) == (6, None)
    assert (tmp_path / "file").read_bytes() == b"onetwo"
    for fd in (file, null, reading):
        os.close(fd)
