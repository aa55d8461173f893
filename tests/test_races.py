"""The race that this library began with, against real processes: remove, while the command ends."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from trioshell import Status, open_shells
from trioshell.testing import EventLog, check_events

LANES = 10
RETAIN = 25


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds",
    [300, pytest.param(10_000, marks=[pytest.mark.deep, pytest.mark.timeout(3600)])],
)
async def test_remove_races_with_the_end(rounds: int) -> None:
    """One exited each, before its deleted; no removed shell among the retained (C1, C7, C8)."""
    log = EventLog()
    statuses: Counter[Status] = Counter()

    async def lane(number: int) -> None:
        for count in range(rounds // LANES):
            shell = await shells.create(f"sleep 0.0{number}; exit 7")
            await trio.sleep(0.01 * number + (count % 25) * 0.0005)
            await shell.remove()
            statuses[shell.status] += 1
            assert shell.id not in shells

    async with (
        open_shells(observers=[log], retain=RETAIN) as shells,
        trio.open_nursery() as nursery,
    ):
        for number in range(LANES):
            nursery.start_soon(lane, number)
    check_events(log, retain=RETAIN)
    assert set(statuses) == {Status.EXITED, Status.KILLED}
    for event in log.events:
        if event.info.status is Status.EXITED:
            assert event.info.returncode == 7
