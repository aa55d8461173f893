"""Where the capture files of a scope live: a private directory, unless it has a durable one.

Its owner holds a lock for as long as it lives, which tells later scopes whether it is stale.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from typing import Final

import attrs

from ._ledger import Ledger
from ._lock import Lock

_PREFIX: Final = "trioshell-private-"
_CAPTURE: Final = re.compile(r"sh_[0-9a-f]{28}\.out")


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
        return f"{self._path}/{id}.out"

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
        if self._lock is not None:
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
        # TMPDIR may be ".": helpers have a current directory of their own.
        path = os.path.abspath(tempfile.mkdtemp(prefix=_PREFIX))
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
