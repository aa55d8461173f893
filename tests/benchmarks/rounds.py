"""Contenders in turns, each in a fresh process; medians; tables."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

Figures = dict[str, float]


def measure(module: str, contender: str, *arguments: object) -> Figures:
    """Run one contender once in a process of its own; it prints its figures as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.benchmarks.{module}", contender, *map(str, arguments)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def in_turns(
    module: str, contenders: Sequence[str], rounds: int, *arguments: object
) -> dict[str, list[Figures]]:
    """A B C A B C ...: drift of the machine meets all of them alike."""
    figures: dict[str, list[Figures]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in contenders:
            figures[name].append(measure(module, name, *arguments))
    return figures


def median(figures: Sequence[Figures], key: str) -> float:
    """The median of one figure."""
    return statistics.median(each[key] for each in figures)


def ratio(figures: Mapping[str, Sequence[Figures]], name: str, base: str, key: str) -> float:
    """The median of the ratios of one contender to another, round by round."""
    pairs = zip(figures[name], figures[base], strict=True)
    return statistics.median(mine[key] / theirs[key] for mine, theirs in pairs)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" for _ in columns) + " |")
    for row in rows:
        print("| " + " | ".join(_cell(cell) for cell in row) + " |", flush=True)


def _cell(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
