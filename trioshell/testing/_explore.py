"""explore(): every schedule with up to n deviations from "each task runs until it blocks"."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from typing import Any, final

import attrs

from ._families import Hold, Holder
from ._gate import Chooser, Gate
from ._gated import Gated
from ._run import run
from ._schedule import Schedule
from ._selftest import verdict

# What a decision allowed, as bits.
_CAN_HOLD, _CAN_JUMP = 1, 2


@final
@attrs.frozen
class Report:
    """What `explore` saw.

    Attributes:
        complete: Every schedule within the bound was run.
        runs: How many were.
        results: What the program returned, and in how many runs.
    """

    complete: bool
    runs: int
    results: Counter[Any]


def explore(
    async_fn: Callable[[], Awaitable[Hashable]],
    *,
    holds: int = 1,
    time: bool = True,
    batch: bool = False,
    max_runs: int | None = None,
) -> Report:
    """Run a program under every schedule with at most ``holds`` deviations.

    A deviation holds back the task whose turn it is until nothing else can run; or until a few
    timers have fired, too; or it lets time jump to the next timer although tasks are ready, which
    then go on as before. Schedules with fewer deviations come first, so that the first failure is
    one of the simplest. With k decisions in a run there are k to 3k runs for one deviation, and
    up to (3k)**2 / 2 for two.

    Args:
        async_fn: The program. It must make all its state afresh, and do the same in each run of
            one schedule. What it returns is collected.
        holds: How many deviations.
        time: Whether to try the two kinds of deviation that let time pass.
        batch: Keep to orders that trio produces today.
        max_runs: Stop after that many runs, with a report that is not complete. None: never.

    Returns:
        How many runs there were, whether these were all, and what they returned.

    Raises:
        BaseException: What ``async_fn`` raised first, with the literal of its schedule and the
            order in a note.
        RuntimeError: ``async_fn`` does something else in each run of one schedule, or this
            version of trio does not let a schedule control the order of tasks.
        TypeError: What ``async_fn`` returned is not hashable.
        ValueError: ``holds`` or ``max_runs`` is negative.
    """
    if holds < 0 or (max_runs is not None and max_runs < 0):
        raise ValueError(f"holds={holds} and max_runs={max_runs} must not be negative")
    demand_control("explore()")
    results: Counter[Any] = Counter()
    scouts = deque([_Scout()])
    runs = 0
    while scouts:
        if runs == max_runs:
            return Report(complete=False, runs=runs, results=results)
        scout = scouts.popleft()
        results[_checked(run(async_fn, schedule=Schedule(scout, batch=batch)))] += 1
        runs += 1
        scout.compare()
        if time and (slower := scout.slower()):
            scouts.appendleft(slower)
        if scout.cost < holds:
            scouts.extend(scout.children(time=time))
    return Report(complete=True, runs=runs, results=results)


def demand_control(who: str) -> None:
    """Refuse to promise what cannot be kept with this version of trio."""
    if problem := verdict().problem:
        raise RuntimeError(f"{who} must control the order of tasks, and cannot: {problem}")


def _checked(result: Hashable) -> Hashable:
    try:
        hash(result)
    except TypeError:
        text = "what the explored program returns is counted, so it must be hashable"
        raise TypeError(f"{text}: return a tuple or a string instead of {result!r}") from None
    return result


@attrs.define(eq=False)
class _Notes:
    """What was seen while a schedule ran."""

    options: dict[int, int] = attrs.field(factory=dict[int, int])  # by decision
    late: bool = False  # a timer was pending when a task was let go


@attrs.frozen
class _Scout(Hold):
    """A schedule of holds that notes, while it runs, where one more deviation is possible."""

    parent: _Scout | None = attrs.field(default=None, eq=False)
    notes: _Notes = attrs.field(factory=_Notes, eq=False)

    def chooser(self) -> Chooser:
        return _Scouting(self, notes=self.notes)

    @property
    def cost(self) -> int:
        return len(self.at) + len(self.slow) + len(self.jumps)

    @property
    def first_free(self) -> int:
        """The first decision after the last deviation: each set is reached in one way only."""
        return max((*self.at, *self.slow, *self.jumps), default=-1) + 1

    def children(self, *, time: bool) -> Iterator[_Scout]:
        """Yield each schedule with one more deviation, after the ones there are."""
        for decision, option in self.notes.options.items():
            if decision >= self.first_free:
                yield from self._deviating(decision, option if time else option & _CAN_HOLD)

    def _deviating(self, decision: int, option: int) -> Iterator[_Scout]:
        if option & _CAN_HOLD:
            yield self._child(at=(*self.at, decision))
        elif option:  # nothing else is ready, so only a timer can come first
            yield self._child(slow=(*self.slow, decision))
        if option & _CAN_JUMP:
            yield self._child(jumps=(*self.jumps, decision))

    def slower(self) -> _Scout | None:
        """Return the schedule in which the last task held back waits for timers, too.

        None if that makes no difference: no timer was pending when it was let go.
        """
        *at, last = self.at or (-1,)
        if not self.notes.late or last != self.first_free - 1:
            return None
        return attrs.evolve(self, at=tuple(at), slow=(*self.slow, last), notes=_Notes())

    def _child(self, **deviations: tuple[int, ...]) -> _Scout:
        return attrs.evolve(self, parent=self, notes=_Notes(), **deviations)

    def compare(self) -> None:
        """Check that the run went like its parent's up to the deviation that it added."""
        if self.parent is None:
            return
        mine, theirs = self.notes.options, self.parent.notes.options
        for decision in range(self.first_free):
            if mine.get(decision) != theirs.get(decision):
                raise RuntimeError(
                    f"{Schedule(self)!r} went another way than before at decision {decision}, so "
                    "nothing can be proven: the program depends on something besides its "
                    "schedule. Let it make its state afresh in each run"
                )


@attrs.define(eq=False)
class _Scouting(Holder):
    notes: _Notes = attrs.field(kw_only=True)

    def note(self, gate: Gate, ready: Sequence[Gated]) -> None:
        can_hold = _CAN_HOLD if len(ready) > 1 else 0
        self.notes.options[gate.decision] = can_hold | (_CAN_JUMP if gate.timer() else 0)

    def note_release(self, gate: Gate) -> None:
        self.notes.late = self.notes.late or gate.timer()
