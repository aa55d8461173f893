"""The families of schedules: each is a value, and makes the chooser that decides one run.

A chooser looks at the tasks that are ready and returns the one to take the next step, or None to
let time jump to the next timer first. It draws nothing and reads no clock: the same family and
the same program give the same order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, cast

import attrs

from ._gate import Chooser, Gate
from ._gated import Gated

# A timer may beat a slow task, but a task is never so slow that all timers do.
_JUMPS_IN_A_ROW = 3


class Family(Protocol):
    """What to write after ``Schedule.`` to get it, and the decisions that it stands for."""

    name: ClassVar[str]

    def literal(self) -> tuple[tuple[int, ...], dict[str, Any]]: ...

    def chooser(self) -> Chooser: ...


def position(text: str, value: object) -> int:
    """Check one number of a schedule.

    Raises:
        ValueError: It is not an int, or is negative.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{text} must be a whole number from 0, not {value!r}")
    return value


def positions(text: str, values: object) -> tuple[int, ...]:
    """Check some numbers of a schedule.

    Raises:
        ValueError: They are not a sequence of ints, or one is negative.
    """
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f"{text} must be a sequence of whole numbers, not {values!r}")  # noqa: TRY004
    return tuple(position(text, value) for value in cast("Sequence[object]", values))


@attrs.frozen
class Walk:
    """At each decision, any of the ready tasks, or time, with the same chance."""

    name: ClassVar[str] = "walk"
    seed: int
    time: bool = True

    def literal(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        return (self.seed,), {} if self.time else {"time": False}

    def chooser(self) -> Chooser:
        # random() is the one method that Python promises to keep across its versions.
        return _Walker(random.Random(self.seed).random, self.time)  # noqa: S311


@attrs.define(eq=False)
class _Walker:
    _random: Callable[[], float]
    _time: bool

    def choose(self, gate: Gate, ready: Sequence[Gated]) -> Gated | None:
        timers = 1 if self._time and gate.timer() else 0
        index = int(self._random() * (len(ready) + timers))
        return ready[index] if index < len(ready) else None


@attrs.frozen
class Priorities:
    """The task of the lowest rank runs; it drops to the bottom at a few decisions.

    Tasks whose rank is above the clock's are slow: timers fire before every other step of theirs.
    """

    name: ClassVar[str] = "priorities"
    order: tuple[int, ...] = ()
    demote: tuple[int, ...] = ()
    clock: int | None = None

    def literal(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        keywords: dict[str, Any] = {}
        if self.demote:
            keywords["demote"] = self.demote
        if self.clock is not None:
            keywords["clock"] = self.clock
        return self.order, keywords

    def chooser(self) -> Chooser:
        return _Ranking(self.order or (0,), frozenset(self.demote), self.clock)


@attrs.define(eq=False)
class _Ranking:
    _order: tuple[int, ...]
    _demote: frozenset[int]
    _clock: int | None
    _dropped: dict[int, int] = attrs.field(factory=dict[int, int])
    _jumps: int = 0
    _late: bool = True

    def choose(self, gate: Gate, ready: Sequence[Gated]) -> Gated | None:
        best = self._best(gate, ready)
        if gate.decision in self._demote and len(ready) > 1:
            gate.record.mark(f"{gate.record.label(best.number)} drops")
            self._dropped[best.number] = max(self._order) + 1 + len(self._dropped)
            best = self._best(gate, ready)
        if self._is_slow(best):
            if self._late and self._jumps < _JUMPS_IN_A_ROW and gate.timer():
                self._jumps += 1
                return None
            # Always late, it would never be overtaken in the middle of something.
            self._late = not self._late
        self._jumps = 0
        return best

    def _best(self, gate: Gate, ready: Sequence[Gated]) -> Gated:
        best = gate.head(ready)
        lowest = self._rank(best)
        for gated in ready:
            rank = self._rank(gated)
            if rank < lowest:
                best, lowest = gated, rank
        return best

    def _rank(self, gated: Gated) -> int:
        number = gated.number
        # Repeated, so that a short order still tells late tasks apart.
        rank = self._dropped.get(number)
        return self._order[number % len(self._order)] if rank is None else rank

    def _is_slow(self, gated: Gated) -> bool:
        return self._clock is not None and self._rank(gated) > self._clock


@attrs.frozen
class Hold:
    """Each task runs until it blocks, but for a few deviations.

    At a decision in ``at`` the task whose turn it is waits until nothing else can run; at one in
    ``slow`` also until a few timers have fired. At one in ``jumps`` the timers fire, and the tasks
    that were ready go on as before.
    """

    name: ClassVar[str] = "hold"
    at: tuple[int, ...] = ()
    slow: tuple[int, ...] = ()
    jumps: tuple[int, ...] = ()

    def literal(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        options = {"slow": self.slow, "jumps": self.jumps}
        return self.at, {name: decisions for name, decisions in options.items() if decisions}

    def chooser(self) -> Chooser:
        return Holder(self)


@attrs.define(eq=False)
class Holder:
    """The chooser of `Hold`. Setting one task aside is a decision of its own."""

    hold: Hold
    _held: list[Gated] = attrs.field(factory=list[Gated])  # until nothing else can run
    _slow: list[Gated] = attrs.field(factory=list[Gated])  # until no timer is pending, either
    _jumps: int = 0  # for the sake of the slow ones

    def choose(self, gate: Gate, ready: Sequence[Gated]) -> Gated | None:
        while free := self._free(gate, ready):
            self.note(gate, ready)
            if gate.decision in self.hold.jumps and gate.timer():
                return None
            head = gate.head(free)
            if gate.decision in self.hold.slow:
                gate.record.mark(f"slow {gate.record.label(head.number)}")
                self._slow.append(head)
            elif gate.decision in self.hold.at and len(ready) > 1:
                gate.record.mark(f"hold {gate.record.label(head.number)}")
                if len(free) == 1:  # it waits for those that were held before it
                    self._held.clear()
                self._held.append(head)
            else:
                return head
            gate.decision += 1
        return None

    def note(self, gate: Gate, ready: Sequence[Gated]) -> None:
        """Called before each decision."""

    def note_release(self, gate: Gate) -> None:
        """Called before those that were held are let go."""

    def _free(self, gate: Gate, ready: Sequence[Gated]) -> Sequence[Gated]:
        """Return those whose turn can come; none if time is to pass first."""
        if not self._held and not self._slow:
            return ready
        free = [gated for gated in ready if gated not in self._held and gated not in self._slow]
        if not free and self._held:
            self.note_release(gate)
            self._held.clear()
            free = [gated for gated in ready if gated not in self._slow]
        if free:
            return free
        if self._jumps < _JUMPS_IN_A_ROW and gate.timer():
            self._jumps += 1
            return ()
        self._slow.clear()
        self._jumps = 0
        return ready
