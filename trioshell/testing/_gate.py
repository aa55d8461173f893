"""The gate: one run of trio in which every task takes its steps one at a time, when told to.

``Task.coro`` is a documented attribute, and an instrument is told of a new task before trio first
touches it. There the gate puts an object in the coroutine's place that, when trio resumes the
task, queues up. Once every runnable task has queued up, the chooser picks one. If that is the one
that trio has just resumed, it takes its step there and then; the others answer trio with "blocked"
and are rescheduled when they are picked. So the order is the chooser's alone: trio's shuffle, the
order of its sets and the hash seed only change who queues up first, and the queue is sorted.
Cancellation stays trio's own: a queued task cannot be aborted, just as a task that trio has
rescheduled is not cancelled before it blocks again.

trio itself sees two steps for many a real one. So do other instruments, and `assert_checkpoints`
may take a schedule point alone for a whole checkpoint.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from types import CodeType, CoroutineType
from typing import Any, Protocol, cast

import attrs
import outcome
import trio
import trio.abc

from ._gated import Gated
from ._hang import BLIND, BUSY, Hang, where
from ._record import Record

# One task may take this many steps in a row while others are ready: it may be waiting for them in
# a loop that only checkpoints.
SPIN = 200
# From this many steps on the order is round robin, so that tasks that spin on each other end.
FAIR = 20_000
# A run this long does not end: nothing is blocked, so no hang would ever be seen.
ENDLESS = 200_000
# In round robin, time may jump at each decision divisible by this.
_FAIR_JUMP = 16
_MOST_HANGS = 100

# trio's own two tasks run as they like: they are woken by the operating system, and no test sees
# their order.
_TRIOS_OWN = ("<init>", "<TrioToken.run_sync_soon task>")


class Chooser(Protocol):
    """Decides one run."""

    def choose(self, gate: Gate, ready: Sequence[Gated]) -> Gated | None: ...


class Waiter(Protocol):
    """Waits for quiet."""

    def serve(self) -> None:
        """End the wait: called once nothing else can happen."""


@attrs.define(eq=False)
class Gate(trio.abc.Clock, trio.abc.Instrument):
    """The state of one run. Both the clock and an instrument of it."""

    chooser: Chooser
    batch_only: bool = False
    virtual: bool = True  # the clock jumps from timer to timer, and hangs are seen
    controlled: bool = True  # False: tasks are left to trio, this is only a clock
    idle_code: CodeType | None = None  # of the abort function in wait_all_tasks_blocked
    record: Record = attrs.field(factory=Record)

    decision: int = 0  # the number of the coming decision
    arrived: list[Gated] = attrs.field(factory=list[Gated])  # since the last decision
    waiting: list[Gated] = attrs.field(factory=list[Gated])  # for a step, in order of arrival
    last: Gated | None = None  # took the last step, and did not block in it
    when_quiet: list[Waiter] = attrs.field(factory=list[Waiter])  # the last is served first
    watch: Callable[[], object] | None = None  # called before each step and each jump of time

    _living: dict[trio.lowlevel.Task, Gated] = attrs.field(factory=dict[trio.lowlevel.Task, Gated])
    _newcomers: list[Gated] = attrs.field(factory=list[Gated])
    _pending: int = 0  # tasks that trio has been told to run and has not
    _now: float = 0.0
    _jumping: bool = False
    _polls: int = 0  # of the operating system, since anything ran
    _hangs: int = 0
    _limit: int = attrs.field(factory=lambda: ENDLESS)  # of steps
    _streak: int = 0  # steps in a row by `last`
    _batch: int = 0  # the number of the batch that trio would be running
    _left: int = 0  # how many of its members have not had their step
    _fresh: bool = True  # none of them has

    # As an instrument: who is runnable, and when all of them have queued up.

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        if self.controlled and task.name not in _TRIOS_OWN:
            gated = self._living[task] = Gated(task, self._arrive)
            self._newcomers.append(gated)
            task.coro = cast("CoroutineType[Any, outcome.Outcome[object], Any]", gated)

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002
        self._pending += 1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002
        self._pending -= 1
        self._polls = 0
        if not self._pending and not self._jumping and (chosen := self._settle()):
            trio.lowlevel.reschedule(chosen.task)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._living.pop(task, None)

    def _arrive(self, gated: Gated) -> bool:
        """Queue up a task that trio has resumed; return whether it may take its step at once.

        The last one to come need not go back to trio to be told that it is its turn.
        """
        self.arrived.append(gated)
        if self._pending > 1:
            return False
        self._pending = 0
        chosen = self._settle()
        if chosen is not None and chosen is not gated:
            trio.lowlevel.reschedule(chosen.task)
        self._pending += 1  # taken off when trio says that the step it gave is over
        return chosen is gated

    def _settle(self) -> Gated | None:
        """Every runnable task has queued up: return the one to take the next step, if any."""
        if self.arrived:
            self._admit()
        if self.last is not None and not self.last.queued:
            self.last = None
        return self._decide() if self.waiting else None

    # As the clock.

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self._now if self.virtual else time.perf_counter()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Trio asks when it has nothing to run. Virtual time answers 0, and jumps."""
        if not self.virtual:
            return deadline - time.perf_counter()
        if self._jumping:
            self._jumping = False
            self._jump(deadline, early=True)
        elif self.waiting:  # nobody was woken by the last jump
            if chosen := self._decide():
                trio.lowlevel.reschedule(chosen.task)
        else:
            return self._idle(deadline)
        return 0

    # Deciding.

    def timer(self) -> bool:
        """Return whether time could jump to a timer now."""
        if not self.virtual or (self.batch_only and not self._fresh):
            return False
        return trio.lowlevel.current_statistics().seconds_to_next_deadline < math.inf

    def head(self, ready: Sequence[Gated]) -> Gated:
        """Return whose turn it is by default: the task that still runs, else the first to come."""
        last = self.last
        return last if last is not None and last in ready else ready[0]

    def _admit(self) -> None:
        if self._newcomers:
            self._number_newcomers()
        if len(self.arrived) > 1:
            self.arrived.sort(key=attrgetter("number"))
        for gated in self.arrived:
            gated.batch = self._batch + 1
        self.waiting += self.arrived
        self.arrived.clear()

    def _number_newcomers(self) -> None:
        self._newcomers.sort(key=_sibling_key)
        for gated in self._newcomers:
            gated.number = len(self.record.names)
            self.record.names.append(gated.task.name)
        self._newcomers.clear()

    def _decide(self) -> Gated | None:
        """Return who is granted a step; None to let time jump, or others queue up first."""
        if self._watched():
            return None
        if self.virtual and len(self.record.steps) >= self._limit and self._is_endless():
            return None
        if not self._left:
            self._batch, self._left, self._fresh = self._batch + 1, len(self.waiting), True
        ready: Sequence[Gated] = self.waiting
        if self.batch_only:
            ready = [gated for gated in ready if gated.batch <= self._batch]
        if self._streak >= SPIN or len(self.record.steps) >= FAIR:
            chosen = self._choose_fairly(ready)
        else:
            chosen = self.chooser.choose(self, ready)
        self.decision += 1
        if chosen is None:
            self._jumping = True
        else:
            self._grant(chosen)
        return chosen

    def _watched(self) -> bool:
        """Tell the watcher, and return whether it made tasks runnable: they queue up first."""
        if self.watch is not None:
            self.watch()
        return self._pending > 0

    def _choose_fairly(self, ready: Sequence[Gated]) -> Gated | None:
        """Choose another one than the last, or now and then a timer: the loop may wait for that."""
        self._streak = 0
        others = [gated for gated in ready if gated is not self.last]
        if (not others or self.decision % _FAIR_JUMP == 0) and self.timer():
            return None
        return others[0] if others else ready[0]

    def _grant(self, gated: Gated) -> None:
        self._streak = self._streak + 1 if gated is self.last else 0
        self.last = gated
        self.waiting.remove(gated)
        if gated.batch <= self._batch:
            self._left -= 1
        else:
            self.record.legal = False
        self._fresh = False
        self.record.steps.append(gated.number)

    # Idle: nothing is ready.

    def _idle(self, deadline: float) -> float:
        """Look at the operating system, then wait_all_tasks_blocked, timers, quiet(), in turn."""
        self._polls += 1
        if self._polls == 1:
            return 0  # a pipe that this program wrote to may be readable
        if not self.controlled and self._polls == 2:
            return 1e-9  # trio wakes wait_all_tasks_blocked in any pause that is not zero
        if self._someone_waits_for_idle():
            return math.inf  # trio knows how long
        self._polls = 0
        if not self._watched():
            self._move_on(deadline)
        return 0

    def _someone_waits_for_idle(self) -> bool:
        codes = (getattr(gated.abort, "__code__", None) for gated in self._living.values())
        return self.idle_code is not None and self.idle_code in codes

    def _move_on(self, deadline: float) -> None:
        if deadline < math.inf:
            self._jump(deadline, early=False)
        elif self.when_quiet:
            self.when_quiet.pop().serve()
        else:
            self._break_hang()

    def _jump(self, deadline: float, *, early: bool) -> None:
        self._now = max(self._now, deadline)
        self.record.mark(f"{self._now:g}s early" if early else f"{self._now:g}s")
        if not self._fresh and self._left:
            self.record.legal = False
        # Whoever the timers wake runs in the same batch as those that are waiting.
        self._left = 0

    # Ending a run that would not end by itself.

    def _break_hang(self) -> None:
        hang = self._hang("Nothing can run any more, and no timer is pending:", BLIND)
        self._hangs += 1
        if self._hangs > _MOST_HANGS or not self._interrupted(hang):
            # An internal error of trio, with every coroutine abandoned: the last resort.
            raise hang

    def _is_endless(self) -> bool:
        """End a run of very many steps; return whether tasks became runnable by that."""
        self._limit += ENDLESS
        problem = f"The program is still busy after {len(self.record.steps):,} steps:"
        hang = self._hang(problem, BUSY)
        return self._interrupted(hang) and self._pending > 0

    def _hang(self, problem: str, advice: str) -> Hang:
        name = self.record.label
        tasks = sorted(self._living.values(), key=attrgetter("number"))
        blocked = [f"{name(gated.number)} {where(gated.task)}" for gated in tasks]
        # Not the one that is raised: its traceback would keep all their frames alive.
        self.record.hang = self.record.hang or Hang(problem, blocked, advice)
        return Hang(problem, blocked, advice)

    def _interrupted(self, hang: Hang) -> bool:
        """Raise ``hang`` in one task, if one lets itself be interrupted: the others follow.

        A task without children first: a nursery would only cancel them, and they may be shielded.
        """
        tasks = sorted(self._living.values(), key=_fewest_children)
        return any(gated.interrupt(hang) or self._pending for gated in tasks)


def _sibling_key(gated: Gated) -> str:
    """Sort by this the tasks that one step spawned; all others stay as they were spawned.

    pytest-trio starts the test and its fixtures by walking over a set, so the order in which they
    are spawned differs from process to process.
    """
    name = gated.task.name
    return name if name.startswith(("<test ", "<fixture ")) else ""


def _fewest_children(gated: Gated) -> tuple[int, int]:
    children = sum(len(nursery.child_tasks) for nursery in gated.task.child_nurseries)
    return children, gated.number
