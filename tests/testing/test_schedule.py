from __future__ import annotations

import ast
import inspect
import itertools
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, Phase, find, given, settings

import trioshell
from trioshell.testing import FakeLauncher, Hang, Schedule, run, schedules

EXAMPLES = {
    "walk:0": Schedule.walk(0),
    "walk:7,time=False": Schedule.walk(7, time=False),
    "hold": Schedule.hold(),
    "hold:7,30": Schedule.hold(7, 30),
    "hold:7,jumps=(12,),batch=True": Schedule.hold(7, jumps=(12,), batch=True),
    "priorities": Schedule.priorities(),
    "priorities:3,0,1,demote=(5,),clock=2": Schedule.priorities(3, 0, 1, demote=[5], clock=2),
    "walk:1,allow_io=True": Schedule.walk(1, allow_io=True),
}


class Counter:
    """Counts wrongly: what it read may be old when it writes."""

    def __init__(self) -> None:
        self.value = 0

    async def increase(self) -> None:
        value = self.value
        await trio.lowlevel.checkpoint()
        self.value = value + 1


async def count_to_two() -> None:
    counter = Counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counter.increase, name="left")
        nursery.start_soon(counter.increase, name="right")
    assert counter.value == 2


# A value.


@pytest.mark.parametrize(("text", "schedule"), EXAMPLES.items())
def test_schedule_is_written_as_a_literal_and_as_text(text: str, schedule: Schedule) -> None:
    assert str(schedule) == text
    assert Schedule.parse(text) == schedule
    assert Schedule.parse(repr(schedule)) == schedule
    assert eval(repr(schedule)) == schedule
    assert Schedule.parse(f"  {schedule!r}\n") == schedule


def test_schedule_is_a_value() -> None:
    assert len({*EXAMPLES.values(), *(Schedule.parse(text) for text in EXAMPLES)}) == len(EXAMPLES)
    for one, other in itertools.combinations(EXAMPLES.values(), 2):
        assert one != other
    schedule = Schedule.walk(0)
    with pytest.raises(AttributeError):
        schedule.batch = True


def test_schedule_stays_equal_when_it_has_run() -> None:
    schedule = Schedule.hold()
    before = hash(schedule)
    run(count_to_two, schedule=schedule)
    assert schedule == Schedule.hold()
    assert hash(schedule) == before
    assert repr(schedule) == "Schedule.hold()"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wlk:0",
        "walk",
        "walk:x",
        "walk:0,1",
        "walk:-1",
        "walk:True",
        "walk:0,tme=False",
        "walk:0)",
        "walk:0)+f(1",
        "walk:0)(1",
        "walk:__import__('os').getpid()",
        "portfolio:3",
        "parse:0",
        "hold:1.5",
        "hold:jumps=3",
        "priorities:clock='x'",
        "priorities:0,demote='12'",
    ],
)
def test_parse_names_bad_text(text: str) -> None:
    """Bad input is named, with what to write instead; nothing in it is ever run."""
    with pytest.raises(ValueError, match="write walk:SEED") as caught:
        Schedule.parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Schedule.walk(-1),
        lambda: Schedule.walk("0"),  # type: ignore[arg-type]
        lambda: Schedule.hold(1, -2),
        lambda: Schedule.hold(jumps=3),  # type: ignore[arg-type]
        lambda: Schedule.priorities(0, clock=-1),
        lambda: Schedule.priorities(demote="12"),  # type: ignore[arg-type]
        lambda: Schedule.portfolio(-1),
    ],
)
def test_schedule_names_bad_numbers(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="whole number"):
        make()


def test_portfolio_is_always_the_same_and_mixes_the_families() -> None:
    schedules = Schedule.portfolio(9)
    assert schedules == Schedule.portfolio(9)
    assert schedules[:4] == Schedule.portfolio(4)
    assert len(set(schedules)) == 9
    names = [schedule.family.name for schedule in schedules]
    assert names == ["priorities", "walk", "hold"] * 3
    assert all(schedule.batch for schedule in Schedule.portfolio(3, batch=True))


# Its last run.


def test_schedule_tells_its_last_run() -> None:
    schedule = Schedule.hold(2)
    assert not schedule.trace
    assert schedule.explain() == "has not run yet"
    with pytest.raises(AssertionError) as caught:
        run(count_to_two, schedule=schedule)
    assert schedule.trace == (
        "count_to_two#0",
        "left#1",
        "(hold left#1)",
        "right#2",
        "right#2",
        "left#1",
        "count_to_two#0",
    )
    line = (
        "count_to_two#0 > left#1 > (hold left#1) > right#2 x2 > left#1 > count_to_two#0"
        "  [batch-legal: trio produces such orders today]"
    )
    assert schedule.explain() == line
    assert caught.value.__notes__[-1] == f"Schedule.hold(2): {line}"


