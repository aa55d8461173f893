"""Hang: what is raised when nothing can run any more, and where each task was waiting."""

from __future__ import annotations

import contextlib
import linecache
import os
from collections.abc import Iterable

import outcome
import trio

# Nobody's code waits of its own will in here: whoever called into these does.
_PLUMBING = (
    os.path.dirname(trio.__file__) + os.sep,
    os.path.dirname(outcome.__file__) + os.sep,
    os.path.dirname(__file__) + os.sep,
    contextlib.__file__,
)

# Advice.
BLIND = (
    "Virtual time cannot see threads, processes and sockets: if one of them is meant to answer, "
    "use a schedule with allow_io=True."
)
BUSY = "Most likely a loop only checkpoints, or a timer always starts again."


class Hang(Exception):  # noqa: N818 - it names what happened, as trio.Cancelled does
    """Nothing can run any more: every task waits, and no timer is pending.

    Raised inside one of the waiting tasks, so that the program ends in the normal way. A program
    that is still busy after very many steps, most likely in a loop that only checkpoints, gets it
    as well.

    Attributes:
        blocked: One line for each task: its name and where it waits.
    """

    def __init__(self, problem: str, blocked: Iterable[str], advice: str) -> None:
        self.blocked: tuple[str, ...] = tuple(blocked)
        super().__init__("\n  ".join([problem, *self.blocked, advice]))


def where(task: trio.lowlevel.Task) -> str:
    """Tell where a task waits: its innermost frame outside of trio, and the source line."""
    frames = list(task.iter_await_frames())
    if not frames:
        return "has not started"
    users = [frame for frame in frames if not frame[0].f_code.co_filename.startswith(_PLUMBING)]
    frame, line = users[-1] if users else frames[0]
    code = frame.f_code
    source = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    return f"waits in {code.co_qualname} ({_shown(code.co_filename)}:{line}): {source}"


def _shown(filename: str) -> str:
    here = os.getcwd() + os.sep
    return filename.removeprefix(here)
