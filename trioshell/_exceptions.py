"""What trioshell raises.

Each can be pickled, as pools of processes do with the exceptions of their workers: it is built
again from the arguments that it keeps, or from those that it says.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._records import ShellInfo


class ShellError(Exception):
    """The base of every error that trioshell defines."""


class ShellNotFoundError(ShellError, LookupError):
    """No shell with this id is running or retained.

    Attributes:
        id: The id that was asked for.
    """

    def __init__(self, id: str, message: str | None = None) -> None:
        super().__init__(id, message)
        self.id = id

    def __str__(self) -> str:
        return self.args[1] or f"no shell {self.id!r} is running or retained in this scope"


class ShellRemovedError(ShellNotFoundError):
    """The shell was removed: while it was waited for, or before.

    Attributes:
        info: How the shell had ended (its last `ShellInfo`).
    """

    def __init__(self, info: ShellInfo) -> None:
        super().__init__(info.id, f"shell {info.id!r} is deleted; it had ended as {info.status}")
        self.info = info

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.info,), self.__dict__


class OutputLostError(ShellError):
    """The capture file of a shell is gone or cannot be read, so its output is not known.

    Raised instead of giving an empty page: no output and lost output are different answers.
    """


class DirectoryInUseError(ShellError, OSError):
    """Another scope has the durable directory: in this process or in another, also a stopped one.

    Attributes:
        pid: The process that has it, or None when it has not said so yet.
    """

    def __init__(self, folder: str, pid: int | None) -> None:
        by = "another process" if pid is None else f"process {pid}"
        what = f"the directory {folder!r} is in use by {by}: it serves one scope at a time"
        super().__init__(errno.EBUSY, what, folder)
        self.pid = pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.filename, self.pid), self.__dict__

    def __str__(self) -> str:
        return str(self.strerror)


class SubscriptionLaggedError(ShellError):
    """A subscriber fell behind by more events than its buffer holds.

    Attributes:
        seq: The ``seq`` of the last event it was given; ``subscribe(since=seq)`` resumes there.
        missed: How many events were published after that one, until this error was raised.
    """

    def __init__(self, seq: int, missed: int) -> None:
        super().__init__(seq, missed)
        self.seq = seq
        self.missed = missed

    def __str__(self) -> str:
        return (
            f"the subscriber fell behind and missed {self.missed} events after seq {self.seq}; "
            f"subscribe(since={self.seq}) resumes there while the log still has them"
        )


class SpawnError(ShellError, OSError):
    """The command could not be started; nothing of it exists.

    It is an `OSError` with ``errno`` and ``filename``, and, where Python has a class for the
    errno, of that class too (`FileNotFoundError`, `NotADirectoryError`, `PermissionError`,
    `BlockingIOError`), so that either may be caught.
    """

    def __str__(self) -> str:
        return str(self.strerror)


class _SpawnFileNotFoundError(SpawnError, FileNotFoundError):
    pass


class _SpawnNotADirectoryError(SpawnError, NotADirectoryError):
    pass


class _SpawnPermissionError(SpawnError, PermissionError):
    pass


class _SpawnBlockingIOError(SpawnError, BlockingIOError):
    pass


_SPAWN_ERRORS: dict[int, type[SpawnError]] = {
    errno.ENOENT: _SpawnFileNotFoundError,
    errno.ENOTDIR: _SpawnNotADirectoryError,
    errno.EACCES: _SpawnPermissionError,
    errno.EPERM: _SpawnPermissionError,
    errno.EAGAIN: _SpawnBlockingIOError,
}


def spawn_error(number: int, what: str, filename: str | None = None) -> SpawnError:
    """Build the `SpawnError` for an errno.

    Args:
        number: The errno.
        what: What was given and what to do, in one sentence.
        filename: The culprit: program, interpreter or directory.
    """
    text = f"{what} ({os.strerror(number)})"
    return _SPAWN_ERRORS.get(number, SpawnError)(number, text, filename)
