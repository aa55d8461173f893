"""Cancellation of a launch and of a wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio

from tests.direct.rig import SpecOf, Start, alive, children, everything, linux_only
from trioshell._records import Pty
from trioshell.launchers._direct import DirectLauncher
from trioshell.launchers._direct.first import first_of


@linux_only
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_launch_cancelled_is_a_process_or_nothing(
    spec: SpecOf, tmp_path: Path, pty: Pty | None
) -> None:
    """C2: at whatever moment, what was begun is returned or undone."""
    launcher = DirectLauncher()
    for step in range(40):
        process = None
        with trio.move_on_after(step * 0.0015 if pty else step * 0.00025):
            process = await launcher.launch(spec("exec sleep 300", pty=pty))
        if process is None:
            assert children() == []
            assert os.listdir(tmp_path) == []
            continue
        assert children() == [process.pid]
        process.kill(0)
        await process.wait()
        process.capture.remove()


@pytest.mark.parametrize("background", ["kill", "wait"])
async def test_wait_may_be_cancelled_anywhere(start: Start, background: str) -> None:
    """Nothing is lost: no byte, no status, no process."""
    command = "i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done; sleep 0.05 & exit 7"
    process = await start(command, background=background)
    ending = None
    while ending is None:
        with trio.move_on_after(0.001):
            ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (7, True, ())
    assert everything(process) == b"".join(b"%d\n" % number for number in range(300))


async def test_wait_cancelled_during_a_kill_goes_on_with_it(start: Start) -> None:
    process = await start("trap '' TERM; echo $$; while :; do sleep 300; done")
    process.kill(0.1)
    ending = None
    while ending is None:
        with trio.move_on_after(0.004):
            ending = await process.wait()
    assert (ending.by_itself, ending.leftovers) == (False, ())
    assert not alive(process.pid)


async def test_wait_raises_cancelled_itself(start: Start) -> None:
    """Not a group of those of the tasks inside: callers know only the one."""
    process = await start("exec sleep 300", stdin=b"x" * 1_000_000)
    with trio.CancelScope() as scope:
        scope.cancel()
        with pytest.raises(trio.Cancelled):
            await process.wait()
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_when_blocked, scope)
            with pytest.raises(trio.Cancelled):
                await process.wait()


async def cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)
    scope.cancel()


async def test_first_of_cancels_the_others() -> None:
    order: list[str] = []

    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            order.append("slow ends")

    async def fast() -> None:
        await trio.lowlevel.checkpoint()
        order.append("fast ends")

    await first_of(slow, fast, beside=(slow,))
    assert order == ["fast ends", "slow ends", "slow ends"]


async def test_first_of_goes_on_when_what_is_beside_ends() -> None:
    done: list[str] = []

    async def beside() -> None:
        done.append("beside")

    async def decides() -> None:
        await trio.testing.wait_all_tasks_blocked()
        done.append("decides")

    await first_of(decides, beside=(beside,))
    assert done == ["beside", "decides"]


async def test_first_of_raises_one_error_as_itself() -> None:
    async def fail() -> None:
        raise KeyError("bare") from ValueError("its cause")

    with pytest.raises(KeyError) as caught:
        await first_of(fail, trio.sleep_forever)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_first_of_keeps_several_errors_together() -> None:
    async def fail() -> None:
        raise KeyError

    with pytest.raises(ExceptionGroup) as caught:
        await first_of(fail, fail, trio.sleep_forever)
    assert len(caught.value.exceptions) == 2
