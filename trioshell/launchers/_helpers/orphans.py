"""What killed supervisors have left to the fork server, and its end."""

from __future__ import annotations

import os
import time

from . import killing, procfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Two looks: a list of children that is read while it changes can lack an entry.
_CLEAN_LOOKS = 2
_STOPPING = 0.25
# Seconds without any progress, and in all.
_NO_PROGRESS = 1.0
_GIVE_UP = 10.0


class Orphans:
    """Children of the fork server that are no supervisors.

    Attributes:
        ended: None is left, except those that may not be signalled.
    """

    def __init__(self) -> None:
        self.ended = True
        self._clean = 0
        self._patience = 0.0
        self._give_up = 0.0
        self._last: set[tuple[int, int]] = set()
        self._refused: dict[tuple[int, int], procfs.Process] = {}

    def expect(self) -> None:
        """A supervisor died in an unusual way: there may be some."""
        self.ended = False
        self._clean = 0
        self._patience = time.monotonic() + _NO_PROGRESS
        self._give_up = time.monotonic() + _GIVE_UP

    def end(self, supervisors: frozenset[int]) -> None:
        """Kill them. To be repeated until `ended`; the caller reaps."""
        if self.ended:
            return

        now = time.monotonic()
        found = list(self._find(supervisors))
        if self._is_progress(found):
            self._patience = now + _NO_PROGRESS
        self._clean = 0 if found else self._clean + 1
        if self._clean >= _CLEAN_LOOKS:
            self.ended = True
        elif found and now > min(self._patience, self._give_up):
            self._refused.update((process.identity, process) for process in found)
        elif found:
            until = now + _STOPPING
            killing.stop_and_kill(lambda: self._find(supervisors), until)

    def _is_progress(self, found: list[procfs.Process]) -> bool:
        """Whether it is not the same as at the last look, or somebody is about to end.

        A machine may be so busy that a second is not enough to kill each of them once.
        """
        last, self._last = self._last, {process.identity for process in found}
        return self._last != last or any(process.dying for process in found)

    def refused(self) -> list[tuple[int, str]]:
        """Pid and name of those that live and could not be ended."""
        now = (procfs.look(pid) for pid, _ in self._refused)
        return [
            (process.pid, process.name)
            for process in now
            if process is not None and process.identity in self._refused and not process.dead
        ]

    def _find(self, supervisors: frozenset[int]) -> Iterator[procfs.Process]:
        for process in procfs.descendants(os.getpid(), skip=supervisors):
            if not process.dead and process.identity not in self._refused:
                yield process
