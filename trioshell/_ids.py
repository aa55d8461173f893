"""Ids of shells: ``sh_`` and 28 hexadecimal digits, in the order of creation."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Final

import attrs

# Each millisecond has room for this many ids; more take from the next. In 16 digits this keeps
# the order for some 140,000 years.
_PER_MILLISECOND: Final = 4096


@attrs.define(eq=False)
class Ids:
    """Makes ids that sort by creation, also when the clock is set back."""

    _last: int = 0

    def new(self) -> str:
        """The next id."""
        now = time.time_ns() // 1_000_000 * _PER_MILLISECOND
        self._last = max(now, self._last + 1)
        return f"sh_{self._last:016x}{os.urandom(6).hex()}"

    def follow(self, id: str) -> None:
        """Continue after an id that was given out in an earlier life."""
        with contextlib.suppress(ValueError):
            self._last = max(self._last, int(id[3:19], 16))
