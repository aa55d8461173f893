"""One command under the direct launcher: what makes its end true.

`DirectProcess.wait` drives everything: the pump, the feeding of stdin, the watch for the
leader's end, and two ways to the end of the tree, the first of which decides:

*   the **natural** one: the leader ends; then the background policy says what becomes of the
    processes that outlive it;
*   the **forced** one, once a kill was asked for: SIGTERM, the grace, SIGKILL, and at most a
    second more.

Both look at the processes themselves each time, so `wait` may be cancelled anywhere and called
again. When one of them is through, one synchronous step drains the output, reaps the leader and
records the `Ending`. Until then the leader stays unreaped: its number, and with it the group and
the session, cannot become a stranger's.
"""

from __future__ import annotations

import math
import signal
import termios
from functools import partial
from typing import Self

import attrs
import trio

from ..._records import Ending, Leftover, Pty
from .._helpers import limiting, procfs
from .._seam import Capture, Process, Spec
from .._stdin import StdinFeeder, StdinStream
from .census import Census
from .exit_watch import ExitWatch
from .first import Function, first_of
from .holders import holders
from .pump import BUFFER, Pump
from .session import PATIENCE, Session
from .store import Store
from .wiring import Wiring

# What a leader started often ends with it, but a moment later. That moment is not worth a
# SIGTERM; it ends as soon as nothing is left.
SETTLE = 0.05

# How a leader ends that was killed, unless it caught SIGTERM. None: how it ended is not known.
_ENDED_BY_US = {-signal.SIGTERM, -signal.SIGKILL, None}


@attrs.frozen(eq=False)
class Shared:
    """What the processes of one launcher share.

    Attributes:
        buffer: For output on its way; filled and emptied in one step.
        census: Tells them what is in their sessions.
    """

    buffer: memoryview = attrs.field(factory=lambda: memoryview(bytearray(BUFFER)))
    census: Census = attrs.field(factory=Census)


