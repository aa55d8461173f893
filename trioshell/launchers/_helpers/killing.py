"""Signals to processes that are certain to be ours, and the end of a whole tree."""

from __future__ import annotations

import os
import signal
import time

from . import procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Find = Callable[[], Iterable[procfs.Process]]

_CLEAN_PASSES = 2


def send(process: procfs.Process, *numbers: int) -> bool:
    """Signal a process that was seen before, if it still is the same one.

    The pidfd is opened first and the identity compared after that: if the number had been given
    to somebody else in between, the pidfd is somebody else's and the start time shows it.

    Returns:
        False if it may not be signalled: another user's process.
    """
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return True  # gone
    try:
        now = procfs.look(process.pid)
        if now is not None and now.start == process.start:
            for number in numbers:
                signal.pidfd_send_signal(fd, number)
        return True
    except PermissionError:
        return False
    except OSError:
        return True
    finally:
        os.close(fd)


def stop_and_kill(find: Find, until: float) -> None:
    """Stop everything that `find` finds, until it finds nothing new, and kill it then.

    Killing one by one is outrun by processes that fork and exit without pause. A stopped process
    cannot fork, so the set stops growing. Two looks must find nothing new, because a process that
    was just sent the stop may still finish a fork, and because a list of children that is read
    while it changes can lack an entry.

    Args:
        find: Looks at all of it. What it gives is stopped before it looks further.
        until: A moment of `time.monotonic` at which to kill what is known by then.
    """
    seen: dict[tuple[int, int], procfs.Process] = {}
    clean = 0
    while clean < _CLEAN_PASSES:
        clean += 1
        for process in find():
            if process.identity not in seen:
                seen[process.identity] = process
                send(process, signal.SIGSTOP)
                clean = 0
        if time.monotonic() > until:
            break
    for process in seen.values():
        send(process, signal.SIGKILL)
