"""What the kernel tells of processes, and who is a child of whom."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = 4096
_EXITING = 0x4  # PF_EXITING
_SIGKILL = 1 << (signal.SIGKILL - 1)


class Process:
    """A process as it was seen at one moment.

    Its identity is ``(pid, start)``: the number alone may be given to somebody else, but not
    within the clock tick in which the first owner started.

    Attributes:
        dead: It is a zombie, or less.
        dying: It was killed, or exits, and only waits for a processor to do that on. Not so a
            process that may not be killed, nor one that the kernel does not let go.
    """

    __slots__ = ("dead", "dying", "group", "name", "parent", "pid", "session", "start", "threads")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name stands in parentheses and may contain any byte, also parentheses.
        left, right = stat.index(b"("), stat.rindex(b")")
        fields = stat[right + 2 :].split()
        self.pid = pid
        self.name = os.fsdecode(stat[left + 1 : right])
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])  # in clock ticks since boot
        self.threads = int(fields[17])
        # A first thread that has ended looks like a zombie while other threads live on.
        self.dead = fields[0] in (b"Z", b"X") and self.threads <= 1
        ending = int(fields[6]) & _EXITING or int(fields[28]) & _SIGKILL
        self.dying = fields[0] == b"R" and bool(ending)

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.start


def look(pid: int) -> Process | None:
    """The process with this number now, or None."""
    stat = _read(f"/proc/{pid}/stat")
    return Process(pid, stat) if stat else None


def everybody() -> Iterator[Process]:
    """Every process that can be seen."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := look(int(name))) is not None:
            yield process


def dies_of(pid: int, number: int) -> bool:
    """Whether this signal can only end the process: it is not caught, ignored or blocked.

    A zombie keeps what it had at its end. False if nothing is known.
    """
    masks = _masks(pid, b"SigBlk:", b"SigIgn:", b"SigCgt:")
    return bool(masks) and not any(mask >> (number - 1) & 1 for mask in masks)


def blocks_signals(thread: int) -> bool:
    """Whether a thread blocks any signal. False if nothing is known."""
    return any(_masks(thread, b"SigBlk:"))


def _masks(pid: int, *names: bytes) -> list[int]:
    lines = _read(f"/proc/{pid}/status").splitlines()
    return [int(line.split()[1], 16) for line in lines if line.startswith(names)]


def environment(pid: int) -> bytes:
    """The environment a process was started with, ``NAME=value`` ended by NULs each."""
    return _read(f"/proc/{pid}/environ", whole=True)


def descendants(root: int, skip: frozenset[int] = frozenset()) -> Iterator[Process]:
    """Everything below a process that cannot go away by itself: ourselves, or a pinned child.

    Only what is certain to descend from it is given. A number read from a list of children may be
    somebody else's a moment later, and so may the number of the parent whose list was read:
    therefore the child must name the parent, and the parent must still be the one it was *after*
    that. What is missed in this way is found by the next look.

    A process is given before its own children are looked for: if it is stopped at once, it has
    no more of them then.

    Args:
        root: The process to start from; not given itself.
        skip: Children that are left out together with all below them.
    """
    process = look(root)
    parents = [] if process is None else [process]
    for parent in parents:
        below = [look(pid) for pid in _children(parent) if pid not in skip]
        family = [child for child in below if child is not None and child.parent == parent.pid]
        if family and _is_still(parent):
            yield from family
            parents += family


def _is_still(process: Process) -> bool:
    now = look(process.pid)
    return now is not None and now.start == process.start


def _children(process: Process) -> list[int]:
    """The children of a process: of all its threads, each of which has its own list."""
    if not _HAS_CHILDREN_FILES:
        return [each.pid for each in everybody() if each.parent == process.pid]
    tasks = f"/proc/{process.pid}/task"
    threads = [str(process.pid)] if process.threads == 1 else _list(tasks)
    numbers = b"".join(_read(f"{tasks}/{thread}/children", whole=True) for thread in threads)
    return [int(number) for number in numbers.split()]


class OwnChildren:
    """The list of this process's children, kept open: asked at the end of every shell."""

    def __init__(self) -> None:
        self._fd = -1
        if _HAS_CHILDREN_FILES:
            self._fd = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)

    def get(self) -> list[int]:
        if self._fd == -1:
            return [each.pid for each in everybody() if each.parent == os.getpid()]
        return [int(number) for number in _read_on(self._fd).split()]

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)


# A kernel built without CONFIG_PROC_CHILDREN lacks them; then all of /proc is looked through.
_HAS_CHILDREN_FILES = os.path.exists("/proc/thread-self/children")


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str, *, whole: bool = False) -> bytes:
    """A file of /proc; empty if the process is gone or not ours to look at."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _read_on(fd) if whole else os.read(fd, _PAGE)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _read_on(fd: int) -> bytes:
    # The kernel makes such a file page by page, so half a page is all of it.
    data = os.pread(fd, _PAGE, 0)
    more = len(data) > _PAGE // 2
    while more:
        part = os.pread(fd, _PAGE, len(data))
        data += part
        more = bool(part)
    return data
