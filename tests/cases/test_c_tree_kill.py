"""Kind (c): the end of a whole tree: escapees, forks during the kill, and nobody else."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest import mock

import pytest
import trio

from trioshell import Created, Exited, Shell, Status

from .hosts import run_host
from .support import GRACE, Case, is_alive, needs, read_all, rounds, until, until_output


def named(case: Case, name: str) -> list[int]:
    """The live processes of a case with this name."""
    return [pid for pid in case.left() if _comm(pid) == name]


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except OSError:
        return ""


async def end(shell: Shell, how: str) -> Status:
    """End a shell by a kill, a removal, or its time limit; what its end was called."""
    if how == "timeout":
        shell.set_timeout(0.01)
        return (await shell.wait()).status
    if how == "remove":
        await shell.remove()
        return shell.info.status
    return (await shell.kill()).status


async def test_a_timeout_ends_the_pipeline_too(case: Case) -> None:
    """Case 15: the timeout ends the wrapper only, and a pipeline behind it goes on.

    https://github.com/openai/codex/issues/4337
    """
    alive: list[list[int]] = []

    def look(event: object) -> None:
        if isinstance(event, Exited):
            alive.append(case.left())

    async with case.open(observers=[look]):
        shell = await case.start(
            'mkfifo "$T/p"; (while :; do echo tick; sleep 1; done) > "$T/p" & cat "$T/p"',
            timeout=1,
        )
        with trio.fail_after(20):
            info = await shell.wait()
        assert (await read_all(shell)).startswith(b"tick\n")
    assert info.status is Status.TIMEOUT
    assert info.ended is not None
    assert info.ended - info.started >= 1
    assert alive == [[]]


ESCAPES = {
    "setsid sleep 300 & sleep 300": 2,
    'setsid sh -c "setsid sleep 300 & sleep 300" & sleep 300': 3,
}


@needs("escapees")
@pytest.mark.parametrize("how", ["kill", "timeout", "remove"])
@pytest.mark.parametrize("command", ESCAPES)
async def test_a_session_of_its_own_is_no_escape(case: Case, command: str, how: str) -> None:
    """Case 16: a child in its own session survives the group kill.

    https://github.com/NousResearch/hermes-agent/pull/94187
    """
    async with case.open():
        shell = await case.start(command)
        await until(lambda: len(named(case, "sleep")) == ESCAPES[command])
        assert await end(shell, how) is (Status.TIMEOUT if how == "timeout" else Status.KILLED)
        assert case.left() == []


@pytest.mark.parametrize("how", ["kill", "timeout", "remove"])
async def test_a_group_of_its_own_is_no_escape(case: Case, how: str) -> None:
    """Case 16, third form: job control gives each job a process group.

    https://github.com/NousResearch/hermes-agent/pull/94187
    """
    async with case.open():
        shell = await case.start(["bash", "-c", "set -m; sleep 300 & sleep 300 & wait"])
        await until(lambda: len(named(case, "sleep")) == 2)
        assert await end(shell, how) is (Status.TIMEOUT if how == "timeout" else Status.KILLED)
        assert case.left() == []


STORM = 'while :; do echo >> "$T/beat"; sh -c "sleep 300 &"; done'
CHAIN = """
import os, time
beat = os.open(os.environ["T"] + "/beat", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(beat, b".")
    if os.fork():            # the parent leaves, the child goes on: a chain of short lives
        time.sleep(0.001); os._exit(0)
"""
BREEDERS = {"storm": STORM, "chain": [sys.executable, "-c", CHAIN]}


@rounds(1, 20)
@pytest.mark.parametrize("form", BREEDERS)
async def test_processes_born_during_the_kill_are_not_missed(
    case: Case, form: str, rounds: int
) -> None:
    """Case 17: processes born during the clean-up pass are missed.

    A look at the process table can miss a chain as well, so each link leaves a beat in a file.
    The leader of the chain ends at once; so that there is a shell to be killed, it waits.

    https://github.com/actions/runner/issues/4601
    """
    beat = case.path / "beat"
    async with case.open(background="wait"):
        for _ in range(rounds):
            beat.unlink(missing_ok=True)
            shell = await case.start(BREEDERS[form])
            await trio.sleep(0.6)
            await until(beat.exists)
            assert shell.status is Status.RUNNING
            with trio.fail_after(10):
                await shell.kill()
            beats = beat.read_bytes()
            assert case.left() == []
        # About time: nobody who was missed comes back.
        await trio.sleep(0.5)
        assert beat.read_bytes() == beats
        assert case.left() == []


async def test_a_chain_of_short_lives_ends_with_its_leader(case: Case) -> None:
    """Case 17, the second form under the default policy: its leader ends after a moment.

    https://github.com/actions/runner/issues/4601
    """
    beat = case.path / "beat"
    async with case.open():
        with trio.fail_after(10):
            info, _ = await case.run([sys.executable, "-c", CHAIN])
        beats = beat.read_bytes()
        await trio.sleep(0.5)  # about time: see above
        assert beat.read_bytes() == beats
    assert (info.status, info.returncode) == (Status.EXITED, 0)


@pytest.mark.parametrize("how", ["kill", "remove"])
async def test_a_dead_leader_does_not_protect_its_group(case: Case, how: str) -> None:
    """Case 18: the leader is already collected, and the group is never signalled.

    https://github.com/preloopdev/preloop/pull/166
    """
    command = '(trap "" TERM INT HUP; : > "$T/ready"; sleep 300; :) & exit 0'
    async with case.open(background="keep"):
        shell = await case.start(command)
        info = await shell.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 0)
        await until((case.path / "ready").exists)
        assert case.left() != []
        with trio.fail_after(GRACE + 10):
            assert await end(shell, how) is Status.EXITED
        assert case.left() == []


async def test_the_default_ends_the_group_of_a_dead_leader(case: Case) -> None:
    """Case 18, under the default policy: the shell runs until its deaf job is gone.

    https://github.com/preloopdev/preloop/pull/166
    """
    ready = 'while ! [ -e "$T/ready" ]; do sleep 0.01; done'
    async with case.open():
        with trio.fail_after(GRACE + 10):
            info, _ = await case.run(
                f'(trap "" TERM INT HUP; : > "$T/ready"; sleep 300; :) & {ready}; exit 0'
            )
        assert case.left() == []
    assert (info.status, info.returncode) == (Status.EXITED, 0)


# What a host does in cases 19 and 20: with an empty PATH it kills, lets a limit end a shell,
# looks at a shell that ended in time, fails to start one, and lists.
BUSY_HOST = """
path = os.environ["GOOD_PATH"]

async def main():
    async with case.open() as shells:
        bystander = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
        async def start(command, **options):
            return await case.start(command, env={"PATH": path}, **options)
        setsid = "setsid" if case.guarantees.escapees else ""
        shell = await start(f"sleep 300 & {setsid} sleep 300 & sleep 300")
        await until(lambda: len(case.left()) >= 3)
        await shell.kill()
        await (await start("sleep 300", timeout=0.1)).wait()
        quick = await start("exit 0", timeout=0.2)
        await quick.wait()
        await trio.sleep(0.3)
        try:
            await case.start(["/nowhere/program"])
        except trioshell.SpawnError:
            pass
        assert shells.list() == []
        await quick.kill()
        alive = bystander.poll() is None
        # The bystander is ours to end: through its pidfd, so that the trace shows no kill.
        fd = os.pidfd_open(bystander.pid)
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)
        bystander.wait()
    answer({
        "host": os.getpid(), "group": os.getpgrp(), "bystander": bystander.pid, "alive": alive
    })

