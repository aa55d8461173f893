"""What the tests of the supervised launcher share, beyond the rig of the direct one."""

from __future__ import annotations

import os
import signal

import trio

from tests import leaks
from tests.direct.rig import said
from trioshell.launchers import Process


def parent(pid: int) -> int:
    """The supervisor of a leader, or the fork server of a supervisor."""
    process = leaks.Process.read(pid)
    assert process is not None
    return process.parent


def crash(pid: int) -> None:
    """SIGKILL a helper that is surely there: the caller has just seen it."""
    os.kill(pid, signal.SIGKILL)


def below(pid: int) -> list[int]:
    """Everybody below a process, as far as one look can tell; parents first."""
    everybody = [leaks.Process.read(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    found = [pid]
    for above in found:
        found += sorted(each.pid for each in everybody if each and each.parent == above)
    return found[1:]


def marked(id: str) -> list[int]:
    """The living processes that carry the mark of this shell."""
    mark = b"TRIOSHELL_ID=" + id.encode()
    return [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if mark in _environment(pid).split(b"\0")
    ]


def tagged(tag: str) -> list[int]:
    """The living processes one of whose arguments is this."""
    return [
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if tag.encode() in _read(f"/proc/{pid}/cmdline").split(b"\0")
    ]


def _environment(pid: int) -> bytes:
    return _read(f"/proc/{pid}/environ")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


async def heard(process: Process, text: bytes) -> bytes:
    """Wait until the command has said this, although nobody is in `wait`."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        output = await said(process, text)
        nursery.cancel_scope.cancel()
    return output
