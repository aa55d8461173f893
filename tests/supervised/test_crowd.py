"""Many shells at once, and all of them ended by leaving (C10)."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Generator

import pytest

import trioshell
from tests import leaks
from trioshell.launchers import SupervisedLauncher

# Nobody carries it: what counts is what descends from here.
OURS = f"no mark {os.getpid()}"


@pytest.fixture
def descriptors() -> Generator[int]:
    """As many as may be had."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.deep
@pytest.mark.parametrize("count", [1000, 5000])
@pytest.mark.parametrize("command", ["exec sleep 600", "trap '' TERM; setsid sleep 600 & wait"])
async def test_leaving_ends_a_crowd(descriptors: int, count: int, command: str) -> None:
    """Each has one end, none has leftovers; no helper, descriptor or zombie is left.

    What cannot be ended within grace + 2 s is given up (C4), which is for the machine to decide.
    """
    if descriptors < count + 200:
        pytest.skip(f"RLIMIT_NOFILE is {descriptors}")
    before = leaks.Snapshot.take(OURS)
    ended: Counter[str] = Counter()
    leftovers: list[trioshell.Leftover] = []

    def note(event: trioshell.Event) -> None:
        if isinstance(event, trioshell.Exited):
            ended[event.info.status] += 1
            leftovers.extend(event.info.leftovers)

    launcher = SupervisedLauncher()
    async with trioshell.open_shells(
        launcher=launcher, observers=[note], retain=0, grace=0.5
    ) as shells:
        for _ in range(count):
            await shells.create(command)
    assert ended == {"killed": count}
    assert leftovers == []
    assert leaks.Snapshot.take(OURS).since(before) == []
