"""The end of a command, as the direct launcher tells it."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
import trio

from tests.direct.rig import Start, alive, attended, everything, linux_only, run, said, state, until


@pytest.mark.parametrize(
    ("command", "returncode"),
    [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", -15),
        ("kill -KILL $$", -9),
        ("sh -c 'kill -SEGV $$'; exit $?", 139),
        ("kill -TERM 0", -15),
        ("echo '((('; exit 7", 7),
    ],
)
async def test_returncode_is_the_leaders(start: Start, command: str, returncode: int) -> None:
    ending, _ = await run(start, command)
    assert (ending.returncode, ending.by_itself) == (returncode, True)
    assert (ending.leftovers, ending.cut, ending.output_error, ending.trouble) == (
        (),
        False,
        None,
        None,
    )


async def test_outside_signal_is_no_kill(start: Start) -> None:
    """C3: the library did not end it."""
    process = await start("exec sleep 300")
    os.kill(process.pid, signal.SIGKILL)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (-9, True)


async def test_streams_closed_early_are_no_end(start: Start) -> None:
    ending, output = await run(start, "exec 0<&- 1>&- 2>&-; sleep 0.2; exit 5")
    assert (ending.returncode, output) == (5, b"")


async def test_output_is_complete_when_the_end_is_told(start: Start) -> None:
    """C4, C13: many fast commands, read at once, and not a byte is missing."""
    want = b"".join(b"%d\n" % number for number in range(1, 5001)) + b"END\n"

    async def one() -> None:
        ending, output = await run(start, "seq 1 5000; echo END >&2")
        assert output == want
        assert ending.size == len(want)

    for _ in range(5):
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(one)


async def test_output_of_a_leader_is_complete_beside_a_flood(start: Start) -> None:
    """C4: everything written before the leader's end, however fast a background job writes."""
    for _ in range(10):
        process = await start("yes & sleep 0.02; echo LAST; exit 0", background="keep")
        ending = await process.wait()
        assert b"LAST\n" in everything(process)
        assert process.capture.size == ending.size
        process.kill(0)
        assert await process.wait_empty() == ()
        assert process.capture.size == ending.size


async def test_usage_is_the_leaders(start: Start) -> None:
    ending, _ = await run(start, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
    assert ending.usage is not None
    assert ending.usage.user + ending.usage.system > 0
    assert ending.usage.max_rss > 100_000


async def test_kill_lets_a_handler_run(start: Start) -> None:
    """C6: SIGTERM, and time to answer."""
    process = await start("trap 'echo bye; exit 4' TERM; echo ready; read x", stdin=True)
    async with attended(process):
        await said(process, b"ready")
        process.kill(5)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (4, False)
    assert everything(process) == b"ready\nbye\n"


async def test_kill_wakes_a_stopped_leader(start: Start) -> None:
    """C6: a stopped process has to be continued to see SIGTERM."""
    process = await start("trap 'echo bye; exit 4' TERM; echo ready; kill -STOP $$; read x")
    async with attended(process):
        await said(process, b"ready")
        await until(lambda: state(process.pid) == "T")
        process.kill(5)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (4, False)
    assert everything(process).endswith(b"bye\n")


async def test_kill_does_not_wait_for_who_ignores_it(start: Start) -> None:
    process = await start("trap '' TERM; echo ready; while :; do sleep 300; done")
    async with attended(process):
        await said(process, b"ready")
        process.kill(0.05)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (-9, False)


async def test_kill_earliest_deadline_counts(start: Start) -> None:
    """Later and longer changes nothing, sooner hastens."""
    process = await start("trap '' TERM; echo ready; while :; do sleep 300; done")
    async with attended(process):
        await said(process, b"ready")
        process.kill(600)
        process.kill(0)
        process.kill(600)
    assert (await process.wait()).returncode == -9


async def test_kill_before_anybody_waits(start: Start) -> None:
    process = await start("sleep 300 & sleep 300")
    process.kill(3)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (-15, False)


@linux_only
async def test_end_that_came_before_the_kill_is_by_itself(start: Start) -> None:
    """C3: what had ended, unseen, before the first signal was not killed."""
    process = await start("exit 3")
    await until(lambda: state(process.pid) == "Z")
    process.kill(3)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (3, True)


async def test_wait_gives_the_same_ending_for_ever(start: Start) -> None:
    process = await start("exit 3")
    ending = await process.wait()
    assert await process.wait() is ending
    assert process.poll() is ending
    assert process.abandon() is ending
    process.kill(0)
    process.send_signal(signal.SIGTERM)
    assert await process.wait_empty() == ()
    assert not alive(process.pid)


async def test_poll_never_waits(start: Start) -> None:
    process = await start("exec sleep 300")
    assert process.poll() is None
    process.kill(0)
    assert process.poll() is None
    ending = await process.wait()
    assert process.poll() is ending


async def test_send_signal_reaches_the_group_and_is_no_kill(start: Start) -> None:
    process = await start("trap 'echo got; exit 9' USR1; echo ready; read x", stdin=True)
    async with attended(process):
        await said(process, b"ready")
        process.send_signal(signal.SIGUSR1)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (9, True)
    assert everything(process) == b"ready\ngot\n"


async def test_leader_that_cannot_be_signalled_is_reported(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: never a hang and never a lie. When it does end at last, it is reaped."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    process = await start("exec sleep 300")
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", refuse)
        patch.setattr(signal, "pidfd_send_signal", refuse)
        process.kill(0)
        with trio.fail_after(5):
            ending = await process.wait()
    assert ending.returncode is None
    assert process.pid in [leftover.pid for leftover in ending.leftovers]
    assert ending.trouble is not None
    assert str(process.pid) in ending.trouble
    os.kill(process.pid, signal.SIGKILL)
    await until(lambda: state(process.pid) is None)


async def test_abandon_frees_everything_at_once(start: Start) -> None:
    process = await start("trap '' TERM; exec sleep 300")
    ending = process.abandon()
    assert (ending.returncode, process.poll()) == (None, ending)
    assert await process.wait() is ending
    os.kill(process.pid, signal.SIGKILL)
    await until(lambda: state(process.pid) is None)


async def test_signals_never_hit_anybody_else(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number at or below 1, none of the host's, none of a leader that was reaped."""
    targets: list[int] = []
    reaped: set[int] = set()
    really = os.killpg

    def killpg(group: int, number: int) -> None:
        assert group not in reaped
        targets.append(group)
        really(group, number)

    monkeypatch.setattr(os, "killpg", killpg)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("by number"))
    pids = []
    for command in ("exit 0", "exec sleep 300", "sleep 300 & exit 1"):
        process = await start(command)
        pids.append(process.pid)
        if "exec" in command:
            process.kill(1)
        await process.wait()
        reaped.add(process.pid)
        process.kill(0)
        process.send_signal(signal.SIGTERM)
    assert set(targets) <= set(pids)


@pytest.mark.skipif(shutil.which("timeout") is None, reason="there is no timeout utility")
async def test_timeout_utility_is_no_end_of_ours(start: Start) -> None:
    ending, _ = await run(start, "timeout 0.05 sleep 300; exit $?")
    assert (ending.returncode, ending.by_itself) == (124, True)