os.environ["PATH"] = str(case.path / "empty")
trio.run(main)
"""


def works(*command: str) -> bool:
    """Whether a program is here and does what it is asked to."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


async def trace(case: Case, calls: str, program: str) -> tuple[dict[str, int], list[str]]:
    """Run a host under strace: its answer, and the traced calls of it and all below it."""
    if not works("strace", "-o", "/dev/null", "/bin/true"):
        pytest.skip("there is no strace here, or nobody may be traced")
    log = case.path / "trace"
    env = {"GOOD_PATH": os.environ["PATH"], "PATH": os.environ["PATH"]}
    through = ["strace", "-f", "-e", f"trace={calls}", "-o", str(log)]
    answer = await run_host(case, program, through=through, env=env)
    return answer, log.read_text().splitlines()


async def test_no_helper_and_no_stranger_is_needed_or_hit(case: Case) -> None:
    """Cases 19 and 20, seen from outside, in all processes of the library.

    19: killing needs an external program that is not installed. No program is started but the
    shells and our own interpreter.
    https://github.com/apache/dolphinscheduler/issues/5199

    20: a kill through the ``kill`` program hits every process of the user. No signal goes to 0, 1,
    -1, to the host, to its group, or to the bystander.
    https://github.com/vanillagreencom/kendex/pull/1543
    """
    answer, lines = await trace(case, "execve,kill,tkill,tgkill", BUSY_HOST)
    assert answer["alive"]
    assert case.left() == []
    programs = executed(lines)
    # What comes before the bystander is the host's own start.
    programs = programs[programs.index("/bin/sleep") :]
    assert same_files(*programs) <= same_files(sys.executable, "/bin/sh", "setsid", "sleep")
    targets = [int(found[1]) for line in lines if (found := re.search(r"kill\((-?\d+)", line))]
    assert targets != []
    for target in targets:
        assert abs(target) > 1
        assert abs(target) not in (answer["host"], answer["group"], answer["bystander"])


