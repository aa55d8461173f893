"""Where the capture files of a scope live: a private directory, or a durable one.

Both are locked by their owner for as long as it lives. The lock of a private directory tells
later scopes whether it is stale; that of a durable one keeps a second scope out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from typing import Final

import attrs
import trio

from ._checks import absolute
from ._exceptions import DirectoryInUseError
from ._ledger import DurableLedger, Ledger
from ._lock import Lock
from ._owner import OwnerFile, read_owner

_PREFIX: Final = "trioshell-private-"
_CAPTURE: Final = re.compile(r"sh_[0-9a-f]{28}\.out")

# Seconds from the death of an owner until a process that it has forked has come to its exec.
_LAST_FORK: Final = 1.0

# How often a directory may be replaced under us before we call it somebody's intent.
_ATTEMPTS: Final = 10


class Directory:
    """No directory: the launcher keeps output elsewhere, and nothing is remembered."""

    @property
    def ledger(self) -> Ledger:
        """What is remembered of each shell."""
        return Ledger()

    @property
    def durable(self) -> bool:
        """Whether it outlives the scope."""
        return False

    def capture(self, id: str) -> str | None:
        """Where the capture file of a shell goes."""
        del id
        return None

    def notes(self, id: str) -> str | None:
        """Where a supervisor notes what it knows of a shell."""
        del id
        return None

    def close(self) -> None:
        """The scope is over: give the directory back, or delete it."""


@attrs.define(eq=False)
class PrivateDirectory(Directory):
    """A directory of one scope, deleted with it."""

    _path: str
    _lock: Lock | None

    def capture(self, id: str) -> str:
        return os.path.join(self._path, f"{id}.out")

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
            self._lock.release()


@attrs.define(eq=False)
class DurableDirectory(Directory):
    """A directory that scopes have one after the other, with what they remember of shells."""

    _ledger: DurableLedger
    _output: str
    _lock: Lock

    @property
    def ledger(self) -> DurableLedger:
        return self._ledger

    @property
    def durable(self) -> bool:
        return True

    def capture(self, id: str) -> str:
        return os.path.join(self._output, f"{id}.out")

    def notes(self, id: str) -> str:
        return self.ledger.notes_path(id)

    def close(self) -> None:
        self.ledger.close()
        self._lock.release()


def open_private() -> PrivateDirectory:
    """Make a private directory, after deleting those whose owners are dead.

    Raises:
        OSError: It cannot be made.
    """
    with contextlib.suppress(OSError):
        _delete_stale(tempfile.gettempdir())
    # Another scope may take it for stale, in the moment before it is locked: once more, then.
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            lock = Lock.take(path)
        except FileNotFoundError:
            continue
        except OSError:  # no locks here: then nobody takes it for stale, either
            return PrivateDirectory(path, None)
        if lock is not None and lock.is_on(path):
            return PrivateDirectory(path, lock)
        if lock is not None:
            lock.release()


def open_durable(path: str | os.PathLike[str]) -> DurableDirectory:
    """Open a durable directory; make it if it does not exist.

    Raises:
        DirectoryInUseError: Another scope has it.
        OSError: It cannot be used.
    """
    folder = absolute("directory", os.fsdecode(path))
    with contextlib.ExitStack() as undo:
        lock = _lock(folder)
        undo.callback(lock.release)
        records, output = records_folder(folder), output_folder(folder)
        _make_own(records)
        _make_own(output)
        ledger = DurableLedger(records, output, OwnerFile.take_over(folder))
        undo.pop_all()
    return DurableDirectory(ledger, output, lock)


async def open_durable_soon(path: str | os.PathLike[str]) -> DurableDirectory:
    """`open_durable`, patient with a lock whose owner is dead.

    A process that the owner was starting when it died has a copy of the lock until its exec.

    Raises:
        DirectoryInUseError: Another scope has it.
        OSError: It cannot be used.

    Cancellation: it is not opened.
    """
    await trio.lowlevel.checkpoint()
    deadline = trio.current_time() + _LAST_FORK
    while True:
        try:
            return open_durable(path)
        except DirectoryInUseError as error:
            if _has_owner(error.filename) or trio.current_time() > deadline:
                raise
        await trio.sleep(0.005)


def _has_owner(folder: str) -> bool:
    owner = read_owner(folder)
    return owner is None or owner.identity is None or owner.identity.alive


def records_folder(folder: str) -> str:
    """Where the records of a durable directory are."""
    return os.path.join(folder, "records")


def output_folder(folder: str) -> str:
    """Where the capture files of a durable directory are."""
    return os.path.join(folder, "output")


def _lock(folder: str) -> Lock:
    for _ in range(_ATTEMPTS):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        real = os.path.realpath(folder)
        lock = Lock.take(real)
        if lock is None:
            owner = read_owner(folder)
            raise DirectoryInUseError(folder, None if owner is None else owner.pid)
        if lock.is_on(real):
            return lock
        lock.release()
    raise OSError(errno.ESTALE, "the directory is being replaced again and again", folder)


def _make_own(path: str) -> None:
    """Make a folder that nobody else can write to: what is in it decides who is signalled."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.stat(path, follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "a folder is needed here", path)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        what = "this folder must belong to you, and nobody else may write to it"
        raise PermissionError(errno.EPERM, what, path)


def _delete_stale(parent: str) -> None:
    with os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _delete_if_stale(entry.path)


def _delete_if_stale(path: str) -> None:
    """Delete a private directory of this user whose owner is dead, and nothing else in it."""
    if os.stat(path, follow_symlinks=False).st_uid != os.geteuid():
        return
    lock = Lock.take(path)
    if lock is None:
        return
    try:
        for name in os.listdir(path):
            if _CAPTURE.fullmatch(name):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)
    finally:
        lock.release()
