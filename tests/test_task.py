"""A launcher with a fault costs its shell the truth about the end, and nobody else anything."""

from __future__ import annotations

import logging

import pytest
import trio

from trioshell import Exited, Status, open_shells
from trioshell._events import Event
from trioshell._records import Ending, Leftover
from trioshell.launchers import Capture, Guarantees, Launcher, Process, Spec

from .memory import Memory


class Faulty(Process):
    """Fails in whatever is named; otherwise it ends at once."""

    pid = 4_194_305  # beyond every process id

    def __init__(self, *faults: str) -> None:
        self._faults = faults
        self._capture = Memory(b"output")

    @property
    def capture(self) -> Capture:
        return self._capture

    async def wait(self) -> Ending:
        await trio.lowlevel.checkpoint()
        self._maybe_fail("wait")
        return Ending(0, by_itself=True)

    def poll(self) -> Ending | None:
        return None

    def kill(self, grace: float) -> None:
        pass

    def send_signal(self, number: int) -> None:
        pass

    async def wait_empty(self) -> tuple[Leftover, ...]:
        await trio.lowlevel.checkpoint()
        self._maybe_fail("wait_empty")
        return ()

    async def wait_output(self, size: int) -> None:
        await trio.sleep_forever()

    def abandon(self) -> Ending:
        self._maybe_fail("abandon")
        return Ending(None, by_itself=False, size=6)

    def _maybe_fail(self, where: str) -> None:
        if where in self._faults:
            raise LookupError(where)


class FaultyLauncher(Launcher):
    """Starts what fails in the way that its command says."""

    needs_files = False

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees("faulty", False, False, False, False, False)

    async def launch(self, spec: Spec) -> Process:
        await trio.lowlevel.checkpoint()
        return Faulty(*spec.argv[-1].decode().split())


@pytest.mark.parametrize("faults", ["wait", "wait abandon", "wait_empty", "wait_empty abandon"])
async def test_a_fault_of_a_launcher_stays_with_its_shell(
    faults: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C1, C9: it has its one `exited` all the same, and the others go on."""
    events: list[Event] = []
    async with open_shells(launcher=FaultyLauncher(), observers=[events.append]) as shells:
        with caplog.at_level(logging.CRITICAL, "trioshell"):
            faulty = await shells.create(faults, background="keep")
            info = await faulty.wait()
            await faulty.kill()
        other = await shells.create("none")
        assert (await other.wait()).returncode == 0
    assert [event.id for event in events if isinstance(event, Exited)] == [faulty.id, other.id]
    if faults.startswith("wait_empty"):
        assert (info.status, info.reason) == (Status.EXITED, None)
    else:
        assert (info.status, info.returncode) == (Status.KILLED, None)
        assert info.reason == "the launcher failed: LookupError('wait')"
