"""A lock on a directory that ends with its owner, however that ends.

It is the kernel's (``flock``), and on the directory itself: there is no lock file that a crash
could leave behind, and none that a cleaner of old files could take away.
"""

from __future__ import annotations

import fcntl
import os
from typing import Self

import attrs


@attrs.define(eq=False)
class Lock:
    """Held from `take` to `release`, or to the death of this process."""

    _fd: int

    @classmethod
    def take(cls, path: str) -> Self | None:
        """Lock a directory; None if somebody else has it locked, also a scope of this process.

        Raises:
            OSError: It cannot be opened, or its file system has no locks.
        """
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        lock = cls(fd)
        _held.append(lock)
        return lock

    def is_on(self, path: str) -> bool:
        """Whether the directory at this path still is the one that is locked."""
        try:
            return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(self._fd))
        except OSError:
            return False

    def release(self) -> None:
        # Not by closing alone: a process forked in C would have a copy that keeps the lock.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.drop()

    def drop(self) -> None:
        """Close our copy of the descriptor; others keep the lock."""
        _held.remove(self)
        os.close(self._fd)


_held: list[Lock] = []


def _drop_all() -> None:
    for lock in tuple(_held):
        lock.drop()


# A worker that the host forks would keep the lock when the host is dead. Programs that are
# started do not: the descriptor is closed on exec.
os.register_at_fork(after_in_child=_drop_all)
