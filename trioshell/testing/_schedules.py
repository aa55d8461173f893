"""schedules(): the Hypothesis strategy of schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    decisions = st.one_of([st.integers(0, last) for last in RANGES])

    def ranked(order: list[int], demote: list[int], clock: int | None) -> Schedule:
        return Schedule.priorities(
            *order, demote=demote, clock=clock, batch=batch, allow_io=allow_io
        )

    def walked(seed: int, time: bool) -> Schedule:  # noqa: FBT001
        return Schedule.walk(seed, time=time, batch=batch, allow_io=allow_io)

    def held(at: list[int], slow: list[int], jumps: list[int]) -> Schedule:
        return Schedule.hold(*at, slow=slow, jumps=jumps, batch=batch, allow_io=allow_io)

    few = st.lists(decisions, max_size=2, unique=True)
    priorities = st.builds(
        ranked,
        st.lists(st.integers(0, RANKS - 1), max_size=8),
        few,
        st.none() | st.integers(0, RANKS - 1),
    )
    walks = st.builds(walked, st.integers(0, 2**16), st.booleans())
    holds = st.builds(held, few, few, few)
    # In the order in which shrinking prefers them.
    strategy = priorities | holds | walks
    if verdict().problem is None:
        return strategy
    # Every random generator that is registered with Hypothesis, trio's among them, is seeded.
    return st.tuples(strategy, st.random_module()).map(lambda drawn: drawn[0])
