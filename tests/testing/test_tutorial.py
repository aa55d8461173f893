"""What the tutorial about finding a race claims, done as a reader does it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import statistics
from pathlib import Path
from typing import Final

import attrs
import pytest

import trioshell
import trioshell.testing
from tests.docs.test_examples import ROOT, examples
from tests.testing.test_plugin_schedules import Suite
from trioshell.testing import Program, Schedule

PAGE: Final = (ROOT / "docs/tutorial/find-a-race.md").read_text()
STEPS: Final = [example.code for example in examples(PAGE, "find-a-race.md")]
# By place in the page: the board with the race, an ordinary test, one that draws, its settings,
# the board without the race, one more test.
RACY, PLAIN, DRAWN, SETTINGS, REPAIRED, PROOF = range(6)

FOUND: Final = re.compile(
    r"    program=(?P<program>Program\(.*\)),\n.*    schedule=(?P<schedule>Schedule\..*),\n.*\)\n"
    r"[ |]*(?P<line>(?P=schedule): .*\])$",
    re.MULTILINE,
)

# The time is for a machine that is busy with other things: each of them explores for long.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@attrs.frozen
class Found:
    """What a report says."""

    program: Program
    schedule: Schedule
    line: str

    @classmethod
    def read(cls, report: str) -> Found:
        (match,) = FOUND.finditer(report)
        names = dict(vars(trioshell.testing))
        program, schedule = (eval(match[name], names) for name in ("program", "schedule"))
        return cls(program, schedule, match["line"])

    @property
    def operations(self) -> int:
        """How often somebody does something."""
        return sum(
            1 + len(life.steps) + sum(map(len, life.rivals)) for _, life in self.program.lives()
        )

    @property
    def updates(self) -> list[int]:
        """The numbers of the updates, which begin in order, in the order in which they ended."""
        ends = dict.fromkeys(reversed(re.findall(r"(?:created|exited|deleted)#(\d+)", self.line)))
        return [int(number) for number in reversed(ends)]


@attrs.frozen
class Reader:
    """Somebody who does what the page says, in a directory of their own."""

    pytester: pytest.Pytester

    def save(self, *steps: int) -> None:
        for step in steps:
            match = re.fullmatch(r"# (\S+?)(, at the end)?\n(.*)", STEPS[step], re.DOTALL)
            assert match
            name, end, code = match.groups()
            path = self.pytester.path / name
            path.write_text(path.read_text() + code if end else code)

    def change(self, name: str, old: str, new: str) -> None:
        path: Path = self.pytester.path / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def run(self, *options: str, seed: int = 0, **outcomes: int) -> str:
        shutil.rmtree(self.pytester.path / ".hypothesis", ignore_errors=True)
        result = self.pytester.runpytest_subprocess(f"--hypothesis-seed={seed}", *options)
        result.assert_outcomes(**outcomes)
        return result.stdout.str()


@pytest.fixture
def reader(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(trioshell.__path__[0]))
    reader = Reader(Suite(pytester).pytester)
    reader.save(RACY, PLAIN, DRAWN, SETTINGS)
    return reader


def test_tutorial_test_is_short() -> None:
    functions = [
        node for node in ast.parse(STEPS[DRAWN]).body if isinstance(node, ast.AsyncFunctionDef)
    ]
    lines = [
        (node.end_lineno or 0) - node.lineno + 1 + len(node.decorator_list) for node in functions
    ]
    assert len(lines) == 2
    assert sum(lines) <= 10


def test_tutorial_race_is_found_made_small_and_explained(reader: Reader) -> None:
    """The ordinary test passes beside it. Three times, for now and then shrinking gets stuck."""
    reports = [Found.read(reader.run(seed=seed, passed=1, failed=1)) for seed in range(3)]
    assert statistics.median(found.operations for found in reports) <= 5
    for found in reports:
        assert "\n" not in found.line
        assert len(found.line) < 2000
        assert found.updates != sorted(found.updates)


def test_tutorial_shows_a_true_report(reader: Reader) -> None:
    """Not the one that Hypothesis finds: with its next release that may be another one."""
    shown = Found.read(PAGE)
    reader.change(
        "test_races.py",
        "@given(",
        "from hypothesis import Phase, example, settings\n"
        "from trioshell.testing import *\n"
        "@settings(phases=[Phase.explicit])\n"
        f"@example(program={shown.program}, schedule={shown.schedule!r})\n"
        "@given(",
    )
    told = reader.run("test_races.py", failed=1)
    assert shown.line in told
    (excerpt,) = re.findall(r"^    (.* > .*)$", PAGE, re.MULTILINE)
    assert excerpt in shown.line


def test_tutorial_race_is_one_that_trio_runs_into_today(reader: Reader) -> None:
    reader.change("test_races.py", "schedules())", "schedules(batch=True))")
    found = Found.read(reader.run("test_races.py", failed=1))
    assert "[batch-legal" in found.line
    assert found.updates != sorted(found.updates)


def test_tutorial_repair_holds_in_every_order(reader: Reader) -> None:
    reader.save(REPAIRED, PROOF)
    reader.run(passed=3)


def test_tutorial_proof_is_none_of_the_board_with_the_race(reader: Reader) -> None:
    reader.save(PROOF)
    told = reader.run("-k", "every_order", failed=1, deselected=2)
    assert re.search(r"Schedule\.hold\(.*\): .*\((?:hold|slow) created#\d\)", told)
