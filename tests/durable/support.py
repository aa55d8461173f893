"""Hosts that are made to crash, and what may be asked of a directory afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any, Self

import attrs
import trio

from tests.cases.support import left, make_launcher
from trioshell import Shells, open_shells
from trioshell._events import Event
from trioshell.launchers._helpers import procfs

ROOT = Path(__file__).parents[2]

# An observer writes what is said, in the step that says it: what it wrote, somebody knew.
_PRELUDE = """
import contextlib, json, os, random, signal, subprocess, sys
import trio, trioshell
from tests.cases.support import make_launcher

_, directory, log, launcher, tag, seed = sys.argv
draw = random.Random(seed)
_log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def observe(event):
    os.write(_log, f"{event.type} {event.id}\\n".encode())

def scope(**options):
    options = {"shell": "/bin/sh", "grace": 0.5, "observers": [observe], **options}
    return trioshell.open_shells(
        directory=directory, launcher=make_launcher(launcher), **options
    )

def ready(value=None):
    print(json.dumps(value), flush=True)

env = {"CASE": tag}
"""

Said = tuple[str, str]  # the type of an event, and the id


@attrs.define(eq=False)
class Host:
    """A process that has a durable directory.

    Attributes:
        answer: What it said when it was ready.
    """

    process: subprocess.Popen[str]
    log: Path
    answer: Any = None

    @classmethod
    def start(
        cls,
        program: str,
        directory: Path,
        *,
        launcher: str = "supervised",
        tag: str = "none",
        seed: int = 0,
    ) -> Self:
        """Run a program, and wait until it calls ``ready``."""
        log = directory.with_name(directory.name + ".log")
        log.write_text("")
        process = subprocess.Popen(
            [
                *(sys.executable, "-W", "error", "-c", _PRELUDE + dedent(program)),
                *(directory, log, launcher, tag, str(seed)),
            ],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        host = cls(process, log)
        _hosts.append(host)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the host ended before it was ready"
        host.answer = json.loads(line)
        return host

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> list[Said]:
        """What was said in its scope, as far as somebody came to know it."""
        pairs = [line.split() for line in self.log.read_text().splitlines()]
        return [(kind, id) for kind, id in pairs]

    def crash(self) -> None:
        """SIGKILL the host alone."""
        self.process.kill()
        self.close()

    def crash_totally(self) -> None:
        """SIGKILL the host and all its helpers at one stroke.

        They are stopped before, so that none of them sees another one die.
        """
        stopped: dict[tuple[int, int], procfs.Process] = {}
        while new := [each for each in self._program() if each.identity not in stopped]:
            for process in new:
                _signal(process, signal.SIGSTOP)
                stopped[process.identity] = process
        for process in stopped.values():
            _signal(process, signal.SIGKILL)
        self.close()
        for process in stopped.values():
            wait_until(partial(is_gone, process))

    def finish(self) -> None:
        """Wait for an end that it comes to by itself, and that must be a good one."""
        self.process.wait(30)
        self.close()
        assert self.process.returncode == 0

    def close(self) -> None:
        """Wait until it is dead."""
        assert self.process.stdout is not None
        self.process.wait(30)
        self.process.stdout.close()

    def _program(self) -> Iterator[procfs.Process]:
        host = procfs.look(self.pid)
        if host is not None:
            yield host
        for process in procfs.descendants(self.pid):
            if b"trioshell-forkserver" in _command_line(process.pid).split(b"\0"):
                yield process


_hosts: list[Host] = []


@contextmanager
def no_host_survives() -> Iterator[None]:
    """Whatever becomes of a test, its hosts end."""
    try:
        yield
    finally:
        while _hosts:
            host = _hosts.pop()
            if host.process.stdout and not host.process.stdout.closed:
                host.crash()


@contextmanager
def bystander() -> Iterator[int]:
    """A process that nobody may touch; checked at the end."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        wait_until(lambda: _command_line(process.pid))  # it comes a moment after the exec
        yield process.pid
        assert process.poll() is None, "a bystander was signalled"
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state == "S", "a bystander was stopped"
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def reopened(
    directory: Path, *, launcher: str = "supervised", **options: Any
) -> AsyncIterator[tuple[Shells, list[Event]]]:
    """The next scope on a directory, and what is published in it."""
    events: list[Event] = []
    options = {"shell": "/bin/sh", "grace": 0.5, "observers": [events.append], **options}
    options.setdefault("launcher", make_launcher(launcher))
    async with open_shells(directory=directory, **options) as shells:
        yield shells, events


def said(events: Sequence[Event]) -> list[Said]:
    """Events in the form that a host logs."""
    return [(event.type, event.id) for event in events]


def join(first: list[Said], second: list[Said]) -> list[Said]:
    """What was said in two lives, one after the other.

    A host may be killed after an observer saw an event and before that could be noted. Then the
    next scope says this one event again, first of all.
    """
    repeated = bool(first and second) and first[-1] == second[0]
    return first + second[repeated:]


def check_lives(first: list[Said], second: list[Said]) -> dict[str, list[str]]:
    """Check the grammar over both lives (C1, C11): exactly one ``exited`` per ``created``.

    Returns:
        The events of each shell.
    """
    lives: dict[str, list[str]] = defaultdict(list)
    for kind, id in join(first, second):
        lives[id].append(kind.removeprefix("shell."))
    good = (["created", "exited"], ["created", "exited", "deleted"])
    assert {id: life for id, life in lives.items() if life not in good} == {}
    return lives


def files(directory: Path) -> list[str]:
    """All files of a directory, by their relative paths."""
    found = [path for path in directory.rglob("*") if not path.is_dir()]
    return sorted(str(path.relative_to(directory)) for path in found)


def record_of(directory: Path, id: str) -> Path:
    """The record file of a shell."""
    (path,) = (directory / "records").glob(f"{id}.*.json")
    return path


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a record says."""
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def wait_until(true: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)


async def until_none_left(tag: str, seconds: float = 3) -> None:
    """Nothing with this tag may be alive, at the latest after so much time (C11)."""
    with trio.move_on_after(seconds):
        while left(tag):  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)
    assert left(tag) == []


def is_gone(process: procfs.Process) -> bool:
    """Whether it is dead, collected or not."""
    now = procfs.look(process.pid)
    return now is None or now.start != process.start or now.dead


def _signal(process: procfs.Process, number: int) -> None:
    with suppress(ProcessLookupError):
        pidfd = os.pidfd_open(process.pid)
        try:
            if not is_gone(process):
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
