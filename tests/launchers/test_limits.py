"""What an output limit keeps, and whom it kills (C13): the same for every launcher."""

from __future__ import annotations

import os
import sys

import pytest
import trio

from tests.direct.rig import Start, everything, run
from trioshell.launchers import Process

SLACK = 1 << 20


def disk(process: Process) -> int:
    return os.stat(process.capture.path).st_blocks * 512  # type: ignore[attr-defined]


def stream(process: Process) -> bytes:
    """Everything with its gap, the way a reader of pages sees it."""
    data = b""
    while len(data) < process.capture.size:
        part = process.capture.read(len(data), 1 << 20)
        gap = process.capture.gap(len(data))
        assert bool(part) != bool(gap)
        data += part or b"?" * gap
    return data


NUMBERED = "import os\nfor n in range({0}): os.write(1, b'%07d\\n' % n * 64)"


def numbered(records: int) -> tuple[tuple[str, ...], bytes]:
    command = (sys.executable, "-I", "-S", "-c", NUMBERED.format(records))
    return command, b"".join(b"%07d\n" % number * 64 for number in range(records))


@pytest.mark.parametrize("limit", [1, 4_096, 100_000, 1_000_000])
async def test_head_and_tail_stay(start: Start, limit: int) -> None:
    """Cursors stay absolute, what is missing is one gap, and it is where it should be."""
    command, written = numbered(10_000)
    process = await start(command, output_limit=limit)
    ending = await process.wait()
    seen = stream(process)
    missing = seen.count(b"?")
    assert ending.size == len(seen) == len(written) == 5_120_000
    assert seen.replace(b"?", b"") == written[: seen.find(b"?")] + written[seen.rfind(b"?") + 1 :]
    assert seen[: limit // 2] == written[: limit // 2]
    assert seen.endswith(written[len(written) - (limit - limit // 2) :])
    assert missing >= len(written) - limit - 3 * 4_096
    assert (ending.returncode, ending.output_error, ending.trouble) == (0, None, None)


async def test_output_below_the_limit_is_whole(start: Start) -> None:
    command, written = numbered(1_000)
    _, output = await run(start, command, output_limit=len(written))
    assert output == written


async def test_disk_is_bounded_while_the_command_writes(start: Start) -> None:
    process = await start(("/usr/bin/yes",), output_limit=1_000_000)
    largest = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        while process.capture.size < 200_000_000:
            await process.wait_output(process.capture.size)
            largest = max(largest, disk(process))
        process.kill(60)
    assert largest <= 1_000_000 + SLACK
    assert disk(process) <= 1_000_000 + 3 * 4_096
    assert process.capture.size == (await process.wait()).size


async def test_limit_may_kill(start: Start) -> None:
    process = await start("yes & yes & wait", output_limit=50_000, on_output_limit="kill")
    ending = await process.wait()
    assert (ending.by_itself, ending.leftovers) == (False, ())
    assert ending.trouble is not None
    assert "50000" in ending.trouble
    assert ending.size > 50_000


async def test_limit_that_is_not_exceeded_kills_nobody(start: Start) -> None:
    ending, _ = await run(start, "echo 1234567", output_limit=8, on_output_limit="kill")
    assert (ending.returncode, ending.by_itself, ending.trouble) == (0, True, None)


async def test_limit_does_not_kill_what_is_kept(start: Start) -> None:
    """C10: what ``background="keep"`` keeps lives on; its output is thrown away."""
    command = (
        "(trap '' PIPE; echo > ready; read x < go; yes | head -c 99999; echo > done) & cat ready"
    )
    async with trio.open_nursery() as nursery:
        process = await start(
            f"mkfifo ready go done; {command}",
            background="keep",
            output_limit=50_000,
            on_output_limit="kill",
        )
        ending = await process.wait()
        nursery.start_soon(process.wait_empty)
        directory = os.path.dirname(process.capture.path)  # type: ignore[attr-defined]
        await trio.to_thread.run_sync(write, f"{directory}/go")
        await trio.to_thread.run_sync(read, f"{directory}/done")
    assert (ending.returncode, ending.trouble) == (0, None)
    assert everything(process) == b"\n"


def write(fifo: str) -> None:
    with open(fifo, "w") as file:
        file.write("x\n")


def read(fifo: str) -> None:
    with open(fifo) as file:
        file.read()
