from __future__ import annotations

import os
import re
from importlib.metadata import entry_points
from textwrap import dedent

import pytest

import trioshell
from trioshell.testing import Schedule

COUNTER = """
    import pytest, trio
    from hypothesis import HealthCheck, given, settings
    from trioshell.testing import Schedule, run, schedules

    class Counter:
        def __init__(self):
            self.value = 0

        async def increase(self):
            value = self.value
            await trio.lowlevel.checkpoint()
            self.value = value + 1

    async def count_to_two():
        counter = Counter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(counter.increase, name="left")
            nursery.start_soon(counter.increase, name="right")
        assert counter.value == 2
"""

# One of the two takes a step between those of the other.
MEETING = r"(?:left#\d > (?:\([^)]*\) > )*right#\d|right#\d > (?:\([^)]*\) > )*left#\d)"


# A checkout that is not installed has no entry point.
PLUGIN = "" if entry_points(group="pytest11", name="trioshell") else "-p trioshell.testing.plugin"


class Suite:
    """A test suite of a user, with the plugin and pytest-trio."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        options = f"--strict-markers -p no:cacheprovider {PLUGIN}"
        pytester.makeini(
            f"[pytest]\naddopts = {options}\ntrio_mode = true\nfilterwarnings = error\n"
        )
        self.pytester = pytester

    def write(self, tests: str) -> None:
        self.pytester.makepyfile(test_it=dedent(COUNTER) + dedent(tests))

    def run(self, *options: str) -> pytest.RunResult:
        return self.pytester.runpytest_inprocess(*options)

    def output(self, *options: str, **outcomes: int) -> str:
        """Run it, check how many tests ended how, and return what pytest printed."""
        result = self.run(*options)
        result.assert_outcomes(**outcomes)
        return result.stdout.str()


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    (package,) = trioshell.__path__
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(package))  # for those in other processes
    monkeypatch.delenv("CI", raising=False)  # with it pytest says everything twice
    return Suite(pytester)


def test_plugin_leaves_other_tests_alone(suite: Suite) -> None:
    suite.write("""
        async def test_plain():
            assert not isinstance(trio.lowlevel.current_clock(), Schedule)

        async def test_clock(autojump_clock):
            await trio.sleep(10_000)

        def test_sync():
            pass
    """)
    suite.output(passed=3)


def test_racy_runs_a_test_under_the_portfolio(suite: Suite) -> None:
    suite.write("""
        clocks = []

        @pytest.mark.racy(5)
        async def test_clock():
            clocks.append(trio.lowlevel.current_clock())
            await trio.sleep(10_000)

        @pytest.mark.racy(n=5)
        async def test_argument(schedule):
            assert trio.lowlevel.current_clock() is schedule
            clocks.append(schedule)

        @pytest.mark.racy
        async def test_default():
            pass

        def test_same():
            assert clocks == 2 * Schedule.portfolio(5)
    """)
    output = suite.output("-v", passed=5 + 5 + 20 + 1)
    assert f"test_clock[{Schedule.portfolio(2)[1]}] PASSED" in output


def test_failure_is_explained_and_can_be_repeated(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.racy(20)
        async def test_count():
            await count_to_two()
    """)
    result = suite.run()
    failed = result.parseoutcomes()["failed"]
    assert 1 < failed < 20
    output = result.stdout.str()
    explained = re.findall(rf"^(Schedule\.\w+\(.*\)): .*{MEETING}", output, re.MULTILINE)
    assert len(explained) == failed
    repeat = re.search(r"^repeat: pytest '(.*)' --schedule '(.*)'$", output, re.MULTILINE)
    assert repeat is not None
    suite.output(repeat[1], "--schedule", repeat[2], failed=1)
    suite.output(repeat[1], "--schedule", explained[0], failed=1)


def test_option_runs_every_trio_test_under_one_schedule(suite: Suite) -> None:
    suite.write("""
        async def test_plain():
            assert trio.lowlevel.current_clock() == Schedule.hold(7)

        async def test_argument(schedule):
            assert trio.lowlevel.current_clock() is schedule
            assert schedule == Schedule.hold(7)

        def test_sync(schedule):
            run(trio.sleep, 10_000, schedule=schedule)
            assert schedule == Schedule.hold(7)

        @pytest.mark.racy(10)
        async def test_racy(schedule):
            assert schedule == Schedule.hold(7)

        async def test_group(nursery):
            with pytest.raises(ExceptionGroup):
                async with trio.open_nursery():
                    raise ValueError
    """)
    suite.output("--schedule", "hold:7", passed=5)


