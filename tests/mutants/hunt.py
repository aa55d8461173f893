"""Look for a fault: prints as JSON what it took. Runs where the planted library is imported."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from typing import Any, Final

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from tests.interleavings.scenarios import SCENARIOS
from tests.interleavings.support import Lives, checked, lives
from trioshell.testing import Program, Schedule, explore, programs, run, schedules

MOST: Final = 600


def draw(seed: int, most: int) -> tuple[int | None, float]:
    """Random programs under random schedules: examples until the first failure, and seconds."""
    count = 0

    @hypothesis.seed(seed)
    @settings(
        max_examples=most,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(program=programs(), schedule=schedules())
    def look(program: Program, schedule: Schedule) -> None:
        nonlocal count
        count += 1
        run(checked, program, schedule=schedule)

    start = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # Hypothesis prints what it has found
            look()
    except BaseException:  # noqa: BLE001 - a fault may show in any way
        return count, time.perf_counter() - start
    return None, time.perf_counter() - start


def bound(most: int) -> int | None:
    """The smallest number of deviations with which `explore` finds it in our scenarios."""
    for holds in range(most + 1):
        for program, _ in SCENARIOS.values():
            if not holds_up(program, holds):
                return holds
    return None


def holds_up(program: Program, holds: int) -> bool:
    async def scenario() -> Lives:
        return lives(await checked(program))

    try:
        explore(scenario, holds=holds)
    except BaseException:  # noqa: BLE001 - the same
        return False
    return True


def main(seeds: int, holds: int, most: int) -> dict[str, Any]:
    found = [draw(seed, most) for seed in range(seeds)]
    return {
        "examples": [count for count, _ in found],
        "seconds": [seconds for _, seconds in found],
        "bound": bound(holds),
    }


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
