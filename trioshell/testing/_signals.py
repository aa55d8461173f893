"""Signals by the names people use: ``"TERM"``."""

from __future__ import annotations

import signal
from typing import Final

# What a process does about a signal that it has not asked for: these pass it by.
HARMLESS: Final = frozenset({"CHLD", "CONT", "URG", "WINCH"})
# Stopping is not simulated: a fake process only records that it was asked to.
STOPPING: Final = frozenset({"STOP", "TSTP", "TTIN", "TTOU"})


def signal_name(sig: int | str) -> str:
    """The name without its prefix: ``"TERM"`` for ``"SIGTERM"``, ``"term"`` and 15.

    Raises:
        ValueError: There is no such signal.
    """
    if isinstance(sig, str):
        name = sig.upper().removeprefix("SIG")
        if f"SIG{name}" not in signal.Signals.__members__:
            raise ValueError(f"there is no signal {sig!r}: write it as in 'TERM'")
        return name
    if not 1 <= sig < signal.NSIG:
        raise ValueError(f"there is no signal {sig!r}")
    try:
        return signal.Signals(sig).name.removeprefix("SIG")
    except ValueError:  # most real-time signals have no name
        return f"RTMIN+{sig - signal.SIGRTMIN}"


def signal_number(name: str) -> int:
    """The number of a signal that `signal_name` returned."""
    if name.startswith("RTMIN+"):
        return signal.SIGRTMIN + int(name.removeprefix("RTMIN+"))
    return signal.Signals[f"SIG{name}"].value
