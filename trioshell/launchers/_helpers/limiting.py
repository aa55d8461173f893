"""What an output limit leaves of a capture file: the head and the tail."""

from __future__ import annotations

import os

from . import punching

_BLOCK = 4096
_LARGEST_BLOCK = _SLACK = 1 << 16
_LARGEST_SLACK = 1 << 20


class Middle:
    """The part of the output that is dropped.

    The file keeps its length and so every byte its offset; the blocks between head and tail are
    given back. Only whole blocks are: a part of a block would turn into zeros that look like
    output. So slightly more than the limit stays, and on the way up to 64 KiB more (1 MiB with
    large limits or blocks): giving back little by little costs time.
    """

    def __init__(self, file: int, limit: int) -> None:
        self._file = file
        self._limit = limit
        self._block = min(max(_BLOCK, os.fstat(file).st_blksize), _LARGEST_BLOCK)
        slack = min(max(_SLACK, limit // 16, 8 * self._block), _LARGEST_SLACK)
        # Whole blocks alone are given back, at both ends of the hole, and the last one is begun.
        self._most = limit + slack - 3 * self._block
        self._start = self._end = _round_up(limit // 2, self._block)
        self._trouble: str | None = None

    def room(self, size: int) -> int:
        """Bytes that may be written to a file of this size before something has to be dropped."""
        return self._most - size + self._end - self._start

    def is_due(self, size: int) -> bool:
        """Whether it is time to drop something: there is not much room."""
        return self.room(size) < (self._most - self._limit) // 4

    def drop(self, size: int) -> None:
        """Drop what is too much in a file of this size, if that is possible."""
        end = (size - self._limit + self._limit // 2) // self._block * self._block
        if size <= self._limit or end <= self._end:
            return
        try:
            punching.punch_hole(self._file, self._end, end - self._end)
        except OSError as error:
            self._trouble = error.strerror
        else:
            self._end = end

    def lost(self, size: int) -> str:
        """What to say when there is no room: nothing could be dropped.

        The bound on the disk is the promise that is kept, so nothing more may be written.
        """
        return (
            f"the file system cannot drop the middle of a file ({self._trouble}), "
            f"so only the first {size} bytes were kept"
        )


def reached(limit: int) -> str:
    """Why a command was killed at its limit, in words."""
    return f"output limit of {limit} bytes reached"


def _round_up(size: int, block: int) -> int:
    return -(-size // block) * block
