"""Plant each fault, hunt it, print the table: ``python -m tests.mutants [NAME ...]``.

Exit status 1 if one was not found by random programs in every seed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from .hunt import MOST, draw
from .mutants import MUTANTS, Mutant, plant

ROOT: Final = Path(__file__).parents[2]
HUNT: Final = [sys.executable, "-W", "ignore", "-m", "tests.mutants.hunt"]


def hunt(mutant: Mutant, seeds: int, holds: int) -> dict[str, Any]:
    """Hunt one fault in a process that imports the planted copy."""
    with tempfile.TemporaryDirectory() as where:
        plant(mutant, Path(where))
        done = subprocess.run(
            [*HUNT, str(seeds), str(holds), str(MOST)],
            env=os.environ | {"PYTHONPATH": f"{where}{os.pathsep}{ROOT}"},
            cwd=where,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def row(mutant: Mutant, result: dict[str, Any]) -> str:
    found = [count for count in result["examples"] if count is not None]
    times = [
        seconds
        for count, seconds in zip(result["examples"], result["seconds"], strict=True)
        if count is not None
    ]
    examples = f"{statistics.median(found):.0f}" if found else "-"
    seconds = f"{statistics.median(times):.2f}" if times else "-"
    bound = "-" if result["bound"] is None else result["bound"]
    share = f"{len(found)}/{len(result['examples'])}"
    worst = max(found, default="-")
    return f"| {mutant.name} | {share} | {examples} | {worst} | {seconds} | {bound} |"


def false_alarms(examples: int) -> None:
    """Random programs on the library as it is."""
    count, seconds = draw(0, examples)
    said = "no false alarm" if count is None else f"FALSE ALARM at example {count}"
    print(f"\n{said} in {examples} examples, {examples / seconds:.0f} examples/s")
    if count is not None:
        sys.exit(1)


def main() -> None:
    names = [mutant.name for mutant in MUTANTS]
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.mutants")
    parser.add_argument("names", nargs="*", choices=[[], *names], metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5, help="random hunts for each")
    parser.add_argument("--holds", type=int, default=1, help="deviations that explore may try")
    parser.add_argument("--correct", type=int, default=1000, help="examples without a fault")
    arguments = parser.parse_args()
    print("| fault | found | examples, median | worst | seconds, median | holds |")
    print("| --- | --- | --- | --- | --- | --- |")
    missed = False
    for mutant in MUTANTS:
        if not arguments.names or mutant.name in arguments.names:
            result = hunt(mutant, arguments.seeds, arguments.holds)
            print(row(mutant, result), flush=True)
            missed |= None in result["examples"]
    if arguments.correct:
        false_alarms(arguments.correct)
    sys.exit(missed)


if __name__ == "__main__":
    main()
