"""A capture in memory, with a gap if wanted, for tests of what reads captures."""

from __future__ import annotations

from trioshell.launchers import Capture


class Memory(Capture):
    """Bytes, of which ``dropped`` (start, end) are missing."""

    def __init__(self, data: bytes = b"", dropped: tuple[int, int] = (0, 0)) -> None:
        self.data = data
        self.dropped = dropped

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, limit: int) -> bytes:
        first, last = self.dropped
        if first <= start < last:
            return b""
        end = start + limit
        if start < first < last:
            end = min(end, first)
        return self.data[start:end]

    def gap(self, start: int) -> int:
        first, last = self.dropped
        return last - start if first <= start < last else 0

    def remove(self) -> None:
        self.data = b""