def executed(lines: Sequence[str]) -> list[str]:
    """The programs of the calls of execve that succeeded."""
    return [
        json.loads(found[1])
        for line in whole(lines)
        if (found := re.search(r'execve\(("[^"]*")', line)) and "= -1" not in line
    ]


def whole(lines: Sequence[str]) -> Iterator[str]:
    """Each call in one line: another process may come between a call and what it returns."""
    begun: dict[str, str] = {}
    for line in lines:
        process = line.partition(" ")[0]
        call, unfinished, _ = line.partition("<unfinished ...>")
        _, resumed, rest = line.partition(" resumed>")
        if unfinished:
            begun[process] = call
        else:
            yield begun.pop(process, "") + rest if resumed else line


def same_files(*programs: str) -> set[str]:
    return {os.path.realpath(shutil.which(program) or program) for program in programs}


async def test_a_command_that_signals_its_group_hits_itself_alone(case: Case) -> None:
    """Case 21: the command signals its own group and takes the runner with it.

    https://github.com/scylladb/seastar/issues/518
    """
    commands = {
        "echo before; kill -TERM 0; echo after": (signal.SIGTERM, b"before\n"),
        "kill -KILL 0": (signal.SIGKILL, b""),
        "kill -INT 0; kill -HUP 0; sleep 1": (signal.SIGINT, b""),
    }
    with recorded_signals() as heard:
        async with case.open():
            beside = await case.start("read go; exit 4", stdin=subprocess.PIPE)
            for command, (number, output) in commands.items():
                info, written = await case.run(command)
                assert (info.status, info.signal) == (Status.EXITED, number)
                assert written == output
            assert beside.stdin is not None
            await beside.stdin.send_all(b"go\n")
            info = await beside.wait()
            assert (info.status, info.returncode) == (Status.EXITED, 4)
    assert heard == []


@contextmanager
def recorded_signals() -> Iterator[list[int]]:
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, hear) for number in numbers}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# The host of case 22: root without the right to signal other users' processes.
POWERLESS_HOST = """
OTHER = "setpriv --reuid 65534 --clear-groups sh -c 'echo up; exec sleep 300'"
COMMANDS = [f"{OTHER}; :", f"exec {OTHER}", f"trap '' TERM; {OTHER} & wait"]
answers = []

async def kill(shell, events):
    await until_output(shell, b"up\\n")
    with trio.fail_after(10):
        begin = trio.current_time()
        info = await shell.kill()
        took = trio.current_time() - begin
    assert await shell.kill() == info
    assert info.status is Status.KILLED
    assert [event.type for event in events if event.id == shell.id] == [
        "shell.created", "shell.exited"
    ]
    answers.append([took, [leftover.pid for leftover in info.leftovers], case.left()])

async def main():
    events = []
    async with case.open(observers=[events.append], grace=0.5):
        async with trio.open_nursery() as nursery:
            for command in COMMANDS:
                nursery.start_soon(kill, await case.start(command), events)
        other = await case.start("sleep 300")
        assert (await other.kill()).leftovers == ()
        # What cannot be ended here is for the test to end, before the scope is checked.
        answer(answers)
        await until(lambda: case.left() == [])

trio.run(main)
"""


async def test_what_may_not_be_signalled_is_reported(case: Case) -> None:
    """Case 22: the library may not signal one of the processes: a child, or the leader.

    The shell ends all the same, with one `Exited` that names who lives (C4), and a later kill
    returns that. (The case asks for a shell that stays running; a shell that never ends would
    keep its scope from ending.)

    https://github.com/python-trio/trio/issues/1209
    """
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("it takes root, and setpriv, to have a process that may not be signalled")
    without_kill = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill"]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_kill_what_is_left, case)
        answers = await run_host(case, POWERLESS_HOST, through=without_kill)
    assert len(answers) == 3
    for took, leftovers, left in answers:
        assert leftovers != []
        assert set(leftovers) <= set(left)
        assert took < 0.5 + 3


async def _kill_what_is_left(case: Case) -> None:
    await until((case.path / "answer").exists, seconds=30)
    for pid in case.left():
        os.kill(pid, signal.SIGKILL)


