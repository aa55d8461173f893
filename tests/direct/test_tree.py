"""What the leader started: killed, waited for or kept; and what left its session."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests import leaks
from tests.direct.rig import (
    Start,
    alive,
    attended,
    cwd_of,
    end,
    everything,
    linux_only,
    name,
    pids,
    run,
    said,
    state,
    until,
)
from trioshell.launchers._direct import session as session_module

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

BASH = "/bin/bash" if shutil.which("bash") is None else shutil.which("bash")

# Each prints the number of a background process that outlives the leader.
JOBS = {
    "plain": "sleep 300 & echo $!",
    "nohup": "nohup sleep 300 >/dev/null 2>&1 & echo $!",
    "closed": "(exec sleep 300 <&- >&- 2>&-) & echo $!",
    "orphan": "(sleep 300 & echo $!)",
}
MOVED = {
    "job control": "set -m; sleep 300 & echo $!",
    "timeout": "timeout 300 sleep 300 & echo $!",
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
async def test_background_is_killed_after_the_leader(start: Start, job: str) -> None:
    """C4: when the end is told, no process of the tree is alive. The leader ended by itself."""
    ending, output = await run(start, f"{job}; exit 3")
    assert not alive(int(output))
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (3, True, ())


@linux_only
@needs_bash
@pytest.mark.parametrize("job", MOVED.values(), ids=MOVED.keys())
async def test_other_groups_of_the_session_are_killed(start: Start, job: str) -> None:
    """C10: same session, a process group of their own."""
    ending, output = await run(start, (str(BASH), "-c", f"{job}; exit 3"))
    assert not alive(int(output))
    assert (ending.returncode, ending.leftovers, ending.cut) == (3, (), False)


# Not a shell's trap: bash at times runs one twice for one signal.
COUNTS_SIGTERM = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.write(1, b"up\\n")
signal.sigwait({signal.SIGTERM})
os.write(1, b"asked\\n")
if signal.sigtimedwait({signal.SIGTERM}, 0.1):
    os.write(1, b"asked twice\\n")
"""


@linux_only
@needs_bash
async def test_kill_reaches_every_group_of_the_session_politely(start: Start) -> None:
    """C6: each process gets one SIGTERM, in whatever group."""
    command = 'set -m; "$0" -c "$1" & "$0" -c "$1" & exec "$0" -c "$1"'
    words = (str(BASH), "-c", command, sys.executable, COUNTS_SIGTERM)
    process = await start(words)
    async with attended(process):
        await said(process, b"up\nup\nup\n")
        process.kill(5)
    assert everything(process) == b"up\n" * 3 + b"asked\n" * 3
    assert (await process.wait()).by_itself is False


async def test_who_ignores_sigterm_is_killed_after_the_grace(start: Start) -> None:
    command = "(trap '' TERM INT HUP; echo ready; sleep 300; :) & wait"
    process = await start(command)
    async with attended(process):
        await said(process, b"ready")
        process.kill(0.05)
    assert (await process.wait()).leftovers == ()


async def test_background_gets_the_grace_of_its_shell(start: Start, tmp_path: Path) -> None:
    """A background job that answers SIGTERM has its say, and it is in the output."""
    job = "(trap 'echo bye; exit' TERM; echo >go; read x <&3) &"
    command = f"exec 3<&0; mkfifo go; {job} read y <go; exit 2"
    ending, output = await run(start, command, stdin=True, cwd=str(tmp_path))
    assert output == b"bye\n"
    assert (ending.returncode, ending.by_itself) == (2, True)


async def test_kill_hastens_the_grace_of_a_background(start: Start, tmp_path: Path) -> None:
    job = "(trap 'echo asked' TERM; echo >go; while :; do read x <&3; done) &"
    command = f"exec 3<&0; mkfifo go; {job} read y <go; exit 2"
    process = await start(command, stdin=True, cwd=str(tmp_path), grace=600.0)
    async with attended(process):
        await said(process, b"asked")
        process.kill(0)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (2, True)


async def test_forks_during_the_kill_are_not_missed(start: Start) -> None:
    process = await start("while :; do sh -c 'sleep 300 & printf .'; done")
    async with attended(process):
        await until(lambda: everything(process).count(b".") > 20)
        process.kill(0)
    assert (await process.wait()).leftovers == ()


@linux_only
@pytest.mark.parametrize("background", ["kill", "wait"])
async def test_escapee_delays_nothing_and_is_reported(start: Start, background: str) -> None:
    """What left the session and holds the output: cut, and told who it is."""
    escapee = "setsid sh -c 'echo $$; exec sleep 300' &"
    process = await start(f"{escapee} read x; exit 4", stdin=True, background=background)
    assert process.stdin is not None
    async with attended(process):
        pid = int(await said(process, b"\n"))
        await until(lambda: name(pid) == "sleep")
        await process.stdin.send_all(b"\n")
    ending = await process.wait()
    try:
        assert (ending.returncode, ending.cut) == (4, True)
        assert [(left.pid, left.name) for left in ending.leftovers] == [(pid, "sleep")]
        assert alive(pid)
    finally:
        end(pid)


