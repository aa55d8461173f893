"""One suite for every launcher: what the library promises holds whatever starts the processes.

A launcher joins by one line in `LAUNCHERS`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio
import trio.testing

from trioshell import Guarantees, Shell, Shells, open_shells
from trioshell.launchers import Launcher
from trioshell.launchers._direct import DirectLauncher
from trioshell.launchers._supervised import SupervisedLauncher
from trioshell.testing import EventLog, FakeLauncher, check_events

from .commands import fake_launcher

LAUNCHERS: Final[dict[str, Callable[[], Launcher]]] = {
    "fake": fake_launcher,
    "direct": DirectLauncher,
    "supervised": SupervisedLauncher,
}

# Long enough for a polite process on a busy machine, short enough to be waited for.
GRACE: Final = 0.3


@attrs.define(eq=False)
class Stage:
    """A launcher, and every scope that the test opens on it.

    Attributes:
        launcher: What is tested.
        log: The events of the newest scope.
    """

    launcher: Launcher
    log: EventLog = attrs.field(factory=EventLog)

    @asynccontextmanager
    async def open(
        self, *, retain: int = 25, grace: float = GRACE, **options: Any
    ) -> AsyncIterator[Shells]:
        """Open a scope, and check its whole log when it is over, however it is left."""
        self.log = EventLog()
        try:
            async with open_shells(
                launcher=self.launcher,
                observers=[self.log],
                shell="sh",
                retain=retain,
                grace=grace,
                **options,
            ) as shells:
                yield shells
        finally:
            fake = self.launcher if isinstance(self.launcher, FakeLauncher) else None
            check_events(self.log, launcher=fake, retain=retain)

    @property
    def guarantees(self) -> Guarantees:
        return self.launcher.guarantees

    def require(self, guarantee: str) -> None:
        """Skip the test for a launcher that does not promise this."""
        if not getattr(self.guarantees, guarantee):
            pytest.skip(f"the {self.guarantees.launcher} launcher does not promise {guarantee}")

    def life(self, shell: Shell) -> list[str]:
        """The events of one shell so far."""
        return self.log.of(shell.id)

    def alive(self, shell: Shell) -> list[str]:
        """The processes of a tree that live now, wherever they are."""
        if isinstance(self.launcher, FakeLauncher):
            trees = [p for p in self.launcher.processes if p.spec.id == shell.id]
            return [member.name for process in trees for member in process.living]
        return _carriers(f"TRIOSHELL_ID={shell.id}".encode())

    async def wait_until_alive(self, shell: Shell, number: int) -> None:
        """Wait until that many processes of a tree live."""
        while len(self.alive(shell)) != number:  # noqa: ASYNC110 - /proc tells nobody
            await trio.sleep(0.01)


def _carriers(mark: bytes) -> list[str]:
    """Processes that inherited this variable. A zombie has no environment any more."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("only /proc shows whose process one is")
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(pid)
        except OSError:
            continue
    return found


@pytest.fixture(params=LAUNCHERS)
def kind(request: pytest.FixtureRequest) -> str:
    """Which launcher."""
    kind: str = request.param
    return kind


@pytest.fixture
def stage(kind: str) -> Stage:
    """A launcher to open scopes on."""
    return Stage(LAUNCHERS[kind]())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # of all tests, not of this folder alone
        here = Path(__file__).parent in item.path.parents
        if here and "kind" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.trio(run=partial(_run, item)), append=False)


def _run(item: Any, async_fn: Any, **options: Any) -> None:
    """Run a test as pytest-trio does; but fake processes know no other time than virtual time."""
    if item.callspec.params["kind"] == "fake":
        options["clock"] = trio.testing.MockClock(autojump_threshold=0)
    trio.run(async_fn, **options)


async def up(shell: Shell) -> None:
    """Wait until the command says that it is ready."""
    async with shell.lines() as lines:
        assert await lines.receive() == "up"
