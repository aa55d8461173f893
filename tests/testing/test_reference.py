"""The table of rules in the reference is the one that is checked."""

from __future__ import annotations

import re

from tests.docs.test_examples import ROOT
from trioshell.testing import RULES

DOCS = ROOT / "docs"


def test_reference_has_every_rule() -> None:
    """With its sentence, and a link to each of its clauses."""
    page = (DOCS / "reference/testing.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| (.*) \| (\[C.*) \|$", page, re.MULTILINE)
    assert rows == [
        (rule.name, rule.sentence, re.sub(r"C(\d+)", r"[C\1](c\1)", rule.clause))
        for rule in RULES.values()
    ]


def test_rules_cite_clauses_that_exist() -> None:
    contract = (DOCS / "explanation/contract.md").read_text()
    clauses = set(re.findall(r"^## (C\d+) ", contract, re.MULTILINE))
    for rule in RULES.values():
        assert set(rule.clause.split(", ")) <= clauses, rule.name
