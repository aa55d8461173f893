"""Nothing of a tree lives when its end is told, wherever it went (C4, C10)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.direct.rig import Start, alive, everything, until
from tests.supervised.rig import heard, tagged

# Each leaves a process that sleeps for a number of seconds that nobody else sleeps.
ESCAPES = {
    "plain": "sleep {0} &",
    "setsid": "setsid sleep {0} &",
    "double fork": "(setsid sleep {0} &) &",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 &",
    "timeout": "timeout {0}1 sleep {0} &",
    "no environment": "env -i setsid sleep {0} &",
    "closed": "(exec setsid sleep {0} <&- >&- 2>&-) &",
    "deaf": "(trap '' TERM HUP INT; setsid sleep {0}) &",
    "stopped": "(setsid sh -c 'kill -STOP $$; sleep {0}' sh {0} &) &",
    "job control": "exec bash -c 'set -m; sleep {0} & sleep {0} & {1}'",
}
ENDS = {"kill": "echo ready; sleep {0}", "natural end": "echo ready"}


def command(escape: str, end: str, number: str) -> str:
    text = ESCAPES[escape] if "{1}" in ESCAPES[escape] else f"{ESCAPES[escape]} {{1}}"
    return text.format(number, ENDS[end].format(number))


@pytest.fixture
def number(new_number: Callable[[], str]) -> str:
    return new_number()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("escape", ESCAPES)
async def test_escapee_is_found(start: Start, number: str, escape: str, end: str) -> None:
    if escape == "job control" and shutil.which("bash") is None:
        pytest.skip("there is no bash")
    await escape_and_end(start, command(escape, end, number), number, killed=end == "kill")


async def escape_and_end(start: Start, text: str, number: str, *, killed: bool) -> None:
    process = await start(text, grace=0.05)
    await heard(process, b"ready")
    if killed:
        process.kill(0.05)
    ending = await process.wait()
    assert tagged(number) == []
    assert (ending.by_itself, ending.leftovers) == (not killed, ())
    assert not alive(process.pid)


HOPPERS = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        while True:  # each generation leaves its session and its parent
            os.setsid() if os.getpid() != os.getsid(0) else None
            if os.fork():
                os._exit(0)
os.write(1, b"ready\\n")
time.sleep(300)
"""

STORM = """
import os, sys, time
limit = int(sys.argv[1])
counter = os.open(sys.argv[2], os.O_RDWR | os.O_APPEND | os.O_CREAT)
os.write(1, b"ready\\n")
if os.fork() == 0:
    os.setsid()
while True:
    if os.lseek(counter, 0, os.SEEK_END) < limit:
        os.write(counter, b"x")
        if os.fork() == 0:
            os.setsid()
    else:
        time.sleep(0.001)
"""


@pytest.mark.slow
async def test_hoppers_are_caught(start: Start, number: str) -> None:
    """Processes that leave session and parent all the time, in eight lines."""
    await hop(start, number)


async def hop(start: Start, number: str) -> None:
    process = await start((sys.executable, "-S", "-c", HOPPERS, "8", number))
    await heard(process, b"ready")
    process.kill(0)
    ending = await process.wait()
    assert ending.leftovers == ()
    assert tagged(number) == []


@pytest.mark.slow
async def test_fork_storm_is_ended(start: Start, number: str, tmp_path: Path) -> None:
    """Two hundred processes that fork, each in a session of its own."""
    await storm(start, number, tmp_path / "counter")


async def storm(start: Start, number: str, counter: Path) -> None:
    process = await start((sys.executable, "-S", "-c", STORM, "200", str(counter), number))
    await heard(process, b"ready")
    await until(lambda: os.path.getsize(counter) >= 100)
    process.kill(0)
    ending = await process.wait()
    assert ending.leftovers == ()
    assert tagged(number) == []
    os.unlink(counter)


@pytest.mark.deep
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("escape", ESCAPES)
async def test_escapee_is_always_found(
    start: Start, new_number: Callable[[], str], escape: str, end: str
) -> None:
    for _ in range(100):
        number = new_number()
        await escape_and_end(start, command(escape, end, number), number, killed=end == "kill")


@pytest.mark.deep
async def test_hoppers_are_always_caught(start: Start, new_number: Callable[[], str]) -> None:
    for _ in range(100):
        await hop(start, new_number())


@pytest.mark.deep
async def test_fork_storms_are_always_ended(
    start: Start, new_number: Callable[[], str], tmp_path: Path
) -> None:
    for _ in range(20):
        await storm(start, new_number(), tmp_path / "counter")


async def test_output_of_an_escapee_is_kept(start: Start) -> None:
    """C4: everything the tree wrote is in the capture file, until the last of it is dead."""
    process = await start("(setsid sh -c 'sleep 0.02; echo late' &); echo early")
    ending = await process.wait()
    assert (everything(process), ending.size, ending.cut) == (b"early\nlate\n", 11, False)
