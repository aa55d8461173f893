"""Who a process is, in words that can be written down and read in another life.

A number names nobody: the kernel gives it to somebody else, within a second if it has to. Boot
id, pid namespace, pid and start time together name one process for ever. To act on it, a pidfd is
opened *first* and the start time compared *after* that: the pidfd then belongs to the process
that was meant, or it is closed.
"""

from __future__ import annotations

import functools
import os
from typing import Any, Self

import attrs

from ..launchers._helpers import procfs


@attrs.frozen
class Identity:
    """One process.

    Attributes:
        boot: The kernel's id of this boot of the machine.
        namespace: The pid namespace that the number is of.
        pid: The number.
        start: When it started, in clock ticks after the boot.
        session: The session it was in.
    """

    boot: str
    namespace: int
    pid: int
    start: int
    session: int

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """The process with this number now; None if there is none, or this system cannot tell."""
        process = procfs.look(pid)
        return None if process is None else cls.seen(process)

    @classmethod
    def seen(cls, process: procfs.Process) -> Self | None:
        """A process that was looked at; None if this system cannot tell."""
        here = _here()
        return None if here is None else cls(*here, process.pid, process.start, process.session)

    @property
    def is_here(self) -> bool:
        """Whether numbers mean the same here and now: no reboot, no other container."""
        return (self.boot, self.namespace) == _here()

    @property
    def rebooted(self) -> bool:
        """Whether the machine was restarted since, so that the process is certainly gone."""
        here = _here()
        return here is not None and self.boot != here[0]

    def look(self) -> procfs.Process | None:
        """The process as it is now, perhaps dead but not reaped; None if it is gone."""
        # Records are files: somebody may have put any number there. Nobody owns these.
        if self.pid <= 1 or not self.is_here:
            return None
        process = procfs.look(self.pid)
        return process if process is not None and process.start == self.start else None

    @property
    def alive(self) -> bool:
        process = self.look()
        return process is not None and not process.dead

    def open(self) -> int | None:
        """A pidfd of exactly this process, which the caller closes; None if it is gone."""
        if self.pid <= 1 or not self.is_here:
            return None
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            return None
        if self.look() is not None:
            return fd
        os.close(fd)
        return None

    def as_dict(self) -> dict[str, Any]:
        return attrs.asdict(self)


@functools.cache
def _here() -> tuple[str, int] | None:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip(), os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return None
