"""To know that a child has ended, without reaping it.

As long as a child is unreaped, its number cannot be given to another process: a signal to it, or
to the group and session that bear its number, cannot hit a stranger. So looking and reaping are
two steps here, and everything that signals comes in between.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
from typing import Self

import attrs
import trio

from ..._records import Usage
from .pidfd import exit_status

if sys.platform != "linux":
    from . import kqueue

_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


@attrs.define(eq=False)
class ExitWatch:
    """The end of one child of ours.

    Attributes:
        pid: Its process id.
        returncode: How it ended, as in `subprocess`; None until it is reaped, and for ever if
            its status was lost.
        usage: What it consumed, once it is reaped.
        reaped: It was reaped by us, or somebody else did it.
    """

    pid: int
    _pidfd: int | None
    returncode: int | None = None
    usage: Usage | None = None
    reaped: bool = False
    _end: trio.Event = attrs.field(factory=trio.Event)

    @classmethod
    def of(cls, pid: int) -> Self:
        """Watch a child that was just started and is not reaped."""
        pidfd = None
        if hasattr(os, "pidfd_open"):
            # Without it (an old kernel, no descriptors left) a thread waits.
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(pid)
        return cls(pid, pidfd)

    @property
    def ended(self) -> bool:
        """Whether it has ended by now; looks, and does not reap."""
        return self.reaped or _look(self.pid) is not False

    @property
    def pinned(self) -> bool:
        """Whether its number is still its own: running, or ended and unreaped."""
        return not self.reaped and _look(self.pid) is not None

    async def wait(self) -> None:
        """Wait until `run` has seen the end."""
        await self._end.wait()

    async def run(self) -> None:
        """Watch until it has ended. One task; cancellation: run it again."""
        await trio.lowlevel.checkpoint()
        while not self.ended:
            if self._pidfd is not None:
                await trio.lowlevel.wait_readable(self._pidfd)
            elif sys.platform == "linux":
                await _wait_in_thread(self.pid)
            else:
                await kqueue.wait_exit(self.pid)
            if not self.ended:
                # Somebody traces it: he is told first, and we can look only when he let go.
                await trio.sleep(0.001)
        self._end.set()

    def reap(self) -> None:
        """Reap it. Only after it has ended; sets `returncode` and `usage`."""
        if self.reaped:
            return
        self.reaped = True
        status = self._reap()
        if status is None:
            # By a stray waitpid(-1), or by the kernel because SIGCHLD is ignored.
            status = exit_status(self._pidfd)
        if status is not None:
            self.returncode = os.waitstatus_to_exitcode(status)

    def _reap(self) -> int | None:
        """The wait status, or None if somebody else reaped it."""
        try:
            # It does not block: it has ended. (On macOS for a moment: kqueue is early.)
            _, status, used = os.wait4(self.pid, 0)
        except ChildProcessError:
            return None
        self.usage = Usage(used.ru_utime, used.ru_stime, used.ru_maxrss * _RSS_UNIT)
        return status

    def close(self) -> None:
        """Free the descriptor."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def _look(pid: int) -> bool | None:
    """Whether a child has ended; None when there is no such child (any more)."""
    if sys.platform == "darwin" and not hasattr(os, "waitid"):
        # Python has it on macOS since 3.13. Until then a lost status shows when it is reaped.
        return kqueue.has_exited(pid)
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return None


async def _wait_in_thread(pid: int) -> None:
    def wait() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    # A limiter of its own: waiting for long commands must not use up the host's threads. An
    # abandoned thread ends with the child.
    await trio.to_thread.run_sync(
        wait, abandon_on_cancel=True, limiter=trio.CapacityLimiter(math.inf)
    )
