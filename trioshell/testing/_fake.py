"""`FakeLauncher`: starts processes that happen in memory, on trio's clock only."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, final

import attrs
import trio

from .. import _checks
from ..launchers import Guarantees, Launcher, Spec
from ._member import Member
from ._process import FakeProcess
from ._script import Script

# Beyond every number that Linux, macOS and the BSDs give to a process: a test that signals a
# fake one by mistake reaches nobody.
_FIRST_PID = 10_000_001

Pattern = str | re.Pattern[str] | Sequence[str]


@final
@attrs.define(eq=False, repr=False)
class FakeLauncher(Launcher):
    """Starts fake processes: no descriptor, no thread, no signal, only trio's clock.

    It keeps the promises of the seam that real launchers keep, so the library cannot tell.
    What each command does is said with `on`; `next` gives each process to be driven by hand.

    Attributes:
        default: What a command does that `on` knows nothing of: by default it runs until it is
            told to end.
        processes: All that were started, in order; also those of earlier scopes.
    """

    default: Script = attrs.field(factory=Script.forever)
    processes: list[FakeProcess] = attrs.field(factory=list, init=False)
    _rules: list[tuple[Pattern, Script]] = attrs.field(factory=list, init=False)
    _pids: Iterator[int] = attrs.field(factory=lambda: itertools.count(_FIRST_PID), init=False)
    _given: int = attrs.field(default=0, init=False)
    _launched: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)
    _manager: AbstractAsyncContextManager[trio.Nursery] | None = attrs.field(
        default=None, init=False
    )
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        _check_script(self.default)

    def __repr__(self) -> str:
        return f"<FakeLauncher {len(self.processes)} started, {len(self.alive())} alive>"

    def on(self, command: Pattern, script: Script) -> Self:
        """Say what a command does; the newest word counts.

        Args:
            command: The text or the arguments as given to `Shells.create`, or a compiled regular
                expression that is searched in the text.
            script: What its process does.
        """
        _check_script(script)
        self._rules.append((command, script))
        return self

    async def next(self) -> FakeProcess:
        """Wait for the next process that is started, each being given once.

        Cancellation: none is lost; the next call returns it.
        """
        await trio.lowlevel.checkpoint()
        while self._given >= len(self.processes):
            await self._launched.park()
        self._given += 1
        return self.processes[self._given - 1]

    def alive(self) -> list[Member]:
        """Every process of every tree that has not ended: after the scope, a leak (C10)."""
        return [member for process in self.processes for member in process.living]

    # The seam.

    async def __aenter__(self) -> Self:
        if self._nursery is not None:
            raise RuntimeError("a launcher serves one scope at a time: use one for each")
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._manager is not None
        for process in self.processes:
            process.stop()
        self._nursery = None
        # The nursery does not get to see the exception: it would come back in a group (C9).
        await self._manager.__aexit__(None, None, None)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            launcher="fake",
            escapees=True,
            host_crash=True,
            tree_usage=False,
            output_limit=True,
            pty=True,
        )

    @property
    def needs_files(self) -> bool:
        return False

    async def launch(self, spec: Spec) -> FakeProcess:
        if self._nursery is None:
            raise RuntimeError("the launcher is not entered: give it to open_shells()")
        command = _command(spec)
        script = self._script(command, spec)
        with trio.CancelScope(shield=script.spawn_shielded):
            await trio.sleep(script.spawn_time)
        if error := script.error(command):
            raise error
        process = FakeProcess(spec, script, command, self._pids, self._nursery.start_soon)
        self.processes.append(process)
        self._nursery.start_soon(process.run, name=f"process {process.pid} {command}")
        self._launched.unpark_all()
        # It runs, and the word that it does is on its way: who gives up now gets a process all
        # the same, as the seam allows.
        await trio.lowlevel.cancel_shielded_checkpoint()
        return process

    def _script(self, command: str, spec: Spec) -> Script:
        argv = [os.fsdecode(argument) for argument in spec.argv]
        for pattern, script in reversed(self._rules):
            if _matches(pattern, command, argv):
                return script
        return self.default


def _matches(pattern: Pattern, command: str, argv: list[str]) -> bool:
    if isinstance(pattern, re.Pattern):
        return pattern.search(command) is not None
    return pattern == command if isinstance(pattern, str) else list(pattern) == argv


def _command(spec: Spec) -> str:
    """The text that an interpreter was given, or the arguments as one text."""
    argv = [os.fsdecode(argument) for argument in spec.argv]
    if len(argv) > 2 and argv[-2] in ("-c", "-Command"):
        return argv[-1]
    return shlex.join(argv)


def _check_script(script: object) -> None:
    _checks.instance("what a command does", script, Script, "a Script, such as Script.exits(3)")
