"""What the tests of launchers of real processes share: commands driven through the seam."""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
import trio

from tests import leaks
from trioshell._records import Ending
from trioshell.launchers import Launcher, Process, Spec

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")

SpecOf = Callable[..., Spec]


class Start(Protocol):
    async def __call__(self, command: str | tuple[str, ...], **options: Any) -> Process: ...


def specs(directory: Path, **defaults: Any) -> SpecOf:
    """Builds specs: text is run by sh, a tuple is a program with its arguments."""
    numbers = itertools.count()

    def build(command: str | tuple[str, ...], **options: Any) -> Spec:
        # Unique beyond this test: processes are found by it.
        id = f"sh_{os.getpid()}_{directory.name}_{next(numbers)}"
        words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        fields: dict[str, Any] = {
            "id": id,
            "argv": tuple(map(os.fsencode, words)),
            "executable": os.fsencode(words[0]),
            "cwd": str(directory),
            "env": dict(os.environb),
            "capture": str(directory / f"{id}.out"),
            "grace": 5.0,
        }
        return Spec(**fields | defaults | options)

    return build


@asynccontextmanager
async def starting(launcher: Launcher, spec: SpecOf) -> AsyncGenerator[Start]:
    """Starts commands; whatever is left of them at the end is killed."""
    started: list[Process] = []

    async def launch(command: str | tuple[str, ...], **options: Any) -> Process:
        process = await launcher.launch(spec(command, **options))
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill(0)
        with trio.move_on_after(5, shield=True):
            await process.wait()
            await process.wait_empty()
        process.capture.remove()


@asynccontextmanager
async def attended(process: Process) -> AsyncGenerator[None]:
    """Somebody is in `wait` from here on: only that moves output and brings the tree down."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        yield


async def said(process: Process, text: bytes) -> bytes:
    """Wait until the command has said this; return everything it said."""
    while text not in (output := everything(process)):
        await process.wait_output(len(output))
        assert process.poll() is None or text in everything(process), output
    return output


def everything(process: Process) -> bytes:
    return process.capture.read(0, 1 << 28)


async def run(start: Start, command: str | tuple[str, ...], **options: Any) -> tuple[Ending, bytes]:
    """Run to the end and return what is known then, with no further waiting."""
    process = await start(command, **options)
    ending = await process.wait()
    return ending, everything(process)


def alive(pid: int) -> bool:
    """Whether this process, which was ours, runs."""
    process = leaks.Process.read(pid)
    return process is not None and not process.is_zombie


def end(pid: int) -> None:
    """End an escapee that a test made."""
    process = leaks.Process.read(pid)
    if process is not None:
        process.end()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something outside of trio has come about."""
    with trio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - the kernel sets no event
            await trio.sleep(0.002)


def state(pid: int) -> str | None:
    """R, S, T, Z as in ps; None when there is no such process."""
    process = leaks.Process.read(pid)
    return None if process is None else process.state


def signals(mask: str | bytes) -> int:
    """A mask of signals as in /proc, without those that no program can set.

    Signals 32 and 33 are the C library's own. Its `posix_spawn` leaves them ignored, so they are
    for everything that was started by it, this process for example.
    """
    return int(mask, 16) & ~(0b11 << 31)


def name(pid: int) -> str | None:
    """What the kernel calls it: the program, once it is that."""
    process = leaks.Process.read(pid)
    return None if process is None else process.name


def steal(pid: int) -> None:
    """Reap a child behind everybody's back, as a stray waitpid does."""
    os.waitpid(pid, 0)


def children() -> list[int]:
    """The children of this process, ended ones that nobody has reaped included."""
    found = [leaks.Process.read(pid) for pid in pids()]
    return [process.pid for process in found if process and process.parent == os.getpid()]


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def cwd_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return None


def refuse_to_punch(fd: int, start: int, length: int) -> None:
    """What `punch_hole` does on a file system that has no holes."""
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