def test_explanation_is_one_line_however_long_the_run() -> None:
    async def main() -> None:
        async def spin(name: int) -> None:
            for _ in range(50 * name):
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for name in range(8):
                nursery.start_soon(spin, name, name=f"task {name}")

    schedule = Schedule.walk(0)
    run(main, schedule=schedule)
    assert len(schedule.trace) > 1000
    assert "\n" not in schedule.explain()
    assert "more ..." in schedule.explain()
    assert len(schedule.explain()) < 2000


def test_explanation_collapses_repetitions() -> None:
    async def main() -> None:
        async def spin() -> None:
            for _ in range(9):
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for name in ("left", "right"):
                nursery.start_soon(spin, name=name)

    schedule = Schedule.priorities(0, 0, 1, batch=True)
    run(main, schedule=schedule)
    assert schedule.explain().startswith("main#0 > (left#1 > right#2) x10 > main#0  [batch-legal")


def test_explanation_has_no_ids() -> None:
    """They are long, and others in each run, which would hide that two runs are the same."""

    async def main() -> None:
        async with trioshell.open_shells(launcher=FakeLauncher()) as shells:
            await shells.create("server")

    schedule = Schedule.hold()
    run(main, schedule=schedule)
    assert "shell#1" in schedule.trace
    assert "sh_" not in schedule.explain()


def test_one_schedule_serves_many_runs() -> None:
    async def main() -> float:
        await trio.sleep(5)
        return trio.current_time()

    for schedule in (*EXAMPLES.values(), *Schedule.portfolio(3)):
        if not schedule.allow_io:
            traces = set()
            for _ in range(3):
                assert run(main, schedule=schedule) == 5
                traces.add(schedule.trace)
            assert len(traces) == 1


# Installing it.


def test_run_passes_arguments_and_returns() -> None:
    async def main(one: int, other: int) -> int:
        await trio.lowlevel.checkpoint()
        return one + other

    assert run(main, 1, 2) == 3
    assert run(main, 1, 2, schedule="walk:0") == 3
    assert run(main, 1, 2, schedule=Schedule.walk(0)) == 3


def test_run_says_hang_also_where_no_task_can_be_interrupted() -> None:
    """Such as one that waits for a thread, which virtual time does not see."""
    program = """
        import time, trio
        from trioshell.testing import Hang, run

        async def main():
            await trio.to_thread.run_sync(time.sleep, 0.1)

        try:
            run(main)
        except Hang as hang:
            print(hang.blocked, "allow_io=True" in str(hang))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\('main#0 waits in main .*\) True\n", done.stdout)


def test_schedule_as_a_clock_only_is_refused() -> None:
    with pytest.raises(trio.TrioInternalError) as caught:
        trio.run(trio.sleep, 1, clock=Schedule.walk(0))
    assert "instruments=[...]" in str(caught.value.__cause__)


def test_schedule_as_an_instrument_only_controls_the_order() -> None:
    """Time is then left to the clock of that run, here trio's own virtual one."""
    schedule = Schedule.hold(3)

    async def main() -> None:
        await trio.sleep(5)
        assert trio.current_time() == 5
        await count_to_two()

    clock = trio.testing.MockClock(autojump_threshold=0)
    with pytest.raises(AssertionError):
        trio.run(main, clock=clock, instruments=[schedule])
    assert "hold" in schedule.explain()


# Hypothesis.


def family_is(name: str) -> Callable[[Schedule], bool]:
    return lambda schedule: schedule.family.name == name


def fails(schedule: Schedule) -> bool:
    try:
        run(count_to_two, schedule=schedule)
    except AssertionError:
        return True
    return False


def test_strategy_finds_and_shrinks_the_race() -> None:
    found = find(schedules(), fails, settings=settings(max_examples=300))
    assert fails(found)
    assert len(str(found)) <= len("priorities:0,1,demote=(2,)")


def test_strategy_draws_every_family_and_keeps_to_the_options() -> None:
    for name in ("priorities", "walk", "hold"):
        find(schedules(), family_is(name))

    @given(schedule=schedules(batch=True, allow_io=True))
    def check(schedule: Schedule) -> None:
        assert schedule.batch
        assert schedule.allow_io

    check()


