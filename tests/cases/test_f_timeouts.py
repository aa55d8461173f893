"""Kind (f): time limits, and what a command may do to get around them."""

from __future__ import annotations

import math
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import trio

from trioshell import Created, Deleted, Exited, ShellInfo, ShellRemovedError, Status

from .support import Case, is_alive, read_all, rounds, until, until_output

FOREVER: list[Any] = [None, math.inf, 1e12, 10**30]

# Only against hangs: the machine may have other things to do.
LONG = 20.0


def elapsed(info: ShellInfo) -> float:
    assert info.ended is not None
    return info.ended - info.started


def is_stopped(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.mark.parametrize("ended_by", [Status.TIMEOUT, Status.KILLED])
async def test_a_trap_that_exits_with_0_is_no_success(case: Case, ended_by: Status) -> None:
    """Case 42: a timed-out child traps the signal, exits 0, and counts as a success.

    https://github.com/momenbasel/Phosphor/pull/49
    """
    command = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    async with case.open(grace=LONG):
        shell = await case.start(command)
        await until_output(shell, b"ready")
        if ended_by is Status.TIMEOUT:
            shell.set_timeout(0.1)
        else:
            await shell.kill()
        info = await shell.wait()
    assert (info.status, info.returncode) == (ended_by, 0)
    assert case.of(shell)[:2] == [Created, Exited]


@rounds(40, 300)
async def test_an_end_close_to_the_limit_is_told_as_it_was(case: Case, rounds: int) -> None:
    """Case 43: ends just before the deadline, reported as timed out (C3).

    https://github.com/youknowone/pyre/pull/943
    """
    told: list[tuple[float, ShellInfo]] = []
    async with case.open(), trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(_approach, case, rounds // 4, told)
    exited = [info for _, info in told if info.status is Status.EXITED]
    timed_out = [info for _, info in told if info.status is Status.TIMEOUT]
    assert exited
    assert timed_out
    assert len(exited) + len(timed_out) == len(told) == rounds
    assert {info.returncode for info in exited} == {7}
    # Also where the signal came while the kernel was already taking the leader down.
    assert {info.returncode for info in timed_out} == {-15}


async def _approach(case: Case, rounds: int, told: list[tuple[float, ShellInfo]]) -> None:
    """Move the limit to where the command ends, wherever that is on this machine."""
    limit, step, turned, first = 0.19, 0.008, False, None
    for _ in range(rounds):
        shell = await case.start("sleep 0.2; exit 7", timeout=limit)
        info = await shell.wait()
        told.append((limit, info))
        if info.status is Status.TIMEOUT:
            assert elapsed(info) >= limit - 1e-6  # the rounding of epoch seconds
        first = first or info.status
        turned = turned or info.status is not first
        step = max(step / 2, 0.001) if turned else step * 2
        limit += step if info.status is Status.TIMEOUT else -min(step, limit / 2)


async def test_a_limit_that_makes_no_sense_is_refused(case: Case) -> None:
    """Case 44: a timeout of 0 or below is no limit, or an instant kill (C14).

    https://github.com/openclaw/openclaw/pull/110742
    """
    wrong: list[Any] = [0, 0.0, -1, -0.001, -math.inf, math.nan]
    no_number: list[Any] = ["5", Decimal(5), True]
    async with case.open() as shells:
        for limits, error in ((wrong, ValueError), (no_number, TypeError)):
            for limit in limits:
                with pytest.raises(error, match="timeout must be"):
                    await case.start('touch "$T/ran"', timeout=limit)
        assert len(shells) == 0
    assert case.events == []
    assert not (case.path / "ran").exists()


async def test_a_limit_beyond_every_timer_is_no_limit(case: Case) -> None:
    """Case 45: infinite, not-a-number and huge timeouts fire at once (C14).

    https://github.com/sindresorhus/p-timeout/issues/14
    """
    async with case.open():
        shells = [await case.start("sleep 0.3; exit 5", timeout=limit) for limit in FOREVER]
        for shell in shells:
            shell.set_timeout(10**30)
        infos = [await shell.wait() for shell in shells]
    assert {(info.status, info.returncode) for info in infos} == {(Status.EXITED, 5)}


@pytest.mark.parametrize("grace", FOREVER[1:])
async def test_a_grace_beyond_every_timer_is_for_ever(case: Case, grace: float) -> None:
    """Case 45, for the grace: the polite signal is not followed by the hard one."""
    async with case.open(grace=grace), trio.open_nursery() as nursery:
        command = "trap 'sleep 0.3; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
        killed, ended = await case.start(command), await case.start(command)
        await until_output(killed, b"ready")
        await until_output(ended, b"ready")
        nursery.start_soon(killed.kill)
        ended.set_timeout(0.01)
        assert (await killed.wait()).returncode == 5
        assert (await ended.wait()).returncode == 5
        # What outlives its leader is ended with the same grace.
        job = "(trap 'sleep 0.2; : >late' TERM; : >up; sleep 60 & wait) &"
        info, _ = await case.run(f"{job} while [ ! -e up ]; do sleep 0.01; done")
        assert info.status is Status.EXITED
        assert (case.path / "late").exists()


@pytest.mark.parametrize("grace", [math.nan, -1, -math.inf])
async def test_a_grace_that_makes_no_sense_is_refused(case: Case, grace: float) -> None:
    """Case 45, for the grace (C14)."""
    with pytest.raises(ValueError, match="grace must be"):
        async with case.open(grace=grace):
            raise AssertionError("a scope was opened")
    async with case.open():
        with pytest.raises(ValueError, match="grace must be"):
            await case.start("true", grace=grace)
        shell = await case.start("sleep 60")
        with pytest.raises(ValueError, match="grace must be"):
            await shell.kill(grace=grace)
        assert shell.status is Status.RUNNING


STUBBORN = [
    "trap '' TERM INT HUP; echo ready; sh -c 'sleep 300; :' & wait; sleep 300",
    "trap '' TERM; echo ready; while :; do :; done",
]


@pytest.mark.parametrize("command", STUBBORN)
async def test_who_ignores_the_polite_signal_gets_the_hard_one(case: Case, command: str) -> None:
    """Case 46: descendants that ignore the terminate signal lock up the caller (C6).

    https://github.com/earendil-works/pi/issues/9460
    """
    async with case.open(grace=0.5):
        shell = await case.start(command, timeout=0.5)
        with trio.fail_after(LONG):
            info = await shell.wait()
        assert case.left() == []
        assert info.status is Status.TIMEOUT
        assert elapsed(info) >= 0.5

        other = await case.start(command)
        await until_output(other, b"ready")
        with trio.fail_after(LONG):
            info = await other.kill(grace=0)
        assert case.left() == []
        assert (info.status, info.returncode) == (Status.KILLED, -9)


async def test_a_stopped_process_is_woken_to_end_in_good_order(case: Case) -> None:
    """Case 47: a stopped process never sees the terminate signal (C6).

    https://github.com/opena2a-org/hackmyagent/pull/94
    """
    async with case.open():
        polite = await case.start("trap 'echo bye; exit 4' TERM; kill -STOP $$; sleep 300 & wait")
        await until(lambda: is_stopped(polite.pid))
        info = await polite.kill(grace=LONG)
        assert (info.status, info.returncode) == (Status.KILLED, 4)  # no hard kill
        assert await read_all(polite) == b"bye\n"

        stopped = await case.start("kill -STOP $$; exit 6")
        await until(lambda: is_stopped(stopped.pid))
        stopped.set_timeout(0.5)
        await trio.sleep(0.2)
        assert case.of(stopped) == [Created]  # to be stopped is no end
        with trio.fail_after(LONG):
            info = await stopped.wait()
        assert info.status is Status.TIMEOUT


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo before; echo err >&2; sleep 300", b"before\nerr\n"),
        ([sys.executable, "-uc", "import time; print('p'); time.sleep(300)"], b"p\n"),
    ],
)
async def test_what_was_written_before_the_limit_is_kept(
    case: Case, command: Any, output: bytes
) -> None:
    """Case 48: output before the timeout is thrown away (C4).

    https://github.com/SWE-agent/SWE-ReX/issues/29
    """
    async with case.open() as shells, shells.subscribe() as events:
        shell = await case.start(command)
        await until_output(shell, output)
        shell.set_timeout(0.1)
        async for event in events:
            if isinstance(event, Exited):
                break
        assert await read_all(shell) == output
        assert shell.status is Status.TIMEOUT
        await shell.remove()
        with pytest.raises(ShellRemovedError):
            await shell.output()


