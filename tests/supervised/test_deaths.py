"""Whoever is killed, the trees end, and each shell has one end (C11)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import pytest
import trio

from tests.direct.rig import SpecOf, Start, alive, end, everything, name, run, until
from tests.supervised import rig
from tests.supervised.rig import crash, heard, marked, parent
from trioshell._exceptions import SpawnError
from trioshell.launchers._supervised import SupervisedLauncher

TREE = "echo before; setsid sleep 300 & (sleep 300 &) ; echo ready; wait"


async def test_supervisor_killed(start: Start, spec: SpecOf) -> None:
    """The fork server ends what it inherits; nothing is made up about the leader."""
    process = await start(TREE)
    await heard(process, b"ready")
    crash(parent(process.pid))
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (None, True, ())
    assert ending.trouble is not None
    assert marked(spec_id(process)) == []
    assert everything(process).startswith(b"before")
    assert (await run(start, "exit 3"))[0].returncode == 3


async def test_supervisor_killed_after_a_kill(start: Start) -> None:
    """C3: the kill was first, so it is the cause."""
    process = await start("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    await heard(process, b"ready")
    process.kill(60)
    crash(parent(process.pid))
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself) == (None, False)
    assert not alive(process.pid)


async def test_supervisor_killed_while_it_keeps_a_tree(start: Start) -> None:
    process = await start("sleep 300 & echo $!; exit 3", background="keep")
    ending = await process.wait()
    job = int(everything(process))
    crash(parent(job))
    assert await process.wait_empty() == ()
    assert not alive(job)
    assert ending.returncode == 3


async def test_idle_supervisor_killed(start: Start, launcher: SupervisedLauncher) -> None:
    """Nobody has to know: the next command gets another one."""
    process = await start("read x", stdin=True)
    supervisor = parent(process.pid)
    assert process.stdin is not None
    await process.stdin.aclose()
    await process.wait()
    crash(supervisor)
    await until(lambda: not alive(supervisor))
    assert (await run(start, "exit 3"))[0].returncode == 3


async def test_many_supervisors_killed_together(start: Start) -> None:
    processes = [await start(TREE) for _ in range(10)]
    for process in processes:
        await heard(process, b"ready")
    for process in processes:
        crash(parent(process.pid))
    for process in processes:
        ending = await process.wait()
        assert (ending.returncode, ending.leftovers) == (None, ())
        assert marked(spec_id(process)) == []


async def test_fork_server_killed(start: Start, launcher: SupervisedLauncher) -> None:
    """What runs goes on; the next command starts another fork server."""
    process = await start("echo ready; read x; echo $x; exit 4", stdin=True)
    await heard(process, b"ready")
    server = parent(parent(process.pid))
    crash(server)
    await until(lambda: not alive(server))
    other, _ = await run(start, "exit 3")
    assert process.stdin is not None
    await process.stdin.send_all(b"on\n")
    ending = await process.wait()
    assert (ending.returncode, everything(process)) == (4, b"ready\non\n")
    assert other.returncode == 3


async def test_fork_server_killed_with_idle_supervisors(start: Start) -> None:
    for _ in range(3):
        process = await start("echo ready; read x; exit 4", stdin=True)
        await heard(process, b"ready")
        crash(parent(parent(process.pid)))
        process.kill(0)
        assert (await process.wait()).returncode == -signal.SIGKILL


async def test_both_helpers_killed(start: Start) -> None:
    """The host finds the tree by its mark."""
    process = await start(TREE)
    await heard(process, b"ready")
    supervisor = parent(process.pid)
    crash(parent(supervisor))
    crash(supervisor)
    ending = await process.wait()
    assert (ending.returncode, ending.by_itself, ending.leftovers) == (None, True, ())
    assert marked(spec_id(process)) == []
    assert (await run(start, "exit 3"))[0].returncode == 3


async def test_both_helpers_killed_under_many(start: Start) -> None:
    processes = [await start(TREE) for _ in range(10)]
    for process in processes:
        await heard(process, b"ready")
    supervisors = [parent(process.pid) for process in processes]
    crash(parent(supervisors[0]))
    for supervisor in supervisors:
        crash(supervisor)
    async with trio.open_nursery() as nursery:
        for process in processes:
            nursery.start_soon(process.wait)
    for process in processes:
        assert marked(spec_id(process)) == []


async def test_stuck_supervisor_is_given_up(start: Start) -> None:
    """A stopped supervisor hears nothing; giving up still ends the tree."""
    process = await start(TREE)
    await heard(process, b"ready")
    supervisor = parent(process.pid)
    os.kill(supervisor, signal.SIGSTOP)
    process.kill(0)
    with trio.move_on_after(0.1):
        await process.wait()
    ending = process.abandon()
    assert (ending.returncode, ending.by_itself) == (None, False)
    await until(lambda: not alive(supervisor) and marked(spec_id(process)) == [])


def spec_id(process: object) -> str:
    return str(process._spec.id)  # type: ignore[attr-defined]


HOST = """
import os, signal, sys, trio
from trioshell.launchers import Spec
from trioshell.launchers._supervised import SupervisedLauncher

