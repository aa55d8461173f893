"""Hypothesis strategies: scripts, and programs of whole lifecycles."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from ._program import Program
from ._script import Script

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def scripts(*, trouble: bool = True) -> SearchStrategy[Script]:
    """Return a Hypothesis strategy of scripts.

    Args:
        trouble: Also processes that cannot be killed, full disks, and helpers that die.

    Raises:
        ImportError: Hypothesis is not installed.
    """
    strategy: SearchStrategy[Script] = _drawing().scripts(trouble=trouble)
    return strategy


def lifecycles() -> SearchStrategy[Program]:
    """Return a Hypothesis strategy of programs for testing what is built on shells, with `play`.

    Several actors play whole lives: of processes that end, time out, are killed and removed, in
    every phase, by several at once, with callers that give up, and with starts that fail. The
    launcher has no trouble of its own.

    Raises:
        ImportError: Hypothesis is not installed.
    """
    strategy: SearchStrategy[Program] = _drawing().programs(trouble=False)
    return strategy


def programs() -> SearchStrategy[Program]:
    """Return a Hypothesis strategy of programs for testing shells themselves, with `perform`.

    As `lifecycles`; besides, processes that cannot be killed, helpers that die, full disks,
    subscribers that come late, fall behind, leave and resume, and scopes that are left early: by
    return, by an exception, by cancellation.

    Raises:
        ImportError: Hypothesis is not installed.
    """
    strategy: SearchStrategy[Program] = _drawing().programs(trouble=True)
    return strategy


def _drawing() -> ModuleType:
    try:
        from . import _drawing
    except ImportError as error:
        raise ImportError("this needs Hypothesis: install trioshell[testing]") from error
    return _drawing