async def test_nothing_goes_on_after_the_limit_was_reported(case: Case) -> None:
    """Case 49: work goes on after the timeout was reported (C4).

    https://github.com/berenddeboer/ready-for-agent/issues/516
    """
    commands = [
        '(sleep 2; touch "$T/late") & wait',
        """sh -c "trap '' TERM; sleep 2; touch \\"$T/late\\"; sleep 300" """,
    ]
    async with case.open(grace=0.2) as shells, shells.subscribe() as events:
        begin = trio.current_time()
        for command in commands:
            await case.start(command, timeout=0.5)
        ended = 0
        async for event in events:
            if isinstance(event, Exited):
                assert event.info.status is Status.TIMEOUT
                ended += 1
            if ended == len(commands):
                break
        assert case.left() == []
        await trio.sleep_until(begin + 3)
        assert not (case.path / "late").exists()


@pytest.mark.parametrize("jump", [36_000, -36_000])
async def test_a_jump_of_the_wall_clock_is_no_time(case: Case, jump: float) -> None:
    """Case 50: a jump of the wall clock counts as running time.

    https://github.com/gabrielkoerich/orch/issues/3491
    """
    real = time.time

    def jumped() -> float:
        return real() + jump

    async with case.open(retain=2) as shells:
        early = await case.start("true")
        await early.wait()
        shell = await case.start("sleep 0.3; exit 5", timeout=30)
        with mock.patch("time.time", jumped):
            info = await shell.wait()
            assert early.id in shells
            within = await (await case.start("sleep 0.3; exit 5", timeout=30)).wait()
    assert next(event.id for event in case.events if isinstance(event, Deleted)) == early.id
    for each in (info, within):
        assert (each.status, each.returncode) == (Status.EXITED, 5)
        assert 0.2 < elapsed(each) < LONG


