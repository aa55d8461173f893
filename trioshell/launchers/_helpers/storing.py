"""Where output goes: a capture file, whole or with its middle dropped, or nowhere.

A store takes bytes out of a descriptor, at most so many at a time. It never raises for the disk's
sake: a full disk, a file size limit or a broken disk become a sentence in ``error``, and from then
on output is taken and thrown away, so that the command goes on (C13).
"""

from __future__ import annotations

import errno
import os

from . import kernel

# No call takes more, so that a flood never keeps a supervisor from its other work.
LARGEST_STEP = 1 << 20
_COPY = 1 << 16
_SPLICE = 0x01 | 0x02  # SPLICE_F_MOVE, SPLICE_F_NONBLOCK
_BLOCK = 4096
_LOST = "output was lost from here on"


class Store:
    """Output that is kept whole.

    Attributes:
        size: How many bytes the command has written.
        error: Why output is missing, or None.
    """

    def __init__(self, file: int, null: int) -> None:
        self.size = 0
        self.error: str | None = None
        self._file = file
        self._null = null
        self._storing = True
        self._can_splice = True

    def take(self, source: int, count: int) -> int:
        """Move up to ``count`` bytes that are there.

        Returns:
            How many; 0 at the end.

        Raises:
            BlockingIOError: Nothing is there.
            OSError: EIO: ``source`` is a terminal whose other side is closed.
        """
        if self.size and self._storing and os.fstat(self._file).st_size < self.size:
            # A write at our offset would fill with zeros what somebody else has cut.
            self.stop(f"{_LOST}: the capture file was cut short")
        if not self._storing:
            return self._discard(source, count)
        moved = self._move(source, count)
        if self._storing:
            self.size += moved
        return moved

    def stop(self, error: str | None = None) -> None:
        """Whatever comes from now on is thrown away."""
        self._storing = False
        self.error = self.error or error

    def trim(self) -> None:
        """Drop what is too much of it."""

    def _move(self, source: int, count: int) -> int:
        if not self._can_splice:
            return self._copy(source, count)
        try:
            return os.splice(source, self._file, count, flags=_SPLICE)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno != errno.EINVAL:
                return self._give_up(error, source, count)
        # A terminal, or a file system without splice.
        self._can_splice = False
        # Only our end: the two ends of a pipe have flags of their own, and a command whose
        # output does not block would lose some (C15).
        os.set_blocking(source, False)
        return self._copy(source, count)

    def _copy(self, source: int, count: int) -> int:
        data = os.read(source, min(count, _COPY))
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._file, view) :]
            except OSError as error:
                self.size += len(data) - len(view)
                self.stop(_words(error))
                break
        return len(data)

    def _give_up(self, error: OSError, source: int, count: int) -> int:
        self.stop(_words(error))
        return self._discard(source, count)

    def _discard(self, source: int, count: int) -> int:
        if self._can_splice:
            return os.splice(source, self._null, count, flags=_SPLICE)
        return len(os.read(source, min(count, _COPY)))


class LimitedStore(Store):
    """Output of which only the head and the tail stay on the disk.

    The file keeps its length and so every byte its offset; the blocks between head and tail are
    given back. Only whole blocks are: a part of a block would turn into zeros that look like
    output. So slightly more than the limit stays, and on the way up to 64 KiB more (1 MiB with
    large limits or blocks): giving back little by little costs time.
    """

    def __init__(self, file: int, null: int, limit: int) -> None:
        super().__init__(file, null)
        self._limit = limit
        self._block = min(max(_BLOCK, os.fstat(file).st_blksize), _COPY)
        slack = min(max(1 << 16, limit // 16, 8 * self._block), 1 << 20)
        # Whole blocks alone are given back, at both ends of the hole, and the last one is begun.
        self._most = limit + slack - 3 * self._block
        self._hole_start = self._hole_end = _round_up(limit // 2, self._block)

    def take(self, source: int, count: int) -> int:
        if not self._storing:
            return super().take(source, count)
        moved = super().take(source, min(count, self._room))
        if self._room < (self._most - self._limit) // 4:
            self.trim()
        return moved

    @property
    def _room(self) -> int:
        """Bytes that may be stored before the next trim."""
        return self._most - self.size + self._hole_end - self._hole_start

    def trim(self) -> None:
        end = (self.size - self._limit + self._limit // 2) // self._block * self._block
        if self.size <= self._limit or end <= self._hole_end:
            return
        try:
            kernel.punch_hole(self._file, self._hole_end, end - self._hole_end)
        except OSError as error:
            # Stop at what there is: the bound on the disk is the promise that is kept.
            self.stop(
                f"the file system cannot drop the middle of a file ({error.strerror}), "
                f"so only the first {self.size} bytes were kept"
            )
        else:
            self._hole_end = end


def _round_up(size: int, block: int) -> int:
    return -(-size // block) * block


def _words(error: OSError) -> str:
    return f"{_LOST}: {error.strerror}"
