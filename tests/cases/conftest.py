from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .support import LAUNCHERS, Case, make_launcher


@pytest.fixture(params=LAUNCHERS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A case, run with every launcher of real processes."""
    return Case(partial(make_launcher, request.param), tmp_path)
