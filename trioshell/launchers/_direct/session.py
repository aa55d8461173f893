"""The processes of one session, found and signalled without hitting anybody else.

Every command is started in a session of its own, so the session has the number of the leader.
The kernel gives that number to nobody as long as a process, a group or a session has it. Before
the leader is reaped it is pinned by the leader, and the group may be signalled by number. Later
only a member that is *seen* proves that the number is still ours.

On Linux the members are found in ``/proc``, also those that moved to a process group of their
own (job control, the ``timeout`` utility), and each is signalled through a pidfd. Elsewhere only
the leader's group can be reached. Nowhere can what called ``setsid`` be found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Self

import attrs
import trio

from ..._records import Leftover
from .._refusal import shortage
from .census import Census, born_between, newest_number, session_of
from .exit_watch import ExitWatch

# How long SIGKILL may take to have its effect. A process that is still there then waits for a
# device, or may not be signalled by us.
PATIENCE = 1.0

_SEES = (
    sys.platform == "linux"
    and hasattr(os, "pidfd_open")
    and hasattr(signal, "pidfd_send_signal")
    and os.path.exists("/proc/self/stat")
)
_REFUSALS = (ProcessLookupError, PermissionError)


@attrs.frozen
class Member:
    """A living process of the session."""

    pid: int
    group: int
    name: str

    @classmethod
    def read(cls, pid: int) -> Self | None:
        """The process, or None if it is not alive.

        Raises:
            OSError: It cannot be seen now.
        """
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                data = file.read()
        except OSError as error:
            if shortage(error.errno or 0) is not None:
                raise  # that does not say that there is none
            return None
        # The name stands in parentheses and may hold anything, parentheses and spaces too.
        head, _, tail = data.rpartition(b")")
        state, _, group, *rest = tail.split()
        # A zombie whose threads go on (its main thread left early) is alive.
        if state in b"ZX" and int(rest[14]) <= 1:
            return None
        return cls(pid, int(group), head.partition(b"(")[2].decode(errors="replace"))


@attrs.define(eq=False)
class Session:
    """The session of a leader that we started and reap ourselves."""

    _leader: ExitWatch
    _census: Census
    _seen: list[Member] | None = None
    _outlived: bool = False

    @property
    def tells(self) -> bool:
        """Whether it can be said that nothing of the session is left.

        macOS answers for the leader's group, not counting zombies. Other systems count them, so
        an unreaped leader looks like a member.
        """
        return _SEES or sys.platform == "darwin"

    def leftovers(self) -> tuple[Leftover, ...]:
        """What is alive, the leader included, as it is reported; Linux only."""
        members = self._seen
        if members != []:  # unless the last look found nobody: then there is nobody for good
            members = self._look_at(self._census.now)
        return tuple(Leftover(member.pid, member.name) for member in members or ())

    def outlive(self) -> None:
        """The leader is about to be reaped, and the session to be looked after further."""
        self._outlived = not _SEES and self._leader.pinned

    def signal_group(self, number: int) -> None:
        """Signal the leader's process group, while its number is ours."""
        if self._leader.pinned or self._still_answers():
            with contextlib.suppress(*_REFUSALS):
                os.killpg(self._leader.pid, number)

    def terminate(self) -> bool:
        """Ask every process once to end, and wake the stopped ones so that they can.

        Returns:
            Whether nobody was asked before the leader and its group.
        """
        # Others first: the leader's end may orphan a group, which the kernel then hangs up.
        alone = True
        for member in self._look_at(self._census.recent) or ():
            if member.group != self._leader.pid or not self._leader.pinned:
                self._signal(member, signal.SIGTERM, signal.SIGCONT)
                alone = False
        self.signal_group(signal.SIGTERM)
        self.signal_group(signal.SIGCONT)
        return alone

    async def kill(self) -> None:
        """SIGKILL until nothing is left. Never ends if something cannot be killed."""
        # Once before anything can cancel us: a busy host may come here late, its time used up.
        self.signal_group(signal.SIGKILL)
        while self._populated(members := await self._strike()):
            # Not until all are dead: what is born meanwhile is to be struck, too.
            with trio.move_on_after(0.02):
                await self._wait_change(members)

    async def wait_empty(self) -> None:
        """Wait until nothing of the session is alive. Cancellation: call again."""
        await trio.lowlevel.checkpoint()
        pause = 0.005
        while self._populated(members := await self._look()):
            # For a limited time: a member need not end to be one no longer (setsid).
            with trio.move_on_after(pause):
                await self._wait_change(members)
            pause = min(pause * 2, 0.25)

    async def _strike(self) -> list[Member] | None:
        # The group first: that is one step, in which nobody of it can fork.
        self.signal_group(signal.SIGKILL)
        members = await self._look()
        for member in members or ():
            self._signal(member, signal.SIGKILL)
        return members

    async def _look(self) -> list[Member] | None:
        """Who is alive; None: that cannot be seen now, but perhaps later. Linux only."""
        if not _SEES:
            await trio.lowlevel.checkpoint()
            return []
        try:
            await self._census.renew()
            self._seen = self._look_at(self._census.last)
            if self._seen == []:
                self._seen = self._look_at_the_born()
        except OSError:  # no descriptor is left to look with
            self._seen = None
        return self._seen

    def _look_at_the_born(self) -> list[Member] | None:
        """Who was born since the last look began, so that it may have missed them.

        A chain of processes that each fork and end at once can stay ahead of any number of looks.
        But when no number was given out meanwhile, nobody was missed.
        """
        members: list[Member] | None = []
        older = self._census.newest
        while members == [] and (newer := newest_number()) != older:
            members = self._look_at(partial(born_between, older, newer))
            older = newer
        return members

    def _look_at(self, census: Callable[[int], Sequence[int]]) -> list[Member] | None:
        if not _SEES:
            return []
        try:
            found = [Member.read(pid) for pid in census(self._leader.pid)]
        except OSError:
            return None
        members = [member for member in found if member is not None]
        if self._leader.pinned or self._leader.pid not in {member.pid for member in members}:
            return members
        # Our leader is gone, so this is a stranger who was given the number, which says that
        # nothing of ours had it any more.
        return []

    def _populated(self, members: Sequence[Member] | None) -> bool:
        return members != [] if _SEES else self._group_answers()

    def _group_answers(self) -> bool:
        if not self._leader.ended:
            return True
        if self._leader.pinned:
            return self.tells and self._probe()
        return self._still_answers()

    def _still_answers(self) -> bool:
        # As long as it answered each time since the leader was reaped, it is the same group.
        self._outlived = self._outlived and self._probe()
        return self._outlived

    def _probe(self) -> bool:
        try:
            os.killpg(self._leader.pid, 0)
        except _REFUSALS:  # macOS: EPERM for a group of zombies
            return False
        return True

    async def _wait_change(self, members: Sequence[Member] | None) -> None:
        """Wait until one of them has ended, or for a moment."""
        fd = self._open(members[0]) if members else None
        if fd is None:
            await trio.sleep(0.005)
            return
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            os.close(fd)

    def _signal(self, member: Member, *numbers: int) -> None:
        fd = self._open(member)
        if fd is None:
            return
        try:
            for number in numbers:
                with contextlib.suppress(*_REFUSALS):
                    signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)

    def _open(self, member: Member) -> int | None:
        """A pidfd of this member, or None if it is gone (or no descriptor is left)."""
        try:
            fd = os.pidfd_open(member.pid)
        except OSError:
            return None
        # If the number changed hands before the pidfd was opened, this is a stranger's session;
        # if afterwards, the pidfd is that of a dead process, and signals nobody.
        if session_of(member.pid) == self._leader.pid:
            return fd
        os.close(fd)
        return None
