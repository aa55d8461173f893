"""Storing the output of a running command in its capture file."""

from __future__ import annotations

import errno
import os
from typing import Self

import attrs
import trio

from .._files import FileCapture
from .._helpers.limiting import Middle


@attrs.define(eq=False)
class Store:
    """The writing side of a capture file.

    Writing never fails for the command: when the disk is full, storing stops for good (what came
    later would not be at its offset), and the trouble is remembered (C13).

    The file is written from the loop. A thread per write would cost a hundred times as much, and
    a local disk takes a chunk in microseconds.

    Attributes:
        capture: The reading side.
        size: Bytes stored.
        error: Why output is missing, or None.
        final: Nothing will be added.
    """

    capture: FileCapture
    _fd: int
    _middle: Middle | None
    size: int = 0
    error: str | None = None
    final: bool = False
    _growth: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @classmethod
    def create(cls, path: str, limit: int | None) -> Self:
        """Make the capture file.

        Args:
            path: Absolute.
            limit: Bytes of output to keep: the first and the last ones; None: all.

        Raises:
            SpawnError: It cannot be made.
        """
        capture, fd = FileCapture.create(path, sparse=limit is not None)
        store = cls(capture, fd, None if limit is None else Middle(fd, limit))
        capture.rescue_with(store._reopen)
        return store

    def write(self, data: memoryview) -> None:
        """Add bytes, unless storing has stopped."""
        if self.final or self.error is not None:
            return
        try:
            self._check_length()
            while data and self.error is None:
                data = data[self._put(data) :]
        except OSError as error:
            self.error = f"output is kept only up to byte {self.size}: {error.strerror}"
        self._growth.unpark_all()

    def _put(self, data: memoryview) -> int:
        if self._middle is not None:
            data = data[: max(0, self._middle.room(self.size))]
            if not data:
                self.error = self._middle.lost(self.size)
                return 0
        written = os.write(self._fd, data)
        self.size += written
        if self._middle is not None and self._middle.is_due(self.size):
            self._middle.drop(self.size)
        return written

    async def wait_beyond(self, size: int) -> None:
        """Wait until there are more than ``size`` bytes, or there will be no more."""
        await trio.lowlevel.checkpoint()
        while self.size <= size and not self.final:
            await self._growth.park()

    def finish(self) -> None:
        """Nothing more will be added."""
        if self.final:
            return
        self.final = True
        if self._middle is not None:
            self._middle.drop(self.size)
        if self._in_place():
            os.close(self._fd)
            trouble = self.capture.finish(self.size, None)
        else:
            trouble = self.capture.finish(self.size, self._fd)
        self.error = self.error or trouble
        self._growth.unpark_all()

    def discard(self) -> None:
        """The command was never started: leave nothing."""
        self.final = True
        os.close(self._fd)
        self.capture.remove()

    def _check_length(self) -> None:
        """Notice a file that somebody else has cut: a write at our offset would fill it with zeros.

        Raises:
            OSError: It is not as long as we made it.
        """
        if os.fstat(self._fd).st_size < self.size:
            raise OSError(errno.EIO, "the capture file was cut short")

    def _reopen(self) -> int | None:
        try:
            return os.dup(self._fd)
        except OSError:
            return None

    def _in_place(self) -> bool:
        try:
            there = os.stat(self.capture.path, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(there, os.fstat(self._fd))
