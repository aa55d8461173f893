"""Capture files: how launchers of real processes store output, and how it is read back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from typing import Self

import attrs

from .._exceptions import OutputLostError, SpawnError, spawn_error
from ._helpers.creating import create
from ._refusal import shortage
from ._seam import Capture

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.define(eq=False)
class FileCapture(Capture):
    """Output in a regular file of ours.

    A running shell costs the host no descriptor for it: the file is opened for each read, which
    takes microseconds on a local disk, so it is done without a thread.

    Attributes:
        path: Where it is, absolute.
    """

    path: str
    _identity: tuple[int, int] | None = None
    _sparse: bool = False
    _rescue: Callable[[], int | None] | None = None
    _kept: int | None = None
    _last_size: int = 0
    _holders: int = 0
    _removed: bool = False

    def __attrs_post_init__(self) -> None:
        # A system that cannot tell where holes are cannot make any either.
        self._sparse = self._sparse and hasattr(os, "SEEK_HOLE")

    @classmethod
    def create(cls, path: str, *, sparse: bool) -> tuple[Self, int]:
        """Make an empty capture file, readable by its owner only.

        Args:
            path: Absolute; its directory is made again if a cleaner took it.
            sparse: Holes in it will be dropped output.

        Returns:
            The capture, and the descriptor to write with (the caller closes it).

        Raises:
            SpawnError: It cannot be made; names the path.
        """
        try:
            fd = create(path)
        except OSError as error:
            raise unmade(error.errno or 0, path) from error
        status = os.fstat(fd)
        return cls(path, (status.st_dev, status.st_ino), sparse), fd

    @classmethod
    def reopen(cls, path: str, *, sparse: bool, size: int) -> Self:
        """The capture file of a shell that ended in an earlier scope.

        Args:
            path: Absolute.
            sparse: Holes in it are dropped output.
            size: Bytes in it when it was last seen.
        """
        return cls(path, None, sparse, None, None, size)

    def rescue_with(self, reopen: Callable[[], int | None]) -> None:
        """While the shell runs: how to get a descriptor of the file when its path is gone."""
        self._rescue = reopen

    def finish(self, size: int, fd: int | None) -> str | None:
        """The shell has ended.

        Args:
            size: Bytes in the file.
            fd: Held from now on, because something happened to the file: mostly, it is not at its
                path any more. A deleted file lives as long as somebody has it open: what was
                captured stays readable until the shell is deleted (C13). None: all is well.

        Returns:
            What somebody else has done to the file, or None.
        """
        self._rescue = None
        self._kept = fd
        self._last_size = size
        if fd is None:
            return None
        try:
            with self._open():
                return f"the capture file {self.path!r} was deleted or replaced"
        except OutputLostError as error:
            return str(error)

    @property
    def size(self) -> int:
        try:
            with self._open() as fd:
                self._last_size = os.fstat(fd).st_size
        except OutputLostError:
            pass  # what is known of a lost file is how large it was when last seen
        return self._last_size

    def read(self, start: int, limit: int) -> bytes:
        with self._open() as fd:
            # No more than there is: to read allocates what is asked for, and it may be anything.
            there = os.fstat(fd).st_size - start
            data = _pread(fd, start, min(limit, there), self.path) if there > 0 else b""
            if not self._sparse:
                return data
            # After the read, not before it: dropped output only grows, so what is no hole now
            # was none when it was read.
            return data[: max(0, _seek(fd, start, os.SEEK_HOLE) - start)]

    def gap(self, start: int) -> int:
        if not self._sparse:
            return 0
        with self._open() as fd:
            if start >= os.fstat(fd).st_size or _seek(fd, start, os.SEEK_HOLE) > start:
                return 0
            return _seek(fd, start, os.SEEK_DATA) - start

    def close(self) -> None:
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None

    def remove(self) -> None:
        self._rescue = None
        self._removed = True
        if not self._holders:
            self.close()
        elif self._kept is None:
            with contextlib.suppress(OutputLostError):
                self._kept = self._open_path()
        remove(self.path)

    def hold(self) -> None:
        self._holders += 1

    def let_go(self) -> None:
        self._holders -= 1
        if self._removed and not self._holders:
            self.close()

    @contextlib.contextmanager
    def _open(self) -> Generator[int]:
        fd, ours = self._descriptor()
        try:
            # Who cuts a file in place makes later output look as if it were the first, or leaves
            # zeros where output was. It only ever grows by itself.
            if os.fstat(fd).st_size < self._last_size:
                raise OutputLostError(f"the capture file {self.path!r} was cut short")
            yield fd
        finally:
            if ours:
                os.close(fd)

    def _descriptor(self) -> tuple[int, bool]:
        if self._kept is not None:
            return self._kept, False
        fd = self._open_path()
        if fd is None and self._rescue is not None:
            fd = self._ours(self._rescue())
        if fd is None:
            raise OutputLostError(f"the capture file {self.path!r} was deleted or replaced")
        return fd, True

    def _open_path(self) -> int | None:
        try:
            fd = os.open(self.path, _READ)
        except OSError as error:
            if why := shortage(error.errno or 0):
                what = f"the capture file {self.path!r} cannot be opened at the moment: {why}"
                raise OutputLostError(what) from error
            return None
        return self._ours(fd)

    def _ours(self, fd: int | None) -> int | None:
        if fd is None:
            return None
        status = os.fstat(fd)
        if self._identity in (None, (status.st_dev, status.st_ino)):
            return fd
        os.close(fd)
        return None


def unmade(number: int, path: str) -> SpawnError:
    """Say that a capture file cannot be made."""
    why = shortage(number) or "check its directory"
    return spawn_error(number, f"the capture file {path!r} cannot be created: {why}", path)


def remove(path: str) -> None:
    """Delete a capture file, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _pread(fd: int, start: int, limit: int, path: str) -> bytes:
    try:
        return os.pread(fd, limit, start)
    except OSError as error:
        raise OutputLostError(f"the capture file {path!r} cannot be read: {error}") from error


def _seek(fd: int, start: int, whence: int) -> int:
    """The next hole or the next data; the end of the file where there is none."""
    try:
        return os.lseek(fd, start, whence)
    except OSError:
        return os.fstat(fd).st_size
