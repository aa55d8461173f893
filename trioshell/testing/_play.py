"""`play`: do what a program says, and note every call with its answer."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import final

import attrs
import trio

from .. import Shell, ShellNotFoundError, Shells, SpawnError, SubscriptionLaggedError
from ._calls import Call, Recorder, give_up
from ._check import check_events
from ._fake import FakeLauncher
from ._log import EventLog
from ._program import Do, Life, Program, Reader, command_of
from ._quiet import quiet


async def play(program: Program, shells: Shells) -> list[Call]:
    """Do what a program says, then wait until nothing can happen any more.

    A caller that still waits then is cancelled: it waits for a shell that nobody ends.

    Args:
        program: What to do. The scope must have been opened with its ``launcher()``.
        shells: The scope.

    Returns:
        Every call with its answer, for `check_events`.

    Cancellation: ends all callers; what they began goes on.
    """
    player = _Player(program, Recorder(shells))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(player.run, name="play")
        await quiet()
        player.recorder.give_up()
        nursery.cancel_scope.cancel()
    return player.recorder.calls


@final
@attrs.define(eq=False)
class Performance:
    """What became of a program.

    Attributes:
        program: What was done.
        launcher: What truly happened to the processes.
        log: What was published.
        calls: What was answered.
    """

    program: Program
    launcher: FakeLauncher
    log: EventLog = attrs.field(factory=EventLog)
    calls: list[Call] = attrs.field(factory=list)

    def check(self) -> None:
        """`check_events` with all that is known.

        Raises:
            Violation: A promise is broken.
        """
        check_events(
            self.log,
            launcher=self.launcher,
            retain=self.program.retain,
            limit=self.program.limit,
            calls=self.calls,
        )


async def perform(
    program: Program, *, watch: Callable[[Shells, EventLog], object] | None = None
) -> Performance:
    """Open a scope as a program says, play the program, and leave the scope as it says.

    Unlike in `play`, the actors live outside of the scope, so that it may be left under them.

    Args:
        program: What to do.
        watch: Called when the scope is open.

    Returns:
        What happened, not checked yet.
    """
    performance = Performance(program, program.launcher())
    async with trio.open_nursery() as nursery:
        with suppress(_LeftError), trio.CancelScope() as scope:
            async with program.open_shells(performance.launcher, performance.log) as shells:
                if watch is not None:
                    watch(shells, performance.log)
                player = _Player(program, Recorder(shells, performance.calls))
                nursery.start_soon(player.run, name="play")
                await _until_it_is_time(program, player.recorder)
                player.recorder.note("leave")
                await _leave(program, scope)
        # Who still waits now was forgotten, or slept when the scope ended.
        await quiet()
        give_up(performance.calls, performance.log.last_seq)
        nursery.cancel_scope.cancel()
    return performance


class _LeftError(Exception):
    """The exception with which a scope is left."""


async def _until_it_is_time(program: Program, recorder: Recorder) -> None:
    if program.leave_after is None:
        await quiet()
        recorder.note("quiet")
    else:
        await trio.sleep(program.leave_after)


async def _leave(program: Program, scope: trio.CancelScope) -> None:
    if program.leave == "raise":
        raise _LeftError
    if program.leave == "cancel":
        scope.cancel()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class _Player:
    """Plays one program."""

    program: Program
    recorder: Recorder

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number, reader in enumerate(self.program.readers, 1):
                nursery.start_soon(self._read, reader, name=f"reader {number}")
            for number, lives in enumerate(self.program.actors, 1):
                nursery.start_soon(self._act, number, lives, name=f"actor {number}")

    async def _act(self, actor: int, lives: tuple[Life, ...]) -> None:
        for number, life in enumerate(lives, 1):
            await self._live(life, command_of(actor, number))

    async def _live(self, life: Life, command: str) -> None:
        shell = await self._create(life, command)
        if shell is None:
            return
        async with trio.open_nursery() as nursery:
            for number, steps in enumerate(life.rivals, 1):
                name = f"rival {number} of {command}"
                nursery.start_soon(self._take, shell, steps, name=name)
            await self._take(shell, life.steps)

    async def _create(self, life: Life, command: str) -> Shell | None:
        with _giving_up(life.within), suppress(SpawnError, trio.ClosedResourceError):
            return await self.recorder.create(
                command, timeout=life.timeout, grace=life.grace, background=life.background
            )
        return None

    async def _take(self, shell: Shell, steps: tuple[Do, ...]) -> None:
        for step in steps:
            with _giving_up(step.within), suppress(ShellNotFoundError):
                await self._do(shell, step)

    async def _do(self, shell: Shell, step: Do) -> None:
        match step.op:
            case "sleep":
                await trio.sleep(step.value or 0)
            case "kill":
                await self.recorder.kill(shell, grace=step.value)
            case "output":
                await self.recorder.output(shell, int(step.value or 0))
            case "wait_all":
                await self.recorder.wait_all()
            case "wait" | "result" | "remove":
                await getattr(self.recorder, step.op)(shell)
            case _:
                self._do_now(shell, step)

    def _do_now(self, shell: Shell, step: Do) -> None:
        if step.op == "set_timeout":
            self.recorder.set_timeout(shell, step.value)
        elif step.op == "send_signal":
            shell.send_signal(int(step.value or signal.SIGINT))
        else:
            self.recorder.statistics()
            self.recorder.running()
            self.recorder.known()
            self.recorder.get(shell.id)

    async def _read(self, reader: Reader) -> None:
        await trio.sleep(reader.after)
        left = math.inf if reader.reads is None else reader.reads
        since = reader.since
        while left > 0:
            call = self.recorder.subscribe(since)
            async with self.recorder.shells.subscribe(
                since=since, max_buffer=reader.max_buffer
            ) as events:
                try:
                    while left > 0:
                        call.answer.append(await events.receive())
                        left -= 1
                        await trio.sleep(reader.pace)
                except trio.EndOfChannel:
                    call.outcome = "returned"
                    return
                except SubscriptionLaggedError as lag:
                    call.args["lagged"] = lag
                    since = lag.seq


def _giving_up(within: float | None) -> trio.CancelScope:
    return trio.move_on_after(math.inf if within is None else within)
