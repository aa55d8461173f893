"""An exit status that somebody else took, and the ways to see an end at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from tests.direct.rig import Start, alive, attended, everything, linux_only, said, steal
from trioshell.launchers._direct import exit_watch as exit_watch_module

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_kernel_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Linux before 6.15, where nothing tells a status that was taken."""
    monkeypatch.setattr(exit_watch_module, "exit_status", lambda _: None)


@linux_only
async def test_stolen_status_is_none_and_told(start: Start, no_kernel_record: None) -> None:
    """C3: never invented, and never 0."""
    process = await start("exit 0")
    steal(process.pid)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.usage) == (None, True, None)
    assert ending.trouble is not None
    assert "something else in this program" in ending.trouble


@linux_only
@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("kill -9 $$", -9)])
async def test_stolen_status_is_right_or_none(start: Start, command: str, code: int) -> None:
    """Linux 6.15 and later still tell it to who holds a pidfd."""
    process = await start(command)
    steal(process.pid)
    ending = await process.wait()
    assert ending.returncode in (code, None)
    assert (ending.returncode is None) == (ending.trouble is not None)


@linux_only
async def test_session_without_its_leader_is_still_ended(
    start: Start, no_kernel_record: None
) -> None:
    """C10: the leader is gone, number and all; the members are found one by one."""
    process = await start("sleep 300 & echo $!; exit 3")
    steal(process.pid)
    ending = await process.wait()
    assert (ending.returncode, ending.leftovers) == (None, ())
    assert not alive(int(everything(process)))


@linux_only
@pytest.mark.slow
@pytest.mark.parametrize("command", ["exit 7", "sleep 300 & exit 7", "exec sleep 300"])
def test_host_that_ignores_sigchld(tmp_path: Path, command: str) -> None:
    """The kernel throws every status away: never a hang and never 0."""
    host = tmp_path / "host.py"
    host.write_text(
        textwrap.dedent(f"""
        import os, signal, trio
        from trioshell.launchers import Spec
        from trioshell.launchers._direct import DirectLauncher
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        async def main():
            process = await DirectLauncher().launch(Spec(
                id="sh_1", argv=(b"sh", b"-c", {command.encode()!r}), executable=b"/bin/sh",
                cwd=None, env=dict(os.environb), capture={str(tmp_path / "out")!r}))
            if "exec" in {command!r}:
                process.kill(1)
            ending = await process.wait()
            assert not ending.leftovers, ending
            print(ending.returncode, ending.trouble)
        trio.run(main)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", host],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    code = "-15" if "exec" in command else "7"
    assert done.stdout in (
        f"{code} None\n",
        "None the exit status was lost: this program ignores SIGCHLD\n",
    )
    assert done.stderr == ""


@linux_only
async def test_thread_waits_where_there_is_no_pidfd(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(38, "Function not implemented")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pidfd_open", refuse)
        process = await start("trap 'exit 5' TERM; echo up; read x", stdin=True)
    async with attended(process):
        await said(process, b"up")
        process.send_signal(signal.SIGTERM)
    assert (await process.wait()).returncode == 5


@linux_only
async def test_watch_sees_the_end_and_does_not_reap(start: Start) -> None:
    child = await trio.lowlevel.open_process(["sh", "-c", "exit 4"])
    watch = exit_watch_module.ExitWatch.of(child.pid)
    await watch.run()
    await watch.wait()
    assert (watch.ended, watch.pinned, watch.returncode) == (True, True, None)
    watch.reap()
    assert (watch.ended, watch.pinned, watch.returncode) == (True, False, 4)
    watch.reap()
    watch.close()
    watch.close()
    assert await child.wait() == 0  # subprocess finds nothing to reap, and says that
