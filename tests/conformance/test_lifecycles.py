"""Every lifecycle: what is published, in which order, and what is told (C1, C3, C6, C7)."""

from __future__ import annotations

import signal

import pytest
import trio

from trioshell import ShellNotFoundError, ShellRemovedError, SpawnError, Status

from . import commands
from .conftest import Stage, up


async def test_exit_is_reported_once_with_its_code(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.EXIT_0)
        (created,) = stage.log.events[:1]
        assert (created.info.status, created.info.returncode) == (Status.RUNNING, None)
        info = await shell.wait()
        assert (info.status, info.returncode, info.signal) == (Status.EXITED, 0, None)
        assert stage.life(shell) == ["created", "exited(exited)"]
    assert stage.life(shell) == ["created", "exited(exited)", "deleted"]


async def test_failure_is_an_exit(stage: Stage) -> None:
    async with stage.open() as shells:
        info = await (await shells.create(commands.EXIT_3)).wait()
    assert (info.status, info.returncode) == (Status.EXITED, 3)


async def test_crash_is_an_exit_with_its_signal(stage: Stage) -> None:
    async with stage.open() as shells:
        info = await (await shells.create(commands.CRASH)).wait()
    assert (info.status, info.returncode) == (Status.EXITED, -signal.SIGSEGV)
    assert info.signal == signal.SIGSEGV


async def test_outside_signal_is_an_exit(stage: Stage) -> None:
    """Whoever sends a signal without asking for a kill is not the library (C3)."""
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        await up(shell)
        shell.send_signal(signal.SIGINT)
        info = await shell.wait()
    assert (info.status, info.signal) == (Status.EXITED, signal.SIGINT)


async def test_timeout_ends_the_command(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER, timeout=0.1)
        info = await shell.wait()
        assert (info.status, info.signal) == (Status.TIMEOUT, signal.SIGTERM)
        assert stage.life(shell) == ["created", "exited(timeout)"]
        assert not stage.alive(shell)


async def test_timeout_of_a_command_that_ignores_sigterm(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN, timeout=0.1)
        info = await shell.wait()
        assert (info.status, info.signal) == (Status.TIMEOUT, signal.SIGKILL)
        assert not stage.alive(shell)


async def test_timeout_set_later_counts_from_then(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER, timeout=100)
        shell.set_timeout(0.05)
        assert (await shell.wait()).status is Status.TIMEOUT


async def test_timeout_cleared_does_not_fire(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.SHORTLY, timeout=0.04)
        shell.set_timeout(None)
        assert (await shell.wait()).returncode == 5
        shell.set_timeout(0.01)  # nothing is left that it could end
        assert shell.status is Status.EXITED