async def main():
    processes = []
    async with SupervisedLauncher() as launcher:
        for number in range({count}):
            id = "{mark}"
            spec = Spec(
                id=id, argv=(b"sh", b"-c", {command!r}), executable=b"/bin/sh", cwd="/",
                env=dict(os.environb),
                capture=os.path.join({directory!r}, str(number)),
            )
            processes.append(await launcher.launch(spec))
        {then}
        await trio.sleep_forever()

trio.run(main)
"""


class Host:
    """A program with running commands, to be killed."""

    def __init__(self, directory: Path, *, count: int = 3, then: str = "pass") -> None:
        self.count = count
        self.mark = f"sh_host_{os.getpid()}_{time.monotonic_ns()}"
        text = HOST.format(
            mark=self.mark, directory=str(directory), command=TREE.encode(), count=count, then=then
        )
        self.process = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)

    @classmethod
    @asynccontextmanager
    async def running(cls, directory: Path, *, then: str = "pass") -> AsyncGenerator[Self]:
        host = cls(directory, then=then)
        try:
            # Three processes of each command: the shell and its two sleepers.
            await until(lambda: len(host.helpers()) == host.count + 1)
            await until(lambda: len(marked(host.mark)) == host.count * 3)
            yield host
        finally:
            below = rig.below(host.process.pid)
            host.kill()
            for pid in below:
                end(pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def helpers(self) -> list[int]:
        """The fork server first."""
        return [pid for pid in rig.below(self.process.pid) if "trioshell" in (name(pid) or "")]

    def workers(self) -> list[int]:
        """Its children that are no helpers."""
        server = self.helpers()[0]
        return sorted({*rig.below(self.process.pid)} - {server, *rig.below(server)})


async def gone(host: Host, helpers: list[int], seconds: float) -> None:
    with trio.fail_after(seconds):
        await until(lambda: marked(host.mark) == [] and not any(map(alive, helpers)))


async def test_host_killed(tmp_path: Path) -> None:
    """Every tree is dead within a second, and the helpers with it."""
    async with Host.running(tmp_path) as host:
        helpers = host.helpers()
        host.kill()
        await gone(host, helpers, seconds=1)


async def test_host_killed_while_a_worker_of_it_lives(tmp_path: Path) -> None:
    """A forked worker holds copies of all sockets, so that only the pidfd tells."""
    async with Host.running(tmp_path, then="if os.fork() == 0: signal.pause()") as host:
        helpers = host.helpers()
        await until(lambda: host.workers() != [])
        (worker,) = host.workers()
        try:
            host.kill()
            await gone(host, helpers, seconds=1)
        finally:
            end(worker)


async def test_host_and_supervisors_killed(tmp_path: Path) -> None:
    async with Host.running(tmp_path) as host:
        helpers = host.helpers()
        for pid in helpers[1:]:
            crash(pid)
        host.kill()
        await gone(host, helpers, seconds=2)


async def test_host_and_fork_server_killed(tmp_path: Path) -> None:
    async with Host.running(tmp_path) as host:
        helpers = host.helpers()
        crash(helpers[0])
        host.kill()
        await gone(host, helpers, seconds=1)


async def test_polite_signals_do_nothing_to_helpers(start: Start) -> None:
    process = await start("echo ready; read x; exit 4", stdin=True)
    await heard(process, b"ready")
    supervisor = parent(process.pid)
    polite = signal.valid_signals() - {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGABRT,
        signal.SIGTRAP,
        signal.SIGSYS,
    }
    for helper in (supervisor, parent(supervisor)):
        for number in polite:
            os.kill(helper, number)
    assert process.stdin is not None
    await process.stdin.aclose()
    assert (await process.wait()).returncode == 4
    assert (await run(start, "exit 3"))[0].returncode == 3


@pytest.mark.deep
async def test_helpers_killed_at_any_moment(launcher: SupervisedLauncher, spec: SpecOf) -> None:
    """200 rounds: before the start is answered, running, during grace, between end and report."""
    for round in range(200):
        await _crash_once(launcher, spec, round)


async def _crash_once(launcher: SupervisedLauncher, spec: SpecOf, round: int) -> None:
    one = spec("setsid sleep 300 & sleep 0.01", grace=0.01)
    await (await launcher.launch(spec("exit 0"))).wait()
    assert launcher._server is not None
    server = launcher._server._process.pid
    victims = rig.below(server) + ([server] if round % 3 == 0 else [])

    async def murder() -> None:
        await trio.sleep(round % 40 / 1000)
        for victim in victims if round % 2 else reversed(victims):
            crash(victim)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(murder)
        try:
            process = await launcher.launch(one)
        except SpawnError:
            pass
        else:
            ending = await process.wait()
            assert ending.returncode in (0, None)
            process.capture.remove()
    assert marked(one.id) == []
