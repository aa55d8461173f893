from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from .support import no_host_survives


@pytest.fixture(autouse=True)
def hosts_end(no_leaks: None) -> Iterator[None]:
    with no_host_survives():
        yield


@pytest.fixture
def tag() -> str:
    """The value of ``CASE`` in the environment of the commands of one test."""
    return uuid.uuid4().hex


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where a durable directory may be made."""
    return tmp_path / "state"
