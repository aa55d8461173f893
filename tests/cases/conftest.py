from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .support import LAUNCHERS, Case, make_launcher


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(guarantee): skip where the launcher lacks it")


@pytest.fixture(params=LAUNCHERS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A case, run with every launcher of real processes that can take it."""
    case = Case(partial(make_launcher, request.param), tmp_path)
    for mark in request.node.iter_markers("needs"):
        if not getattr(case.guarantees, mark.args[0]):
            pytest.skip(f"guarantees: the {request.param} launcher has no {mark.args[0]}")
    return case
