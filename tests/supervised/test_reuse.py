"""No signal reaches a process that we did not start, however fast numbers are reused (C10).

In a pid namespace with sixty numbers, each of which is soon given to somebody else.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Keeps ten processes that do nothing, each in a session of its own, and replaces one after the
# other: so they get the numbers that shells have just given back. Any signal to one of them shows
# in how it ends. Prints the numbers they had, and what happened to them.
BYSTANDERS = """
import collections, json, os, signal, sys, time

def hit(number, frame):
    os._exit(number)

for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, hit)

crowd, numbers, hurt = collections.deque(), set(), []

def come():
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(ours)
        for _, other in crowd:
            os.close(other)
        os.read(theirs, 1)
        os._exit(0)
    os.close(theirs)
    crowd.append((pid, ours))
    numbers.add(pid)

def go():
    pid, ours = crowd.popleft()
    os.close(ours)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if status != 0:
        hurt.append((pid, status))

os.set_blocking(0, False)
while True:
    try:
        if os.read(0, 1) == b"":
            break
    except BlockingIOError:
        pass
    if len(crowd) == 10:
        go()
    come()
    time.sleep(0.0002)
while crowd:
    go()
print(json.dumps([sorted(numbers), hurt]))
"""

# Short and killed shells, trees with escapees, signals at and after the end, dead helpers.
HOST = """
import json, os, random, signal, subprocess, sys, trio
from tests.supervised import rig
from trioshell._exceptions import SpawnError
from trioshell.launchers import Spec
from trioshell.launchers._supervised import SupervisedLauncher

bystanders, directory, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
COMMANDS = [
    "exit 0",
    "sleep 300",
    "setsid sleep 300 & sleep 300",
    "(setsid sleep 300 &) ; exit 0",
    "trap '' TERM; sleep 300 & sleep 300",
    "for i in 1 2 3 4; do (exit 0) & done; wait",
]
leaders = []

def crash(pid):
    try:
        fd = os.pidfd_open(pid)
        with open(f"/proc/{pid}/comm") as file:
            helper = "trioshell" in file.read()
        if helper:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)
    except OSError:
        pass  # it is gone

async def one(launcher, number):
    luck = random.Random(number)
    try:
        process = await launcher.launch(Spec(
            id=f"sh_{number}", argv=(b"sh", b"-c", luck.choice(COMMANDS).encode()),
            executable=b"/bin/sh", cwd="/", env=dict(os.environb), grace=0.01,
            capture=f"{directory}/{number}",
        ))
    except SpawnError:
        return  # its helper was killed
    leaders.append(process.pid)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.wait)
        await trio.sleep(luck.random() / 100)
        for _ in range(luck.randrange(4)):
            process.send_signal(signal.SIGTERM)
            await trio.sleep(luck.random() / 200)
        if luck.random() < 0.1 and launcher._server is not None:
            server = launcher._server._process.pid
            helpers = [server, *rig.below(server)]
            for pid in helpers[luck.randrange(2):]:
                crash(pid)
        process.kill(luck.choice([0, 0.005, 0.05]))
    process.kill(0)
    process.send_signal(signal.SIGKILL)
    process.capture.remove()

async def main():
    crowd = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", bystanders],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )
    numbers = iter(range(rounds))

    async def some():
        for number in numbers:
            await one(launcher, number)

    async with SupervisedLauncher() as launcher:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(some)
    output, _ = crowd.communicate()
    print(json.dumps([sorted(set(leaders)), *json.loads(output)]))

trio.run(main)
"""

# The first process of a namespace is spared many signals, so neither of them is that.
INSIDE = 'echo 360 > /proc/sys/kernel/pid_max || exit 77; "$@"; exit $?'


@pytest.mark.deep
def test_no_signal_reaches_a_stranger(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare")
    namespace = [unshare, "-Urpf", "--mount-proc", "sh", "-c", INSIDE, "sh"]
    host = [sys.executable, "-c", HOST, BYSTANDERS, str(tmp_path), "1000"]
    done = subprocess.run(
        [*namespace, *host],
        check=False,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no pid namespace with few numbers to be had here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    leaders, bystanders, hurt = json.loads(done.stdout)
    assert hurt == []
    assert len(set(leaders) & set(bystanders)) > 50  # or nothing was shown
