"""Who holds the writing end of a pipe or the other side of a terminal."""

from __future__ import annotations

import os
import sys

from ..._records import Leftover


def holders(fd: int) -> tuple[Leftover, ...]:
    """The processes that can still write to the pipe whose reading end we hold.

    Told only on Linux, of processes that we may look into, and never of ourselves. It looks at
    every descriptor of every process, so it is for the rare case that there is such a holder.
    """
    if sys.platform != "linux":
        return ()
    try:
        pipe = os.readlink(f"/proc/self/fd/{fd}")
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:  # no descriptor is left to look with, or no /proc to look at
        return ()
    return tuple(Leftover(pid, _name(pid)) for pid in pids if _writes(pid, pipe))


def _writes(pid: int, pipe: str) -> bool:
    if pid == os.getpid():
        return False
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            return any(_is_writing_end(entry, pipe) for entry in entries)
    except OSError:  # gone, or none of our business
        return False


def _is_writing_end(entry: os.DirEntry[str], pipe: str) -> bool:
    # The mode of the link says how the descriptor was opened: w for writing.
    return os.readlink(entry) == pipe and bool(entry.stat(follow_symlinks=False).st_mode & 0o200)


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().rstrip(b"\n").decode(errors="replace")
    except OSError:
        return ""
