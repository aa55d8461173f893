"""Leaving the scope: everything is told, nothing is left, however it is left (C9, C10)."""

from __future__ import annotations

import contextlib

import pytest
import trio
import trio.lowlevel

from trioshell import Deleted, Shells, Status

from . import commands
from .conftest import Stage, up

LEFT = ["created", "exited(killed)", "deleted"]


async def fill(shells: Shells) -> None:
    """Some that run, some of them stubborn, one that has ended."""
    for command in (commands.FOREVER, commands.STUBBORN, commands.TREE):
        await up(await shells.create(command))
    await (await shells.create(commands.EXIT_3)).wait()


def lives(stage: Stage) -> list[list[str]]:
    return [stage.log.of(id) for id in dict.fromkeys(event.id for event in stage.log)]


async def test_return_ends_everything(stage: Stage) -> None:
    async with stage.open() as shells:
        await fill(shells)
        handles = list(shells)
    assert lives(stage) == [LEFT, LEFT, LEFT, ["created", "exited(exited)", "deleted"]]
    assert [stage.alive(shell) for shell in handles] == [[]] * 4
    assert {event.reason for event in stage.log if isinstance(event, Deleted)} == {"closed"}


async def test_exception_leaves_as_itself(stage: Stage) -> None:
    error = LookupError("of the body")
    with pytest.raises(LookupError) as caught:
        async with stage.open() as shells:
            await fill(shells)
            raise error
    assert caught.value is error
    assert lives(stage)[:3] == [LEFT] * 3


async def test_cancellation_ends_everything(stage: Stage) -> None:
    with trio.CancelScope() as scope:
        async with stage.open() as shells:
            await fill(shells)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert lives(stage)[:3] == [LEFT] * 3


async def test_interrupt_ends_everything(stage: Stage) -> None:
    with pytest.raises(KeyboardInterrupt):
        async with stage.open() as shells:
            await fill(shells)
            raise KeyboardInterrupt
    assert lives(stage)[:3] == [LEFT] * 3


async def test_many_stubborn_shells_share_one_grace(stage: Stage) -> None:
    """Grace + 2 s however many there are (C9); one after the other would take 6 s here."""
    began = trio.current_time()
    async with stage.open(grace=0.5) as shells:
        for _ in range(12):
            await up(await shells.create(commands.STUBBORN))
        began = trio.current_time()
    assert trio.current_time() - began < 0.5 + 2


async def test_nothing_starts_while_the_scope_ends(stage: Stage) -> None:
    errors: list[Exception] = []

    async def late() -> None:
        async with shells.subscribe() as events:
            async for event in events:
                if event.type == "shell.exited":
                    try:
                        await shells.create(commands.EXIT_0)
                    except trio.ClosedResourceError as error:
                        errors.append(error)

    async with trio.open_nursery() as nursery, stage.open() as shells:
        await up(await shells.create(commands.FOREVER))
        nursery.start_soon(late)
        await trio.lowlevel.checkpoint()
    assert len(errors) == 1
    with pytest.raises(trio.ClosedResourceError):
        await shells.create(commands.EXIT_0)


async def test_waiters_are_answered_when_the_scope_ends(stage: Stage) -> None:
    told: list[Status] = []

    async def wait() -> None:
        told.append((await shell.wait()).status)

    async with trio.open_nursery() as nursery, stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        nursery.start_soon(wait)
        await up(shell)
    assert told == [Status.KILLED]


@pytest.mark.parametrize("how", ["return", "exception", "cancellation"])
async def test_end_of_the_scope_while_input_is_fed(stage: Stage, how: str) -> None:
    """Whatever a launcher does beside its waiting: one exited for each created (C1, C9)."""
    with trio.CancelScope() as outer, contextlib.suppress(KeyError):
        async with stage.open() as shells:
            await up(await shells.create(commands.FOREVER, stdin=b"x" * 1_000_000))
            if how == "exception":
                raise KeyError
            if how == "cancellation":
                outer.cancel()
                await trio.lowlevel.checkpoint()
    kinds = [event.type for event in stage.log]
    assert kinds == ["shell.created", "shell.exited", "shell.deleted"]
