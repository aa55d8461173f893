from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import permutations

import pytest
import trio
from hypothesis import find, given, settings

from trioshell.testing import Hang, Schedule, cancel_everywhere, explore, run, schedules

# A demonstration on code that has nothing to do with trioshell: a cache that is to load each key
# once. The first version looks, waits, then acts on what it saw.


class RacyCache:
    def __init__(self, load: Callable[[str], Awaitable[str]]) -> None:
        self._load = load
        self._values: dict[str, str] = {}

    async def get(self, key: str) -> str:
        if key not in self._values:
            self._values[key] = await self._load(key)
        return self._values[key]

    def forget(self, key: str) -> None:
        self._values.pop(key, None)


class Cache(RacyCache):
    """The same without the race: whoever comes first for a key decides, without waiting."""

    def __init__(self, load: Callable[[str], Awaitable[str]]) -> None:
        super().__init__(load)
        self._loading: dict[str, trio.Event] = {}

    async def get(self, key: str) -> str:
        while key not in self._values:
            if key in self._loading:
                await self._loading[key].wait()
            else:
                await self._load_first(key)
        await trio.lowlevel.checkpoint()
        return self._values.get(key, "forgotten")

    async def _load_first(self, key: str) -> None:
        done = self._loading[key] = trio.Event()
        try:
            self._values[key] = await self._load(key)
        finally:
            del self._loading[key]
            done.set()


async def use_cache(make: type[RacyCache]) -> tuple[int, int]:
    """Three tasks want two keys; return how often each was loaded."""
    loads: Counter[str] = Counter()

    async def load(key: str) -> str:
        loads[key] += 1
        await trio.sleep(1)
        return key.upper()

    cache = make(load)

    async def want(*keys: str) -> None:
        for key in keys:
            await trio.lowlevel.checkpoint()
            assert await cache.get(key) == key.upper()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(want, "a", name="one")
        nursery.start_soon(want, "b", "a", name="two")
        nursery.start_soon(want, "a", "b", name="three")
    assert max(loads.values()) == 1, f"loaded more than once: {dict(loads)}"
    return loads["a"], loads["b"]


def test_schedules_find_the_race_of_the_cache() -> None:
    def fails(schedule: Schedule) -> bool:
        try:
            run(use_cache, RacyCache, schedule=schedule)
        except AssertionError:
            return True
        return False

    found = find(schedules(), fails, settings=settings(max_examples=300))
    assert fails(found)


@settings(max_examples=200)
@given(schedule=schedules())
async def test_schedules_find_nothing_in_the_cache_without_it(schedule: Schedule) -> None:
    assert await use_cache(Cache) == (1, 1)


def test_explore_proves_the_race_of_the_cache_gone() -> None:
    with pytest.raises(AssertionError, match="more than once"):
        explore(lambda: use_cache(RacyCache), holds=2)
    report = explore(lambda: use_cache(Cache), holds=2)
    assert report.complete
    assert report.runs > 100
    assert report.results == {(1, 1): report.runs}


def test_cancel_everywhere_finds_what_the_cache_forgets_to_clean_up() -> None:
    """A fix that forgets cancellation: whoever waits for a load that was cancelled waits on."""

    class Careless(Cache):
        async def _load_first(self, key: str) -> None:
            done = self._loading[key] = trio.Event()
            self._values[key] = await self._load(key)
            del self._loading[key]
            done.set()

    async def load(key: str) -> str:
        await trio.sleep(1)
        return key.upper()

    def sweep(make: type[RacyCache]) -> int:
        @asynccontextmanager
        async def cache() -> AsyncGenerator[RacyCache]:
            yield make(load)

        async def get(cache: RacyCache) -> str:
            return await cache.get("a")

        async def check(cache: RacyCache) -> None:
            assert await cache.get("a") == "A"

        return cancel_everywhere(get, setup=cache, check=check)

    assert sweep(Cache) >= 5 * 4
    with pytest.raises(Hang) as caught:
        sweep(Careless)
    assert "done.wait" not in str(caught.value)
    assert "await self._loading[key].wait()" in str(caught.value)
    assert "the operation was cancelled before step" in caught.value.__notes__[-1]


