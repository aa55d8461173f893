"""Which shells there are. Each change and the event that tells of it are one step (C5).

Nothing in this module waits, and nothing in it can fail half way: that is what makes a step a
step. Every event of a scope is published here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import attrs

from ._entry import Entry
from ._events import Log, Reason
from ._exceptions import ShellNotFoundError
from ._records import Ending
from .launchers import Process


@attrs.define(eq=False)
class Registry:
    """The running and the retained shells of a scope.

    Attributes:
        retain: Most ended shells to keep (C8).
        log: Where the events go.
    """

    retain: int
    log: Log
    _entries: dict[str, Entry] = attrs.field(factory=dict)  # in creation order
    _retained: dict[str, Entry] = attrs.field(factory=dict)  # in the order of their ends
    created: int = 0
    ended: int = 0

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def get(self, id: str) -> Entry:
        try:
            return self._entries[id]
        except KeyError:
            raise ShellNotFoundError(id) from None

    @property
    def running(self) -> list[Entry]:
        """The shells whose end has not been said, in creation order."""
        return [entry for entry in self._entries.values() if entry.life.live]

    @property
    def retained(self) -> int:
        """How many ended shells are kept."""
        return len(self._retained)

    def admit(self, entry: Entry, process: Process) -> None:
        """A process runs: its shell exists from here on."""
        entry.process = process
        entry.capture = process.capture
        entry.stdin = process.stdin
        entry.info = attrs.evolve(entry.info, pid=process.pid)
        entry.life.born()
        self._entries[entry.id] = entry
        self.created += 1
        self.log.created(entry.info, time=entry.info.started)

    def settle(self, entry: Entry, ending: Ending) -> None:
        """The one guarded finaliser: terminal info, waiters and `exited` in one step.

        The lifecycle refuses a second call. What follows from the end (a removal's `deleted`,
        an eviction) belongs to the same step: nobody can see a removed shell among the
        retained ones (C7), or more retained ones than allowed (C8).
        """
        verdict = entry.life.settle(by_itself=ending.by_itself)
        entry.info = entry.final_info(ending, verdict.status)
        entry.removed = verdict.removed
        entry.end.set()
        entry.leave()
        self.ended += 1
        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)
        if verdict.delete:
            self.delete(entry, "removed")
            return
        self._retained[entry.id] = entry
        self._evict()

    def _evict(self) -> None:
        while len(self._retained) > self.retain:
            self.delete(next(iter(self._retained.values())), "evicted")

    def delete(self, entry: Entry, reason: Reason) -> None:
        """Forget an ended shell and its output; nothing if that was done before."""
        if not entry.life.delete():
            return
        entry.deleted = reason
        del self._entries[entry.id]
        self._retained.pop(entry.id, None)
        if entry.capture is not None:
            entry.capture.remove()
        self.log.deleted(entry.info, time=time.time(), reason=reason)

    def close(self) -> None:
        """The scope is over: delete what it owns, and end the subscriptions (C9)."""
        for entry in tuple(self._retained.values()):
            self.delete(entry, "closed")
        self.log.close()
