"""The processes of one fake command: what happens in them, whoever looks after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import attrs
import trio

from ._agenda import Agenda
from ._member import Member, Sender, Sent
from ._memory import FakeStdin
from ._script import Script
from ._signals import HARMLESS, STOPPING, signal_name, signal_number


@attrs.define(eq=False)
class Tree:
    """A leader and its descendants, each following its script.

    Attributes:
        script: What the leader does.
        agenda: What will happen.
        printed: Called with what one of them writes.
        ended: Called when one of them has ended.
        members: The leader, then its descendants.
        stdin: What the leader may read.
    """

    script: Script
    agenda: Agenda
    printed: Callable[[bytes], object]
    ended: Callable[[Member], object]
    _pids: Iterator[int]
    members: list[Member] = attrs.field(factory=list, init=False)
    stdin: FakeStdin = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.stdin = FakeStdin(lambda: self.agenda.later(0, self._read_stdin))

    @property
    def leader(self) -> Member:
        return self.members[0]

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    def start(self, script: Script, name: str) -> None:
        """Start a process and its descendants."""
        member = Member(next(self._pids), name, script, trio.current_time())
        self.members.append(member)
        delay = 0.0
        for printing in script.output:
            delay += printing.after
            for index, chunk in enumerate(printing.chunks):
                delay += printing.every if index else 0.0
                self.agenda.later(delay, partial(self.print, member, chunk))
        if script.returncode is not None and not script.echo:
            self.agenda.later(delay + script.after, partial(self._end_as_scripted, member))
        for index, descendant in enumerate(script.descendants, 1):
            self.start(descendant, f"{name} / descendant {index}")

    def print(self, member: Member, data: bytes) -> None:
        """Let a process write, if it lives."""
        if member.alive:
            self.printed(data)

    def end(self, member: Member, code: int, ended_by: str | None = None) -> None:
        """Let a process end, if it lives."""
        if not member.alive:
            return
        member.returncode = code
        member.ended_by = ended_by
        member.ended_at = trio.current_time()
        if member is self.leader:
            self.stdin.hang_up()
        self.ended(member)

    def signal_group(self, name: str) -> None:
        """Send a signal to the leader's group, while the leader lives."""
        for member in self.living if self.leader.alive else ():
            if member is self.leader or not member.script.escaped:
                self.deliver(member, name, "send_signal")

    def deliver(self, member: Member, name: str, by: Sender) -> None:
        """Let a signal reach a process, if it lives."""
        if not member.alive:
            return
        member.signals.append(Sent(name, trio.current_time(), by))
        reaction = member.script.reaction(name)
        if name == "KILL":
            self._die_of_kill(member)
        elif reaction is not None and reaction.code is not None:
            self.agenda.later(reaction.after, partial(self.end, member, reaction.code, name))
        elif reaction is None and name not in HARMLESS | STOPPING:
            self.end(member, -signal_number(name), name)

    def _die_of_kill(self, member: Member) -> None:
        end = partial(self.end, member, -signal_number("KILL"), "KILL")
        if member.script.unkillable_for:
            self.agenda.later(member.script.unkillable_for, end)
        else:
            end()

    def _read_stdin(self) -> None:
        if not (self.leader.alive and self.script.echo):
            return
        if data := self.stdin.read():
            self.print(self.leader, data)
        if self.stdin.closed:
            self._end_as_scripted(self.leader)

    def _end_as_scripted(self, member: Member) -> None:
        code = member.script.returncode
        assert code is not None
        self.end(member, code, signal_name(-code) if code < 0 else None)