async def test_kill_ends_and_keeps_the_shell(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        info = await shell.kill()
        assert info == shell.info == await shell.wait()
        assert info.status is Status.KILLED
        assert info.signal in (signal.SIGTERM, signal.SIGKILL)
        assert not stage.alive(shell)
        assert stage.life(shell) == ["created", "exited(killed)"]
        assert shells[shell.id].id == shell.id


async def test_kill_lets_a_polite_command_clean_up(stage: Stage) -> None:
    """The cause is the kill; the code is the command's own (C3)."""
    async with stage.open(grace=5) as shells:
        shell = await shells.create(commands.POLITE)
        await up(shell)
        info = await shell.kill()
    assert (info.status, info.returncode) == (Status.KILLED, 7)


async def test_kill_is_not_ignored_for_ever(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        await up(shell)
        info = await shell.kill()
    assert (info.status, info.signal) == (Status.KILLED, signal.SIGKILL)


async def test_kill_reaches_a_stopped_command(stage: Stage) -> None:
    """A stopped process acts on SIGTERM only when it is continued (C6)."""
    async with stage.open(grace=5) as shells:
        shell = await shells.create(commands.STOPS_ITSELF)
        await up(shell)
        info = await shell.kill()
    assert (info.status, info.signal) == (Status.KILLED, signal.SIGTERM)


async def test_kill_of_an_ended_shell_tells_its_end(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.EXIT_3)
        info = await shell.wait()
        assert await shell.kill() == info
        assert stage.life(shell) == ["created", "exited(exited)"]


async def test_kills_at_once_see_the_same_end(stage: Stage) -> None:
    """The shortest grace counts (C6)."""
    infos = []

    async def kill(grace: float) -> None:
        infos.append(await shell.kill(grace=grace))

    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        await up(shell)
        async with trio.open_nursery() as nursery:
            for grace in (60, 0.05, 30):
                nursery.start_soon(kill, grace)
        assert infos == [shell.info] * 3
        assert shell.info.signal == signal.SIGKILL


async def test_kill_whose_caller_is_cancelled_completes(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        await up(shell)
        with trio.move_on_after(0.01) as scope:
            await shell.kill()
        assert scope.cancelled_caught
        assert shell.status is Status.RUNNING
        assert (await shell.wait()).status is Status.KILLED


async def test_remove_of_a_running_shell(stage: Stage) -> None:
    """The seed: exited(killed) comes, once, and before deleted (C1, C7)."""
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        await shell.remove()
        assert stage.life(shell) == ["created", "exited(killed)", "deleted"]
        assert not stage.alive(shell)
        assert shells.statistics().retained == 0


async def test_remove_of_a_command_that_ignores_sigterm(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        await up(shell)
        await shell.remove()
        assert stage.life(shell) == ["created", "exited(killed)", "deleted"]
        assert shell.info.signal == signal.SIGKILL


async def test_remove_of_an_ended_shell(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.EXIT_3)
        await shell.wait()
        await shell.remove()
        assert stage.life(shell) == ["created", "exited(exited)", "deleted"]


async def test_removed_shell_is_unknown(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.EXIT_3)
        await shell.remove()
        assert shell.id not in shells
        with pytest.raises(ShellNotFoundError):
            shells.get(shell.id)
        for refused in (shell.wait, shell.kill, shell.remove, shell.output):
            with pytest.raises(ShellRemovedError) as caught:
                await refused()
            assert caught.value.info == shell.info
        result = await shell.result()
        assert (result.info, result.output) == (shell.info, None)


async def test_removes_at_once_succeed_together(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(shell.remove)
        assert stage.life(shell) == ["created", "exited(killed)", "deleted"]


async def test_remove_whose_caller_is_cancelled_completes(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        await up(shell)
        async with shells.subscribe() as events:
            with trio.move_on_after(0.01):
                await shell.remove()
            assert [(await events.receive()).type for _ in range(2)] == [
                "shell.exited",
                "shell.deleted",
            ]


async def test_evicted_is_the_one_that_ended_first(stage: Stage) -> None:
    async with stage.open(retain=1) as shells:
        running = await shells.create(commands.FOREVER)
        first = await shells.create(commands.EXIT_0)
        await first.wait()
        second = await shells.create(commands.EXIT_3)
        await second.wait()
        assert stage.life(first) == ["created", "exited(exited)", "deleted"]
        assert [shell.id for shell in shells] == [running.id, second.id]
        await running.remove()
        assert second.id in shells


async def test_retain_0_keeps_nothing(stage: Stage) -> None:
    """A waiter that was waiting gets its result all the same (C8)."""
    async with stage.open(retain=0) as shells:
        shell = await shells.create(commands.SHORTLY)
        assert (await shell.wait()).returncode == 5
        assert len(shells) == 0


async def test_spawn_failure_leaves_nothing(stage: Stage) -> None:
    async with stage.open() as shells:
        with pytest.raises(SpawnError) as caught:
            await shells.create(commands.NO_PROGRAM)
        assert isinstance(caught.value, FileNotFoundError)
        assert commands.NO_PROGRAM[0] in str(caught.value)
        assert (len(shells), len(stage.log)) == (0, 0)


async def test_cancelled_create_leaves_nothing(stage: Stage) -> None:
    """Cancelled before it begins, and a little later: a shell or nothing (C2)."""
    async with stage.open() as shells:
        for delay in (0, 0.001, 0.01):
            with trio.move_on_after(delay) as scope:
                await shells.create(commands.FOREVER)
            assert scope.cancelled_caught == (len(stage.log.running()) == 0)
            for shell in shells:
                await shell.remove()
