"""What a supervisor noted of its shell in a file, because its host may not live to hear it."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Final

import attrs

_LINE: Final = 256  # the longest in a notes file is shorter


@attrs.frozen
class Notes:
    """What a supervisor noted of a leader: see `Spec.notes`. Any of it may be missing.

    Attributes:
        leader: Its pid and its start time.
        returncode: As in `subprocess`.
        by_itself: It ended before any signal of a kill reached it.
        ended: When that was noted, in epoch seconds.
    """

    leader: tuple[int, int] | None = None
    returncode: int | None = None
    by_itself: bool = False
    ended: float | None = None


def read_notes(path: str) -> Notes:
    """What is in the file; what cannot be read was not noted."""
    notes = Notes()
    # Damage anywhere makes all that follows unknown; nothing is guessed.
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        with open(path, "rb") as file:
            first, second = file.readline(_LINE), file.readline(_LINE)
            changed = os.fstat(file.fileno()).st_mtime
        start = json.loads(first)
        notes = Notes(leader=(int(start["pid"]), int(start["start"])))
        end = json.loads(second)
        returncode = os.waitstatus_to_exitcode(end["status"])
        notes = attrs.evolve(
            notes, returncode=returncode, by_itself=end["by_itself"] is True, ended=changed
        )
    return notes
