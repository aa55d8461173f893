"""Ratios within one run: ``python -m tests.benchmarks [--quick] [SECTION ...]``.

The machines are shared and noisy, so nothing here is an absolute time to quote: contenders take
turns in the same run, each in a process of its own, and the tables give medians of ratios.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from . import capture, follow, scale, spawn

SECTIONS: dict[str, Callable[[int], None]] = {
    "spawn": spawn.rates,
    "large": spawn.large_hosts,
    "capture": capture.rates,
    "memory": scale.memory,
    "create": scale.create_latency,
    "crowd": scale.crowds,
    "exit": scale.exit_to_event,
    "follow": follow.latency,
    "lines": follow.lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.benchmarks")
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="SECTION")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    arguments = parser.parse_args()
    for name in arguments.sections or SECTIONS:
        SECTIONS[name](arguments.rounds)


if __name__ == "__main__":
    main()
