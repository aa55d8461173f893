"""Schedule: a value that decides the order of every step of a trio program."""

from __future__ import annotations

import ast
import random
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import attrs
import trio
import trio.abc

from ._families import Family, Hold, Priorities, Walk, position, positions
from ._gate import Gate
from ._hang import Hang
from ._record import Record
from ._selftest import verdict

FAMILIES: Final = ("walk", "priorities", "hold")

# Where schedules that are drawn deviate: below one of these. Short programs never get to the
# later decisions, and in long ones the early ones change little.
RANGES: Final = (8, 40, 300)
RANKS: Final = 8

_TEXT = re.compile(r"(?:Schedule\.)?(?P<family>\w+)(?:\((?P<call>.*)\)|:(?P<args>.*))?", re.DOTALL)
_HOW_TO_WRITE = "write walk:SEED, hold:I,J,... or paste a literal such as Schedule.walk(0)"

_frozen = attrs.setters.frozen


class GateWarning(RuntimeWarning):
    """This version of trio does not let a schedule control the order of tasks."""


@final
@attrs.define(repr=False, unsafe_hash=True)
class Schedule(trio.abc.Clock, trio.abc.Instrument):
    """An order of steps, as a value: equal schedules make equal runs.

    It is both a clock and an instrument of trio and must be installed as both, which `run` does,
    and pytest-trio for any argument of a test that is one. Every task then takes its steps one at
    a time in the order that the schedule decides, and time is virtual: it jumps to the next timer
    when nothing else can run, and in some schedules before. When nothing at all can run any more,
    `Hang` tells where every task waits. The ``repr`` is a literal to paste. One schedule serves
    any number of runs, one after the other.

    Make one with `walk`, `priorities`, `hold` or `parse`. Each takes two options:

    * ``batch``: keep to orders that trio's scheduler produces today. It runs all runnable tasks
      in turn before any of them again. Its documentation promises no such thing.
    * ``allow_io``: the clock is real and no hang is seen, so that threads, processes and sockets
      can be used; their timing is not controlled, only the order of steps is.
    """

    family: Family = attrs.field(on_setattr=_frozen)
    batch: bool = attrs.field(default=False, kw_only=True, on_setattr=_frozen)
    allow_io: bool = attrs.field(default=False, kw_only=True, on_setattr=_frozen)
    _gate: Gate | None = attrs.field(default=None, init=False, eq=False)
    _record: Record | None = attrs.field(default=None, init=False, eq=False)
    # Whether to tell Hypothesis about each run; `run` tells of failures itself.
    _noting: bool = attrs.field(default=True, init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if problem := verdict().problem:
            text = (
                f"trio {trio.__version__} does not let a schedule control the order of tasks "
                f"({problem}). Tasks run in trio's own order, which schedules() seeds."
            )
            warnings.warn(GateWarning(text), stacklevel=4)

    @classmethod
    def walk(
        cls, seed: int, *, time: bool = True, batch: bool = False, allow_io: bool = False
    ) -> Schedule:
        """Return a random walk: each ready task has the same chance to take the next step.

        Args:
            seed: Of the random numbers.
            time: Whether time may pass while tasks are ready, as one choice among them.
            batch: Keep to orders that trio produces today.
            allow_io: Use the real clock, for programs with threads, processes or sockets.
        """
        family = Walk(position("the seed", seed), bool(time))
        return cls(family, batch=batch, allow_io=allow_io)

    @classmethod
    def priorities(
        cls,
        *order: int,
        demote: Sequence[int] = (),
        clock: int | None = None,
        batch: bool = False,
        allow_io: bool = False,
    ) -> Schedule:
        """Return fixed priorities with a few changes: of the ready tasks the lowest rank runs.

        Args:
            order: The rank of each task by its number, repeated for later tasks; among equals
                the one that ran last goes on.
            demote: At these decisions the task whose turn it is drops below all others for good.
            clock: Tasks of a higher rank are slow: timers fire before every other step of
                theirs. None: time passes only when nothing can run.
            batch: Keep to orders that trio produces today.
            allow_io: Use the real clock, for programs with threads, processes or sockets.
        """
        if clock is not None:
            position("clock", clock)
        family = Priorities(positions("a rank", order), positions("demote", demote), clock)
        return cls(family, batch=batch, allow_io=allow_io)

    @classmethod
    def hold(
        cls,
        *at: int,
        slow: Sequence[int] = (),
        jumps: Sequence[int] = (),
        batch: bool = False,
        allow_io: bool = False,
    ) -> Schedule:
        """Return "each task runs until it blocks", but for the deviations given.

        Args:
            at: At these decisions the task whose turn it is waits until nothing else can run.
            slow: At these it waits until a few timers have fired, too.
            jumps: At these decisions time jumps to the next timer, although tasks are ready; they
                then go on as before.
            batch: Keep to orders that trio produces today.
            allow_io: Use the real clock, for programs with threads, processes or sockets.
        """
        family = Hold(
            positions("a decision", at), positions("slow", slow), positions("jumps", jumps)
        )
        return cls(family, batch=batch, allow_io=allow_io)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule that is written as ``walk:0``, or as a literal.

        Args:
            text: What `str` or `repr` of a schedule returns.

        Raises:
            ValueError: It is neither.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None or match["family"] not in FAMILIES:
            raise ValueError(f"not a schedule: {text!r}; {_HOW_TO_WRITE}")
        try:
            numbers, options = _evaluate(match["call"] or match["args"] or "")
            make: Callable[..., Schedule] = getattr(cls, match["family"])
            return make(*numbers, **options)
        except (SyntaxError, TypeError, ValueError) as error:
            raise ValueError(f"not a schedule: {text!r} ({error}); {_HOW_TO_WRITE}") from error

    @classmethod
    def portfolio(
        cls, number: int, *, batch: bool = False, allow_io: bool = False
    ) -> list[Schedule]:
        """Return that many schedules, always the same ones: the three families in turn.

        Args:
            number: How many.
            batch: Keep to orders that trio produces today.
            allow_io: Use the real clock, for programs with threads, processes or sockets.
        """
        families = (_member(index) for index in range(position("the number", number)))
        return [cls(family, batch=batch, allow_io=allow_io) for family in families]

    def __repr__(self) -> str:
        return f"Schedule.{self.family.name}({', '.join(self._arguments())})"

    def __str__(self) -> str:
        arguments = ",".join(self._arguments()).replace(" ", "")
        return f"{self.family.name}:{arguments}" if arguments else self.family.name

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001
        # Hypothesis would print the fields of an attrs class instead of the literal.
        printer.text(repr(self))

    def _arguments(self) -> list[str]:
        numbers, keywords = self.family.literal()
        options = {"batch": self.batch, "allow_io": self.allow_io}
        keywords |= {name: True for name, value in options.items() if value}
        return [*map(repr, numbers), *(f"{name}={value!r}" for name, value in keywords.items())]

    @property
    def trace(self) -> tuple[str, ...]:
        """Each step and each jump of time of the last run, as ``name#number``.

        The numbers count the tasks from 0 in the order they were spawned.
        """
        return tuple(self._record.entries()) if self._record else ()

    def explain(self) -> str:
        """Return the order of the last run as one line, and whether trio produces it today."""
        return self._record.line() if self._record else "has not run yet"

    @property
    def hang(self) -> Hang | None:
        """The first `Hang` of the last run, also if the program has swallowed it."""
        return self._record.hang if self._record else None

    # As an instrument. The gate of each run is an instrument of its own, so that the value stays
    # one, and the state of a run ends with it.

    def before_run(self) -> None:
        self._gate = Gate(
            self.family.chooser(),
            batch_only=self.batch,
            # Installed as an instrument only, it leaves time to the clock of that run.
            virtual=not self.allow_io and trio.lowlevel.current_clock() is self,
            controlled=verdict().problem is None,
            idle_code=verdict().idle_code,
        )
        self._record = self._gate.record
        self._record.controlled = self._gate.controlled
        trio.lowlevel.add_instrument(self._gate)

    def after_run(self) -> None:
        self._gate = None
        hypothesis = sys.modules.get("hypothesis")
        if self._noting and hypothesis and hypothesis.currently_in_test_context():
            hypothesis.note(Explanation(self))

    # As the clock.

    def start_clock(self) -> None:
        if self._gate is None:
            raise RuntimeError(
                f"{self!r} was given to trio as a clock only: pass it in instruments=[...] as "
                "well, or use trioshell.testing.run()"
            )
        self._gate.start_clock()

    def current_time(self) -> float:
        assert self._gate is not None, "trio asks its clock only during a run"
        return self._gate.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        assert self._gate is not None, "trio asks its clock only during a run"
        return self._gate.deadline_to_sleep_time(deadline)


class Explanation:
    """Hypothesis formats what is noted only for the example that it reports."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def __repr__(self) -> str:
        return f"{self._schedule!r}: {self._schedule.explain()}"


def current_gate() -> Gate | None:
    """Return the gate of the run that calls this; None outside of a schedule."""
    clock = trio.lowlevel.current_clock()
    return clock._gate if isinstance(clock, Schedule) else None


def _evaluate(arguments: str) -> tuple[list[Any], dict[str, Any]]:
    """Evaluate literal arguments of a call, and nothing else."""
    match ast.parse(f"f({arguments})", mode="eval").body:
        case ast.Call(func=ast.Name(), args=numbers, keywords=options):
            values = {str(option.arg): ast.literal_eval(option.value) for option in options}
            return [ast.literal_eval(number) for number in numbers], values
        case _:
            raise ValueError("not the arguments of one call")


def _member(index: int) -> Family:
    draw = random.Random(index).random  # noqa: S311

    def some(number: int, below: int) -> tuple[int, ...]:
        return tuple(int(draw() * below) for _ in range(number))

    below = RANGES[index // 3 % len(RANGES)]
    if index % 3 == 0:
        return Priorities(some(8, RANKS), demote=some(2, below), clock=some(1, RANKS)[0])
    if index % 3 == 1:
        return Walk(index)
    return Hold(some(1, below), slow=some(1, below), jumps=some(1, below))
