"""Every schedule of small races, up to one deviation from the simplest; two in the deep run."""

from __future__ import annotations

import pytest

from trioshell.testing import Program, explore

from .scenarios import SCENARIOS
from .support import Lives, checked, lives

EACH = pytest.mark.parametrize("name", SCENARIOS)


def statuses(results: set[Lives]) -> set[str]:
    """The statuses in all outcomes."""
    said = {word for outcome in results for life in outcome for word in life}
    return {word.removeprefix("exited(").removesuffix(")") for word in said if "(" in word}


def explored(program: Program, holds: int) -> set[Lives]:
    async def scenario() -> Lives:
        return lives(await checked(program))

    report = explore(scenario, holds=holds)
    assert report.complete
    return set(report.results)


@EACH
def test_scenario_keeps_the_contract(name: str) -> None:
    """Each cause that can come first does so in some schedule, and then it is the status (C3)."""
    program, expected = SCENARIOS[name]
    assert statuses(explored(program, holds=1)) == expected


@pytest.mark.deep
@EACH
def test_scenario_keeps_the_contract_with_two_deviations(name: str) -> None:
    program, expected = SCENARIOS[name]
    assert statuses(explored(program, holds=2)) >= expected
