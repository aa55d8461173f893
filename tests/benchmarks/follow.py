"""Follow output while it comes: latency of a write when idle, and rate of lines under load."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time

import trio

import trioshell
from trioshell.launchers import DirectLauncher, Launcher, SupervisedLauncher

from .rounds import in_turns, median, ratio, table

# One time stamp each five milliseconds, written at once.
CLOCK = """
import os, time
for _ in range(400):
    time.sleep(0.005)
    os.write(1, b'%.7f\\n' % time.time())
"""
LINES = ["sh", "-c", "yes 'a line of some thirty characters' | head -n 1000000"]
PROGRAM = [sys.executable, "-I", "-S", "-c", CLOCK]


def late(data: bytes | bytearray) -> float:
    """How old the newest stamp in some output is."""
    return time.time() - float(data.splitlines()[-1])


async def latency_trioshell(launcher: Launcher) -> list[float]:
    async with trioshell.open_shells(launcher=launcher) as shells:
        shell = await shells.create(PROGRAM)
        async with shell.follow() as stream:
            return [late(data) async for data in stream]


async def latency_trio() -> list[float]:
    process = await trio.lowlevel.open_process(PROGRAM, stdout=subprocess.PIPE)
    assert process.stdout is not None
    delays = [late(data) async for data in process.stdout]
    await process.wait()
    return delays


async def lines_trioshell(launcher: Launcher) -> int:
    async with trioshell.open_shells(launcher=launcher) as shells:
        shell = await shells.create(LINES)
        async with shell.lines() as lines:
            return len([line async for line in lines])


async def lines_shellous() -> int:
    from shellous import sh

    return len([line async for line in sh(*LINES)])


def report_latency(delays: list[float]) -> None:
    delays.sort()
    half, most = len(delays) // 2, len(delays) * 9 // 10
    print(json.dumps({"p50": delays[half] * 1e6, "p90": delays[most] * 1e6}))


def worker(kind: str, what: str) -> None:
    start = time.perf_counter()
    match what, kind:
        case "latency", "trioshell":
            report_latency(trio.run(latency_trioshell, SupervisedLauncher()))
        case "latency", "direct":
            report_latency(trio.run(latency_trioshell, DirectLauncher()))
        case "latency", "trio":
            report_latency(trio.run(latency_trio))
        case "lines", "trioshell":
            count = trio.run(lines_trioshell, SupervisedLauncher())
            print(json.dumps({"rate": count / (time.perf_counter() - start)}))
        case "lines", "shellous":
            count = asyncio.run(lines_shellous())
            print(json.dumps({"rate": count / (time.perf_counter() - start)}))


def latency(rounds: int) -> None:
    """From the write to the follower, one write each 5 ms."""
    contenders = ["trioshell", "direct", "trio"]
    figures = in_turns("follow", contenders, rounds, "latency")
    rows = [
        (
            name,
            median(figures[name], "p50"),
            median(figures[name], "p90"),
            ratio(figures, name, "trio", "p50"),
        )
        for name in contenders
    ]
    table("From a write to its reader", ["", "p50 us", "p90 us", "p50 / trio"], rows)


def lines(rounds: int) -> None:
    """A million lines, decoded."""
    contenders = ["trioshell", "shellous"]
    figures = in_turns("follow", contenders, rounds, "lines")
    rows = [
        (name, f"{median(figures[name], 'rate'):.0f}", ratio(figures, name, "shellous", "rate"))
        for name in contenders
    ]
    table("Lines followed", ["", "per second", "rate / shellous"], rows)


if __name__ == "__main__":
    worker(sys.argv[1], sys.argv[2])