# Neighbours that nobody has reported.


async def test_a_limit_can_be_lifted_moved_and_not_spoiled(case: Case) -> None:
    """`set_timeout` counts from now, None lifts the limit, and a bad value changes nothing."""
    async with case.open():
        lifted = await case.start("sleep 1.2; exit 3", timeout=1)
        lifted.set_timeout(None)
        moved = await case.start("sleep 300", timeout=200)
        for bad in (0, -1, math.nan):
            with pytest.raises(ValueError, match="timeout must be"):
                moved.set_timeout(bad)
        moved.set_timeout(0.2)
        assert (await moved.wait()).status is Status.TIMEOUT
        info = await lifted.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 3)
        lifted.set_timeout(0.001)  # no effect once ended
        await trio.sleep(0.01)
        assert lifted.info == info


async def test_the_first_of_limit_and_kill_is_the_cause(case: Case) -> None:
    """A kill within the grace of a limit hastens the end and changes no cause, and vice versa."""
    command = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done"
    async with case.open(grace=LONG), trio.open_nursery() as nursery:
        late, killed = await case.start(command), await case.start(command)
        for shell in (late, killed):
            await until_output(shell, b"ready")
        late.set_timeout(0.01)
        nursery.start_soon(killed.kill)
        for shell in (late, killed):
            await until_output(shell, b"asked")
            assert shell.status is Status.RUNNING
        killed.set_timeout(0.01)
        assert (await late.kill(grace=0)).status is Status.TIMEOUT
        await trio.sleep(0.1)
        assert killed.status is Status.RUNNING  # a limit does not shorten the grace of a kill
        assert (await killed.kill(grace=0)).status is Status.KILLED


async def test_a_limit_ends_the_jobs_of_a_leader_that_has_ended(case: Case) -> None:
    """Under ``background="wait"`` the limit is for the tree; how the leader ended stands (C3)."""
    async with case.open():
        shell = await case.start("sleep 300 & exit 7", background="wait", timeout=0.5)
        with trio.fail_after(LONG):
            info = await shell.wait()
        assert case.left() == []
    assert (info.status, info.returncode) == (Status.EXITED, 7)
    assert elapsed(info) >= 0.5


async def test_a_host_that_was_frozen_past_the_limit_blames_nobody(case: Case) -> None:
    """An end that came before the limit is told as an end, however late it is seen (C3)."""
    async with case.open():
        begin = time.monotonic()
        shell = await case.start("exit 7", timeout=0.3)
        while is_alive(shell.pid) or time.monotonic() < begin + 0.5:
            time.sleep(0.01)  # the host does not look
        info = await shell.wait()
    assert (info.status, info.returncode) == (Status.EXITED, 7)
