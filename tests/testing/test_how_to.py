"""The tests on the page about testing are tests that pass, and its report is a true one."""

from __future__ import annotations

import os
import re
from typing import Final

import pytest

import trioshell
from tests.docs.test_examples import ROOT, examples
from tests.testing.test_plugin_schedules import Suite

PAGE: Final = (ROOT / "docs/how-to/test-your-code.md").read_text()

pytestmark = pytest.mark.slow


@pytest.fixture
def reader(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with every test of the page in a file of its own."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(trioshell.__path__[0]))
    directory = Suite(pytester).pytester
    for example in examples(PAGE, "test-your-code.md"):
        if match := re.match(r"# (\w+\.py)\n", example.code):
            (directory.path / match[1]).write_text(example.code)
        else:
            assert not example.is_fragment, f"{example.name} is not run by anybody"
    return directory


def test_how_to_tests_pass(reader: pytest.Pytester) -> None:
    racy = 20
    reader.runpytest_subprocess().assert_outcomes(passed=racy + 3)


def test_how_to_shows_a_true_report(reader: pytest.Pytester) -> None:
    """That of the counter without its lock."""
    path = reader.path / "test_counter.py"
    path.write_text(path.read_text().replace("async with self.lock:", "if True:"))
    told = reader.runpytest_subprocess(path).stdout.str()
    shown = re.findall(r"^(?:Schedule\.|repeat: ).*$", PAGE, re.MULTILINE)
    assert len(shown) == 2
    assert "\n".join(shown) in told
