"""Which shells there are. Each change and the event that tells of it are one step (C5).

Nothing in this module waits, and nothing in it can fail half way: that is what makes a step a
step. Every event of a scope is published here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import attrs
import trio

from ._entry import Entry
from ._events import Log, Reason
from ._exceptions import ShellNotFoundError, SpawnError
from ._ledger import Ledger
from ._records import Ending, ShellInfo
from .launchers import Process


@attrs.define(eq=False)
class Registry:
    """The running and the retained shells of a scope.

    Attributes:
        retain: Most ended shells to keep (C8).
        retain_bytes: Most bytes of output of ended shells to keep, or None.
        log: Where the events go.
        ledger: Is told of each change before the event that tells everybody else.
    """

    retain: int
    log: Log
    ledger: Ledger = attrs.field(factory=Ledger)
    retain_bytes: int | None = None
    _entries: dict[str, Entry] = attrs.field(factory=dict)  # in creation order
    _retained: dict[str, Entry] = attrs.field(factory=dict)  # in the order of their ends
    _retained_bytes: int = 0
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

    def announce(self, entry: Entry) -> None:
        """A process is about to be started for this shell.

        Raises:
            SpawnError: The ledger cannot be written.
        """
        self.ledger.announce(entry.info, entry.output_limit)

    def admit(self, entry: Entry, process: Process) -> SpawnError | None:
        """A process runs: its shell exists from here on.

        Returns:
            None; or why it must not exist, and then nothing has happened.
        """
        info = attrs.evolve(entry.info, pid=process.pid)
        try:
            self.ledger.born(info, self.log.last_seq + 1)
        except SpawnError as error:
            return error
        entry.process = process
        entry.capture = process.capture
        entry.stdin = process.stdin
        entry.info = info
        entry.life.born()
        self._entries[entry.id] = entry
        self.created += 1
        self.log.created(entry.info, time=entry.info.started)
        return None

    def reject(self, entry: Entry) -> None:
        """There is no process: there was no shell (C2)."""
        entry.life.stillborn()
        self.ledger.forget(entry.id)

    def settle(self, entry: Entry, ending: Ending) -> None:
        """The one guarded finaliser: terminal info, waiters and `exited` in one step.

        The lifecycle refuses a second call. What follows from the end (a removal's `deleted`,
        an eviction) belongs to the same step: nobody can see a removed shell among the
        retained ones (C7), or more retained ones than allowed (C8).
        """
        verdict = entry.life.settle(by_itself=ending.by_itself)
        entry.info = self._recorded(entry, entry.final_info(ending, verdict.status))
        entry.removed = verdict.removed
        entry.end.set()
        entry.leave()
        self.ended += 1
        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)
        if verdict.delete:
            self.delete(entry, "removed")
            return
        self._retain(entry)

    def _recorded(self, entry: Entry, info: ShellInfo) -> ShellInfo:
        trouble = self.ledger.ended(info, self.log.last_seq + 1, kept=entry.keeps)
        if trouble is None:
            return info
        reason = trouble if info.reason is None else f"{info.reason}; {trouble}"
        return attrs.evolve(info, reason=reason)

    def _retain(self, entry: Entry) -> None:
        self._retained[entry.id] = entry
        self._retained_bytes += entry.stored
        while self._retains_too_much():
            self.delete(next(iter(self._retained.values())), "evicted")

    def _retains_too_much(self) -> bool:
        if len(self._retained) > self.retain:
            return True
        return self.retain_bytes is not None and self._retained_bytes > self.retain_bytes

    def release(self, entry: Entry) -> None:
        """Nothing that ``background="keep"`` kept is in our care any more."""
        self.ledger.released(entry.id)

    def readmit(self, entry: Entry) -> None:
        """A shell of an earlier scope: it has ended, or lost its host and is to be settled."""
        self._entries[entry.id] = entry
        self.created += 1
        self.ended += entry.life.ended

    def repeat(self, entry: Entry) -> None:
        """Publish the newest event of a former shell: its scope did not come to it."""
        if entry.life.ended:
            self.log.exited(entry.info, time=entry.info.ended or entry.info.started)
        else:
            self.log.created(entry.info, time=entry.info.started)

    def retain_again(self, entry: Entry) -> None:
        """Retain a former shell that has ended. Called in the order of their ends."""
        self._retain(entry)

    @trio.lowlevel.enable_ki_protection  # called by any task: Ctrl+C must not divide the step
    def delete(self, entry: Entry, reason: Reason) -> None:
        """Forget an ended shell and its output; nothing if that was done before."""
        if not entry.life.delete():
            return
        entry.deleted = reason
        del self._entries[entry.id]
        if self._retained.pop(entry.id, None) is not None:
            self._retained_bytes -= entry.stored
        if entry.capture is not None:
            entry.capture.remove()
        self.ledger.forget(entry.id)
        self.log.deleted(entry.info, time=time.time(), reason=reason)

    @trio.lowlevel.enable_ki_protection
    def close(self) -> None:
        """The scope is over: delete what it owns, and end the subscriptions (C9)."""
        for entry in tuple(self._retained.values()):
            if not self.ledger.keeps(entry.id):
                self.delete(entry, "closed")
            elif entry.capture is not None:
                entry.capture.close()
        self.log.close()
