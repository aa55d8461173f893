"""What commands inherit of the host's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import attrs

# Variables that name a start-up file of a shell: inherited ones are dropped, given ones are
# obeyed.
STARTUP_VARIABLES: Final = (b"BASH_ENV", b"ENV")


@attrs.define(eq=False)
class HostEnvironment:
    """The host's environment, looked at again for each command.

    It hardly ever changes in between. So what was seen last is kept, and to compare with that
    takes a microsecond, where to take it anew takes as long as all other checks of a command.
    """

    _seen: dict[bytes, bytes] = attrs.field(factory=dict)
    _inherited: Mapping[bytes, bytes] = attrs.field(factory=dict)

    def now(self) -> Mapping[bytes, bytes]:
        """What a command inherits at this moment. The same object while nothing changes."""
        variables = _variables()
        if variables != self._seen:
            self._seen = dict(variables)
            self._inherited = {
                name: value for name, value in variables.items() if name not in STARTUP_VARIABLES
            }
        return self._inherited


def _variables() -> Mapping[bytes, bytes]:
    # `os.environb` converts and checks each name and value whenever it is read; it does the same
    # when it is written, so the dictionary behind it holds what the kernel will get. A Python
    # without that dictionary is slower and not wrong.
    behind: dict[bytes, bytes] | None = getattr(os.environb, "_data", None)
    return dict(os.environb) if behind is None else behind
