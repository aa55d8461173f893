"""run(): a trio program under a schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import trio

from ._schedule import Explanation, Schedule

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def run(
    async_fn: Callable[[*Ts], Awaitable[T]],
    *args: *Ts,
    schedule: Schedule | str | None = None,
) -> T:
    """Run a trio program under a schedule, as `trio.run` does.

    Args:
        async_fn: The program.
        args: Its arguments.
        schedule: A schedule, or the text of one such as ``walk:0``. None: each task runs until
            it blocks.

    Returns:
        What ``async_fn`` returns.

    Raises:
        Hang: Nothing could run any more; also if the program has swallowed that.
        BaseException: What ``async_fn`` raises, with the schedule and the order in a note.
    """
    if schedule is None:
        schedule = Schedule.hold()
    elif isinstance(schedule, str):
        schedule = Schedule.parse(schedule)
    try:
        with _noting_nothing(schedule):
            result = trio.run(async_fn, *args, clock=schedule, instruments=[schedule])
        if schedule.hang is not None:
            raise schedule.hang
        return result
    except BaseException as error:
        error.add_note(repr(Explanation(schedule)))
        raise


@contextmanager
def _noting_nothing(schedule: Schedule) -> Generator[None]:
    """Hypothesis would otherwise report each of the many runs of one example."""
    schedule._noting = False
    try:
        yield
    finally:
        schedule._noting = True
