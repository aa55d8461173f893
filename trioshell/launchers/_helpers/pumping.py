"""Moves output from a pipe or a terminal into its store, in steps that never wait."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import termios
import time

from .storing import LARGEST_STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .storing import Store

_DEFAULT_PIPE = 1 << 16
_LARGE_PIPE = 1 << 20
_TERMINAL_DRAIN = 1 << 16

# After a small read: many small writes are taken together, at no cost in speed or in latency
# that anybody sees. Longer, and the pipe fills and stops the writer.
_SMALL = 1 << 12
_SHORT_PAUSE = 0.001

# A terminal that nobody has open reads as EIO, but its session may open it again.
_TERMINAL_PAUSE = 0.05


class Pump:
    """The output of one shell.

    Attributes:
        fd: The read end; not ours to close before `close`.
        ended: Nothing can come any more: every writer has closed it.
        paused_until: When to look again, or 0.
    """

    def __init__(self, fd: int, output: int, store: Store, *, terminal: bool) -> None:
        """Take over what `starting.start` returned."""
        self.fd = fd
        # Open until the leader has ended: or else its end would wake us twice, first to find that
        # no writer is left, and then that it is dead.
        self._output = output
        self.store = store
        self.ended = False
        self.paused_until = 0.0
        self._terminal = terminal
        self._grown = terminal
        self._nobody = False

    def step(self) -> None:
        """Take what is there, at most one large read of it."""
        self.paused_until = 0.0
        moved = self._take(LARGEST_STEP)
        if not self._grown and moved >= _DEFAULT_PIPE:
            self._grow()
        if 0 < moved < _SMALL and not self._terminal:
            self.paused_until = time.monotonic() + _SHORT_PAUSE

    def drain(self) -> None:
        """Take everything that was written before this call, however fast others write on.

        The bytes of a finished write lie in the pipe, in order, and FIONREAD counts them all. A
        terminal has bytes that FIONREAD does not count, but never more than a bound.
        """
        self._let_go()
        left = _TERMINAL_DRAIN if self._terminal else _waiting(self.fd)
        while left > 0 and not self.ended:
            moved = self._take(left)
            if moved == 0:
                break
            left -= moved

    def finish(self) -> None:
        """Nobody is left to write: take the rest and see the end.

        If there is no end then, somebody outside of the tree was handed our pipe.
        """
        self._let_go()
        if self._take(LARGEST_STEP) > 0:
            self.drain()
            self._take(1)
        self.ended = self._nobody

    def close(self) -> None:
        self._let_go()
        os.close(self.fd)

    def _let_go(self) -> None:
        if self._output != -1:
            os.close(self._output)
            self._output = -1

    def _take(self, count: int) -> int:
        try:
            moved = self.store.take(self.fd, count)
        except BlockingIOError:
            self._nobody = False
            return 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            self._nobody = True
            self.paused_until = time.monotonic() + _TERMINAL_PAUSE
            return 0
        self._nobody = self.ended = moved == 0
        return moved

    def _grow(self) -> None:
        # Only for who needs it: a user without privileges may have 64 pipes of this size.
        self._grown = True
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _LARGE_PIPE)
        except OSError:
            pass


def _waiting(fd: int) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, number)
    return number[0]
