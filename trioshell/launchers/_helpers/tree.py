"""A leader and everything below it: who is alive, what it consumed, and how it is ended."""

from __future__ import annotations

import os
import signal
import time

from . import killing, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_STOPPING = 0.5
_CORE = 0x80  # in a wait status: a core was dumped

# How a leader ends that `ask` or `kill` ended, unless it caught what it was sent.
_ENDED_BY_US = {-signal.SIGHUP, -signal.SIGTERM, -signal.SIGKILL}


class Tree:
    """All descendants of this process, a child subreaper that has started one leader.

    The leader is left unreaped for as long as its group may have to be signalled: until then
    neither its number nor its group's can be given to anybody else.

    Attributes:
        leader: The leader's pid.
        leader_ended: It has; seen without reaping it.
        empty: Nothing is left: said by the kernel, not concluded.
        status: The leader's raw wait status once it has ended.
    """

    def __init__(self, leader: int, own_children: procfs.OwnChildren) -> None:
        self.leader = leader
        self.leader_ended = False
        self.empty = False
        self.status: int | None = None
        self.deaths = 0
        self.user = 0.0
        self.system = 0.0
        self.max_rss = 0
        self._own_children = own_children
        self._pinned = True
        self._struck = False
        self._polite: int | None = None
        self._certain = True

    @property
    def by_itself(self) -> bool:
        """Whether the leader ended without `ask` or `kill`.

        A signal to a process that is within its exit already has no effect. So a leader that the
        signal could only have killed, and that ended in another way, was faster than it.
        """
        if not self._struck:
            return True
        if self.status is None or not self._certain:
            return False
        return os.waitstatus_to_exitcode(self.status) not in _ENDED_BY_US

    def reap(self) -> None:
        """Collect whoever is dead; the leader only when nobody else is left, or it is released."""
        while not self.empty:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self.empty = True
                return
            if found is None:
                return
            if found.si_pid == self.leader:
                self._note_end(_raw_status(found))
                if self._pinned and _anybody_lives():
                    self._reap_others()
                    return
                self._pinned = False
            self._collect(found.si_pid)

    def release(self) -> None:
        """The group will not be signalled any more, so the leader need not stay unreaped."""
        self._pinned = False

    def signal_group(self, *numbers: int) -> None:
        """Signal the leader's group, where its number is certain to be ours."""
        if not self._pinned:
            return
        for number in numbers:
            try:
                os.killpg(self.leader, number)
            except OSError:
                pass  # nobody in it is alive, or nobody in it is ours to signal

    def ask(self, *numbers: int) -> None:
        """Signal everybody in the leader's group."""
        if not self.leader_ended:
            self._struck = True
            self._polite = numbers[0]
            self._certain = procfs.dies_of(self.leader, numbers[0])
        self.signal_group(*numbers)

    def ask_strays(self, *numbers: int) -> None:
        """Signal everybody who is not in that group.

        After the group, and not at once: an end of the others must not be what ends the leader,
        and mostly there are none when the group has ended.
        """
        for process in self.alive():
            if not (self._pinned and process.group == self.leader):
                killing.send(process, *numbers)

    def kill(self) -> None:
        """Make sure that everybody is dying now. To be repeated until `empty`."""
        self._struck = self._struck or not self.leader_ended
        if self._pinned:
            # A SIGKILL to a group cannot be outrun by forks inside of it. Mostly this is all:
            # the next call, if it comes to that, finds those that had left the group.
            self.signal_group(signal.SIGKILL)
            self.release()
            return
        killing.stop_and_kill(self.alive, time.monotonic() + _STOPPING)

    def alive(self) -> Iterator[procfs.Process]:
        """Everybody who is not dead, as far as one look can tell."""
        return (process for process in procfs.descendants(os.getpid()) if not process.dead)

    def is_dying(self) -> bool:
        """Whether anybody only waits for its turn to die: a machine may be that busy."""
        return any(process.dying for process in self.alive())

    def _note_end(self, status: int) -> None:
        if not self.leader_ended and self._polite is not None:
            self._certain = self._certain and procfs.dies_of(self.leader, self._polite)
        self.leader_ended = True
        self.status = status

    def _reap_others(self) -> None:
        """Collect the dead beside the leader: the kernel shows the first dead child only."""
        for pid in self._own_children.get():
            if pid != self.leader:
                self._collect(pid)

    def _collect(self, pid: int) -> None:
        """Collect a child if it is dead."""
        try:
            dead, _, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            return  # a list that is read page by page may name a child twice
        if dead == 0:
            return
        self.deaths += 1
        self.user += usage.ru_utime
        self.system += usage.ru_stime
        self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)


def _anybody_lives() -> bool:
    """Whether any child is not dead: one call, however many there are.

    Asked for stopped children only, the kernel says ECHILD if none can ever stop again, which is
    when all are zombies. One that merely has no exit status to give, because threads of it live
    or somebody traces it, counts as living.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _raw_status(found: os.waitid_result) -> int:
    """What `wait` will say of a child that is still to be collected."""
    if found.si_code == os.CLD_EXITED:
        return found.si_status << 8
    return found.si_status | (_CORE if found.si_code == os.CLD_DUMPED else 0)
