"""Finding and killing what is left of a shell when nobody looks after it any more.

The last resort: both helpers of the supervised launcher are gone, or, in a durable directory, a
whole host. What is known of the tree then is the mark ``TRIOSHELL_ID`` in the environment that its
processes were started with. From the marked ones follow others:

*   whoever descends from a member of the tree belongs to it;
*   so does everybody in the session of a member, unless somebody else founded it: one gets into
    a session only by being born in it.

Not found is a process that wiped its environment, left its session, and has lost its parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from typing import Self

import attrs
import trio

from .._records import Leftover
from ._helpers import killing, procfs
from ._seam import MARK

_STOPPING = 0.3
_REPEAT = 0.01


async def sweep(
    ids: Collection[str], *, known: Collection[tuple[int, int]] = (), seconds: float = 1.0
) -> tuple[Leftover, ...]:
    """Kill everything that belongs to these shells.

    Args:
        ids: The shells' ids.
        known: Pid and start time of processes that belong to them, marked or not.
        seconds: What lives after this much time is left.

    Returns:
        What could not be ended.

    Cancellation: some of it may live.
    """
    until = time.monotonic() + seconds
    tree = Tree.of(ids, known)
    while True:
        await trio.lowlevel.checkpoint()
        found = tree.find()
        if not found or time.monotonic() > until:
            return tuple(Leftover(process.pid, process.name) for process in found)
        killing.stop_and_kill(tree.find, min(until, time.monotonic() + _STOPPING))
        await trio.sleep(_REPEAT)


@attrs.define(eq=False)
class Sweeper:
    """Sweeps for many shells that are lost together: a look through /proc serves all of them."""

    _waiting: set[str] = attrs.field(factory=set)
    _done: dict[str, tuple[Leftover, ...]] = attrs.field(factory=dict)
    _lock: trio.Lock = attrs.field(factory=trio.Lock)

    async def sweep(self, id: str) -> tuple[Leftover, ...]:
        """As `sweep`, for one shell."""
        self._waiting.add(id)
        async with self._lock:
            if id not in self._done:
                ids = frozenset(self._waiting)
                leftovers = await sweep(ids)
                self._waiting -= ids
                self._done.update(dict.fromkeys(ids, leftovers))
            return self._done.pop(id)


@attrs.define(eq=False)
class Tree:
    """What belongs to the shells with these marks."""

    _marks: set[bytes]
    # Once marked, always marked: the environment of a dying process cannot be read any more.
    _known: set[tuple[int, int]]

    @classmethod
    def of(cls, ids: Collection[str], known: Collection[tuple[int, int]] = ()) -> Self:
        """The tree of these shells; see `sweep`."""
        return cls({b"%b=%b" % (MARK, id.encode()) for id in ids}, set(known))

    def find(self) -> list[procfs.Process]:
        """Everybody alive who belongs to it, but never this process and those it runs in."""
        mine = set(_lineage(os.getpid()))
        living = [each for each in procfs.everybody() if not each.dead and each.pid not in mine]
        found: dict[int, procfs.Process] = {}
        new = [each for each in living if self._is_marked(each)]
        while new:
            found.update((each.pid, each) for each in new)
            sessions = self._own_sessions(found, living)
            new = [
                each
                for each in living
                if each.pid not in found and (each.parent in found or each.session in sessions)
            ]
        return list(found.values())

    def _own_sessions(
        self, found: dict[int, procfs.Process], living: list[procfs.Process]
    ) -> set[int]:
        sessions = {each.session for each in found.values()} - {0}
        # A session whose founder lives and is a stranger was not founded below the shell.
        return sessions - {each.pid for each in living if each.pid not in found}

    def _is_marked(self, process: procfs.Process) -> bool:
        if process.identity in self._known:
            return True
        if self._marks.isdisjoint(procfs.environment(process.pid).split(b"\0")):
            return False
        now = procfs.look(process.pid)  # it was the environment of this one, if it still is here
        if now is None or now.identity != process.identity:
            return False
        self._known.add(process.identity)
        return True


def _lineage(pid: int) -> Iterator[int]:
    """A process and those above it."""
    process = procfs.look(pid)
    while process is not None:
        yield process.pid
        process = procfs.look(process.parent)
