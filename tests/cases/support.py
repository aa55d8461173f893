"""What the cases share: a scope that is checked at its end, and ways to look from outside.

A case passes only if, when its scope is closed, no process with its tag is left, the host's
descriptors are as before, and each shell had one `Created`, one `Exited` and at most one
`Deleted`, in that order. `Case.open` asserts that, for every case.
"""

from __future__ import annotations

import glob
import os
import sys
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from trioshell import Created, Deleted, Exited, Shell, ShellInfo, Shells, open_shells
from trioshell._events import Event
from trioshell.launchers import Guarantees, Launcher
from trioshell.launchers._direct import DirectLauncher

GRACE = 1.0  # seconds; the cases count with it

ORDERS = ([Created, Exited], [Created, Exited, Deleted])


# The launchers of real processes that this platform has.
LAUNCHERS = ("supervised", "direct") if sys.platform == "linux" else ("direct",)


def make_launcher(name: str) -> Launcher:
    if name == "direct":
        return DirectLauncher()
    from trioshell.launchers._supervised import SupervisedLauncher

    return SupervisedLauncher()


@attrs.define(eq=False)
class Case:
    """One run of one case with one launcher.

    Attributes:
        launcher: Makes the launcher.
        path: A scratch directory, the ``$T`` and the working directory of its commands.
        tag: The value of ``CASE`` in the environment of its commands.
        events: Everything that was published in the scopes of this case.
    """

    launcher: Callable[[], Launcher]
    path: Path
    tag: str = attrs.field(factory=lambda: uuid.uuid4().hex)
    events: list[Event] = attrs.field(factory=list)
    _shells: Shells | None = None

    @property
    def guarantees(self) -> Guarantees:
        return self.launcher().guarantees

    @property
    def shells(self) -> Shells:
        assert self._shells is not None, "open the case first"
        return self._shells

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Shells]:
        """Open a scope as `open_shells` does; at its end, check what every case demands."""
        before = descriptors()
        first = len(self.events)
        options.setdefault("shell", "/bin/sh")
        options.setdefault("grace", GRACE)
        options.setdefault("launcher", self.launcher())
        observers = (*options.pop("observers", ()), self.events.append)
        async with open_shells(observers=observers, **options) as self._shells:
            yield self._shells
        assert self.left() == []
        assert descriptors() == before
        check_grammar(self.events[first:])

    async def start(
        self,
        command: str | Sequence[Any],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> Shell:
        """Create a shell in the open scope, tagged, in the scratch directory."""
        return await self.shells.create(
            command,
            env={"CASE": self.tag, "T": str(self.path), **(env or {})},
            cwd=self.path if cwd is None else cwd,
            **options,
        )

    async def run(self, command: str | Sequence[Any], **options: Any) -> tuple[ShellInfo, bytes]:
        """Start a command and wait; how it ended, and everything it wrote."""
        shell = await self.start(command, **options)
        info = await shell.wait()
        return info, await read_all(shell)

    def left(self) -> list[int]:
        """The live processes that carry the tag of this case."""
        return left(self.tag)

    def of(self, shell: Shell) -> list[type[Event]]:
        """The kinds of events that were published of a shell, in order."""
        return [type(event) for event in self.events if event.id == shell.id]


def needs(guarantee: str) -> pytest.MarkDecorator:
    """Skip a test where the launcher does not promise this."""
    return pytest.mark.needs(guarantee)


def rounds(ci: int, full: int) -> pytest.MarkDecorator:
    """Run a test with ``rounds=ci``, and marked deep with the full number of the case."""
    return pytest.mark.parametrize("rounds", [ci, pytest.param(full, marks=pytest.mark.deep)])


def left(tag: str) -> list[int]:
    """Live processes (no zombies) with ``CASE=tag`` in their environment.

    For a moment within its exec a process has none, so wait until one is here that has just come.
    """
    return [pid for pid in _pids() if _carries(pid, tag) and is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Whether there is a process with this number that is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descriptors() -> frozenset[str]:
    """The numbers of the host's open descriptors."""
    names = os.listdir("/proc/self/fd")
    # Without the one that listing itself used.
    return frozenset(name for name in names if os.path.lexists(f"/proc/self/fd/{name}"))


def check_grammar(events: Sequence[Event]) -> None:
    """One `Created`, one `Exited`, at most one `Deleted`, in that order; ``seq`` without gaps."""
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    kinds: dict[str, list[type[Event]]] = defaultdict(list)
    for event in events:
        kinds[event.id].append(type(event))
    assert {id: order for id, order in kinds.items() if order not in ORDERS} == {}


async def read_all(shell: Shell, limit: int = 65536) -> bytes:
    """What a shell has written by now: pages from 0 until one is empty."""
    pages, cursor = [], 0
    while data := (page := await shell.output(cursor, limit)).data:
        assert len(data) <= limit
        pages.append(data)
        cursor = page.cursor
    return b"".join(pages)


async def until_output(shell: Shell, text: bytes, seconds: float = 10) -> None:
    """Wait until a shell has written this."""
    seen = b""
    with trio.fail_after(seconds):
        async with shell.follow() as stream:
            async for data in stream:
                seen += data
                if text in seen:
                    return
    raise AssertionError(f"{text!r} never came, only {seen!r}")


async def until(true: Callable[[], object], seconds: float = 10) -> None:
    """Wait until something is true that nobody tells of."""
    with trio.fail_after(seconds):
        while not true():  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.01)


def _pids() -> Iterator[int]:
    return (int(path.rpartition("/")[2]) for path in glob.iglob("/proc/[0-9]*"))


def _carries(pid: int, tag: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"CASE={tag}".encode() in environment.split(b"\0")
