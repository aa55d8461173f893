"""Subscribers see the same events in the same order, or are told that they do not (C12)."""

from __future__ import annotations

import pytest
import trio

from trioshell import Event, Shells, SubscriptionLaggedError

from . import commands
from .conftest import Stage


async def live(shells: Shells) -> None:
    """Three lifecycles."""
    await (await shells.create(commands.EXIT_3)).wait()
    await (await shells.create(commands.FOREVER)).remove()
    await (await shells.create(commands.FOREVER, timeout=0.01)).wait()


async def test_subscribers_see_everything_to_the_end(stage: Stage) -> None:
    seen: list[list[Event]] = [[], []]

    async def follow(mine: list[Event], shells: Shells, task_status: trio.TaskStatus) -> None:
        async with shells.subscribe() as events:
            task_status.started()
            mine += [event async for event in events]

    async with trio.open_nursery() as nursery, stage.open() as shells:
        for mine in seen:
            await nursery.start(follow, mine, shells)
        await live(shells)
    assert seen == [stage.log.events] * 2
    assert [event.seq for event in stage.log] == list(range(1, len(stage.log) + 1))


async def test_late_subscriber_replays(stage: Stage) -> None:
    async with stage.open() as shells:
        await live(shells)
        async with shells.subscribe(since=2) as events:
            again = [await events.receive() for _ in range(len(stage.log) - 2)]
        assert again == stage.log.events[2:]


async def test_slow_subscriber_is_told_and_resumes(stage: Stage) -> None:
    async with stage.open() as shells:
        async with shells.subscribe(max_buffer=2) as events:
            await live(shells)
            first = [await events.receive(), await events.receive()]
            with pytest.raises(SubscriptionLaggedError) as caught:
                await events.receive()
        assert caught.value.missed == len(stage.log) - 2
        async with shells.subscribe(since=caught.value.seq) as events:
            rest = [await events.receive() for _ in range(caught.value.missed)]
        assert first + rest == stage.log.events


async def test_created_is_published_with_its_pid_before_create_returns(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        (event,) = stage.log.events
        assert (event.type, event.info.pid) == ("shell.created", shell.pid)
        assert shell.pid > 0


async def test_fold_of_the_events_is_the_registry(stage: Stage) -> None:
    async with stage.open() as shells:
        await shells.create(commands.FOREVER)
        await live(shells)
        assert stage.log.running() == {info.id for info in shells.list()}
        known = {shell.id for shell in shells}
        assert stage.log.running() | stage.log.retained() == known
