"""The direct launcher: children of the host itself, on any POSIX system.

It needs no helper process: it is for macOS and BSD, for frozen programs, and for who asks for
it. Each command costs the host up to five descriptors, and its output the host's CPU (about 0.6 s
per GiB); a host that is busy makes noisy commands wait.

What it can do and what not:

*   The tree is the **session** of the leader. On Linux all its members are found, in whatever
    process group; elsewhere only the leader's group is. What calls ``setsid`` has left; if it
    holds the output open, the shell's end does not wait for it and reports ``cut``.
*   If the host is killed outright, nobody ends its commands.
*   C15 holds with two exceptions, both in a frozen program only (it has no Python to start):
    signals that the host ignores or blocks stay so in the command, and there are no terminals.
    Signals 32 and 33, the C library's own, stay what they are everywhere.
*   Usage is the leader's, with the children it waited for. On Linux ``max_rss`` is at least what
    the host itself used at the start: the kernel counts the moment between fork and exec.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from typing import final

import attrs
import trio

from .._refusal import refusal
from .._seam import Guarantees, Launcher, Spec
from .process import DirectProcess, Shared
from .spawn import has_starter, spawn
from .store import Store
from .wiring import Wiring


@final
@attrs.define(eq=False)
class DirectLauncher(Launcher):
    """Starts commands as children of this process.

    Attributes:
        note: Why the best launcher of the platform is not in use, for `Guarantees`.
    """

    note: str = attrs.field(default="", kw_only=True)
    _shared: Shared = attrs.field(factory=Shared, init=False)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            launcher="direct",
            escapees=False,
            host_crash=False,
            tree_usage=False,
            output_limit=True,
            pty=has_starter(),
            note=self.note,
        )

    # Ctrl+C is held back, too: raised between fork and return it would lose a process.
    @trio.lowlevel.enable_ki_protection
    async def launch(self, spec: Spec) -> DirectProcess:
        if spec.pty is not None and not has_starter():
            raise ValueError("pty is not possible in a frozen program with the direct launcher")
        with contextlib.ExitStack() as undo:
            store = Store.create(spec.capture or _temporary(spec.id), spec.output_limit)
            undo.callback(store.discard)
            try:
                wiring = Wiring.of(spec)
                undo.callback(wiring.close)
                child = await spawn(spec, wiring)
            except OSError as error:
                raise refusal(error, spec) from error
            # It runs: from here on nothing waits, and nothing fails.
            undo.pop_all()
        wiring.close_theirs()
        return DirectProcess.of(child, spec, wiring, store, self._shared)


def _temporary(id: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"trioshell-{id}-{secrets.token_hex(8)}")
