"""Being woken in a poll loop when a child has died."""

from __future__ import annotations

import os
import signal

from . import kernel


class Waker:
    """A descriptor that is readable while SIGCHLD is pending.

    The signal is blocked and read from a signalfd, so no handler ever runs, and no call is ever
    interrupted by one. A forked process can use the same descriptor: it shows each process its
    own signals.
    """

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD})
        self.fd = kernel.signal_descriptor(signal.SIGCHLD)

    def clear(self) -> None:
        """Before looking for dead children, not after."""
        try:
            os.read(self.fd, kernel.SIGNAL_SIZE)
        except BlockingIOError:
            pass
