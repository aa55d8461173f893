"""The fixture that fails a test for what it leaves behind (C10).

What is looked for, and how, is told in `trioshell.testing._leftovers`. The fixture never reaps:
that is for the test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trioshell.testing._leftovers import MARK, Snapshot, assert_nothing_left
from trioshell.testing._leftovers import RealProcess as Process

__all__ = ["MARK", "SETTLE", "Process", "Snapshot", "no_leaks"]

SETTLE = 2.0  # seconds


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail the test if it leaves a process, a descriptor, a thread or a trio task."""
    try:
        with assert_nothing_left(settle=SETTLE):
            yield
    except AssertionError as error:
        left = str(error).removeprefix("this was left behind:")
        pytest.fail(f"the test left behind{left}", pytrace=False)
