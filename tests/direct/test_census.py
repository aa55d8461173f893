"""One look at the processes for all who ask at the same time."""

from __future__ import annotations

import os

import pytest
import trio

from tests.direct.rig import Start, alive, everything, linux_only
from trioshell.launchers._direct import census as census_module
from trioshell.launchers._direct.census import Census, session_of

pytestmark = linux_only


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every look at the list of processes."""
    noted: list[str] = []
    really = os.listdir

    def listdir(path: str) -> list[str]:
        noted.append(path)
        return really(path)

    monkeypatch.setattr(os, "listdir", listdir)
    return noted


async def test_census_knows_every_session() -> None:
    census = Census()
    assert census.last(os.getsid(0)) == ()
    assert os.getpid() in census.now(os.getsid(0))
    assert census.recent(0) is census.last(0)


async def test_all_who_ask_at_once_share_a_look(looks: list[str]) -> None:
    census = Census()
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(census.renew)
    assert looks == ["/proc"]


async def test_a_look_that_was_begun_before_is_not_shared(looks: list[str]) -> None:
    """It would say nothing of what happened between."""
    census = Census()
    census.now(0)
    await census.renew()
    await census.renew()
    assert len(looks) == 3


async def test_polite_requests_share_a_look_of_a_moment_ago(
    looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(census_module, "_RECENT", 60.0)
    census = Census()
    for _ in range(100):
        census.recent(0)
    assert len(looks) == 1
    monkeypatch.setattr(census_module, "_RECENT", -1.0)
    census.recent(0)
    assert len(looks) == 2


def test_nobody_has_no_session() -> None:
    assert session_of(1 << 30) is None


@pytest.mark.slow
async def test_many_endings_take_few_looks(start: Start, looks: list[str]) -> None:
    """C9: what a scope takes to leave does not grow with the square of its shells."""
    processes = [await start("sleep 300 & echo $!; exec sleep 300") for _ in range(40)]
    looks.clear()
    async with trio.open_nursery() as nursery:
        for process in processes:
            process.kill(5)
            nursery.start_soon(process.wait)
    assert len(looks) < 80
    assert not any(alive(int(line)) for line in map(everything, processes) if line)


async def test_no_descriptor_to_look_with_says_nothing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody can be seen now does not mean that nobody is there."""
    really = os.listdir
    refused: list[str] = []

    def listdir(path: str) -> list[str]:
        if path == "/proc" and len(refused) < 3:
            refused.append(path)
            raise OSError(24, "Too many open files")
        return really(path)

    process = await start("sleep 300 & echo $!; exit 3", background="kill", grace=5.0)
    monkeypatch.setattr(os, "listdir", listdir)
    ending = await process.wait()
    assert (ending.returncode, ending.leftovers, len(refused)) == (3, (), 3)
    assert not alive(int(everything(process)))
