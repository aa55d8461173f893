from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from tests.direct.rig import SpecOf, Start, specs, starting
from trioshell.launchers._supervised import SupervisedLauncher


@pytest.fixture
def spec(tmp_path: Path) -> SpecOf:
    return specs(tmp_path)


@pytest.fixture
def new_number() -> Callable[[], str]:
    """Numbers of seconds to sleep, by which a process is found among all others."""
    numbers = itertools.count(os.getpid() * 1000 + 10_000_000)
    return lambda: str(next(numbers))


@pytest.fixture
async def launcher() -> AsyncGenerator[SupervisedLauncher]:
    async with SupervisedLauncher() as launcher:
        yield launcher


@pytest.fixture
async def start(launcher: SupervisedLauncher, spec: SpecOf) -> AsyncGenerator[Start]:
    async with starting(launcher, spec) as start:
        yield start