@linux_only
async def test_member_that_leaves_later_is_not_waited_for(start: Start, tmp_path: Path) -> None:
    """It was in the session when the leader ended, and did not have to end to be out of it."""
    job = "sh -c 'read x <go; exec setsid sleep 300' >/dev/null &"
    command = f"mkfifo go; {job} exit 3"
    process = await start(command, background="wait", cwd=str(tmp_path))
    async with attended(process):
        await until(lambda: state(process.pid) == "Z")
        (tmp_path / "go").write_text("\n")
    assert (await process.wait()).returncode == 3
    [escapee] = [pid for pid in pids() if name(pid) == "sleep" and cwd_of(pid) == str(tmp_path)]
    end(escapee)


async def test_wait_policy_waits_for_all(start: Start) -> None:
    ending, output = await run(start, "(sleep 0.2; echo late) & exit 3", background="wait")
    assert (ending.returncode, output) == (3, b"late\n")


@linux_only
async def test_wait_policy_waits_for_who_closed_the_output(start: Start) -> None:
    """C4: under wait no process of the tree is alive at the end, the silent ones too."""
    command = "(exec >/dev/null 2>&1; sleep 0.2) & echo $!; exit 3"
    _, output = await run(start, command, background="wait")
    assert not alive(int(output))


async def test_wait_policy_can_be_killed(start: Start) -> None:
    process = await start("sleep 300 & echo $!; exit 3", background="wait")
    async with attended(process):
        await said(process, b"\n")
        await until(lambda: not alive(process.pid))
        process.kill(1)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (3, True)
    assert not alive(int(everything(process)))


async def test_keep_reports_at_once_and_never_blocks_the_kept(start: Start, tmp_path: Path) -> None:
    """The kept ones go on writing, into nothing: no SIGPIPE, no full pipe."""
    command = (
        "(while [ ! -e go ]; do sleep 0.01; done; head -c 3000000 /dev/zero; : > done; sleep 300) &"
        " echo $!; exit 3"
    )
    cwd = tmp_path / "scratch"
    cwd.mkdir()
    process = await start(command, background="keep", cwd=str(cwd))
    ending = await process.wait()
    kept = int(everything(process))
    assert (ending.returncode, ending.cut, ending.leftovers) == (3, False, ())
    assert alive(kept)
    assert not alive(process.pid)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait_empty)
        (cwd / "go").touch()
        await until((cwd / "done").exists)
        process.kill(1)
    assert not alive(kept)
    assert process.capture.size == ending.size


async def test_keep_ends_with_the_last_of_the_kept(start: Start) -> None:
    process = await start("sleep 0.2 & exit 3", background="keep")
    await process.wait()
    with trio.fail_after(5):
        assert await process.wait_empty() == ()
    assert await process.wait_empty() == ()


async def test_keep_can_be_killed_before_the_end(start: Start) -> None:
    """A kill is for the whole tree, whatever the policy."""
    process = await start("sleep 300 & echo $!; wait", background="keep")
    async with attended(process):
        await said(process, b"\n")
        process.kill(1)
    assert not alive(int(everything(process)))
    assert (await process.wait()).by_itself is False


async def test_keep_wait_empty_may_be_cancelled_and_called_again(start: Start) -> None:
    process = await start("sleep 300 & echo $!; exit 3", background="keep")
    await process.wait()
    for _ in range(5):
        with trio.move_on_after(0.01) as scope:
            await process.wait_empty()
        assert scope.cancelled_caught
    process.kill(1)
    await process.wait_empty()
    assert not alive(int(everything(process)))


really_killpg = os.killpg


def killpg_of_macos(group: int, number: int) -> None:
    """What macOS says of a group in which only zombies are left: EPERM."""
    members = [leaks.Process.read(pid) for pid in pids() if group_of(pid) == group]
    if all(member is None or member.is_zombie for member in members):
        raise PermissionError(errno.EPERM, "Operation not permitted")
    really_killpg(group, number)


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("background", ["kill", "wait", "keep"])
@pytest.mark.parametrize("platform", ["darwin", "freebsd14"])
async def test_group_alone_is_enough_where_the_session_is_not_seen(
    start: Start, monkeypatch: pytest.MonkeyPatch, background: str, platform: str
) -> None:
    """Without a look at the members, the leader's group still ends with it."""
    monkeypatch.setattr(session_module, "_SEES", False)
    monkeypatch.setattr(sys, "platform", platform)
    if platform == "darwin":
        monkeypatch.setattr(os, "killpg", killpg_of_macos)
    process = await start("sleep 0.3 & echo $!; exit 3", background=background, grace=0.1)
    ending = await process.wait()
    pid = int(everything(process))
    assert (ending.returncode, ending.by_itself) == (3, True)
    if background == "keep":
        assert alive(pid)
        process.send_signal(signal.SIGTERM)
        process.kill(0.1)
        await process.wait_empty()
    await until(lambda: not alive(pid))
