"""Waking a poll loop when a child has died."""

from __future__ import annotations

import signal
import socket


class Waker:
    """A descriptor that becomes readable when SIGCHLD arrives.

    A socket pair and not a pipe: an unprivileged user has only so many pipe buffers, and the
    shells need them for their output.
    """

    def __init__(self) -> None:
        self._ear, self._mouth = socket.socketpair()
        self._ear.setblocking(False)
        self._mouth.setblocking(False)
        self.fd = self._ear.fileno()
        signal.signal(signal.SIGCHLD, _wake)
        # A full socket is as good as a readable one.
        signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)

    def clear(self) -> None:
        """Before looking for dead children, not after."""
        try:
            self._ear.recv(4096)
        except BlockingIOError:
            pass

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._ear.close()
        self._mouth.close()


def _wake(number: int, frame: object) -> None:
    """Python writes to the wakeup descriptor; this only keeps SIGCHLD from being ignored."""
