"""Many shells at once: memory, descriptors, latency of create; and of the end of one."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

import trio

import trioshell
from trioshell.launchers import SupervisedLauncher

from .rounds import measure, median, table

SLEEP = ["/bin/sleep", "600"]


def private(pid: int | str) -> int:
    """Private memory of a process in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def measure_memory(count: int) -> None:
    async with trioshell.open_shells(launcher=SupervisedLauncher()) as shells:
        await (await shells.create(["/bin/true"])).wait()
        before = private("self"), len(os.listdir("/proc/self/fd"))
        running = [await shells.create(SLEEP) for _ in range(count)]
        after = private("self"), len(os.listdir("/proc/self/fd"))
        supervisors = [private(parent(shell.pid)) for shell in running]
        figures = {
            "supervisor": statistics.median(supervisors),
            "host": (after[0] - before[0]) / count,
            "descriptors": (after[1] - before[1]) / count,
        }
        await leave(shells)
    print(json.dumps(figures))


async def leave(shells: trioshell.Shells) -> None:
    async with trio.open_nursery() as nursery:
        for shell in shells:
            nursery.start_soon(shell.kill)


async def measure_create(running: int) -> None:
    async with trioshell.open_shells(launcher=SupervisedLauncher()) as shells:
        for _ in range(running):
            await shells.create(SLEEP)
        times, least = [], []
        for _ in range(100):
            start = time.perf_counter()
            shell = await shells.create(["/bin/true"])
            times.append(time.perf_counter() - start)
            await shell.wait()
            start = time.perf_counter()
            pid = os.posix_spawn("/bin/true", ["/bin/true"], os.environ)
            least.append(time.perf_counter() - start)
            os.waitpid(pid, 0)
        await leave(shells)
    figures = {"p50": statistics.median(times) * 1e3, "bare": statistics.median(least) * 1e3}
    print(json.dumps(figures))


async def measure_crowd(count: int) -> None:
    """Start many, and leave the scope while all run."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # one descriptor each
    ends: list[float] = []
    unended = 0

    def note(event: trioshell.Event) -> None:
        nonlocal unended
        if isinstance(event, trioshell.Exited):
            ends.append(time.monotonic())
            unended += event.info.returncode is None

    start = time.monotonic()
    async with trioshell.open_shells(launcher=SupervisedLauncher(), observers=[note]) as shells:
        for _ in range(count):
            await shells.create(SLEEP)
        leaving = time.monotonic()
    figures = {
        "create": (leaving - start) / count * 1e3,
        "told": ends[-1] - leaving,
        "left": time.monotonic() - leaving,
        "unended": unended + count - len(ends),
    }
    print(json.dumps(figures))


async def measure_exit() -> None:
    """From the leader's last act to the event: `date` looks at the clock, prints it, and ends.

    In turns with the least that it takes to hear of an end, which is not ours: the leader's own
    way out, and waking up a parent that waits for nothing else.
    """
    times = []

    def note(event: trioshell.Event) -> None:
        if isinstance(event, trioshell.Exited):
            times.append(time.time())

    async with trioshell.open_shells(launcher=SupervisedLauncher(), observers=[note]) as shells:
        delays, least = [], []
        for _ in range(300):
            shell = await shells.create(STAMP)
            result = await shell.result()
            delays.append(times[-1] - float(result.output or "nan"))
            least.append(hear_of_an_end())
    delays.sort()
    figures = {"p50": delays[150], "p90": delays[270], "least": statistics.median(least)}
    print(json.dumps({name: seconds * 1e3 for name, seconds in figures.items()}))


def hear_of_an_end() -> float:
    output, theirs = os.pipe()
    with open(output, "rb") as file:
        action = (os.POSIX_SPAWN_DUP2, theirs, 1)
        pid = os.posix_spawn(STAMP[0], STAMP, os.environ, file_actions=[action])
        os.close(theirs)
        os.waitpid(pid, 0)
        return time.time() - float(file.read())


STAMP = ["/bin/date", "+%s.%N"]


def memory(rounds: int) -> None:
    """Per running shell."""
    figures = [measure("scale", "memory", 100) for _ in range(rounds)]
    rows = [
        ("private memory of its supervisor, KiB", median(figures, "supervisor")),
        ("private memory in the host, KiB", median(figures, "host")),
        ("descriptors in the host", median(figures, "descriptors")),
    ]
    table("One running shell costs", ["", "median"], rows)


def create_latency(rounds: int) -> None:
    """With 10, 100 and 1,000 running; and how a bare spawn fares beside them."""
    figures: dict[int, list[dict[str, float]]] = {10: [], 100: [], 1000: []}
    for _ in range(rounds):
        for running, each in figures.items():
            each.append(measure("scale", "create", running))
    base = {key: median(figures[10], key) for key in ("p50", "bare")}
    rows: list[list[object]] = []
    for running, each in figures.items():
        ours, bare = median(each, "p50"), median(each, "bare")
        rows.append([running, ours, ours / base["p50"], bare, bare / base["bare"]])
    columns = ["running", "p50 ms", "ratio", "bare posix_spawn ms", "ratio"]
    table("Latency of create", columns, rows)


def crowds(rounds: int) -> None:
    """1,000 and 5,000, whose scope is left."""
    rows = []
    for count in (1000, 5000):
        figures = [measure("scale", "crowd", count) for _ in range(min(rounds, 3))]
        keys = ("create", "told", "left", "unended")
        rows.append((count, *(median(figures, key) for key in keys)))
    columns = ["shells", "create, ms each", "all told, s", "scope left, s", "not ended in time"]
    table("Leaving a scope in which all run", columns, rows)


def exit_to_event(rounds: int) -> None:
    """From the end of the leader to the event."""
    figures = [measure("scale", "exit") for _ in range(rounds)]
    rows = [
        ("p50", median(figures, "p50")),
        ("p90", median(figures, "p90")),
        ("p50 of a parent that only waits", median(figures, "least")),
    ]
    table("From the leader's end to the event", ["", "ms"], rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["memory", count]:
            trio.run(measure_memory, int(count))
        case ["create", count]:
            trio.run(measure_create, int(count))
        case ["crowd", count]:
            trio.run(measure_crowd, int(count))
        case ["exit"]:
            trio.run(measure_exit)
