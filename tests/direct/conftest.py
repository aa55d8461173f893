from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.direct.rig import SpecOf, Start, specs, starting
from trioshell.launchers import DirectLauncher


@pytest.fixture
def spec(tmp_path: Path) -> SpecOf:
    return specs(tmp_path, cwd=None)


@pytest.fixture
async def start(spec: SpecOf) -> AsyncGenerator[Start]:
    async with DirectLauncher() as launcher, starting(launcher, spec) as start:
        yield start
