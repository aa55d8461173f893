"""Whole lifecycles under many schedules: the contract holds, and every situation is reached."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import Phase, given, settings

from trioshell.testing import Program, Schedule, programs, run, schedules

from .situations import OF_A_SCOPE, OF_A_SHELL, reached
from .support import checked, lives

PORTFOLIO = Schedule.portfolio(3)


@pytest.mark.timeout(300)
@settings(max_examples=300)
@given(program=programs())
def test_contract_holds_under_a_portfolio(program: Program) -> None:
    """Several schedules for each program: more is found, and what fails shrinks further."""
    for schedule in PORTFOLIO:
        run(checked, program, schedule=schedule)


@pytest.mark.deep
@settings(max_examples=50_000)
@given(program=programs(), schedule=schedules())
def test_contract_holds_under_any_schedule(program: Program, schedule: Schedule) -> None:
    run(checked, program, schedule=schedule)


@pytest.mark.timeout(300)
def test_every_situation_is_reached() -> None:
    """In 300 examples, the same on every run of this test."""
    counts: Counter[str] = Counter()

    @settings(max_examples=300, derandomize=True, database=None, phases=[Phase.generate])
    @given(program=programs(), schedule=schedules())
    def look(program: Program, schedule: Schedule) -> None:
        counts.update(reached(run(checked, program, schedule=schedule)))

    look()
    assert set(OF_A_SHELL) | set(OF_A_SCOPE) == set(counts), counts


@settings(max_examples=20)
@given(program=programs(), schedule=schedules())
def test_same_program_and_schedule_make_the_same_run(program: Program, schedule: Schedule) -> None:
    first = lives(run(checked, program, schedule=schedule)), schedule.trace
    second = lives(run(checked, program, schedule=schedule)), schedule.trace
    assert first == second


_REPLAY = """
import json
from tests.interleavings.scenarios import SCENARIOS
from tests.interleavings.support import checked, lives
from trioshell.testing import Schedule, run

told = []
for program, _ in SCENARIOS.values():
    for schedule in Schedule.portfolio(3):
        performance = run(checked, program, schedule=schedule)
        told.append([lives(performance), schedule.trace])
print(json.dumps(told))
"""


@pytest.mark.slow
def test_runs_are_the_same_in_every_process() -> None:
    """Whatever the hash seed, which changes the order of every set."""
    told = {
        subprocess.run(
            [sys.executable, "-c", _REPLAY],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (0, 1, 2)
    }
    assert len(told) == 1
    assert len(json.loads(told.pop())) > 50


@settings(max_examples=50)
@given(program=programs())
def test_programs_print_as_literals(program: Program) -> None:
    """What is printed can be pasted into ``@example``."""
    import trioshell.testing

    assert eval(repr(program), vars(trioshell.testing)) == program
