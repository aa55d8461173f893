"""What a real command finds when it starts (C15)."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.direct.rig import signals

from .conftest import LAUNCHERS, Stage

# A fake process has no context.
pytestmark = pytest.mark.parametrize("kind", sorted(set(LAUNCHERS) - {"fake"}), indirect=True)

_LOOK = """
import fcntl, json, os, signal, stat

def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True

def has_terminal():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True

# Python itself has changed these.
signals = set(signal.valid_signals()) - {signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT}
print(json.dumps({
    "leads its session": os.getsid(0) == os.getpid(),
    "leads its group": os.getpgid(0) == os.getpid(),
    "terminal": has_terminal(),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "not default": sorted(
        s for s in signals if signal.getsignal(s) not in (signal.SIG_DFL, None)
    ),
    "open": [fd for fd in range(64) if is_open(fd)],
    "non-blocking": [fd for fd in range(3) if not os.get_blocking(fd)],
    "stdin": os.readlink("/proc/self/fd/0") if os.path.isdir("/proc/self/fd") else "/dev/null",
    "cwd": os.getcwd(),
    "environment": dict(os.environ),
}))
"""
LOOK = (sys.executable, "-I", "-c", _LOOK)


async def look(stage: Stage, **options: Any) -> dict[str, Any]:
    async with stage.open() as shells:
        shell = await shells.create(LOOK, **options)
        result = await shell.result()
        assert result.info.returncode == 0, result.output
        assert result.output is not None
        found: dict[str, Any] = json.loads(result.output)
        assert found["environment"]["TRIOSHELL_ID"] == shell.id
        return found


async def test_session_and_streams_are_its_own(stage: Stage) -> None:
    found = await look(stage)
    assert found["leads its session"]
    assert found["leads its group"]
    assert not found["terminal"]
    assert found["stdin"] == "/dev/null"
    assert found["non-blocking"] == []


async def test_signals_are_as_after_login(stage: Stage) -> None:
    """Whatever the host has blocked or ignores."""
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        found = await look(stage)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGUSR2, before)
    assert (found["blocked"], found["not default"]) == ([], [])


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="/proc shows them all")
async def test_no_signal_is_ignored_or_blocked(stage: Stage) -> None:
    """SIGPIPE too, which Python ignores: `yes | head` has to end (C15)."""
    async with stage.open() as shells:
        result = await (await shells.create(("cat", "/proc/self/status"))).result()
    assert result.output is not None
    status = dict(line.split(":\t", 1) for line in result.output.splitlines())
    assert (signals(status["SigIgn"]), signals(status["SigBlk"])) == (0, 0)


async def test_descriptors_of_the_host_are_not_inherited(stage: Stage) -> None:
    reading, writing = os.pipe()
    try:
        os.set_inheritable(reading, True)
        os.set_inheritable(writing, True)
        found = await look(stage)
    finally:
        os.close(reading)
        os.close(writing)
    assert found["open"] == [0, 1, 2]


async def test_environment_is_the_hosts_of_the_moment_with_changes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEPT", "of the host")
    monkeypatch.setenv("DROPPED", "of the host")
    monkeypatch.setenv("REPLACED", "of the host")
    changes = {"DROPPED": None, "REPLACED": "given", "ADDED": "given"}
    found = (await look(stage, env=changes))["environment"]
    assert (found["KEPT"], found["REPLACED"], found["ADDED"]) == ("of the host", "given", "given")
    assert "DROPPED" not in found


async def test_directory_is_the_one_asked_for(stage: Stage, tmp_path: Path) -> None:
    assert (await look(stage, cwd=tmp_path))["cwd"] == str(tmp_path)
    assert (await look(stage))["cwd"] == os.getcwd()
