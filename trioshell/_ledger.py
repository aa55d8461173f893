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
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from ._events import Event
from ._exceptions import spawn_error
from ._identity import Identity
from ._owner import OwnerFile
from ._record_format import MAX_SIZE, STATES, Place, Record, RecordError, decode, encode
from ._records import ShellInfo
from ._report import report
from .launchers._helpers import procfs

_RECORD: Final = re.compile(rf"(sh_[0-9a-f]{{28}})\.({'|'.join(STATES)})\.json")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINE: Final = 256  # the longest in a notes file is shorter
_LONGEST_LINE: Final = 8  # of helpers of helpers; a bound, as numbers may change under us
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Ledger:
    """Remembers nothing: the ledger of a private directory."""

    def announce(self, info: ShellInfo, output_limit: int | None) -> None:
        """A shell is about to be started. Whatever comes of it, `born` or `forget` follows.

        Raises:
            SpawnError: That cannot be recorded, so it must not be started.
        """

    def born(self, info: ShellInfo, seq: int) -> None:
        """It runs, and `created` with this ``seq`` is about to be said.

        Raises:
            SpawnError: That cannot be recorded, so it must be undone.
        """

    def ended(self, info: ShellInfo, seq: int, *, kept: bool) -> str | None:
        """It has ended, and `exited` with this ``seq`` is about to be said. Never fails.

        Args:
            info: The final info.
            seq: Of the event.
            kept: Something of its tree may live on, in our care.

        Returns:
            Why it could not be recorded, or None.
        """
        del info, seq, kept
        return None

    def released(self, id: str) -> None:
        """Nothing of its tree is in our care any more. Never fails."""

    def forget(self, id: str) -> None:
        """It is deleted. Never fails."""

    def tell(self, event: Event) -> None:
        """An event has been said. Never fails."""

    def keeps(self, id: str) -> bool:
        """The scope is over: whether the next one will know this ended shell. Never fails."""
        del id
        return False


@attrs.frozen
class Notes:
    """What a supervisor noted of a leader: see `Spec.notes`. Any of it may be missing.

    Attributes:
        leader: Its pid and its start time.
        returncode: As in `subprocess`.
        by_itself: It ended before any signal of a kill reached it.
        ended: When that was noted, in epoch seconds.
    """

    leader: tuple[int, int] | None = None
    returncode: int | None = None
    by_itself: bool = False
    ended: float | None = None


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
        matches = map(_RECORD.fullmatch, os.listdir(self._folder))
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
        notes = Notes()
        # Damage anywhere makes all that follows unknown; nothing is guessed.
        with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
            with open(self.notes_path(id), "rb") as file:
                first, second = file.readline(_LINE), file.readline(_LINE)
                changed = os.fstat(file.fileno()).st_mtime
            start = json.loads(first)
            notes = Notes(leader=(int(start["pid"]), int(start["start"])))
            end = json.loads(second)
            returncode = os.waitstatus_to_exitcode(end["status"])
            notes = attrs.evolve(
                notes, returncode=returncode, by_itself=end["by_itself"] is True, ended=changed
            )
        return notes

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
        name, data = _name(record), encode(record)
        try:
            replace(self._folder, name, data)
        except FileNotFoundError:  # a cleaner took the folder
            os.mkdir(self._folder, 0o700)
            replace(self._folder, name, data)
        former = self._records.get(record.info.id)
        if former is not None and _name(former) != name:
            self._remove(_name(former))
        self._records[record.info.id] = record

    def _remove_record(self, id: str) -> None:
        record = self._records.pop(id, None)
        if record is not None:
            self._remove(_name(record))

    def _erase(self, id: str) -> None:
        # The record last: no other file is ever left that no record tells of.
        self._remove(f"{id}.notes")
        self._remove_record(id)
        self._unwritten.pop(id, None)

    def _remove_outdated(self) -> None:
        """Of a change that a crash cut in two, remove the old record."""
        current = {_name(record) for record in self._records.values()}
        for name in os.listdir(self._folder):
            match = _RECORD.fullmatch(name)
            if match is not None and match[1] in self._records and name not in current:
                self._remove(name)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, name))


def read_records(folder: str, captures: str) -> Iterator[Record]:
    """The records in a folder, in creation order; a warning for each that cannot be used.

    Args:
        folder: Where they are.
        captures: Where the capture files are.
    """
    for name in _latest(os.listdir(folder)):
        path = os.path.join(folder, name)
        try:
            match = _RECORD.fullmatch(name)
            if match is None:
                raise RecordError("its name is not that of a record")
            id, state = match.groups()
            capture = os.path.join(captures, f"{id}.out")
            yield decode(_read(path), id=id, state=state, file=capture)
        except RecordError as error:
            report(f"the record {path!r} is ignored, and its shell left alone: {error}")


def replace(folder: str, name: str, data: bytes) -> None:
    """Make the file have these contents, at one stroke.

    The new file always has the same name until then: there is one writer, and a crash leaves no
    more than this one.

    Raises:
        OSError: It still has its old contents.
    """
    new = os.path.join(folder, "new")
    try:
        fd = os.open(new, _WRITE, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.replace(new, os.path.join(folder, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def _name(record: Record) -> str:
    return f"{record.info.id}.{record.state}.json"


def _latest(names: Iterable[str]) -> Iterable[str]:
    """The record of the latest state of each shell, in the order of the ids."""
    latest: dict[str, str] = {}
    for name in sorted(names, key=_order):
        if name.endswith(".json"):
            latest[_order(name)[0]] = name
    return latest.values()


def _order(name: str) -> tuple[str, int]:
    match = _RECORD.fullmatch(name)
    return (name, -1) if match is None else (match[1], STATES.index(match[2]))


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        raise RecordError(f"it cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise RecordError("it is no regular file")
        if status.st_size > MAX_SIZE:
            raise RecordError(f"it has {status.st_size} bytes, more than {MAX_SIZE}")
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def _recognise(info: ShellInfo) -> tuple[Identity | None, Identity | None]:
    """The leader and its parent.

    A launcher may run its commands elsewhere (in a container, on another machine), and the same
    number here is somebody else's. So it must be below us, or carry the mark of this shell.
    """
    line = list(itertools.islice(_line_to_us(info.pid), _LONGEST_LINE))
    if not line:
        return None, None
    mark = b"TRIOSHELL_ID=" + info.id.encode()
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
