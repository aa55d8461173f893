"""A directory that scopes have one after the other. The lock keeps a second one out meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final

import attrs
import trio

from .._checks import absolute
from .._checks import path as checked_path
from .._directory import Directory
from .._exceptions import DirectoryInUseError
from .._lock import Lock
from .ledger import DurableLedger
from .owner import OwnerFile, read_owner

# Seconds from the death of an owner until a process that it has forked has come to its exec.
_LAST_FORK: Final = 1.0

# How often a directory may be replaced under us before we call it somebody's intent.
_ATTEMPTS: Final = 10


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


def open_durable(path: str | os.PathLike[str]) -> DurableDirectory:
    """Open a durable directory; make it if it does not exist.

    Raises:
        DirectoryInUseError: Another scope has it.
        OSError: It cannot be used.
    """
    folder = absolute("directory", checked_path("directory", path))
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
