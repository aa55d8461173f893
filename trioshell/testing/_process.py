"""`FakeProcess`: a tree of processes that happens on trio's clock only, looked after."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, final

import attrs
import trio

from .._records import Ending, Leftover, Pty
from ..launchers import Process, Spec
from ._agenda import Agenda
from ._member import Member, Sender, Sent
from ._memory import FakeStdin, MemoryCapture
from ._script import Script
from ._signals import signal_name, signal_number
from ._tree import Tree

# As the launchers of real processes do. What outlives the leader may be about to end by itself:
SETTLE: Final = 0.05
# After SIGKILL: who lives then cannot be ended.
GIVE_UP: Final = 1.0


@final
@attrs.define(eq=False, repr=False)
class FakeProcess(Process):
    """A fake process with its descendants, and the truth about them.

    It follows its script; `prints`, `exits` and `dies` make things happen by hand. One task takes
    one step for each thing that happens, so that a schedule decides what comes between.

    Attributes:
        spec: As the launcher got it.
        script: What the leader does.
        command: The command as one text.
        emitted: All that the tree has written.
        owed: The part of it that the capture has to hold at the end (C4).
        sizes: Of its terminal, the newest last.
        kills: When it was to be ended, and with how much grace, the newest last.
    """

    spec: Spec
    script: Script
    command: str
    _pids: Iterator[int]
    _start_soon: Callable[..., None]
    emitted: bytearray = attrs.field(factory=bytearray, init=False)
    owed: bytearray = attrs.field(factory=bytearray, init=False)
    sizes: list[Pty] = attrs.field(factory=list, init=False)
    kills: list[tuple[float, float]] = attrs.field(factory=list, init=False)
    _tree: Tree = attrs.field(init=False)
    _capture: MemoryCapture = attrs.field(init=False)
    _agenda: Agenda = attrs.field(factory=Agenda, init=False)
    _grown: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)
    # Shielded: the end of a task in the program under test does not end a process.
    _scope: trio.CancelScope = attrs.field(
        factory=partial(trio.CancelScope, shield=True), init=False
    )
    _sent: deque[Callable[[], object]] = attrs.field(factory=deque, init=False)
    _arrived: int = attrs.field(default=0, init=False)
    _ending: Ending | None = attrs.field(default=None, init=False)
    _reported: trio.Event = attrs.field(factory=trio.Event, init=False)
    _empty: trio.Event = attrs.field(factory=trio.Event, init=False)
    _leftovers: tuple[Leftover, ...] = attrs.field(default=(), init=False)
    _asked: bool = attrs.field(default=False, init=False)
    _killed: bool = attrs.field(default=False, init=False)
    _by_itself: bool = attrs.field(default=False, init=False)
    _signalled: bool = attrs.field(default=False, init=False)
    _lost: bool = attrs.field(default=False, init=False)
    _trouble: str | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._capture = MemoryCapture(self.spec.output_limit, self.script.capacity)
        self._tree = Tree(self.script, self._agenda, self._printed, self._ended, self._pids)
        self._tree.start(self.script, self.command)
        if self.spec.pty is not None:
            self.sizes.append(self.spec.pty)
        if self.script.helper_death is not None:
            self._agenda.later(self.script.helper_death, self._helper_dies)
        if not self._has_stdin_stream:
            self._tree.stdin.feed(self.spec.stdin if isinstance(self.spec.stdin, bytes) else b"")

    def __repr__(self) -> str:
        state = "alive" if self.alive else f"ended {self.returncode}"
        return f"<FakeProcess {self.pid} {self.command!r} {state}>"

    # The truth about it.

    @property
    def members(self) -> list[Member]:
        """The leader, then its descendants."""
        return self._tree.members

    @property
    def leader(self) -> Member:
        """The process that was started."""
        return self._tree.leader

    @property
    def living(self) -> list[Member]:
        """The processes of the tree that have not ended."""
        return self._tree.living

    @property
    def argv(self) -> tuple[str, ...]:
        """The arguments, the program's name first."""
        return tuple(map(os.fsdecode, self.spec.argv))

    @property
    def received(self) -> bytes:
        """What was sent to its standard input."""
        return bytes(self._tree.stdin.received)

    @property
    def alive(self) -> bool:
        """Whether the leader has not ended."""
        return self.leader.alive

    @property
    def returncode(self) -> int | None:
        """How the leader truly ended, also where nobody was told."""
        return self.leader.returncode

    @property
    def signals(self) -> list[Sent]:
        """What reached the leader while it lived."""
        return self.leader.signals

    @property
    def ended_by(self) -> str | None:
        """The signal that ended the leader; None if it ended by itself, or lives."""
        return self.leader.ended_by

    @property
    def started_at(self) -> float:
        """When the leader started, on trio's clock."""
        return self.leader.started_at

    @property
    def ended_at(self) -> float | None:
        """When the leader ended, on trio's clock."""
        return self.leader.ended_at

    # By hand.

    def prints(self, data: bytes) -> None:
        """Let the leader write.

        Raises:
            RuntimeError: It has ended.
        """
        self._check_alive()
        self._tree.print(self.leader, data)

    def exits(self, code: int = 0) -> None:
        """Let the leader exit by itself.

        Raises:
            RuntimeError: It has ended.
        """
        self._check_alive()
        self._tree.end(self.leader, code)

    def dies(self, sig: int | str) -> None:
        """Let the leader die by a signal that the library did not send.

        Raises:
            RuntimeError: It has ended.
        """
        self._check_alive()
        name = signal_name(sig)
        self._tree.end(self.leader, -signal_number(name), name)

    # The seam.

    @property
    def pid(self) -> int:
        return self.leader.pid

    @property
    def capture(self) -> MemoryCapture:
        return self._capture

    @property
    def stdin(self) -> FakeStdin | None:
        return self._tree.stdin if self._has_stdin_stream else None

    async def wait(self) -> Ending:
        await self._reported.wait()
        assert self._ending is not None
        return self._ending

    def poll(self) -> Ending | None:
        return self._ending

    def kill(self, grace: float) -> None:
        now = trio.current_time()
        self.kills.append((now, grace))
        if self.living:
            self._send(partial(self._ask, now + grace, "kill"))

    def send_signal(self, number: int) -> None:
        if self.alive:
            self._send(partial(self._tree.signal_group, signal_name(number)))

    def resize(self, size: Pty) -> None:
        self.sizes.append(size)

    async def wait_empty(self) -> tuple[Leftover, ...]:
        await self._empty.wait()
        return self._leftovers

    async def wait_output(self, size: int) -> None:
        await trio.lowlevel.checkpoint()
        while self._capture.size <= size and self._ending is None:
            await self._grown.park()

    def abandon(self) -> Ending:
        # Time may pass while this process is held back: nothing may have reached it yet.
        self._signalled = self._signalled or self.alive
        self._kill_tree("kill")
        self._give_up()
        assert self._ending is not None
        return self._ending

    # The task.

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Let happen what is planned, one thing at a time, until nothing can follow."""
        with self._scope:
            while self.living or not self._empty.is_set():
                happen = await self._agenda.take()
                happen()

    def stop(self) -> None:
        """The launcher is left: nothing happens any more, whatever lives."""
        self._scope.cancel()

    # What the tree does.

    def _printed(self, data: bytes) -> None:
        self.emitted += data
        if not self._is_captured:
            return
        self.owed += data
        if self.script.lag:
            self._agenda.later(self.script.lag, partial(self._store, data))
        else:
            self._store(data)

    @property
    def _is_captured(self) -> bool:
        kept = self.spec.background == "keep" and not self.alive
        return self._ending is None and not kept

    def _store(self, data: bytes) -> None:
        if self._ending is not None:
            return
        self._arrived += len(data)
        self._capture.write(data)
        self._grown.unpark_all()
        limit = self.spec.output_limit
        beyond = limit is not None and self._capture.size > limit
        if beyond and self.spec.on_output_limit == "kill" and not self._asked:
            self._trouble = f"output limit of {limit} bytes reached"
            self._ask(trio.current_time() + self.spec.grace, "limit")

    def _ended(self, member: Member) -> None:
        if member is self.leader:
            self._leader_ended()
        if not self.living:
            self._agenda.later(self.script.lag, self._tree_ended)

    def _leader_ended(self) -> None:
        self._by_itself = not self._signalled
        if self.spec.background == "keep":
            self._agenda.later(self.script.lag, self._report)
        elif self.spec.background == "kill" and self.living:
            self._agenda.later(SETTLE, self._end_leftovers)

    def _tree_ended(self) -> None:
        self._report()
        self._empty.set()

    # What is done to it.

    def _send(self, action: Callable[[], object]) -> None:
        # In a task of its own: until the signal arrives the leader may end by itself, or may not.
        self._sent.append(action)
        self._start_soon(self._courier, name=f"signal to process {self.pid}")

    @trio.lowlevel.enable_ki_protection
    async def _courier(self) -> None:
        await trio.lowlevel.cancel_shielded_checkpoint()
        happen = self._sent.popleft()  # what was sent first arrives first
        happen()

    def _end_leftovers(self) -> None:
        if not self._asked:
            self._ask(trio.current_time() + self.spec.grace, "background")

    def _ask(self, until: float, by: Sender) -> None:
        """The end of the tree is asked for, or sooner than before."""
        self._signalled = self._signalled or (self.alive and by != "background")
        if until <= trio.current_time():
            self._kill_tree(by)
            return
        if not self._asked:
            self._asked = True
            for name in ("TERM", "CONT"):
                for member in self.living:
                    self._tree.deliver(member, name, by)
        self._agenda.at(until, partial(self._kill_tree, by))

    def _kill_tree(self, by: Sender) -> None:
        if self._killed:
            return
        self._asked = self._killed = True
        for member in self.living:
            self._tree.deliver(member, "KILL", by)
        self._agenda.later(GIVE_UP, self._give_up)

    def _helper_dies(self) -> None:
        if self._ending is None:
            self._lost = True
            self._trouble = "the helper that looked after it was killed"
        self._kill_tree("helper")

    # What is told.

    def _give_up(self) -> None:
        self._leftovers = tuple(Leftover(member.pid, member.name) for member in self.living)
        self._report()
        self._empty.set()

    def _report(self) -> None:
        if self._ending is not None:
            return
        self._ending = Ending(
            returncode=None if self._lost else self.returncode,
            by_itself=self._by_itself,
            size=self._capture.size,
            leftovers=self._leftovers,
            cut=bool(self.living) or self._arrived < len(self.owed),
            output_error=self._capture.error,
            trouble=self._trouble,
        )
        self._reported.set()
        self._grown.unpark_all()

    @property
    def _has_stdin_stream(self) -> bool:
        return self.spec.stdin is True or self.spec.pty is not None

    def _check_alive(self) -> None:
        if not self.alive:
            raise RuntimeError(f"{self!r} has ended: it can do nothing more")
