"""Taking over a durable directory: what the scopes before left becomes part of this one.

*   What had ended is retained again.
*   What was running has lost its host. Its tree is ended, and its one `exited` is published: with
    its true end if a supervisor noted that, else as killed, with a returncode of None.
*   What was about to be started never was a shell (C2): its process is ended without a word.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Final, Self

import attrs
import trio

from .._entry import Entry
from .._exceptions import OutputLostError
from .._ids import Ids
from .._records import Ending, Leftover
from .._registry import Registry
from .._report import report
from ..launchers._files import FileCapture
from .ledger import DurableLedger
from .notes import Notes
from .reap import obstacle, reap, wait_for_keepers
from .record_format import Place, Record

_CRASHED: Final = "its host crashed"

Remains = Mapping[str, tuple[Leftover, ...]]


async def recover(ledger: DurableLedger, registry: Registry, ids: Ids) -> None:
    """Take over what earlier scopes left. Mostly that takes no time, after a crash up to 3 s.

    Args:
        ledger: Of the directory, which is ours by now.
        registry: Of the new scope, still empty.
        ids: Continue after those that were given out.

    Cancellation: what was not taken over yet is left to the next scope.
    """
    records = [record for record in ledger.read() if _is_free(record, ledger)]
    for id in ledger.ids():
        ids.follow(id)
    unfinished = [record for record in records if record.unfinished]
    await wait_for_keepers(unfinished)
    # Read before any signal of ours: what a supervisor notes later may be our doing.
    notes = {record.info.id: ledger.notes(record.info.id) for record in unfinished}
    unfinished = [_recognised(record, notes[record.info.id]) for record in unfinished]
    reapable = [record for record in unfinished if obstacle(record) is None]
    remains = await reap(reapable) if reapable else {}
    for record in unfinished:
        _report_trouble(record, remains)
    _take_over(records, ledger, registry, notes, remains)


def _recognised(record: Record, notes: Notes) -> Record:
    """The supervisor knew the leader before its host could."""
    if record.process is not None or record.owner is None or notes.leader is None:
        return record
    pid, start = notes.leader
    # It is the leader of its session (C15).
    leader = attrs.evolve(record.owner, pid=pid, start=start, session=pid)
    return attrs.evolve(record, process=leader)


def _is_free(record: Record, ledger: DurableLedger) -> bool:
    """Whether its owner is gone, as the lock says: unless what was locked had been deleted."""
    owner = record.owner
    if owner is None or owner.pid == os.getpid() or not record.unfinished or not owner.alive:
        return True
    report(f"{record.info.id} is left alone: process {owner.pid}, its host, is alive")
    ledger.disown(record.info.id)
    return False


@trio.lowlevel.enable_ki_protection
def _take_over(
    records: Sequence[Record],
    ledger: DurableLedger,
    registry: Registry,
    notes: Mapping[str, Notes],
    remains: Remains,
) -> None:
    """The rest is one step: whoever looks sees all of the former shells, or none."""
    for record in records:
        if record.place is None:
            capture_of(record).remove()
            ledger.forget(record.info.id)
    shells = [_Former.of(record, notes) for record in records if record.place is not None]
    by_event = sorted(shells, key=lambda shell: shell.place)
    unsaid = [shell for shell in by_event if not ledger.said(shell.record)]
    for shell in shells:
        registry.readmit(shell.entry)
    # First of all, for the first event of this scope says that all earlier ones were said.
    for shell in unsaid:
        registry.repeat(shell.entry)
    for shell in by_event:
        if shell.entry.life.ended:
            ledger.released(shell.entry.id)
            registry.retain_again(shell.entry)
    for shell in shells:
        if shell.entry.life.live:
            registry.settle(shell.entry, shell.ending(remains.get(shell.entry.id, ())))


@attrs.frozen
class _Former:
    """A shell of an earlier scope."""

    record: Record
    entry: Entry
    notes: Notes

    @classmethod
    def of(cls, record: Record, all_notes: Mapping[str, Notes]) -> Self:
        notes = all_notes.get(record.info.id, Notes())
        ended = time.time() if notes.ended is None else notes.ended
        lived = max(0.0, ended - record.info.started)  # the wall clock may have been set back
        entry = Entry(
            info=record.info,
            spec=None,
            grace=0.0,
            timeout=math.inf,
            capture=capture_of(record),
            output_limit=record.output_limit,
            started_at=trio.current_time() - lived,
        )
        entry.gone.set()
        entry.life.born()
        if not record.info.running:
            entry.life.settle(by_itself=True)
            entry.end.set()
        return cls(record, entry, notes)

    @property
    def place(self) -> Place:
        assert self.record.place is not None
        return self.record.place

    def ending(self, leftovers: tuple[Leftover, ...]) -> Ending:
        """How a shell ended that was running when its host crashed."""
        because = obstacle(self.record)
        return Ending(
            returncode=self.notes.returncode,
            by_itself=self.notes.by_itself,
            size=capture_of(self.record).size,
            leftovers=leftovers,
            output_error=self._output_error(),
            trouble=_CRASHED if because is None else f"{_CRASHED}; {because}",
        )

    def _output_error(self) -> str | None:
        try:
            capture_of(self.record).read(0, 1)
        except OutputLostError as error:
            return str(error)
        if self.notes.ended is not None:
            return None  # the end is noted when the output is complete
        return f"{_CRASHED}: its last output may be missing"


def capture_of(record: Record) -> FileCapture:
    """What a shell of an earlier scope wrote."""
    info = record.info
    assert info.file is not None
    return FileCapture.reopen(info.file, sparse=record.output_limit is not None, size=info.size)


def _report_trouble(record: Record, remains: Remains) -> None:
    because = obstacle(record)
    left = remains.get(record.info.id, ())
    if left:
        names = ", ".join(f"{process.pid} ({process.name})" for process in left)
        report(f"{record.info.id}: {_CRASHED}, and these may be left of it: {names}")
    elif because is not None and not (record.owner and record.owner.rebooted):
        report(f"{record.info.id}: {_CRASHED}; {because}")
