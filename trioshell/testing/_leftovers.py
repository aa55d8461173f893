"""What a piece of code leaves behind: processes, descriptors, threads and trio tasks (C10).

*   **Processes** are ours if they descend from us, or if they carry a mark: a variable that is in
    the environment while the code runs, so that a process which left its session and its parents
    is found by what it inherited. Only one that is neither, wiped its environment *and* lost all
    its parents, is not seen. A zombie counts if we are its parent: nobody else can reap it.
*   **Descriptors** are compared by what they refer to, not by number: numbers are reused, so code
    that leaves one and closes an older one would look clean.
*   **Threads**: trio keeps idle worker threads for some seconds. They are recognised by the name
    they have only while idle.
*   **Tasks**: `trio.run` ends all its tasks before it returns. What is left belongs to a run that
    goes on, or to an abandoned guest run.

Processes and descriptors are seen through ``/proc``, so elsewhere only threads and tasks are.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final, Self

import attrs
import trio

MARK: Final = "TRIOSHELL_LEFTOVERS"

_HAS_PROC: Final = sys.platform == "linux"
_POLL: Final = 0.01  # seconds
_IDLE_TRIO_WORKER: Final = re.compile(r"Trio thread \d+")


@contextlib.contextmanager
def assert_nothing_left(*, settle: float = 2.0) -> Generator[None]:
    """Check that a block leaves nothing: ``with assert_nothing_left(): trio.run(main)``.

    What was there before the block may stay. It goes around a run of trio, not inside: it waits
    without giving way to other tasks. Processes that are left are named, and ended, so that
    nobody has to live with them. Blocks may be nested.

    Args:
        settle: Seconds to wait for what is on its way out, a killed process for example. Nothing
            is reaped here: that is for the block.

    Raises:
        AssertionError: Something is left; the message names all of it. Not raised over an
            exception of the block, which gets a note instead.
    """
    with _marked() as mark:
        before = Snapshot.take(mark)
        try:
            yield
        except BaseException as error:
            if left := _left(before, mark, settle):
                error.add_note(left)
            raise
    if left := _left(before, mark, settle):
        raise AssertionError(left)


@contextlib.contextmanager
def _marked() -> Generator[str]:
    # The mark of a block inside another extends the outer one, so that the outer finds both.
    outer = os.environ.get(MARK)
    mark = f"{outer}:{uuid.uuid4()}" if outer else str(uuid.uuid4())
    os.environ[MARK] = mark
    try:
        yield mark
    finally:
        os.environ.pop(MARK, None)
        if outer:
            os.environ[MARK] = outer


def _left(before: Snapshot, mark: str, settle: float) -> str:
    """What is left for good, in words; it is ended where that is possible."""
    deadline = time.monotonic() + settle
    while (after := Snapshot.take(mark)).since(before) and time.monotonic() < deadline:
        gc.collect()  # what only a reference cycle holds is not left; it has its own warning
        time.sleep(_POLL)
    found = after.since(before)
    for process in after.processes - before.processes:
        process.end()
    return "this was left behind:\n  " + "\n  ".join(found) if found else ""


@attrs.frozen
class RealProcess:
    """A process as ``/proc`` shows it. The number may be reused; number and start are not."""

    pid: int
    start: int  # clock ticks after boot
    parent: int = attrs.field(eq=False)
    state: str = attrs.field(eq=False)
    name: str = attrs.field(eq=False)

    @classmethod
    def read(cls, pid: int) -> Self | None:
        """The process, or None if there is none."""
        data = _read(f"/proc/{pid}/stat")
        if data is None:
            return None
        # The name stands in parentheses and may hold anything, parentheses and spaces too.
        head, _, tail = data.decode(errors="replace").rpartition(")")
        fields = tail.split()
        return cls(pid, int(fields[19]), int(fields[1]), fields[0], head.partition("(")[2])

    @property
    def is_zombie(self) -> bool:
        return self.state in "ZX"

    def carries(self, mark: str) -> bool:
        """Whether it inherited this mark, or that of a block inside that block."""
        variables = (_read(f"/proc/{self.pid}/environ") or b"").split(b"\0")
        return any(variable.startswith(f"{MARK}={mark}".encode()) for variable in variables)

    def end(self) -> None:
        """SIGKILL it: by a pidfd, so that the signal cannot reach a successor of its number."""
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(self.pid)
            try:
                if RealProcess.read(self.pid) == self:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)

    def __str__(self) -> str:
        arguments = (_read(f"/proc/{self.pid}/cmdline") or b"").rstrip(b"\0").split(b"\0")
        command = b" ".join(arguments).decode(errors="replace") or f"[{self.name}]"
        what = "zombie" if self.is_zombie else "process"
        return f"{what} {self.pid} (child of {self.parent}): {command}"


@attrs.frozen
class Snapshot:
    """What there is of ours at one moment."""

    processes: frozenset[RealProcess]
    descriptors: dict[int, str]
    threads: frozenset[threading.Thread]
    tasks: frozenset[trio.lowlevel.Task]

    @classmethod
    def take(cls, mark: str) -> Self:
        """Look at everything now; processes with ``mark`` count as ours, too."""
        return cls(_processes(mark), _descriptors(), _threads(), _tasks())

    def since(self, before: Self) -> list[str]:
        """Name everything that was not there before."""
        return [
            *map(str, sorted(self.processes - before.processes, key=lambda process: process.pid)),
            *(f"descriptor {fd}: {at}" for fd, at in self._new_descriptors(before)),
            *(f"thread {thread.name!r}" for thread in self.threads - before.threads),
            *(f"trio task {task.name!r}" for task in self.tasks - before.tasks),
        ]

    def _new_descriptors(self, before: Self) -> Iterator[tuple[int, str]]:
        """As many as there are more of each file, those with new numbers first."""
        more = Counter(self.descriptors.values()) - Counter(before.descriptors.values())
        there = before.descriptors.items()
        for fd, at in sorted(self.descriptors.items(), key=lambda item: item in there):
            if more[at] > 0:
                more[at] -= 1
                yield fd, at


def _processes(mark: str) -> frozenset[RealProcess]:
    if not _HAS_PROC:
        return frozenset()
    everything = [RealProcess.read(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    table = {process.pid: process for process in everything if process is not None}
    me = os.getpid()
    return frozenset(
        process
        for process in table.values()
        if (process.parent == me or not process.is_zombie)
        and (_descends(process, me, table) or process.carries(mark))
    )


def _descends(process: RealProcess, ancestor: int, table: dict[int, RealProcess]) -> bool:
    # The table is not read in one instant, so reused numbers could make a circle: bounded.
    for _ in range(len(table)):
        if process.parent == ancestor:
            return True
        parent = table.get(process.parent)
        if parent is None:
            return False
        process = parent
    return False


def _descriptors() -> dict[int, str]:
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd") if _HAS_PROC else ():
        # The descriptor that listdir itself used is gone by now.
        with contextlib.suppress(FileNotFoundError):
            # A file that is unlinked while open stays the same file.
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}").removesuffix(" (deleted)")
    return found


def _threads() -> frozenset[threading.Thread]:
    alive = threading.enumerate()
    return frozenset(thread for thread in alive if not _IDLE_TRIO_WORKER.fullmatch(thread.name))


def _tasks() -> frozenset[trio.lowlevel.Task]:
    # An object refers to its class; asking for that is far faster than a look at every object.
    return frozenset(
        task
        for task in gc.get_referrers(trio.lowlevel.Task)
        if isinstance(task, trio.lowlevel.Task) and _is_alive(task)
    )


def _is_alive(task: trio.lowlevel.Task) -> bool:
    nursery = task.parent_nursery
    if nursery is None:  # the first task of a run
        return bool(task.child_nurseries)
    return task in nursery.child_tasks


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