# Exploring.


def racers(*names: str, steps: int = 1) -> Callable[[], Awaitable[str]]:
    """Return a program in which each task takes some steps, and which returns their order."""

    async def main() -> str:
        log: list[str] = []

        async def race(name: str) -> None:
            for _ in range(steps - 1):
                log.append(name)
                await trio.lowlevel.checkpoint()
            log.append(name)

        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(race, name, name=name)
        return "".join(log)

    return main


def deviations_of(schedule: Schedule) -> int:
    at, others = schedule.family.literal()
    return len(at) + sum(map(len, others.values()))


def test_explore_without_deviations_is_one_run() -> None:
    report = explore(racers("a", "b", "c"), holds=0)
    assert report.complete
    assert report.runs == 1
    assert report.results == {"abc": 1}


def test_explore_with_enough_deviations_reaches_every_order() -> None:
    report = explore(racers("a", "b", "c"), holds=3)
    assert report.complete
    assert set(report.results) == {"".join(order) for order in permutations("abc")}
    report = explore(racers("a", "b", steps=2), holds=3)
    assert set(report.results) == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}
    assert report.runs == report.results.total()


def test_explore_runs_no_schedule_twice_and_the_simple_ones_first() -> None:
    schedules: list[Schedule] = []

    async def main() -> None:
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, Schedule)
        schedules.append(Schedule.parse(repr(clock)))
        with trio.move_on_after(1):
            await racers("a", "b", steps=2)()
            await trio.sleep(2)

    report = explore(main, holds=2)
    assert len(set(schedules)) == len(schedules) == report.runs
    deviations = [deviations_of(schedule) for schedule in schedules]
    assert deviations == sorted(deviations)
    assert {0, 1, 2} == set(deviations)
    kinds = {name for schedule in schedules for name in schedule.family.literal()[1]}
    assert kinds == {"slow", "jumps"}


def timer_beats_end() -> Callable[[], Awaitable[str]]:
    """Return a program that may believe its timer although the work is done."""

    async def main() -> str:
        done = trio.Event()

        async def work() -> None:
            await trio.sleep(0.9)
            done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            with trio.move_on_after(1) as scope:
                await done.wait()
            return "wrong" if scope.cancelled_caught and done.is_set() else "right"

    return main


def lost_wakeup() -> Callable[[], Awaitable[str]]:
    """Return a program in which a waiter is slow to say that it waits."""

    async def main() -> str:
        waiters: list[trio.Event] = []
        done = False

        async def wait() -> None:
            if not done:
                await trio.lowlevel.checkpoint()
                waiters.append(trio.Event())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            done = True
            woken = len(waiters)
        return "right" if woken == len(waiters) else "wrong"

    return main


@pytest.mark.parametrize("program", [timer_beats_end(), lost_wakeup()], ids=["timer", "wakeup"])
def test_explore_finds_races_with_time_by_one_deviation(
    program: Callable[[], Awaitable[str]],
) -> None:
    """A timer and an end in the same step; a task slower than a timer."""
    assert set(explore(program, time=False).results) == {"right"}
    report = explore(program, holds=1)
    assert report.complete
    assert set(report.results) == {"right", "wrong"}


def test_explore_in_batches_keeps_to_orders_that_trio_produces() -> None:
    report = explore(racers("a", "b", steps=2), holds=4, batch=True)
    assert set(report.results) == {"abab", "abba", "baab", "baba"}


def test_explore_stops_at_max_runs_and_says_so() -> None:
    complete = explore(racers("a", "b", "c"), holds=2)
    report = explore(racers("a", "b", "c"), holds=2, max_runs=complete.runs - 1)
    assert not report.complete
    assert report.runs == complete.runs - 1
    assert explore(racers("a", "b", "c"), holds=2, max_runs=complete.runs) == complete
    assert explore(racers("a"), max_runs=0).runs == 0


