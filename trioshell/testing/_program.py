"""Programs: who does what with which processes, as values that print as literals."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, final, get_args

import attrs
import trio

from .. import Shells, open_shells
from .._events import Event
from ..launchers import Background
from ._fake import FakeLauncher
from ._script import Script

Op = Literal[
    "wait",
    "result",
    "output",
    "kill",
    "remove",
    "set_timeout",
    "send_signal",
    "look",
    "wait_all",
    "sleep",
]

# How a scope is left.
Leave = Literal["return", "raise", "cancel"]

_OPS: Final = get_args(Op)


class _Literal:
    """Prints as the call that makes it again, without what is as usual."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_words(self))})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001
        # Hypothesis would print all fields of an attrs class.
        printer.text(repr(self))


def _words(value: Any) -> Iterator[str]:
    for field in attrs.fields(type(value)):
        given = getattr(value, field.name)
        if field.default is attrs.NOTHING:
            yield repr(given)
        elif given != field.default:
            yield f"{field.name}={given!r}"


@final
@attrs.frozen(repr=False)
class Do(_Literal):
    """One thing that is done with a shell.

    Attributes:
        op: A method of the shell; or ``"look"``: get, list, iterate and count; ``"wait_all"``;
            ``"sleep"``.
        value: Seconds for ``sleep``, ``set_timeout`` (None clears) and the grace of ``kill``, the
            cursor of ``output``, the number of ``send_signal``.
        within: Give up after so many seconds: the caller is cancelled.
    """

    op: Op = attrs.field(validator=attrs.validators.in_(_OPS))
    value: float | None = None
    within: float | None = None


@final
@attrs.frozen(repr=False)
class Life(_Literal):
    """One shell, and what is done with it.

    Attributes:
        script: What its process does.
        steps: What the actor does that creates it, one after the other.
        rivals: What others do at the same time.
        timeout: Its time limit.
        grace: Its grace; None: the scope's.
        background: What happens to what outlives its leader.
        within: Give the creation up after so many seconds.
    """

    script: Script
    steps: tuple[Do, ...]
    rivals: tuple[tuple[Do, ...], ...] = ()
    timeout: float | None = None
    grace: float | None = None
    background: Background = "kill"
    within: float | None = None


@final
@attrs.frozen(repr=False)
class Reader(_Literal):
    """A subscriber.

    Attributes:
        after: Seconds before it comes.
        since: What it asks to be replayed.
        max_buffer: How far it may be behind.
        pace: Seconds it takes for each event.
        reads: How many events it reads before it leaves; None: all.
    """

    after: float = 0.0
    since: int | None = None
    max_buffer: int = 4096
    pace: float = 0.0
    reads: int | None = None


@final
@attrs.frozen(repr=False)
class Program(_Literal):
    """What happens in one scope: every actor plays its lives one after the other, all at once.

    Attributes:
        actors: The lives of each.
        readers: The subscribers.
        retain: How many ended shells are kept.
        limit: How many shells may run at once; None: any number.
        grace: Seconds between SIGTERM and SIGKILL.
        leave: How the scope is left, in `perform`.
        leave_after: When it is left, in seconds; None: when nothing can happen any more.
    """

    actors: tuple[tuple[Life, ...], ...]
    readers: tuple[Reader, ...] = ()
    retain: int = 25
    limit: int | None = None
    grace: float = 1.0
    leave: Leave = "return"
    leave_after: float | None = None

    def launcher(self) -> FakeLauncher:
        """A fake launcher that knows the commands of this program."""
        launcher = FakeLauncher()
        for command, life in self.lives():
            launcher.on(command, life.script)
        return launcher

    def lives(self) -> Iterator[tuple[str, Life]]:
        """Every life with its command."""
        for actor, lives in enumerate(self.actors, 1):
            for number, life in enumerate(lives, 1):
                yield command_of(actor, number), life

    def open_shells(
        self, launcher: FakeLauncher, *observers: Callable[[Event], object]
    ) -> AbstractAsyncContextManager[Shells]:
        """Open a scope as this program says.

        Args:
            launcher: What `launcher` gave.
            observers: As in `trioshell.open_shells`.
        """
        return open_shells(
            launcher=launcher,
            observers=observers,
            retain=self.retain,
            limiter=None if self.limit is None else trio.CapacityLimiter(self.limit),
            grace=self.grace,
        )


def command_of(actor: int, number: int) -> str:
    """The command that stands for a life, both counted from 1."""
    return shlex.join(["actor", str(actor), "life", str(number)])
