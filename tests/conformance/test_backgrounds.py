"""What becomes of processes that outlive their leader (C4, C6, C10)."""

from __future__ import annotations

import pytest

from trioshell import Status

from . import commands
from .conftest import Stage, up


async def test_kill_ends_what_the_leader_left(stage: Stage) -> None:
    """The status is the leader's own, and at that moment nothing of the tree is alive (C4)."""
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_ONE)
        info = await shell.wait()
        assert not stage.alive(shell)
    assert (info.status, info.returncode, info.leftovers) == (Status.EXITED, 3, ())
    assert not info.cut


async def test_kill_ends_what_ignores_sigterm(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_STUBBORN)
        info = await shell.wait()
        assert not stage.alive(shell)
    assert (info.status, info.returncode, info.leftovers) == (Status.EXITED, 0, ())


async def test_kill_of_a_shell_whose_leader_has_ended_hastens_it(stage: Stage) -> None:
    """The leader came first, so the kill is not the cause (C3)."""
    async with stage.open(grace=60) as shells:
        shell = await shells.create(commands.LEAVES_STUBBORN)
        await up(shell)
        await stage.wait_until_alive(shell, 1)
        info = await shell.kill(grace=0)
        assert not stage.alive(shell)
    assert (info.status, info.returncode) == (Status.EXITED, 0)


async def test_kill_reaches_a_whole_tree(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.TREE)
        await up(shell)
        assert len(stage.alive(shell)) == 3
        await shell.kill()
        assert not stage.alive(shell)


async def test_escapee_ends_with_the_leader(stage: Stage) -> None:
    stage.require("escapees")
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_ESCAPEE)
        info = await shell.wait()
        assert not stage.alive(shell)
    assert (info.status, info.returncode, info.leftovers) == (Status.EXITED, 0, ())


async def test_kill_cuts_what_would_be_written_later(stage: Stage) -> None:
    async with stage.open() as shells:
        result = await (await shells.create(commands.LEAVES_LATE)).result()
    assert result.output == "early\n"


async def test_wait_waits_for_the_whole_tree(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_SHORT, background="wait")
        result = await shell.result()
        assert not stage.alive(shell)
    assert result.output == "early\nlate\n"
    assert (result.info.status, result.info.returncode) == (Status.EXITED, 0)


async def test_wait_ends_with_a_kill(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_ONE, background="wait")
        await up(shell)
        await stage.wait_until_alive(shell, 1)
        info = await shell.kill()
        assert not stage.alive(shell)
    assert (info.status, info.returncode) == (Status.EXITED, 3)


async def test_keep_keeps_until_the_scope_ends(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_ONE, background="keep")
        info = await shell.wait()
        assert len(stage.alive(shell)) == 1
    assert not stage.alive(shell)
    assert (info.status, info.returncode, info.size) == (Status.EXITED, 3, 3)


@pytest.mark.parametrize("end", ["kill", "remove"])
async def test_keep_ends_when_it_is_asked_to(stage: Stage, end: str) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LEAVES_STUBBORN, background="keep")
        info = await shell.wait()
        assert len(stage.alive(shell)) == 1
        await getattr(shell, end)()
        assert not stage.alive(shell)
        assert (shell.id in shells) == (end == "kill")
    assert shell.info == info


async def test_keep_is_evicted_with_its_output_but_lives_on(stage: Stage) -> None:
    async with stage.open(retain=0) as shells:
        shell = await shells.create(commands.LEAVES_ONE, background="keep")
        await shell.wait()
        assert shell.id not in shells
        assert len(stage.alive(shell)) == 1
    assert not stage.alive(shell)