@attrs.define(eq=False)
class DirectProcess(Process):
    """A leader, its session and its output."""

    _spec: Spec
    _child: trio.Process
    _watch: ExitWatch
    _session: Session
    _pump: Pump
    _store: Store
    _stdin: StdinStream | None
    _feeder: StdinFeeder | None
    _asked: trio.Event = attrs.field(factory=trio.Event)
    _by_itself: bool = True
    _certain: bool = False
    _deadline: float = math.inf
    _patience: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _too_much: str | None = None
    _kept: bool = False
    _ending: Ending | None = None
    _held: bool = True

    @classmethod
    def of(
        cls, child: trio.Process, spec: Spec, wiring: Wiring, store: Store, shared: Shared
    ) -> Self:
        """Look after a child that was just started; its descriptors are ours from now on."""
        watch = ExitWatch.of(child.pid)
        pump = Pump(wiring.output, wiring.terminal, store, shared.buffer)
        stdin, feeder = _stdin(spec, wiring)
        return cls(spec, child, watch, Session(watch, shared.census), pump, store, stdin, feeder)

    @property
    def pid(self) -> int:
        return self._watch.pid

    @property
    def capture(self) -> Capture:
        return self._store.capture

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        return self._stdin

    async def wait(self) -> Ending:
        await trio.lowlevel.checkpoint()
        if self._ending is None:
            self._kept = False
            await self._run(self._natural_end, self._forced_end)
        return self._ending or self._end()

    def poll(self) -> Ending | None:
        return self._ending

    def kill(self, grace: float) -> None:
        if not self._held:
            return
        self._deadline = min(self._deadline, trio.current_time() + grace)
        self._patience.deadline = self._deadline
        if not self._asked.is_set():
            self._by_itself = self._watch.ended
            self._asked.set()
            mortal = procfs.dies_of(self.pid, signal.SIGTERM)
            self._certain = self._session.terminate() and mortal

    def send_signal(self, number: int) -> None:
        if not self._watch.ended:
            self._session.signal_group(number)

    def resize(self, size: Pty) -> None:
        if self._held:
            termios.tcsetwinsize(self._pump.fd, (size.rows, size.columns))

    async def wait_empty(self) -> tuple[Leftover, ...]:
        await trio.lowlevel.checkpoint()
        if not self._held:
            return ()
        await self._run(self._kept_end, self._forced_end)
        left = self._session.leftovers()
        self._let_go()
        return left

    async def wait_output(self, size: int) -> None:
        await self._store.wait_beyond(size)

    def abandon(self) -> Ending:
        ending = self._ending or self._end()
        self._let_go()
        return ending

    async def _run(self, *ends: Function) -> None:
        beside: list[Function] = [self._watch.run, self._pump.run]
        if self._feeder is not None:
            beside.append(self._feeder.run)
        limit = self._spec.output_limit
        if limit is not None and self._spec.on_output_limit == "kill":
            beside.append(partial(self._enforce, limit))
        await first_of(*ends, beside=beside)

    async def _enforce(self, limit: int) -> None:
        await self._store.wait_beyond(limit)
        if not (self._store.final or self._asked.is_set()):
            self._too_much = limiting.reached(limit)
            self.kill(self._spec.grace)

    async def _natural_end(self) -> None:
        await self._watch.wait()
        if self._asked.is_set():
            # That is for the whole tree, whatever the policy.
            await trio.sleep_forever()
        match self._spec.background:
            case "keep":
                self._kept = True
            case "wait":
                await self._outlived()
            case "kill":
                await self._settle()

    async def _outlived(self) -> None:
        """Wait for what the leader left, or where that cannot be seen, for the output's end."""
        if self._session.tells:
            await self._session.wait_empty()
        else:
            await self._pump.wait_end()

    async def _settle(self) -> None:
        with trio.move_on_after(SETTLE) as settling:
            await self._session.wait_empty()
        if settling.cancelled_caught:
            self.kill(self._spec.grace)
            await trio.sleep_forever()

    async def _forced_end(self) -> None:
        await self._asked.wait()
        with trio.CancelScope(deadline=self._deadline) as self._patience:
            await self._watch.wait()
            await self._session.wait_empty()
        if not self._patience.cancelled_caught:
            return
        with trio.move_on_after(PATIENCE):
            await self._session.kill()
            await self._watch.wait()

    async def _kept_end(self) -> None:
        # Not the session alone: closing the pipe would kill what left it and still writes.
        await self._session.wait_empty()
        await self._pump.wait_end()

    def _end(self) -> Ending:
        """The one step from running to ended."""
        self._pump.drain()
        cut = not self._kept and not self._pump.ended
        leftovers = () if self._kept else self._leftovers(cut=cut)
        self._reap()
        self._store.finish()
        self._ending = Ending(
            returncode=self._watch.returncode,
            by_itself=self._by_itself,
            size=self._store.size,
            usage=self._watch.usage,
            leftovers=leftovers,
            cut=cut,
            output_error=self._store.error,
            trouble=self._trouble(),
        )
        self._hang_up()
        if not self._kept:
            self._let_go()
        return self._ending

    def _leftovers(self, *, cut: bool) -> tuple[Leftover, ...]:
        found = {leftover.pid: leftover for leftover in self._session.leftovers()}
        if not self._watch.ended:
            found.setdefault(self.pid, Leftover(self.pid))
        if cut:
            found |= {leftover.pid: leftover for leftover in holders(self._pump.fd)}
        return tuple(found.values())

    def _reap(self) -> None:
        if not self._watch.ended:
            return
        if self._kept:
            self._session.outlive()
        else:
            # Where the session cannot be seen, this is what makes sure; elsewhere it hits nobody.
            self._session.signal_group(signal.SIGKILL)
        certain = self._certain and procfs.dies_of(self.pid, signal.SIGTERM)
        self._watch.reap()
        if certain and self._watch.returncode not in _ENDED_BY_US:
            # A signal to a process that is within its exit already has no effect. This leader
            # could only have been killed by ours, and ended in another way: it was faster.
            self._by_itself = True
        # Only so that subprocess knows. There is nothing left to reap, so it says 0: not used.
        self._child.poll()

    def _trouble(self) -> str | None:
        if self._too_much is not None:
            return self._too_much
        if self._watch.returncode is not None:
            return None
        if not self._watch.reaped:
            return f"the leader (process {self.pid}) could not be ended"
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            return "the exit status was lost: this program ignores SIGCHLD"
        return "the exit status was lost: something else in this program reaped the leader"

    def _hang_up(self) -> None:
        if self._stdin is not None:
            self._stdin.hang_up()
        if self._feeder is not None:
            self._feeder.close()

    def _let_go(self) -> None:
        if not self._held:
            return
        self._held = False
        self._pump.close()
        self._watch.close()
        if not self._watch.reaped:
            # Not ended even by SIGKILL. If it ever does end, it must not stay a zombie.
            trio.lowlevel.spawn_system_task(self._child.wait, name=f"reaping {self.pid}")


def _stdin(spec: Spec, wiring: Wiring) -> tuple[StdinStream | None, StdinFeeder | None]:
    if wiring.stdin is None:
        return None, None
    if isinstance(spec.stdin, bytes):
        return None, StdinFeeder.of(wiring.stdin, spec.stdin, terminal=wiring.terminal)
    return StdinStream.of(wiring.stdin, terminal=wiring.terminal), None
