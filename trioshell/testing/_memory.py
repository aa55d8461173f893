"""Where a fake process writes to and reads from: memory, nothing the kernel knows of."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from .._exceptions import OutputLostError
from ..launchers import Capture

# What a pipe holds on Linux: a writer who is further ahead of the reader waits.
PIPE = 65536


@attrs.define(eq=False)
class MemoryCapture(Capture):
    """Output in memory. With a limit the head and the tail stay, the middle is a gap.

    Attributes:
        limit: Most bytes to keep, or None.
        capacity: Most bytes to store, or None: the disk is full from there on.
        error: Why bytes are missing at the end, or None.
        removed: It was deleted.
    """

    limit: int | None = None
    capacity: int | None = None
    error: str | None = None
    removed: bool = False
    _data: bytearray = attrs.field(factory=bytearray)
    _holders: int = 0

    def write(self, data: bytes) -> None:
        """Add what the command has written."""
        room = len(data) if self.capacity is None else self.capacity - len(self._data)
        if len(data) > room:
            self.error = "output was lost from here on: the disk is full"
        self._data += data[:room]

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, start: int, limit: int) -> bytes:
        if self.removed and not self._holders:
            raise OutputLostError("the output was removed")
        first, last = self._dropped()
        if first <= start < last:
            return b""
        end = start + limit
        return bytes(self._data[start : min(end, first) if start < first else end])

    def gap(self, start: int) -> int:
        first, last = self._dropped()
        return last - start if first <= start < last else 0

    def remove(self) -> None:
        self.removed = True

    def hold(self) -> None:
        self._holders += 1

    def let_go(self) -> None:
        self._holders -= 1

    def _dropped(self) -> tuple[int, int]:
        """The range that the limit has dropped; an empty one at the end if it has not."""
        if self.limit is None or len(self._data) <= self.limit:
            return len(self._data), len(self._data)
        head = self.limit // 2
        return head, len(self._data) - (self.limit - head)


@attrs.define(eq=False)
class FakeStdin(trio.abc.SendStream):
    """Standard input of a fake process: a pipe in memory.

    Attributes:
        arrived: Called when there is something to read, or the end of it.
        received: Everything that was sent.
        closed: The sender has ended it.
        broken: Nobody will read it any more.
    """

    arrived: Callable[[], object]
    received: bytearray = attrs.field(factory=bytearray)
    closed: bool = False
    broken: bool = False
    _read: int = 0
    _sending: bool = False
    _changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def feed(self, data: bytes) -> None:
        """Send everything and end it: what ``stdin=bytes`` does."""
        self.received += data
        self._close()

    def read(self) -> bytes:
        """What was sent since the last time, for the process."""
        data = bytes(self.received[self._read :])
        self._read = len(self.received)
        self._changed.unpark_all()
        return data

    def hang_up(self) -> None:
        """The process has ended or closed it."""
        self.broken = True
        self._changed.unpark_all()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._sending:
            raise trio.BusyResourceError("another task is sending to this standard input")
        self._sending = True
        try:
            await trio.lowlevel.checkpoint()
            rest = bytes(data)
            self._check()
            while rest:
                await self._wait_for_room()
                room = PIPE - self._waiting
                self.received += rest[:room]
                rest = rest[room:]
                self.arrived()
        finally:
            self._sending = False

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        await self._wait_for_room()

    async def aclose(self) -> None:
        self._close()
        await trio.lowlevel.checkpoint()

    def _close(self) -> None:
        if not self.closed:
            self.closed = True
            self._changed.unpark_all()
            self.arrived()

    @property
    def _waiting(self) -> int:
        return len(self.received) - self._read

    async def _wait_for_room(self) -> None:
        self._check()
        while self._waiting >= PIPE:
            await self._changed.park()
            self._check()

    def _check(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this standard input was closed")
        if self.broken:
            raise trio.BrokenResourceError("nobody reads this standard input")
