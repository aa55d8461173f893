"""Record: the order one run took, and the line that explains it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from ._hang import Hang

_DOTTED = re.compile(r"[\w.<>]+")
# Of a shell: long, and another one in each run. The number of the task tells them apart.
_ID = re.compile(r" sh_[0-9a-f]+")
_LONGEST_CYCLE = 4
_HEAD, _TAIL = 12, 48

_LEGAL = "batch-legal: trio produces such orders today"
_WIDER = "not batch-legal: trio allows this order, but does not produce it today"
_FREE = "not controlled: the gate does not fit this version of trio"


@attrs.define(eq=False)
class Record:
    """What happened in one run, as plain data: it keeps no task and no frame alive."""

    names: list[str] = attrs.field(factory=list[str])  # of the tasks, by number
    steps: list[int] = attrs.field(factory=list[int])  # the number of the task that took each step
    marks: list[tuple[int, str]] = attrs.field(
        factory=list[tuple[int, str]]
    )  # (steps taken before it, text)
    legal: bool = True  # so far, trio's own batches could have produced this order
    controlled: bool = True
    hang: Hang | None = None

    def mark(self, text: str) -> None:
        self.marks.append((len(self.steps), f"({text})"))

    def label(self, number: int) -> str:
        name = _ID.sub("", self.names[number])
        if _DOTTED.fullmatch(name):  # a qualified name that trio made from the function
            name = name.rpartition(".")[2] or name
        return f"{name}#{number}"

    def entries(self) -> Iterator[str]:
        """Yield each step and each mark in the order they came."""
        labels = [self.label(number) for number in range(len(self.names))]
        done = 0
        for before, text in self.marks:
            yield from (labels[number] for number in self.steps[done:before])
            yield text
            done = before
        yield from (labels[number] for number in self.steps[done:])

    def line(self) -> str:
        """Return the order as one line, repetitions collapsed."""
        pieces = list(_collapse(list(self.entries())))
        cut = len(pieces) - _HEAD - _TAIL
        if cut > 0:
            pieces[_HEAD:-_TAIL] = [f"... {cut} more ..."]
        verdict = _FREE if not self.controlled else _LEGAL if self.legal else _WIDER
        return f"{' > '.join(pieces)}  [{verdict}]"


def _collapse(entries: list[str]) -> Iterator[str]:
    """Turn ``a a a b c b c b c`` into ``a x3``, ``(b > c) x3``."""
    start = 0
    while start < len(entries):
        span, times = _longest_repetition(entries, start)
        cycle = " > ".join(entries[start : start + span])
        if times == 1:
            yield cycle
        else:
            yield f"({cycle}) x{times}" if span > 1 else f"{cycle} x{times}"
        start += span * times


def _longest_repetition(entries: list[str], start: int) -> tuple[int, int]:
    """Return the length of the cycle that begins at ``start``, and how often it comes."""
    best = (1, 1)
    for span in range(1, _LONGEST_CYCLE + 1):
        cycle = entries[start : start + span]
        times = 1
        while entries[start + span * times : start + span * (times + 1)] == cycle:
            times += 1
        # A pair that comes twice reads better written out.
        if times > (1 if span == 1 else 2) and span * times > best[0] * best[1]:
            best = (span, times)
    return best
