"""When the kernel's word is taken for "nobody else is alive" (C10): in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trioshell.launchers._helpers import procfs

# A subreaper that starts a leader, waits until it is dead and the others are as they shall be, and
# looks once. It prints whether the leader is still unreaped (so its number is pinned), and whether
# the tree is empty; then it kills what is left and prints whether the tree is empty at the end.
_PROGRAM = """
import os, sys, time
from trioshell.launchers._helpers import kernel, procfs, tree

kernel.become_subreaper()
states, *command = sys.argv[1:]
leader = os.posix_spawn(command[0], command, os.environ, setsid=True)
own = procfs.OwnChildren()
one = tree.Tree(leader, own)

def state(pid):
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]

deadline = time.monotonic() + 20
while "".join(sorted(map(state, own.get()))) != states:
    assert time.monotonic() < deadline, [*map(state, own.get())]
    time.sleep(0.001)

one.reap()
print(leader in own.get(), one.leader_ended, one.empty)
while not one.empty:
    one.kill()
    one.reap()
print(one.leader_ended, one.status, own.get())
"""

# Its first thread ends, and another one lives on: a zombie without an exit status.
_HALF_DEAD = """
import ctypes, os, threading, time
if os.fork() == 0:
    threading.Thread(target=time.sleep, args=(300,)).start()
    ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
os._exit(0)
"""


def look(states: str, *command: str) -> tuple[str, str]:
    """What is seen when our children are in these states (sorted letters of /proc)."""
    # Of this checkout, wherever it is imported from.
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, states, *command],
        stdout=subprocess.PIPE,
        cwd=root,
        check=True,
        timeout=30,
        text=True,
    )
    first, last = done.stdout.splitlines()
    return first, last


LEADER_STAYS = "True True False"
NOTHING_LEFT = "False True True"
ENDED = "True 768 []"


@pytest.mark.parametrize(
    ("states", "command", "seen"),
    [
        ("Z", "exit 3", NOTHING_LEFT),
        ("SZ", "sleep 300 & exit 3", LEADER_STAYS),
        ("TZ", "sleep 300 & kill -STOP $!; exit 3", LEADER_STAYS),
        ("ZZZ", "(exit 1 &) ; (exit 2 &) ; exit 3", NOTHING_LEFT),
        ("SZ", "(setsid sleep 300 &) ; exit 3", LEADER_STAYS),
        ("ZZ", "(setsid true &) ; exit 3", NOTHING_LEFT),
    ],
    ids=["alone", "alive", "stopped", "zombies", "grandchild", "dead grandchild"],
)
def test_leader_stays_unreaped_while_anybody_lives(states: str, command: str, seen: str) -> None:
    assert look(states, "/bin/sh", "-c", command) == (seen, ENDED)


def test_process_that_has_lost_its_first_thread_lives() -> None:
    seen = look("ZZ", sys.executable, "-c", _HALF_DEAD)
    assert seen == (LEADER_STAYS, "True 0 []")


@pytest.mark.parametrize(
    ("state", "exiting", "pending", "dying"),
    [
        ("R", False, {signal.SIGKILL}, True),
        ("R", True, set(), True),
        ("R", False, {signal.SIGTERM}, False),
        ("R", False, set(), False),
        ("S", False, set(), False),  # another user's: not even told
        ("D", True, {signal.SIGKILL}, False),  # stuck in the kernel
        ("Z", True, set(), False),
    ],
)
def test_process_that_waits_for_a_processor_to_die_on(
    state: str, exiting: bool, pending: set[signal.Signals], dying: bool
) -> None:
    """C10: on a busy machine it is not a leftover yet. A line of proc(5), as it would be then."""
    name, _, rest = Path("/proc/self/stat").read_text().rpartition(") ")
    fields = rest.split()
    fields[0] = state
    fields[6] = str(int(fields[6]) & ~4 | 4 * exiting)
    fields[28] = str(sum(1 << (number - 1) for number in pending))
    stat = f"{name}) {' '.join(fields)}".encode()
    assert procfs.Process(os.getpid(), stat).dying is dying
