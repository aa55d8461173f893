"""Start a command that does nothing and wait for its end: rate, and CPU in the host."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio
import trio

import trioshell
from trioshell.launchers import DirectLauncher, Launcher, SupervisedLauncher

from .rounds import in_turns, median, ratio, table

COMMAND = ["/bin/true"]
CONTENDERS = ["trioshell", "direct", "trio", "anyio", "asyncio", "shellous", "subprocess", "limit"]

Once = Callable[[], Awaitable[object]]


async def crowd_trio(once: Once, count: int, at_once: int) -> None:
    async def worker() -> None:
        for _ in range(count // at_once):
            await once()

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(worker)


async def run_trioshell(count: int, at_once: int, launcher: Callable[[], Launcher]) -> None:
    async with trioshell.open_shells(launcher=launcher(), retain=0) as shells:

        async def once() -> None:
            shell = await shells.create(COMMAND)
            await shell.wait()

        await crowd_trio(once, at_once, at_once)  # the pool of helpers is warm, as in use
        await timed(partial(crowd_trio, once, count, at_once))


async def timed(work: Callable[[], Awaitable[None]]) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    await work()
    FIGURES.update(wall=time.perf_counter() - start, cpu=time.process_time() - cpu)


FIGURES: dict[str, float] = {}


async def run_trio(count: int, at_once: int) -> None:
    once = partial(trio.run_process, COMMAND, capture_stdout=True, capture_stderr=True)
    await crowd_trio(once, at_once, at_once)
    await timed(partial(crowd_trio, once, count, at_once))


async def run_anyio(count: int, at_once: int) -> None:
    once = partial(anyio.run_process, COMMAND)
    await crowd_trio(once, at_once, at_once)
    await timed(partial(crowd_trio, once, count, at_once))


async def crowd_asyncio(once: Once, count: int, at_once: int) -> None:
    async def worker() -> None:
        for _ in range(count // at_once):
            await once()

    await asyncio.gather(*(worker() for _ in range(at_once)))


async def run_asyncio(count: int, at_once: int) -> None:
    async def once() -> None:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*COMMAND, stdout=pipe, stderr=pipe)
        await process.communicate()

    await crowd_asyncio(once, at_once, at_once)
    await timed(partial(crowd_asyncio, once, count, at_once))


async def run_shellous(count: int, at_once: int) -> None:
    from shellous import sh

    async def once() -> None:
        await sh(*COMMAND)

    await crowd_asyncio(once, at_once, at_once)
    await timed(partial(crowd_asyncio, once, count, at_once))


async def run_threads(count: int, at_once: int) -> None:
    def once(_: int) -> None:
        subprocess.run(COMMAND, capture_output=True, check=True)

    async def work() -> None:
        list(pool.map(once, range(count)))

    with ThreadPoolExecutor(at_once) as pool:
        await timed(work)


def run_limit(count: int, at_once: int) -> None:
    """As near as Python comes to a loop in C: posix_spawn, and wait for the oldest."""
    start, cpu = time.perf_counter(), time.process_time()
    running: list[int] = []
    for _ in range(count):
        if len(running) == at_once:
            os.waitpid(running.pop(0), 0)
        running.append(os.posix_spawn(COMMAND[0], COMMAND, os.environ))
    for pid in running:
        os.waitpid(pid, 0)
    FIGURES.update(wall=time.perf_counter() - start, cpu=time.process_time() - cpu)


def worker(contender: str, count: int, at_once: int, host: str = "small") -> None:
    held = grow(host)
    match contender:
        case "trioshell":
            trio.run(run_trioshell, count, at_once, SupervisedLauncher)
        case "direct":
            trio.run(run_trioshell, count, at_once, DirectLauncher)
        case "trio":
            trio.run(run_trio, count, at_once)
        case "anyio":
            trio.run(run_anyio, count, at_once)
        case "asyncio":
            asyncio.run(run_asyncio(count, at_once))
        case "shellous":
            asyncio.run(run_shellous(count, at_once))
        case "subprocess":
            trio.run(run_threads, count, at_once)
        case "limit":
            run_limit(count, at_once)
    del held
    print(json.dumps({"rate": count / FIGURES["wall"], "cpu": FIGURES["cpu"] / count * 1e6}))


def grow(host: str) -> object:
    """Make the host large: 2 GiB of touched memory, or 10,000 open descriptors."""
    if host == "memory":
        memory = mmap.mmap(-1, 2 << 30)
        for offset in range(0, 2 << 30, 4096):
            memory[offset] = 1
        return memory
    if host == "descriptors":
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
        return [os.open("/dev/null", os.O_RDONLY) for _ in range(10_000)]
    return None


def rates(rounds: int) -> None:
    """At 1, 8 and 64 at once, against everybody."""
    for at_once in (1, 8, 64):
        figures = in_turns("spawn", CONTENDERS, rounds, 384, at_once)
        show(f"Start and wait for `/bin/true`, {at_once} at once", CONTENDERS, figures)


def large_hosts(rounds: int) -> None:
    """In a large host, 8 at once: what costs the host's size and what does not."""
    contenders = ["trioshell", "trio", "asyncio", "limit"]
    for host in ("memory", "descriptors"):
        figures = in_turns("spawn", contenders, rounds, 192, 8, host)
        show(f"The same in a host with large {host}, 8 at once", contenders, figures)


def show(title: str, contenders: list[str], figures: dict[str, list[dict[str, float]]]) -> None:
    rows = [
        (
            name,
            f"{median(figures[name], 'rate'):.0f}",
            ratio(figures, name, "trio", "rate"),
            f"{median(figures[name], 'cpu'):.0f}",
            ratio(figures, name, "trio", "cpu"),
        )
        for name in contenders
    ]
    columns = ["", "per second", "rate / trio", "host CPU us", "CPU / trio"]
    table(title, columns, rows)


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