def test_option_names_bad_schedules(suite: Suite) -> None:
    suite.write("def test(): pass")
    result = suite.run("--schedule", "wlk:0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*--schedule: not a schedule: 'wlk:0'; write walk:SEED*")


def test_schedule_argument_runs_each_task_until_it_blocks(suite: Suite) -> None:
    suite.write("""
        async def test_argument(schedule):
            assert schedule == Schedule.hold()
            await count_to_two()
    """)
    suite.output(passed=1)


@pytest.mark.parametrize("clock", ["autojump_clock", "mock_clock"])
def test_another_clock_beside_a_schedule_is_a_clear_error(suite: Suite, clock: str) -> None:
    suite.write(f"""
        async def test_argument(schedule, {clock}):
            pass

        @pytest.mark.racy(1)
        async def test_marker({clock}):
            pass

        @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(schedule=schedules())
        async def test_drawn(schedule, {clock}):
            pass
    """)
    output = suite.output(failed=3)
    assert output.count("A schedule is the clock of its run") == 3
    assert output.count("Leave out the other one: autojump_clock or mock_clock") == 3
    output = suite.output("-k", "marker", "--schedule", "walk:0", failed=1, deselected=2)
    assert "A schedule is the clock of its run" in output


def test_racy_test_that_does_not_use_its_schedule_fails(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.racy(2)
        def test_nothing():
            pass

        @pytest.mark.racy(2)
        def test_something_else(schedule):
            trio.run(trio.sleep, 0)

        @pytest.mark.racy(2)
        def test_schedule(schedule):
            run(trio.sleep, 1, schedule=schedule)
    """)
    output = suite.output(failed=4, passed=2)
    assert output.count("is racy, but nothing ran under its schedule") == 4
    output = suite.output("--schedule", "walk:0", failed=2, passed=1)
    assert output.count("is racy, but nothing ran under its schedule") == 2


@pytest.mark.parametrize("count", ["0", "'x'", "True", "n=-1"])
def test_racy_names_bad_counts(suite: Suite, count: str) -> None:
    suite.write(f"""
        @pytest.mark.racy({count})
        async def test():
            pass
    """)
    output = suite.output(errors=1)
    assert "racy takes the number of schedules, at least 1" in output


def test_racy_does_not_go_with_given(suite: Suite) -> None:
    suite.write("""
        @pytest.mark.racy(2)
        @given(schedule=schedules())
        async def test(schedule):
            pass
    """)
    output = suite.output(errors=1)
    assert "racy does not go with @given: draw from schedules() instead" in output


@pytest.mark.slow
def test_drawn_schedules_need_no_plugin(suite: Suite) -> None:
    """pytest-trio installs a drawn schedule as it is; the order is part of the report."""
    suite.write("""
        @settings(database=None)
        @given(schedule=schedules())
        async def test_count(schedule):
            await count_to_two()
    """)
    result = suite.pytester.runpytest_subprocess("-o", "addopts=")
    result.assert_outcomes(failed=1)
    output = result.stdout.str()
    literal = re.search(r"schedule=(Schedule\.\w+\(.*\)),", output)
    assert literal is not None
    (explanation,) = [line for line in output.splitlines() if f"{literal[1]}: " in line]
    assert re.search(MEETING, explanation)
    assert "<test 'test_count'>#1" in explanation


def test_order_is_the_same_with_several_fixtures_each_time(suite: Suite) -> None:
    """pytest-trio starts fixtures in the order of a set, which differs each time."""
    suite.write("""
        @pytest.fixture
        async def one():
            await trio.sleep(1)
            yield 1

        @pytest.fixture
        async def two():
            await trio.lowlevel.checkpoint()
            yield 2

        @pytest.fixture
        async def three(two):
            return 3

        async def test(one, two, three, nursery, schedule):
            await trio.sleep(1)
            print("TRACE", schedule.trace)
            assert 0
    """)
    traces = set()
    for _ in range(5):
        output = suite.output("--schedule", "walk:5", failed=1)
        traces.update(re.findall("^TRACE .*", output, re.MULTILINE))
    assert len(traces) == 1


@pytest.mark.slow
def test_plugin_works_without_pytest_trio(suite: Suite) -> None:
    options = f"-p no:trio {PLUGIN}"
    suite.pytester.makeini(f"[pytest]\naddopts = {options}\nfilterwarnings = error\n")
    suite.write("""
        @pytest.mark.racy(3)
        def test_with_run(schedule):
            run(trio.sleep, 10_000, schedule=schedule)
    """)
    result = suite.pytester.runpytest_subprocess()
    result.assert_outcomes(passed=3)