async def test_a_host_whose_signals_are_refused_is_told_so(case: Case) -> None:
    """Case 22 as it was reported: every way to signal that this process has is refused.

    The supervised launcher signals from other processes, so there the kill works.

    https://github.com/python-trio/trio/issues/1209
    """

    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    async with case.open():
        shell = await case.start("sleep 30")
        other = await case.start("sleep 30")
        with (
            mock.patch("os.kill", refuse),
            mock.patch("os.killpg", refuse),
            mock.patch("signal.pidfd_send_signal", refuse),
            trio.fail_after(15),
        ):
            info = await shell.kill()
        assert await shell.kill() == info
        assert info.status is Status.KILLED
        assert case.of(shell) == [Created, Exited]
        assert (await other.kill()).leftovers == ()
        left = [leftover.pid for leftover in info.leftovers]
        assert sorted(left) == sorted(case.left())
        if case.guarantees.launcher == "direct":
            assert left != []
            assert shell.pid in left
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: case.left() == [])


# Neighbours: nobody has reported these yet.


async def test_neighbour_no_name_hides_a_process(case: Case) -> None:
    """A process may be called anything, also what looks like more fields of its stat file."""
    setsid = "setsid" if case.guarantees.escapees else "exec"
    async with case.open():
        for name in ("a) Z 1 (b", "((", ")", "x\ny) T 0", " "):
            shutil.copy(shutil.which("sleep") or "/bin/sleep", case.path / name)
            shell = await case.start(
                f'set -m; ({setsid} "./$NAME" 300) & ("./$NAME" 300) & wait', env={"NAME": name}
            )
            await until(lambda name=name: len(named(case, name)) == 2)  # type: ignore[misc]
            await shell.kill()
            assert case.left() == []


@needs("escapees")
@pytest.mark.parametrize("how", ["kill", "exit"])
async def test_neighbour_an_escapee_may_wipe_its_environment(case: Case, how: str) -> None:
    """Session, parents, group and environment: nothing is left to know it by but its descent."""
    command = """
        (setsid env -i sh -c 'exec sleep 300' </dev/null >/dev/null 2>&1 & echo $! > "$T/pid") &
        while ! [ -s "$T/pid" ]; do sleep 0.01; done
        echo up; read go"""
    async with case.open():
        shell = await case.start(command, stdin=subprocess.PIPE)
        await until_output(shell, b"up\n")
        await until(lambda: _comm(pid := int((case.path / "pid").read_text())) == "sleep" and pid)
        pid = int((case.path / "pid").read_text())
        assert pid not in case.left()
        if how == "kill":
            await shell.kill()
        else:
            assert shell.stdin is not None
            await shell.stdin.aclose()
            await shell.wait()
        assert not is_alive(pid)


async def test_neighbour_a_trap_may_start_new_processes(case: Case) -> None:
    """What is born because of the polite signal belongs to the tree, too."""
    born = (
        "setsid sleep 300 & sleep 300 &" if case.guarantees.escapees else "sleep 300 & sleep 300 &"
    )
    async with case.open():
        shell = await case.start(f"trap '{born} {born} exit 3' TERM; echo up; while :; do :; done")
        await until_output(shell, b"up\n")
        info = await shell.kill()
        assert case.left() == []
    assert (info.status, info.returncode) == (Status.KILLED, 3)


@needs("escapees")
async def test_neighbour_the_first_process_of_a_namespace_ends_too(case: Case) -> None:
    """In a namespace of its own it is process 1, and deaf to what it does not handle."""
    unshare = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if not works(*unshare, "/bin/true"):
        pytest.skip("no namespaces may be made here")
    async with case.open():
        shell = await case.start([*unshare, "sh", "-c", "echo up; sleep 300 & sleep 300; :"])
        await until_output(shell, b"up\n")
        await until(lambda: len(named(case, "sleep")) == 2)
        with trio.fail_after(GRACE + 10):
            info = await shell.kill()
        assert case.left() == []
    assert (info.status, info.leftovers) == (Status.KILLED, ())


INNER = """
import trio, trioshell

async def main():
    async with trioshell.open_shells() as shells:
        await shells.create("trap '' TERM; setsid sleep 300 & sleep 300; sleep 300")
        print("up", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("how", ["kill", "timeout", "crash"])
async def test_neighbour_a_command_that_uses_trioshell_itself(case: Case, how: str) -> None:
    """Its helpers ignore polite signals, and yet its trees end with it or soon after (C6, C11)."""
    async with case.open():
        shell = await case.start([sys.executable, "-c", INNER])
        await until_output(shell, b"up\n")
        if how == "kill":
            assert (await shell.kill()).status is Status.KILLED
        elif how == "timeout":
            shell.set_timeout(0.01)
            assert (await shell.wait()).status is Status.TIMEOUT
        else:
            os.kill(shell.pid, signal.SIGKILL)
            info = await shell.wait()
            assert (info.status, info.returncode) == (Status.EXITED, -9)
        if case.guarantees.escapees:
            assert case.left() == []
        await until(lambda: case.left() == [], seconds=5)
