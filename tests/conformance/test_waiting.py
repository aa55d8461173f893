"""Who waits, and what they are told (C5, C7, C8)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from trioshell import ShellInfo, ShellRemovedError, Status

from . import commands
from .conftest import Stage


async def test_all_waiters_get_the_same_info(stage: Stage) -> None:
    infos: list[ShellInfo] = []

    async def wait() -> None:
        infos.append(await shell.wait())

    async with stage.open() as shells:
        shell = await shells.create(commands.SHORTLY)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(wait)
        infos.append(await shell.wait())
    assert infos == [shell.info] * 6


async def test_cancelled_waiter_takes_nothing_along(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.SHORTLY)
        with trio.move_on_after(0.01) as scope:
            await shell.wait()
        assert scope.cancelled_caught
        assert (await shell.wait()).returncode == 5


async def test_waiters_of_a_removed_shell_are_told(stage: Stage) -> None:
    told: list[ShellInfo] = []

    async def wait() -> None:
        with pytest.raises(ShellRemovedError) as caught:
            await shell.wait()
        told.append(caught.value.info)

    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await shell.remove()
    assert told == [shell.info] * 2
    assert shell.info.status is Status.KILLED


async def test_removal_after_a_kill_does_not_change_the_answer(stage: Stage) -> None:
    """The kill came first: its end is what the waiters get (C3, C7)."""
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.kill)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(shell.remove)
            assert (await shell.wait()).status is Status.KILLED
        assert shell.id not in shells


async def test_wait_all_waits_for_what_runs(stage: Stage) -> None:
    async with stage.open() as shells:
        await shells.wait_all()
        first = await shells.create(commands.SHORTLY)
        second = await shells.create(commands.EXIT_3)
        await shells.wait_all()
        assert {first.status, second.status} == {Status.EXITED}


async def test_limiter_lets_one_run_at_a_time(stage: Stage) -> None:
    running: list[int] = []

    async def one() -> None:
        await (await shells.create(commands.SHORTLY)).wait()
        running.append(len(shells.list()))

    async with stage.open(limiter=trio.CapacityLimiter(1)) as shells:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        assert max(running) <= 1
        kinds = [event.type for event in stage.log]
        assert kinds == ["shell.created", "shell.exited"] * 3


async def test_create_that_waits_for_a_place_can_be_cancelled(stage: Stage) -> None:
    limiter = trio.CapacityLimiter(1)
    async with stage.open(limiter=limiter) as shells:
        shell = await shells.create(commands.FOREVER)
        with trio.move_on_after(0.01) as scope:
            await shells.create(commands.EXIT_0)
        assert scope.cancelled_caught
        await shell.kill()
        assert limiter.borrowed_tokens == 0


async def test_create_that_waits_for_a_place_ends_with_its_scope(stage: Stage) -> None:
    """Also when the places are in the hands of somebody else (C9)."""
    limiter = trio.CapacityLimiter(1)
    refused: list[trio.ClosedResourceError] = []

    async def create() -> None:
        with pytest.raises(trio.ClosedResourceError, match="over") as error:
            await shells.create(commands.EXIT_0)
        refused.append(error.value)

    await limiter.acquire_on_behalf_of("somebody else")
    async with trio.open_nursery() as nursery:
        async with stage.open(limiter=limiter) as shells:
            nursery.start_soon(create)
            await trio.testing.wait_all_tasks_blocked()
        await create()
    assert len(refused) == 2
    assert limiter.borrowed_tokens == 1
    limiter.release_on_behalf_of("somebody else")
