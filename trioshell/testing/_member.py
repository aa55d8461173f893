"""One process of a fake tree, and what truly happened to it."""

from __future__ import annotations

from typing import Literal, final

import attrs

from ._script import Script

Sender = Literal["kill", "send_signal", "background", "limit", "helper"]


@final
@attrs.frozen
class Sent:
    """A signal that reached a process.

    Attributes:
        signal: Its name, such as ``"TERM"``.
        at: When, on trio's clock.
        by: Who sent it: ``"kill"`` (the end of the tree that the library asked for),
            ``"send_signal"``, ``"background"`` (what outlived the leader is ended), ``"limit"``
            (of output), or ``"helper"`` (it died, and the tree with it).
    """

    signal: str
    at: float
    by: Sender


@final
@attrs.define(eq=False)
class Member:
    """One process of a fake tree: the leader or a descendant.

    Attributes:
        pid: Unique among all of the launcher.
        name: The command, or which descendant of it.
        script: What it does.
        started_at: When, on trio's clock.
        ended_at: When, or None while it lives.
        ended_by: The signal that ended it, also if it exited on that; None: it ended by itself.
        returncode: As in `subprocess`.
        signals: What reached it while it lived.
    """

    pid: int
    name: str
    script: Script
    started_at: float
    ended_at: float | None = None
    ended_by: str | None = None
    returncode: int | None = None
    signals: list[Sent] = attrs.field(factory=list)

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None
