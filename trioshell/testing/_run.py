"""run(): a trio program under a schedule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, TypeVarTuple, cast

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
            return _run(async_fn, args, schedule)
    except BaseException as error:
        error.add_note(repr(Explanation(schedule)))
        raise


def _run(async_fn: Callable[..., Awaitable[T]], args: Sequence[Any], schedule: Schedule) -> T:
    result: T | None = None
    try:
        result = trio.run(async_fn, *args, clock=schedule, instruments=[schedule])
    except trio.TrioInternalError:
        # Where no task lets itself be interrupted, such as one that waits for a thread, a hang
        # has to break the run off. Trio takes that for a fault of its own.
        if schedule.hang is None:
            raise
    if schedule.hang is not None:
        raise schedule.hang
    return cast(T, result)


@contextmanager
def _noting_nothing(schedule: Schedule) -> Generator[None]:
    """Hypothesis would otherwise report each of the many runs of one example."""
    schedule._noting = False
    try:
        yield
    finally:
        schedule._noting = True
