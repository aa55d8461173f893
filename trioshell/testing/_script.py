"""`Script`: what a fake process does, as a value."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any, Self, TypeVar, cast, final

import attrs

from .. import _checks
from .._exceptions import SpawnError, spawn_error
from ._signals import signal_name, signal_number

T = TypeVar("T")


def _beginning(method: T) -> T:
    """Refuse a class method on an instance, where it would forget what was said so far."""
    return cast("T", _Beginning(method))


@attrs.frozen
class _Beginning:
    method: Any

    def __get__(self, instance: Script | None, owner: type[Script]) -> Any:
        if instance is not None:
            raise TypeError("begin with how it ends: Script.exits(...), then add to that")
        return self.method.__get__(None, owner)


@attrs.frozen
class Printing:
    """Some chunks of output: a pause, the first one, and the others at a pace."""

    chunks: tuple[bytes, ...]
    after: float
    every: float


@attrs.frozen
class Reaction:
    """What a signal does: nothing (no code), or an end with that code a while later."""

    signal: str
    code: int | None
    after: float


@final
@attrs.frozen(kw_only=True, repr=False)
class Script:
    """What a fake process does, from its start to its end. A value; every method gives a new one.

    Begin with how it ends (`exits`, `dies`, `forever`, `echoes`, `fails_to_start`), then add what
    else is true of it: ``Script.exits(3, after=1.0).prints(b"a", b"b").ignores("TERM")``. It
    first prints what it prints, and then ends. Without more, a polite signal ends it as it ends
    any process. All times are seconds on trio's clock. The ``repr`` is a literal to paste.
    """

    returncode: int | None = None  # negative: by that signal; None: it does not end by itself
    after: float = 0.0
    echo: bool = False
    output: tuple[Printing, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    unkillable_for: float = 0.0
    escaped: bool = False
    descendants: tuple[Script, ...] = ()
    lag: float = 0.0
    capacity: int | None = None
    spawn_time: float = 0.0
    spawn_shielded: bool = False
    helper_death: float | None = None
    # Exceptions are equal to themselves only; what they say is what counts here.
    start_error: Exception | None = attrs.field(default=None, eq=repr)

    # How it ends.

    @_beginning
    @classmethod
    def exits(cls, code: int = 0, *, after: float = 0.0) -> Self:
        """Exit by itself.

        Args:
            code: The exit code.
            after: Seconds after the last output, or after the start without any.
        """
        return cls(returncode=_code(code), after=_seconds("after", after))

    @_beginning
    @classmethod
    def dies(cls, sig: int | str, *, after: float = 0.0) -> Self:
        """Die by a signal that the library did not send: a crash, the kernel, another program.

        Args:
            sig: Such as ``"SEGV"``.
            after: Seconds after the last output, or after the start without any.
        """
        number = signal_number(signal_name(sig))
        return cls(returncode=-number, after=_seconds("after", after))

    @_beginning
    @classmethod
    def forever(cls) -> Self:
        """Run until it is told to end: by a signal, or by the test."""
        return cls()

    @_beginning
    @classmethod
    def echoes(cls, code: int = 0) -> Self:
        """Print what it reads from standard input, and exit at its end, as ``cat`` does."""
        return cls(returncode=_code(code), echo=True)

    @_beginning
    @classmethod
    def fails_to_start(cls, error: Exception | None = None) -> Self:
        """There will be no process.

        Args:
            error: What the launcher raises; an OSError is made a `trioshell.SpawnError`, which is
                what launchers raise. None: the program does not exist.
        """
        return cls(start_error=error or FileNotFoundError(2, "the program was not found"))

    # What else is true of it.

    def prints(self, *chunks: bytes, after: float = 0.0, every: float = 0.0) -> Self:
        """Print chunks, after what it has printed so far.

        Args:
            chunks: Each is written in one step.
            after: Seconds before the first one.
            every: Seconds between one and the next.
        """
        for chunk in chunks:
            if not isinstance(chunk, bytes):
                raise TypeError(f"a process prints bytes, not {chunk!r}")
        printing = Printing(chunks, _seconds("after", after), _seconds("every", every))
        return attrs.evolve(self, output=(*self.output, printing))

    def ignores(self, *signals: int | str) -> Self:
        """Do nothing about these signals. KILL and STOP cannot be ignored."""
        return self._reacting(*(Reaction(_refusable(sig), None, 0.0) for sig in signals))

    def exits_on(self, sig: int | str, code: int = 0, *, after: float = 0.0) -> Self:
        """Exit with a code when a signal comes, as a program that cleans up does.

        Args:
            sig: The signal.
            code: The exit code.
            after: Seconds that this takes.
        """
        return self._reacting(Reaction(_refusable(sig), _code(code), _seconds("after", after)))

    def unkillable(self, seconds: float = math.inf) -> Self:
        """Take this long to die of KILL, as a process stuck in the kernel does; for ever."""
        return attrs.evolve(self, unkillable_for=_seconds("seconds", seconds))

    def leaves(self, *scripts: Script) -> Self:
        """Start these too, at once. What still runs when the leader ends has outlived it."""
        return attrs.evolve(self, descendants=self.descendants + scripts)

    def escapes(self) -> Self:
        """Leave the session, for a descendant: signals to the leader's group miss it."""
        return attrs.evolve(self, escaped=True)

    def holds_output_open(self) -> Self:
        """Leave a silent process that lives on and holds the output open."""
        return self.leaves(Script.forever())

    def eof_after_exit(self, seconds: float) -> Self:
        """Let output arrive this late, so that its end comes this long after the exit."""
        return attrs.evolve(self, lag=_seconds("seconds", seconds))

    def disk_full_after(self, size: int) -> Self:
        """Let only so many bytes of output be stored; the command goes on."""
        return attrs.evolve(self, capacity=_checks.count("size", size, least=0))

    def spawn_takes(self, seconds: float, *, shielded: bool = False) -> Self:
        """Take this long to start.

        Args:
            seconds: How long.
            shielded: Whoever gives up meanwhile gets the process all the same, late.
        """
        seconds = _seconds("seconds", seconds)
        return attrs.evolve(self, spawn_time=seconds, spawn_shielded=shielded)

    def helper_dies(self, at: float) -> Self:
        """Lose the helper that looks after the process: the tree dies, its exit code is lost.

        Args:
            at: Seconds after the start.
        """
        return attrs.evolve(self, helper_death=_seconds("at", at))

    # For the fake launcher.

    def error(self, command: str) -> Exception | None:
        """The exception of a start; a new one, because none may be raised twice."""
        error = copy.copy(self.start_error)
        if isinstance(error, OSError) and not isinstance(error, SpawnError):
            return spawn_error(error.errno or 0, f"{command!r} cannot be started", error.filename)
        return error

    def reaction(self, name: str) -> Reaction | None:
        """What a signal does, if that was said; the last word counts."""
        return next((r for r in reversed(self.reactions) if r.signal == name), None)

    def _reacting(self, *reactions: Reaction) -> Self:
        return attrs.evolve(self, reactions=self.reactions + reactions)

    def __repr__(self) -> str:
        return "Script" + "".join(f".{call}" for call in self._calls())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001
        # Hypothesis would print the fields of an attrs class instead of the literal.
        printer.text(repr(self))

    def _calls(self) -> Iterator[str]:
        yield self._ending_call()
        for printing in self.output:
            yield _call("prints", *printing.chunks, after=printing.after, every=printing.every)
        for reaction in self.reactions:
            if reaction.code is None:
                yield _call("ignores", reaction.signal)
            else:
                yield _call("exits_on", reaction.signal, reaction.code, after=reaction.after)
        if self.unkillable_for:
            finite = self.unkillable_for < math.inf
            yield _call("unkillable", *([self.unkillable_for] if finite else []))
        if self.descendants:
            yield _call("leaves", *self.descendants)
        yield from (_call("escapes") for _ in range(self.escaped))
        if self.spawn_time:
            yield _call("spawn_takes", self.spawn_time, shielded=self.spawn_shielded)
        yield from (_call(name, value) for name, value in self._settings() if value is not None)

    def _settings(self) -> Iterator[tuple[str, float | None]]:
        yield "eof_after_exit", self.lag or None
        yield "disk_full_after", self.capacity
        yield "helper_dies", self.helper_death

    def _ending_call(self) -> str:
        if self.start_error is not None:
            return _call("fails_to_start", self.start_error)
        if self.echo:
            return _call("echoes", *([self.returncode] if self.returncode else []))
        if self.returncode is None:
            return _call("forever")
        if self.returncode < 0:
            return _call("dies", signal_name(-self.returncode), after=self.after)
        return _call("exits", self.returncode, after=self.after)


def _call(name: str, *args: object, **options: float) -> str:
    words = [*map(repr, args), *(f"{key}={value!r}" for key, value in options.items() if value)]
    return f"{name}({', '.join(words)})"


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if not value >= 0:
        raise ValueError(f"{name} must be 0 seconds or more, not {value!r}")
    return float(value)


def _code(value: int) -> int:
    if _checks.count("an exit code", value, least=0) > 255:
        raise ValueError(f"an exit code is at most 255, not {value!r}")
    return value


def _refusable(sig: int | str) -> str:
    name = signal_name(sig)
    if name in ("KILL", "STOP"):
        raise ValueError(f"no process can catch or ignore {name}; see unkillable()")
    return name
