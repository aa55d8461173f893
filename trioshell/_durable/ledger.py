"""What a durable directory remembers of each shell: one record file per shell.

A record is written before the event that it stands for, in the same step, and replaces the old
one at one stroke: a crash at any byte leaves the old record or the new one. The state of the shell
is part of the file's name. That is for people, and it makes the stroke a rename to a name that
does not exist, followed by the removal of the old one (where a crash leaves both, the later state
counts). A rename over an existing file makes ext4 write to the disk and wait for it: measured
2.3 ms in place of 0.08. Nothing is flushed to
the disk itself. What is promised is to survive a *process* that crashes at any moment, and the
kernel keeps what was written then. When the *machine* crashes, there is nothing left to reap, and
a record that came out damaged is ignored with a warning.

Which events have been said
---------------------------
A crash may come between a record and its event. So each record has the *place* of its newest
event: which scope on this directory it was (its ``life``), and the ``seq`` there. The owner file
has the place of the last event that was said, and is moved on right after each. The next scope
thus knows the one event, at most, that was recorded and not said, and says it. (What is left is
the moment between the two: an event that an observer saw, in a host that was killed before it
could note that. Observers that must not count it twice go by the shell's id.)
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Iterator
from typing import Final

import attrs

from .._events import Event
from .._exceptions import spawn_error
from .._ledger import Ledger
from .._records import ShellInfo
from .._report import report
from ..launchers._helpers import procfs
from ..launchers._seam import MARK
from .files import RECORD, read_records, record_name, replace
from .identity import Identity
from .notes import Notes, read_notes
from .owner import OwnerFile
from .record_format import Place, Record, encode

# Helpers of helpers, up to a shell: a bound, as numbers may change under us.
_LONGEST_LINE: Final = 8


@attrs.define(eq=False)
class DurableLedger(Ledger):
    """The ledger of a durable directory. It belongs to the one scope that has the directory.

    Attributes:
        life: Which scope on this directory this is.
    """

    _folder: str
    _captures: str
    _owner_file: OwnerFile
    life: int = 1
    _told: Place = (0, 0)  # by earlier scopes
    _records: dict[str, Record] = attrs.field(factory=dict)  # what the files say
    _unwritten: dict[str, Record] = attrs.field(factory=dict)  # ended, but the disk was full

    def read(self) -> list[Record]:
        """What earlier scopes left. Files that cannot be used are left alone, with a warning."""
        records = list(read_records(self._folder, self._captures))
        self._records = {record.info.id: record for record in records}
        self._remove_outdated()
        places = [record.place for record in records if record.place is not None]
        if self._owner_file.told is None:
            # A new directory, or somebody deleted the owner file: nothing is to be said again.
            self._told = max(places, default=(0, 0))
            self._owner_file.tell(self._told)
        else:
            self._told = self._owner_file.told
        self.life = 1 + max([self._told, *places])[0]
        return records

    def ids(self) -> list[str]:
        """The ids in the names of all records, also of those that cannot be used."""
        matches = map(RECORD.fullmatch, os.listdir(self._folder))
        return [match[1] for match in matches if match is not None]

    def said(self, record: Record) -> bool:
        """Whether the newest event of a record that was read has been said."""
        return record.place is None or record.place <= self._told

    def disown(self, id: str) -> None:
        """A record that was read is somebody else's: leave it alone from now on."""
        del self._records[id]

    def announce(self, info: ShellInfo, output_limit: int | None) -> None:
        owner = self._owner_file.identity
        self._write_or_refuse(Record(info=info, owner=owner, output_limit=output_limit))

    def born(self, info: ShellInfo, seq: int) -> None:
        process, keeper = _recognise(info)
        record = self._records[info.id]
        place = (self.life, seq)
        self._write_or_refuse(
            attrs.evolve(record, info=info, place=place, process=process, keeper=keeper)
        )

    def ended(self, info: ShellInfo, seq: int, *, kept: bool) -> str | None:
        former = self._records[info.id]
        record = attrs.evolve(former, info=info, place=(self.life, seq), kept=kept)
        trouble = self._write_or_report(record)
        if trouble is not None:
            # The old record says that the shell runs: the next scope would report a second end.
            self._unwritten[info.id] = record
            self._remove_record(info.id)
        self._remove(f"{info.id}.notes")
        return trouble

    def released(self, id: str) -> None:
        record = self._records.get(id)
        if record is None or not record.kept:
            return
        if record.place is None:
            self._erase(id)
        else:
            self._write_or_report(attrs.evolve(record, kept=False))

    def forget(self, id: str) -> None:
        record = self._records.get(id)
        if record is not None and record.place is not None and record.kept:
            # Nothing more is to be said of it, but its processes are still to be looked after.
            self._write_or_report(attrs.evolve(record, place=None))
        else:
            self._erase(id)

    def tell(self, event: Event) -> None:
        self._owner_file.tell((self.life, event.seq))

    def keeps(self, id: str) -> bool:
        record = self._unwritten.pop(id, None)
        return record is None or self._write_or_report(record) is None

    def notes_path(self, id: str) -> str:
        """Where a supervisor notes what it knows of this shell."""
        return os.path.join(self._folder, f"{id}.notes")

    def notes(self, id: str) -> Notes:
        """What a supervisor noted; what cannot be read was not noted."""
        return read_notes(self.notes_path(id))

    def close(self) -> None:
        self._owner_file.close()

    def _write_or_refuse(self, record: Record) -> None:
        try:
            self._write(record)
        except OSError as error:
            what = f"the shell cannot be recorded in {self._folder!r}, so it was not started"
            raise spawn_error(error.errno or errno.EIO, what, self._folder) from error

    def _write_or_report(self, record: Record) -> str | None:
        try:
            self._write(record)
        except OSError as error:
            trouble = f"its record could not be written: {error.strerror}"
            report(f"{record.info.id}: {trouble} (in {self._folder!r})")
            return trouble
        return None

    def _write(self, record: Record) -> None:
        name, data = record_name(record), encode(record)
        try:
            replace(self._folder, name, data)
        except FileNotFoundError:  # a cleaner took the folder
            os.mkdir(self._folder, 0o700)
            replace(self._folder, name, data)
        former = self._records.get(record.info.id)
        if former is not None and record_name(former) != name:
            self._remove(record_name(former))
        self._records[record.info.id] = record

    def _remove_record(self, id: str) -> None:
        record = self._records.pop(id, None)
        if record is not None:
            self._remove(record_name(record))

    def _erase(self, id: str) -> None:
        # The record last: no other file is ever left that no record tells of.
        self._remove(f"{id}.notes")
        self._remove_record(id)
        self._unwritten.pop(id, None)

    def _remove_outdated(self) -> None:
        """Of a change that a crash cut in two, remove the old record."""
        current = {record_name(record) for record in self._records.values()}
        for name in os.listdir(self._folder):
            match = RECORD.fullmatch(name)
            if match is not None and match[1] in self._records and name not in current:
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, name))


def _recognise(info: ShellInfo) -> tuple[Identity | None, Identity | None]:
    """The leader and its parent.

    A launcher may run its commands elsewhere (in a container, on another machine), and the same
    number here is somebody else's. So it must be below us, or carry the mark of this shell.
    """
    line = list(itertools.islice(_line_to_us(info.pid), _LONGEST_LINE))
    if not line:
        return None, None
    mark = b"%b=%b" % (MARK, info.id.encode())
    if line[-1].parent != os.getpid() and (mark not in procfs.environment(info.pid).split(b"\0")):
        return None, None
    keeper = Identity.seen(line[1]) if len(line) > 1 else Identity.of(line[0].parent)
    return Identity.seen(line[0]), keeper


def _line_to_us(pid: int) -> Iterator[procfs.Process]:
    """A process and those above it, up to a child of ours or the first of all."""
    while (process := procfs.look(pid)) is not None:
        yield process
        if process.parent == os.getpid():
            return
        pid = process.parent
