"""The promises by name, and what is raised when one is broken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

import attrs

from .._events import Event
from ._log import History


@final
@attrs.frozen
class Rule:
    """One promise of the library.

    Attributes:
        name: Stable: test for it, search for it.
        sentence: What always holds.
        clause: Where the contract says so: C1 to C15.
    """

    name: str
    sentence: str
    clause: str

    def __str__(self) -> str:
        return f"{self.sentence} ({self.clause})"


_TABLE: Final = (
    ("created-first", "C1", "the first event of a shell is created"),
    ("one-created", "C1", "a shell is created once"),
    ("one-exited", "C1", "a shell reports exited exactly once"),
    ("exited-before-deleted", "C1", "exited comes before any deleted"),
    ("one-deleted", "C1", "a shell is deleted at most once"),
    ("exited-missing", "C1", "every created shell reports exited before its scope ends"),
    ("half-shell", "C2", "a create that raises has left no shell"),
    ("status-truth", "C3", "the status is the first cause of the end"),
    ("limit-ends", "C3", "a time limit ends the shell"),
    ("exited-true", "C4", "at exited no process of the tree is alive, but for the leftovers"),
    ("output-complete", "C4", "at exited everything the tree wrote is in the capture"),
    ("info-consistent", "C5", "the info of every event tells the same story as the event"),
    ("waiter-agrees", "C5", "a waiter is told what the exited event says, and not before it"),
    ("kill-completes", "C6", "a kill or a removal ends the shell, also when its caller gave up"),
    ("kill-grace", "C6", "a kill leaves the grace that it was called with, and no more"),
    ("call-explained", "C6, C7", "every answer is true at some moment between call and return"),
    ("removed-not-retained", "C7", "a removed shell takes no place among the retained ones"),
    ("output-deleted", "C7", "the output of a deleted shell is gone"),
    ("retention", "C8", "no more ended shells stay than the scope retains, and none goes early"),
    ("eviction-order", "C8", "of the retained shells the one that ended first goes first"),
    ("places", "C9", "as many shells run at once as the limiter has places, and no more"),
    ("no-leak", "C10", "after the scope no process is alive"),
    ("gapless-seq", "C12", "the events are numbered without a gap"),
    ("same-order", "C12", "every subscriber sees the same events in the same order"),
    ("output-exact", "C13", "a page holds the bytes that were written at its cursor"),
)

RULES: Final[Mapping[str, Rule]] = {
    name: Rule(name, sentence, clause) for name, clause, sentence in _TABLE
}


class Violation(AssertionError):  # noqa: N818 - it names what it is, as Hang does
    """A log or a call contradicts the contract.

    Attributes:
        rule: The name of the rule, a key of `RULES`.
        id: The shell's id, or None.
        seq: The ``seq`` of the culprit, or None.
    """

    def __init__(
        self, rule: str, message: str, *, id: str | None = None, seq: int | None = None
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.id = id
        self.seq = seq


def violation(
    history: History,
    rule: str,
    what: str,
    *,
    id: str | None = None,
    event: Event | None = None,
    facts: Iterable[str] = (),
) -> Violation:
    """Build the report.

    Args:
        history: Where it happened.
        rule: A key of `RULES`.
        what: What is wrong, in a few words.
        id: Of the shell, if it is about one.
        event: The culprit, if it is an event.
        facts: What was true of the process.
    """
    id = event.id if event is not None else id
    subject = f"{history.name(id)}: " if id is not None else ""
    lines = [f"[{rule}] {subject}{what}"]
    life = history.lives.get(id) if id is not None else None
    if life is not None:
        lines.append(f"its life:  {life.timeline(event)}")
    lines.append(f"rule:      {RULES[rule]}")
    if event is not None:
        lines.append(f"around it: {history.around(event.seq)}")
    lines += facts
    seq = None if event is None else event.seq
    return Violation(rule, "\n  ".join(lines), id=id, seq=seq)
