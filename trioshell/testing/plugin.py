"""The pytest plugin: schedules for trio tests by marker, fixture and command line, and fixtures.

* ``@pytest.mark.racy(n)`` runs a test once under each of n schedules, always the same ones.
* ``--schedule walk:0`` runs the selected trio tests under that schedule: what a failure prints.
* The fixture ``schedule`` gives the schedule to a test that wants to see it, or to call
  `trioshell.testing.run` itself.
* The fixtures ``fake_launcher``, ``shell_log`` and ``assert_nothing_left`` are for tests of what
  is built on shells.

A test that fails under a schedule is reported with its order. Tests that use none of these are
left alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.abc

from ._fixtures import assert_nothing_left, fake_launcher, shell_log
from ._schedule import Schedule

# The fixtures: pytest finds them because they are here.
__all__ = ["assert_nothing_left", "fake_launcher", "schedule", "shell_log"]

_DEFAULT_RUNS = 20
_USED = pytest.StashKey[Schedule]()

_TWO_CLOCKS = (
    "{test} has a schedule and another clock ({clock}). A schedule is the clock of its run: time "
    "jumps to the next timer by itself. Leave out the other one: autojump_clock or mock_clock"
)

_NOT_USED = (
    "{test} is racy, but nothing ran under its schedule: let pytest-trio run the test, or take "
    "the fixture `schedule` and pass it to trioshell.testing.run"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("trioshell")
    group.addoption(
        "--schedule",
        type=_parse,
        metavar="SCHEDULE",
        help="run the selected trio tests under this schedule, such as walk:0",
    )


def _parse(text: str) -> Schedule:
    try:
        return Schedule.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"racy(n={_DEFAULT_RUNS}): run this trio test once under each of n fixed schedules",
    )


@pytest.fixture
def schedule(request: pytest.FixtureRequest) -> Schedule:
    """The schedule of this test: from racy, --schedule, or one that runs each task until it blocks.

    pytest-trio installs it, because it is a clock and an instrument; a test without pytest-trio
    passes it to `trioshell.testing.run`.
    """
    chosen: Schedule | None = getattr(request, "param", None) or _option(request.config)
    return attrs.evolve(chosen) if chosen else Schedule.hold()  # its trace is this test's


def _option(config: pytest.Config) -> Schedule | None:
    option: Schedule | None = config.getoption("--schedule")
    return option


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("racy")
    if marker is None:
        return
    if hasattr(metafunc.function, "hypothesis"):
        pytest.fail("racy does not go with @given: draw from schedules() instead", pytrace=False)
    option = _option(metafunc.config)
    chosen = [option] if option else Schedule.portfolio(_runs(*marker.args, **marker.kwargs))
    if "schedule" not in metafunc.fixturenames:
        metafunc.fixturenames.append("schedule")
    metafunc.parametrize("schedule", chosen, indirect=True, ids=str)


def _runs(n: object = _DEFAULT_RUNS) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        pytest.fail(f"racy takes the number of schedules, at least 1, not {n!r}", pytrace=False)
    return n


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let pytest-trio run the tests that are to have a schedule by our runner.

    After pytest-trio has marked its tests. The marker in front is the one that it obeys.
    """
    for item in items:
        racy = item.get_closest_marker("racy") is not None
        if (racy or _option(config)) and item.get_closest_marker("trio"):
            item.add_marker(pytest.mark.trio(run=partial(_run, item)), append=False)


def _run(
    item: pytest.Item,
    async_fn: Callable[[], Awaitable[Any]],
    *,
    clock: trio.abc.Clock | None = None,
    instruments: Sequence[trio.abc.Instrument] = (),
) -> Any:
    if clock is None:
        # Not from the fixture: pytest sets that up only for a test that asks for it.
        chosen = _parameters(item).get("schedule") or _option(item.config)
        assert isinstance(chosen, Schedule), "the reason why this runs the test"
        item.stash[_USED] = clock = attrs.evolve(chosen)
        instruments = [*instruments, clock]
    elif not isinstance(clock, Schedule):
        pytest.fail(_TWO_CLOCKS.format(test=item.name, clock=clock), pytrace=False)
    return trio.run(async_fn, clock=clock, instruments=instruments)


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})


def _funcargs(item: pytest.Item) -> dict[str, Any]:
    return getattr(item, "funcargs", {})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Refuse a test that cannot have its schedule, or has not used it."""
    _refuse_two_clocks(item)
    yield
    if item.get_closest_marker("racy"):
        used = _used(item)
        if used is None or not used.trace:
            pytest.fail(_NOT_USED.format(test=item.name), pytrace=False)


def _refuse_two_clocks(item: pytest.Item) -> None:
    clocks = [value for value in _funcargs(item).values() if isinstance(value, trio.abc.Clock)]
    others = [clock for clock in clocks if not isinstance(clock, Schedule)]
    if others and len(clocks) > len(others):
        pytest.fail(_TWO_CLOCKS.format(test=item.name, clock=others[0]), pytrace=False)


def _used(item: pytest.Item) -> Schedule | None:
    used = item.stash.get(_USED, None) or _funcargs(item).get("schedule")
    return used if isinstance(used, Schedule) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say under which schedule a test failed, in which order, and how to repeat it."""
    report = yield
    if call.when == "call" and report.failed:
        report.sections.extend(_sections(item, call))
    return report


def _sections(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterable[tuple[str, str]]:
    used = _used(item)
    if used is not None and used.trace:
        test = item.nodeid.partition("[")[0]
        yield "schedule", f"{used!r}: {used.explain()}\nrepeat: pytest '{test}' --schedule '{used}'"
    # pytest-trio meets a drawn schedule and another clock only inside the example.
    error = str(call.excinfo.value) if call.excinfo else ""
    if "at most one Clock" in error and "Schedule." in error:
        yield "schedule", _TWO_CLOCKS.format(test=item.name, clock=error)
