"""Finding a tree that nobody looks after (C11), and only that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.direct.rig import alive, end, until
from tests.supervised.rig import marked, tagged
from trioshell.launchers._sweep import Sweeper, sweep


@contextmanager
def tree(id: str, command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A marked tree, as a crash of everything above it leaves it."""
    env = dict(os.environ) | {"TRIOSHELL_ID": id}
    process = subprocess.Popen(["sh", "-c", command], env=env, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pid in marked(id):
            end(pid)


async def test_marked_processes_are_killed_wherever_they_are() -> None:
    command = "trap '' TERM; setsid sleep 300 & (sleep 300 &); nohup sleep 300 & wait"
    with tree("sh_sweep_1", command), tree("sh_sweep_2", "sleep 300 & wait") as other:
        await until(lambda: len(marked("sh_sweep_1")) == 4)
        assert await sweep(["sh_sweep_1"]) == ()
        assert marked("sh_sweep_1") == []
        assert alive(other.pid)


async def test_unmarked_processes_below_marked_ones_are_killed() -> None:
    """One that wiped its environment, and one of its session that has lost its parent, too."""
    number = str(20_000_000 + os.getpid())
    command = f"env -i setsid sh -c 'sleep {number} & wait' & (env -i sleep {number} &); wait"
    with tree("sh_sweep_3", command):
        await until(lambda: len(tagged(number)) == 2)
        assert await sweep(["sh_sweep_3"]) == ()
        assert tagged(number) == []


async def test_session_of_a_stranger_is_not_touched() -> None:
    """Somebody started a program with the mark in it from a session of his own."""
    with tree("sh_sweep_4", "TRIOSHELL_ID=sh_sweep_5 sleep 300 & sleep 300") as stranger:
        await until(lambda: len(marked("sh_sweep_5")) == 1)
        assert await sweep(["sh_sweep_5"]) == ()
        assert marked("sh_sweep_5") == []
        assert alive(stranger.pid)


async def test_id_that_only_begins_alike_is_another() -> None:
    with tree("sh_sweep_66", "sleep 300") as other:
        await until(lambda: bool(marked("sh_sweep_66")))
        assert await sweep(["sh_sweep_6"]) == ()
        assert alive(other.pid)


def test_we_ourselves_are_never_swept() -> None:
    """A program that runs inside of what a crash left is not the one to end itself."""
    code = (
        "import trio; from trioshell.launchers._sweep import sweep\n"
        "print(trio.run(sweep, ['sh_sweep_7']))"
    )
    env = dict(os.environ) | {"TRIOSHELL_ID": "sh_sweep_7"}
    done = subprocess.run(
        ["sh", "-c", 'python=$1; shift; "$python" "$@"', "sh", sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "()\n"


async def test_nothing_to_sweep_is_nothing_done() -> None:
    assert await sweep(["sh_sweep_8"]) == ()


async def test_sweeper_serves_many_at_once() -> None:
    sweeper = Sweeper()
    with tree("sh_sweep_9", "sleep 300"), tree("sh_sweep_10", "sleep 300"):
        await until(lambda: bool(marked("sh_sweep_9")) and bool(marked("sh_sweep_10")))
        assert await sweeper.sweep("sh_sweep_9") == ()
        assert await sweeper.sweep("sh_sweep_10") == ()
        assert marked("sh_sweep_9") == marked("sh_sweep_10") == []
