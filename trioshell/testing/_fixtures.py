"""The fixtures of the pytest plugin that have to do with shells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import _leftovers
from ._check import check_events
from ._fake import FakeLauncher
from ._log import EventLog


@pytest.fixture
def fake_launcher() -> FakeLauncher:
    """A `trioshell.testing.FakeLauncher`: ``open_shells(launcher=fake_launcher)``."""
    return FakeLauncher()


@pytest.fixture
def shell_log(request: pytest.FixtureRequest) -> Iterator[EventLog]:
    """A `trioshell.testing.EventLog`: ``open_shells(observers=[shell_log])``.

    When the test is over, its events are checked with `trioshell.testing.check_events`; against
    the truth about the processes, if the test also uses ``fake_launcher``. It is for one scope.
    """
    launcher: FakeLauncher | None = None
    if "fake_launcher" in request.fixturenames:
        launcher = request.getfixturevalue("fake_launcher")
    log = EventLog()
    yield log
    check_events(log, launcher=launcher)


@pytest.fixture
def assert_nothing_left() -> Iterator[None]:
    """Fail the test if it leaves a process, a descriptor, a thread or a trio task."""
    try:
        with _leftovers.assert_nothing_left():
            yield
    except AssertionError as error:
        message = str(error)
    else:
        return
    pytest.fail(message, pytrace=False)
