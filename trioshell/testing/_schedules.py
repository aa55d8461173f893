"""schedules(): the Hypothesis strategy of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ._families import Family, Hold, Priorities, Walk
from ._schedule import RANGES, RANKS, Schedule
from ._selftest import verdict

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def schedules(*, batch: bool = False, allow_io: bool = False) -> SearchStrategy[Schedule]:
    """Return a Hypothesis strategy of schedules of all families.

    With pytest-trio, ``@given(schedule=schedules())`` is all that a test needs: pytest-trio
    installs an argument that is a clock or an instrument. Elsewhere pass what is drawn to `run`.
    It is drawn before the run, never inside. With a failing example its order is reported.

    Args:
        batch: Keep to orders that trio produces today.
        allow_io: Use the real clock, for programs with threads, processes or sockets.

    Raises:
        ImportError: Hypothesis is not installed.
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise ImportError("schedules() needs Hypothesis: install trioshell[testing]") from error

    controlled = verdict().problem is None

    @st.composite
    def drawn(draw: st.DrawFn) -> Schedule:
        if not controlled:  # all generators that are known to Hypothesis are seeded, trio's too
            draw(st.random_module())
        digits = draw(st.text("01234567", min_size=_DIGITS, max_size=_DIGITS))
        return Schedule(_family(digits), batch=batch, allow_io=allow_io)

    return drawn()


# A schedule is drawn as one text of octal digits, which shrink to zeros: the family, the clock, the
# ranks, and for each range a digit that says whether and how it deviates there, and two for where.
#
# One draw, because Hypothesis, where a strategy is drawn from more than once in an example, goes on
# with variations of that example, five for each new one, and near doubles find much less. And a
# text, because its integers are mostly small ones.
_DIGITS: Final = 2 + RANKS + 3 * len(RANGES)


def _family(digits: str) -> Family:
    kind, clock = int(digits[0]), int(digits[1])
    ranks, places = digits[2 : 2 + RANKS], tuple(_places(digits[2 + RANKS :]))
    if kind < 2:
        order = tuple(map(int, ranks.rstrip("0")))
        demote = tuple(place for place, _ in places)
        return Priorities(order, demote=demote, clock=clock - 1 if clock else None)
    if kind < 5:
        return Hold(*(tuple(place for place, how in places if how == one) for one in range(3)))
    return Walk(int(ranks, 8), time=clock > 0)


def _places(digits: str) -> Iterator[tuple[int, int]]:
    """Where a schedule deviates, and how."""
    for index, below in enumerate(RANGES):
        how, where = int(digits[3 * index]), int(digits[3 * index + 1 : 3 * index + 3], 8)
        if how >= 4:
            yield where * below // 64, how % 3
