"""Moving the output of a command from its pipe or terminal into the store.

What a command wrote before it ended is in the pipe when its end is seen, and a pipe is first in,
first out. So one bounded look after the end gets all of it, however much a background process
goes on writing (C4). A terminal does not count what is still on its way through the line
discipline; there it is read until nothing comes, or 64 KiB came: it never holds more.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import termios

import attrs
import trio

from .store import Store

BUFFER = 256 * 1024  # fits into the cache of a core: larger ones are slower
_PIPE = 64 * 1024
_LARGE_PIPE = 1024 * 1024


@attrs.define(eq=False)
class Pump:
    """Our end of a command's output, and the way into its store.

    Attributes:
        fd: The descriptor; closed by `close`.
        ended: Nobody holds the other end, and everything was read. For a terminal that may be
            only so for now: its session can open it again.
    """

    fd: int
    _terminal: bool
    _store: Store
    _buffer: memoryview
    ended: bool = False
    _grown: bool = False
    _end: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        """Pump until the end of the output. Cancellation: run it again, no byte is lost."""
        await trio.lowlevel.checkpoint()
        while self._terminal or not self.ended:
            await trio.lowlevel.wait_readable(self.fd)
            # One buffer a turn: a noisy command leaves the loop to the others in between.
            moved = self._move(BUFFER)
            if moved >= _PIPE:
                self._grow()
            elif moved:
                # A program that writes line by line would wake us for each. In a millisecond it
                # cannot fill the pipe, so waiting costs it nothing, and us a third of the CPU.
                await trio.sleep(0.001)
            elif self._terminal:
                # Readable, with nothing there: nobody has it open, and we would be woken at once.
                await trio.sleep(0.02)

    def drain(self) -> None:
        """Take everything that was written before now; bounded, so it does not wait."""
        left = _PIPE if self._terminal else self._pending()
        while left > 0 and (moved := self._move(left)):
            left -= moved
        if not self.ended:
            self._move(_PIPE)  # finds the end, if this is the end

    async def wait_end(self) -> None:
        """Wait until `run` has come to the end of the output."""
        await self._end.wait()

    def close(self) -> None:
        """Let go of our end: who still writes gets SIGPIPE, a terminal's session is hung up."""
        os.close(self.fd)

    def _move(self, limit: int) -> int:
        moved = self._read(limit)
        if moved:
            self._store.write(self._buffer[:moved])
        return moved

    def _read(self, limit: int) -> int:
        try:
            moved = os.readv(self.fd, [self._buffer[:limit]])
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:  # how Linux says that nobody has the terminal open
                raise
            moved = 0
        self.ended = not moved
        if self.ended:
            self._end.set()
        return moved

    def _pending(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, count)
        return count[0]

    def _grow(self) -> None:
        if self._grown or self._terminal or not hasattr(fcntl, "F_SETPIPE_SZ"):
            return
        self._grown = True
        # EPERM: the user has as many large pipes as he may have.
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