def test_hypothesis_reports_the_literal_and_the_order() -> None:
    """Under an async test runner that installs what is drawn, the order is noted after the run."""

    @settings(phases=[Phase.generate, Phase.shrink], database=None)
    @given(schedule=schedules())
    def test(schedule: Schedule) -> None:
        trio.run(count_to_two, clock=schedule, instruments=[schedule])

    with pytest.raises(AssertionError) as caught:
        test()
    text = "\n".join(caught.value.__notes__)
    literal = re.search(r"schedule=(Schedule\..*),", text)
    assert literal is not None
    assert f"{literal[1]}: count_to_two#0 > " in text
    assert "left#1 > " in text
    assert fails(Schedule.parse(literal[1]))


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schedule=schedules())
async def test_pytest_trio_installs_what_is_drawn(schedule: Schedule) -> None:
    start = trio.current_time()
    await trio.sleep(10_000)
    assert trio.current_time() >= start + 10_000
    assert trio.lowlevel.current_clock() is schedule


@settings(max_examples=50)
@given(schedule=schedules(batch=True))
def test_batch_schedules_make_only_orders_that_trio_produces(schedule: Schedule) -> None:
    fails(schedule)
    assert "[batch-legal" in schedule.explain()


# The same everywhere.

PROGRAM = """
import sys, trio
from trioshell.testing import Hang, Schedule, run

async def actor(name, send, event, log):
    for turn in range(3):
        with trio.move_on_after(turn):
            await send.send((name, turn))
        await trio.sleep(0.5)
        log.append((name, turn))
    event.set()

async def main():
    log = []
    send, receive = trio.open_memory_channel(0)
    event = trio.Event()
    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(actor, name, send, event, log, name=name)
        for _ in range(4):
            nursery.start_soon(event.wait, name="waiter")
        with trio.move_on_after(4):
            async for item in receive:
                log.append(item)
    await trio.sleep_forever()

for schedule in [*Schedule.portfolio(12), *Schedule.portfolio(3, batch=True)]:
    try:
        run(main, schedule=schedule)
    except Hang as hang:
        print(repr(schedule), hang.blocked)
    print(schedule.trace)
"""


def in_fresh_processes(program: str, *seeds: object) -> list[str]:
    """Run a program once with each hash seed, all at once, and return what they printed."""
    # trio.testing imports pytest if there is one, and most of the start would be that.
    program = "import sys; sys.modules['pytest'] = None\n" + textwrap.dedent(program)
    command = [sys.executable, "-c", program]
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in seeds
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(seeds)
    return outputs


def in_fresh_process(program: str) -> str:
    (output,) = in_fresh_processes(program, "random")
    return output


@pytest.mark.slow
def test_traces_are_the_same_in_every_process_and_for_every_hash_seed() -> None:
    outputs = set(in_fresh_processes(PROGRAM, 0, 1, 2, "random", "random"))
    assert len(outputs) == 1
    traces = [ast.literal_eval(line) for line in outputs.pop().splitlines() if line[0] == "("]
    assert len(set(traces)) == len(traces) == 15


@pytest.mark.slow
@pytest.mark.timeout(300)  # 20 processes at once, on a machine that may be busy
def test_failing_example_replays_identically_in_fresh_processes() -> None:
    found = find(schedules(), fails, settings=settings(max_examples=300))
    source = "\n".join(inspect.getsource(thing) for thing in (Counter, count_to_two))
    program = f"""
import trio
from trioshell.testing import Schedule, run

{source}
try:
    run(count_to_two, schedule={found!r})
except AssertionError as error:
    print(error.__notes__)
"""
    outputs = set(in_fresh_processes(program, *["random"] * 20))
    assert len(outputs) == 1
    assert repr(found) in outputs.pop()


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["hypothesis", "pytest"])
def test_testing_works_without(missing: str) -> None:
    program = f"""
        import sys
        sys.modules[{missing!r}] = None
        from trioshell.testing import *
        import trio, trioshell.testing as t
        async def main():
            await trio.sleep(1)
            await t.quiet()
        t.run(main, schedule="walk:3")
        print(t.explore(main, holds=2).complete, t.cancel_everywhere(main) > 0)
        try:
            t.schedules()
        except ImportError as error:
            print(error)
    """
    output = in_fresh_process(program).splitlines()
    assert output[0] == "True True"
    message = "schedules() needs Hypothesis: install trioshell[testing]"
    assert output[1:] == ([message] if missing == "hypothesis" else [])


@pytest.mark.slow
def test_schedule_can_be_made_inside_a_running_trio() -> None:
    """The self-test at first use runs a trio of its own."""
    program = """
        import trio
        async def main():
            from trioshell.testing import Schedule
            print(Schedule.walk(0))
        trio.run(main)
    """
    assert in_fresh_process(program) == "walk:0\n"


def test_hang_explains_itself_in_a_note() -> None:
    async def main() -> None:
        await trio.Event().wait()

    with pytest.raises(Hang) as caught:
        run(main, schedule="walk:0")
    assert caught.value.__notes__ == [
        "Schedule.walk(0): main#0 x2  [batch-legal: trio produces such orders today]"
    ]
