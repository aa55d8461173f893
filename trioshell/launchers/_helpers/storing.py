"""Where output goes: a capture file, whole or with its middle dropped, or nowhere.

A store takes bytes out of a descriptor, at most so many at a time. It never raises for the disk's
sake: a full disk, a file size limit or a broken disk become a sentence in ``error``, and from then
on output is taken and thrown away, so that the command goes on (C13).
"""

from __future__ import annotations

import errno
import os

from .limiting import Middle

# No call takes more, so that a flood never keeps a supervisor from its other work.
LARGEST_STEP = 1 << 20
_COPY = 1 << 16
_SPLICE = 0x01 | 0x02  # SPLICE_F_MOVE, SPLICE_F_NONBLOCK
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
    """Output of which only the head and the tail stay on the disk."""

    def __init__(self, file: int, null: int, limit: int) -> None:
        super().__init__(file, null)
        self._middle = Middle(file, limit)

    def take(self, source: int, count: int) -> int:
        if not self._storing:
            return super().take(source, count)
        room = self._middle.room(self.size)
        if room <= 0:
            return self._lose(source, count)
        moved = super().take(source, min(count, room))
        if self._middle.is_due(self.size):
            self.trim()
        return moved

    def trim(self) -> None:
        self._middle.drop(self.size)

    def _lose(self, source: int, count: int) -> int:
        moved = self._discard(source, count)
        if moved:  # or this was the end, and nothing is lost
            self.stop(self._middle.lost(self.size))
        return moved


def _words(error: OSError) -> str:
    return f"{_LOST}: {error.strerror}"
