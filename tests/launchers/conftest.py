from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.direct.rig import Start, specs, starting
from trioshell.launchers import DirectLauncher, Launcher, SupervisedLauncher

KINDS: list[type[Launcher]] = [DirectLauncher]
if sys.platform == "linux":
    KINDS.append(SupervisedLauncher)


@pytest.fixture(params=KINDS)
async def start(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Start]:
    async with request.param() as launcher, starting(launcher, specs(tmp_path)) as start:
        yield start
