"""Every operation, cancelled before every step of its run, under several schedules.

What was begun is completed or undone; nobody else is the worse for it; nothing is left.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio

from trioshell import Shell, Shells, Status, open_shells
from trioshell.testing import (
    Call,
    EventLog,
    FakeLauncher,
    Recorder,
    Script,
    cancel_everywhere,
    check_events,
    quiet,
)


@attrs.define(eq=False)
class Stage:
    """A scope with one shell to do something with."""

    shells: Shells
    shell: Shell
    recorder: Recorder


def stage(script: Script, *, limit: int | None = None, retain: int = 25) -> Any:
    """Open a scope whose shell follows the script; check everything when it is over."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[Stage]:
        launcher = FakeLauncher().on("first", script)
        launcher.on("second", Script.exits(after=1.0).spawn_takes(1.0).prints(b"x"))
        log = EventLog()
        limiter = None if limit is None else trio.CapacityLimiter(limit)
        async with open_shells(
            launcher=launcher, observers=[log], grace=1.0, retain=retain, limiter=limiter
        ) as shells:
            recorder = Recorder(shells)
            yield Stage(shells, await recorder.create("first"), recorder)
        assert limiter is None or limiter.borrowed_tokens == 0
        check_events(log, launcher=launcher, retain=retain, calls=recorder.calls)

    return opened


async def still_works(stage: Stage) -> None:
    """After the cancellation the scope is as good as before."""
    await quiet()
    for shell in stage.shells:
        if shell.status is Status.RUNNING:
            await stage.recorder.kill(shell)
    second = await stage.recorder.create("second")
    assert (await stage.recorder.wait(second)).returncode == 0


async def completed(stage: Stage) -> None:
    """A kill and a removal go on without their caller, whenever it was cancelled (C6, C7)."""
    began = any(call.op in ("kill", "remove") for call in stage.recorder.calls)
    await quiet()
    assert began == (stage.shell.status is Status.KILLED)
    await still_works(stage)


FOREVER = Script.forever().prints(b"up\n")
STUBBORN = FOREVER.ignores("TERM")
SHORT = Script.exits(3, after=1.0).prints(b"a", b"b", every=0.5)
LEAVING = Script.exits(3).leaves(Script.forever().ignores("TERM"))


async def follow(stage: Stage) -> None:
    async with stage.shell.follow() as stream:
        async for _ in stream:
            pass


async def lines(stage: Stage) -> None:
    async with stage.shell.lines() as reader:
        async for _ in reader:
            pass


async def subscribe(stage: Stage) -> None:
    async with stage.shells.subscribe(since=0) as events:
        async for _ in events:
            if stage.shell.status is not Status.RUNNING:
                return


OPERATIONS: dict[str, tuple[Callable[[Stage], Awaitable[object]], Any]] = {
    "create": (lambda s: s.recorder.create("second"), stage(FOREVER)),
    "create with a limit": (lambda s: s.recorder.create("second"), stage(SHORT, limit=1)),
    "create and lose": (lambda s: s.recorder.create("second"), stage(SHORT, retain=0)),
    "wait": (lambda s: s.recorder.wait(s.shell), stage(SHORT)),
    "wait and lose": (lambda s: s.recorder.wait(s.shell), stage(SHORT, retain=0)),
    "wait for what is left": (lambda s: s.recorder.wait(s.shell), stage(LEAVING)),
    "result": (lambda s: s.recorder.result(s.shell), stage(SHORT)),
    "output": (lambda s: s.recorder.output(s.shell), stage(SHORT)),
    "wait_all": (lambda s: s.recorder.wait_all(), stage(SHORT)),
    "follow": (follow, stage(SHORT)),
    "lines": (lines, stage(SHORT)),
    "subscribe": (subscribe, stage(SHORT)),
}

ENDS: dict[str, tuple[Callable[[Stage], Awaitable[object]], Any]] = {
    "kill": (lambda s: s.recorder.kill(s.shell), stage(FOREVER)),
    "kill of a stubborn one": (lambda s: s.recorder.kill(s.shell), stage(STUBBORN)),
    "remove": (lambda s: s.recorder.remove(s.shell), stage(FOREVER)),
    "remove of a stubborn one": (lambda s: s.recorder.remove(s.shell), stage(STUBBORN)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_cancelled_operation_leaves_all_well(name: str) -> None:
    op, setup = OPERATIONS[name]
    assert cancel_everywhere(op, setup=setup, check=still_works) > 5


@pytest.mark.parametrize("name", ENDS)
def test_cancelled_end_is_completed(name: str) -> None:
    op, setup = ENDS[name]
    assert cancel_everywhere(op, setup=setup, check=completed) > 5


def test_cancelled_scope_tells_everything() -> None:
    """The scope itself, cancelled before every step from its opening to its end (C9)."""
    told: list[list[str]] = []

    async def scope() -> None:
        launcher = FakeLauncher().on("first", STUBBORN).on("second", LEAVING).on("third", SHORT)
        log = EventLog()
        calls: list[Call] = []
        try:
            async with open_shells(
                launcher=launcher, observers=[log], grace=1.0, retain=1
            ) as shells:
                recorder = Recorder(shells, calls)
                async with trio.open_nursery() as nursery:
                    for command in ("first", "second", "third"):
                        nursery.start_soon(recorder.create, command)
                for shell in shells:
                    if shell.info.command != "first":
                        await recorder.wait(shell)
        finally:
            check_events(log, launcher=launcher, retain=1, calls=calls)
            told.append([event.type for event in log])

    assert cancel_everywhere(scope) > 100
    assert [] in told
    assert 9 in map(len, told)
