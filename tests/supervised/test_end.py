"""How a command ends, and what is said about it."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
import trio

from tests.direct.rig import Start, alive, everything, run, until
from tests.supervised.rig import heard
from trioshell._records import Ending


@pytest.mark.parametrize("code", [0, 1, 42, 137, 255])
async def test_exit_code_is_the_leaders(start: Start, code: int) -> None:
    ending, output = await run(start, f"echo out; echo err >&2; exit {code}")
    assert (ending.returncode, ending.by_itself, ending.trouble) == (code, True, None)
    assert output == b"out\nerr\n"
    assert (ending.size, ending.cut, ending.leftovers) == (8, False, ())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_signal_is_told_from_an_exit(start: Start, number: int) -> None:
    """C3: a signal that others send ends the leader by itself; 128+n and -n are kept apart."""
    ending, _ = await run(start, f"ulimit -c 0; kill -{int(number)} $$")
    assert (ending.returncode, ending.by_itself) == (-number, True)
    ending, _ = await run(start, f"exit {128 + number}")
    assert ending.returncode == 128 + number


async def test_wait_may_be_cancelled_and_repeated(start: Start) -> None:
    process = await start("read x; exit 3", stdin=True)
    for _ in range(3):
        with trio.move_on_after(0):
            await process.wait()
    assert process.poll() is None
    assert process.stdin is not None
    await process.stdin.aclose()
    assert (await process.wait()).returncode == 3
    assert await process.wait() == process.poll() == await process.wait()


async def test_poll_sees_an_end_that_was_reported(start: Start) -> None:
    """C3: a host that was busy past a deadline finds the end before it acts."""
    process = await start("exit 7")
    ending = None
    while ending is None:  # nothing awaits: a host that does not run its loop
        ending = process.poll()
        time.sleep(0.001)
    assert ending.returncode == 7
    process.kill(0)
    assert await process.wait() == ending


async def test_kill_ends_with_sigterm_inside_the_grace(start: Start) -> None:
    process = await start(("/bin/sleep", "300"))
    process.kill(60)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (-signal.SIGTERM, False)
    assert not alive(process.pid)


async def test_kill_ends_with_sigkill_after_the_grace(start: Start) -> None:
    process = await start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await heard(process, b"ready")
    process.kill(0.1)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (-signal.SIGKILL, False)


async def test_kill_can_be_hastened_but_not_slowed_down(start: Start) -> None:
    process = await start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await heard(process, b"ready")
    process.kill(600)
    process.kill(0.05)
    process.kill(600)
    assert (await process.wait()).returncode == -signal.SIGKILL


async def test_kill_reaches_a_stopped_process(start: Start) -> None:
    """C6: SIGCONT follows SIGTERM, or a stopped command would not see it."""
    process = await start("trap 'echo asked; exit 5' TERM; echo ready; kill -STOP $$; exit 6")
    await heard(process, b"ready")
    process.kill(60)
    ending = await process.wait()
    assert (ending.returncode, everything(process)) == (5, b"ready\nasked\n")


async def test_kill_that_came_too_late_is_said_to_be(start: Start) -> None:
    """C3: the leader ended by itself before the kill, although its tree had not."""
    process = await start("sleep 300 & exit 4", background="wait")
    await until(lambda: not alive(process.pid))
    process.kill(60)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (4, True, ())


async def test_kill_of_an_ended_command_does_nothing(start: Start) -> None:
    process = await start("exit 0")
    ending = await process.wait()
    process.kill(0)
    process.send_signal(signal.SIGTERM)
    other, _ = await run(start, "exit 9")  # the supervisor was not disturbed
    assert (ending.returncode, other.returncode) == (0, 9)


async def test_leftovers_get_their_grace(start: Start) -> None:
    """C4: what outlives the leader is asked first, and has the time to answer."""
    command = "(trap 'echo asked; exit' TERM; echo ready; while :; do sleep 0.01; done) & sleep 0.1"
    ending, output = await run(start, command)
    assert (ending.returncode, ending.by_itself) == (0, True)
    assert output.endswith(b"asked\n")


async def test_leftovers_that_are_about_to_end_are_left_in_peace(start: Start) -> None:
    """`> >(tee log)`: the reader of a pipe outlives the leader for a moment."""
    writer = "(sleep 0.02; echo late) &"
    ending, output = await run(start, f"{writer} echo early", grace=0.0)
    assert (ending.returncode, output) == (0, b"early\nlate\n")


async def test_wait_policy_waits_for_everybody(start: Start) -> None:
    command = "(sleep 0.2; echo late) & exit 3"
    ending, output = await run(start, command, background="wait", grace=0.0)
    assert (ending.returncode, output, ending.cut) == (3, b"late\n", False)


async def test_keep_policy_reports_the_end_and_keeps_the_rest(start: Start) -> None:
    process = await start("sleep 300 & echo $!; exit 3", background="keep")
    ending = await process.wait()
    job = int(everything(process))
    assert (ending.returncode, ending.by_itself, ending.cut) == (3, True, True)
    assert alive(job)
    assert not alive(process.pid)
    process.kill(60)
    assert await process.wait_empty() == ()
    assert not alive(job)


async def test_keep_policy_lets_go_when_the_rest_has_ended(start: Start, tmp_path: Path) -> None:
    """What is written after the end is no output; writing it is no error for the writer."""
    command = "exec 3<&0; (read x <&3; echo late; echo $? > late) & exit 0"
    process = await start(command, background="keep", stdin=True)
    ending = await process.wait()
    assert (ending.size, ending.cut) == (0, True)
    with trio.fail_after(10):
        assert await process.wait_empty() == ()
    assert process.capture.size == 0
    assert (tmp_path / "late").read_text() == "0\n"


async def test_usage_counts_the_whole_tree(start: Start) -> None:
    burn = f"{sys.executable} -S -c 'import time\nwhile time.process_time() < 0.3: pass'"
    ending, _ = await run(start, f"setsid {burn} & exit 0", background="wait")
    assert ending.usage is not None
    assert ending.usage.user + ending.usage.system >= 0.3
    assert ending.usage.max_rss > 1 << 20


async def test_every_end_is_like_any_other_on_a_reused_supervisor(start: Start) -> None:
    """A supervisor is clean after a shell, however that had ended."""
    expected: list[Ending] = []
    for command in ("exit 3", "kill -9 $$", "sleep 300 & exit 0", "exit 3"):
        ending, _ = await run(start, command)
        expected.append(ending)
    assert [ending.returncode for ending in expected] == [3, -9, 0, 3]
    assert expected[0].size == expected[3].size == 0


@pytest.mark.slow
async def test_two_hundred_at_once(start: Start) -> None:
    results: dict[int, bytes] = {}

    async def one(number: int) -> None:
        ending, output = await run(start, f"echo {number}; exit {number % 7}")
        assert ending.returncode == number % 7
        results[number] = output

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(one, number)
    assert results == {number: b"%d\n" % number for number in range(200)}