def test_explore_raises_the_first_failure_with_its_schedule() -> None:
    order = racers("a", "b", "c")

    async def main() -> None:
        assert await order() != "bca"

    with pytest.raises(AssertionError) as caught:
        explore(main, holds=2)
    (note,) = caught.value.__notes__
    assert note.startswith("Schedule.hold(1): main#0 > (hold a#1) > b#2 > c#3 > a#1 > main#0")
    with pytest.raises(AssertionError):
        run(main, schedule=Schedule.hold(1))


def test_explore_needs_a_program_that_depends_on_nothing_else() -> None:
    state: list[int] = []

    async def main() -> None:
        state.append(1)
        await racers(*"abc"[len(state) - 1 :], steps=2)()

    with pytest.raises(RuntimeError, match="depends on something besides its schedule"):
        explore(main)


def test_explore_names_bad_input() -> None:
    with pytest.raises(ValueError, match="holds=-1"):
        explore(racers("a"), holds=-1)
    with pytest.raises(ValueError, match="max_runs=-1"):
        explore(racers("a"), max_runs=-1)

    async def unhashable() -> list[int]:
        return []

    with pytest.raises(TypeError, match=r"must be hashable.*instead of \[\]"):
        explore(unhashable)  # type: ignore[arg-type]


# Cancelling.


def test_cancel_everywhere_cancels_at_each_state_of_the_operation() -> None:
    """Before it begins, while it waits, woken but not yet run, and while others work for it."""
    states = set()

    async def op() -> None:
        state = "began"
        try:
            async with trio.open_nursery() as nursery:

                async def help_out() -> None:
                    nonlocal state
                    await trio.sleep(1)
                    state = "helped"

                nursery.start_soon(help_out)
                await trio.sleep(2)
                state = "slept"
            await trio.sleep(1)
            state = "done"
        finally:
            states.add(state)

    runs = cancel_everywhere(op, schedules=[Schedule.hold()])
    assert states == {"began", "helped", "slept", "done"}
    assert runs > 8


def test_cancel_everywhere_goes_on_until_the_operation_completes() -> None:
    completed = 0

    async def op() -> None:
        nonlocal completed
        await trio.sleep(1)
        completed += 1

    runs = cancel_everywhere(op, schedules=3)
    assert completed >= 3
    assert cancel_everywhere(op, schedules=Schedule.portfolio(3)) == runs


def test_cancel_everywhere_never_cancels_setup_or_check() -> None:
    values = []

    @asynccontextmanager
    async def setup() -> AsyncGenerator[list[str]]:
        value: list[str] = []
        values.append(value)
        await trio.sleep(1)
        yield value
        await trio.sleep(1)
        value.append("closed")

    async def op(value: list[str]) -> None:
        value.append("began")
        await trio.sleep(1)
        value.append("ended")

    async def check(value: list[str]) -> None:
        await trio.sleep(1)
        value.append("checked")

    runs = cancel_everywhere(op, setup=setup, check=check)
    assert len(values) == runs
    assert {tuple(value) for value in values} == {
        ("began", "checked", "closed"),
        ("began", "ended", "checked", "closed"),
    }


def test_cancel_everywhere_raises_what_fails_bare_with_the_step() -> None:
    async def op() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise ValueError("cleaning up failed") from None

    with pytest.raises(ValueError, match="cleaning up failed") as caught:
        cancel_everywhere(op)
    schedule, step = caught.value.__notes__
    assert "(cancel)" in schedule
    assert step == "the operation was cancelled before step 0"

    def check() -> None:
        raise KeyError("check")

    with pytest.raises(KeyError, match="check"):
        cancel_everywhere(trio.lowlevel.checkpoint, check=check)

    async def broken() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError

    with pytest.raises(OSError, match=r"^\n"):
        cancel_everywhere(broken)


def test_cancel_everywhere_works_with_the_real_clock() -> None:
    async def op() -> None:
        await trio.to_thread.run_sync(lambda: None)

    assert cancel_everywhere(op, schedules=[Schedule.hold(allow_io=True)]) > 1
