"""Kind (a): what is said about an end, and when."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import trio

from trioshell import Exited, Shell, ShellInfo, Status

from .hosts import run_host
from .support import Case, descriptors, make_launcher, read_all, rounds, until, until_output


def reference(case: Case, command: str) -> tuple[int, bytes]:
    """What ``sh -c`` makes of a text: the general rule that the shells have to keep."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=case.path,
        check=False,
    )
    return done.returncode, done.stdout


async def test_the_code_is_the_wait_status(case: Case) -> None:
    """Case 1: a failing command reported as success when its text cannot be parsed.

    https://github.com/SWE-agent/SWE-ReX/issues/54
    """
    commands = {
        "bash -c 'A=(); false'": (1, b""),
        "false || ( exit 3 )": (3, b""),
        "echo '((('; exit 7": (7, b"(((\n"),
    }
    async with case.open():
        for command, expected in commands.items():
            info, written = await case.run(command)
            assert info.status is Status.EXITED
            assert (info.returncode, written) == expected


async def test_an_outside_signal_is_an_end_by_itself(case: Case) -> None:
    """Case 2: a shell killed by somebody else is listed with an empty exit code.

    https://github.com/google-gemini/gemini-cli/pull/29237
    """
    commands = {
        "kill -KILL $$": -signal.SIGKILL,
        "kill -TERM $$": -signal.SIGTERM,
        "sh -c 'kill -SEGV $$'; exit $?": 128 + signal.SIGSEGV,
    }
    async with case.open():
        for command, code in commands.items():
            info, _ = await case.run(command)
            assert (info.status, info.returncode) == (Status.EXITED, code)
            assert info.signal == (-code if code < 0 else None)
        shell = await case.start("sleep 300")
        os.kill(shell.pid, signal.SIGKILL)  # by the test, not by the library
        info = await shell.wait()
        assert shell.info == info
        assert (info.status, info.signal) == (Status.EXITED, signal.SIGKILL)
        assert info.as_dict()["returncode"] == -signal.SIGKILL


async def test_a_host_that_ignores_sigchld_gets_no_invented_code(case: Case) -> None:
    """Case 3: the host ignores SIGCHLD, and the wait hangs or a failure becomes 0.

    The supervised launcher's commands are no children of the host, so it always knows the code.
    The direct one asks the kernel; where that keeps nothing, the code is unknown, with a reason.

    https://github.com/python/cpython/issues/76296
    """
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with case.open():
            with trio.fail_after(10):
                info, _ = await case.run("exit 7")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert info.status is Status.EXITED
    check_not_invented(case, info)


def check_not_invented(case: Case, info: ShellInfo) -> None:
    """The code is 7, or the launcher that cannot know it says why."""
    if case.guarantees.launcher == "direct" and info.returncode is None:
        assert "the exit status was lost" in (info.reason or "")
    else:
        assert info.returncode == 7


async def test_closed_streams_are_no_end(case: Case) -> None:
    """Case 4: a command that closes all its streams early and keeps working.

    https://github.com/elixir-lang/elixir/issues/13449
    """
    async with case.open():
        begin = trio.current_time()
        shell = await case.start("exec 0<&- 1>&- 2>&-; sleep 2; exit 5")
        with trio.move_on_after(1):
            await shell.wait()
        assert shell.status is Status.RUNNING
        with trio.fail_after(20):
            info = await shell.wait()
        assert trio.current_time() - begin > 1.9
        assert (info.status, info.returncode) == (Status.EXITED, 5)
        page = await shell.output()
        assert (page.data, page.size, page.final) == (b"", 0, True)


@rounds(40, 500)
async def test_a_kill_and_a_natural_end_race_for_one_ending(case: Case, rounds: int) -> None:
    """Case 5: stop and natural end race, and there are two endings for one task.

    The delay follows the race: longer after a kill, shorter after a natural end. So it stays
    where both happen, however fast the machine is just now.

    https://github.com/netease-lcap/wave-agent/pull/1005
    """
    results: Counter[tuple[Status, int | None]] = Counter()
    async with case.open(retain=rounds):
        delay = 0.02
        for _ in range(rounds):
            shell = await case.start("sleep 0.02; exit 7")
            got: list[ShellInfo] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(collect, shell, got)
                await trio.sleep(delay)
                assert await shell.kill() == shell.info
            assert got == [shell.info]
            results[got[0].status, got[0].returncode] += 1
            delay *= 1.05 if got[0].status is Status.KILLED else 1 / 1.05
    assert set(results) == {(Status.EXITED, 7), (Status.KILLED, -signal.SIGTERM)}
    assert len(case.events) == 3 * rounds


async def collect(shell: Shell, results: list[ShellInfo]) -> None:
    results.append(await shell.wait())


@rounds(30, 200)
async def test_output_is_complete_when_the_end_is_told(case: Case, rounds: int) -> None:
    """Case 6: output arrives after the exit event.

    https://github.com/nodejs/node/issues/45085
    """
    want = b"".join(b"%d\n" % i for i in range(1, 5001)) + b"END\n"
    async with case.open() as shells, shells.subscribe() as events, trio.open_nursery() as nursery:

        async def look() -> None:
            left = rounds
            async for event in events:
                if isinstance(event, Exited):
                    shell = shells[event.id]
                    assert await read_all(shell) == want
                    assert event.info.size == len(want)
                    later = await shell.output(len(want))
                    assert (later.data, later.final) == (b"", True)
                    await shell.remove()
                    left -= 1
                    if not left:
                        return

        nursery.start_soon(look)
        for _ in range(rounds // 10):
            for _ in range(10):
                await case.start("seq 1 5000; echo END")
            await shells.wait_all()


async def test_every_wait_gives_the_same_answer(case: Case) -> None:
    """Case 7: a second wait gives a different answer from the first.

    https://github.com/boxlite-ai/boxlite/pull/1146
    """
    async with case.open():
        shell = await case.start("sleep 0.2; echo x; exit 9")
        results: list[ShellInfo] = []
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(collect, shell, results)
        with trio.fail_after(1):
            await collect(shell, results)
            await collect(shell, results)
        assert (await shell.output(0, 100)).data == b"x\n"
    assert results == 52 * results[:1]
    assert (results[0].status, results[0].returncode) == (Status.EXITED, 9)
    assert results[0].ended is not None


async def test_waits_that_were_given_up_leave_no_trace(case: Case) -> None:
    """Case 8: a wait that was given up spoils the next wait.

    https://github.com/watchexec/command-group/issues/21
    """
    async with case.open():
        shell = await case.start("sleep 2; exit 4")
        held = descriptors()
        threads = threading.active_count()
        for _ in range(40):
            with trio.move_on_after(0.02):
                await shell.wait()
        assert shell.status is Status.RUNNING
        assert (descriptors(), threading.active_count()) == (held, threads)
        with trio.fail_after(20):
            info = await shell.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 4)
        assert descriptors() <= held
        assert threading.active_count() <= threads


async def test_no_command_can_hide_its_code(case: Case) -> None:
    """Case 9: an in-band prompt mark defeated by strict mode, exec or an EXIT trap.

    https://github.com/OpenHands/OpenHands/pull/10557
    """
    commands = {
        'set -eu; echo "$!"': None,  # 2 with dash, 1 with bash
        "exec sh -c 'exit 6'": 6,
        "trap 'exit 9' EXIT; false": 9,
        "bash -c 'set -euo pipefail; echo \"$NOT_SET_X\"; echo no'": 1,
        "exit 300": 44,
    }
    async with case.open():
        for command, code in commands.items():
            with trio.fail_after(10):
                info, written = await case.run(command)
            expected = reference(case, command)
            assert info.status is Status.EXITED
            assert (info.returncode, written) == expected
            assert info.returncode == (code or expected[0])


TEXTS = [
    "cat <<EOF\nalpha\nEOF",
    "cat <<EOF\nalpha\nEOF\n",
    "echo beta # remark",
    "echo gamma \\",
    "# only a remark",
    "echo delta &",
    "{ echo eps; }",
    "echo zeta;",
    "\n\necho eta\n\n",
    "echo theta\\\n",
    "echo 'iota\n\n'",
    "echo kappa; exit 3 #",
    "if true; then",
    "echo 'lambda",
    "echo \ufeffmu \u2028 \U0001f41a",
]


async def test_the_text_reaches_the_shell_unchanged(case: Case) -> None:
    """Case 10: trimming or wrapping the command breaks here-documents and comments.

    https://github.com/google-gemini/gemini-cli/issues/20755
    """
    async with case.open():
        for text in TEXTS:
            # A background job may write after the end of its leader, which "kill" would end.
            info, written = await case.run(text, background="wait")
            assert info.status is Status.EXITED
            assert (info.returncode, written) == reference(case, text)


# Neighbours: nobody has reported these yet.


async def test_neighbour_a_stopped_leader_has_not_ended(case: Case) -> None:
    """A stop is a change of state that wait calls can tell of, too; it is no end."""
    async with case.open():
        shell = await case.start("echo ready; kill -STOP $$; exit 5")
        await until_output(shell, b"ready\n")
        await until(lambda: _state(shell.pid) == "T")
        with trio.move_on_after(0.1):
            await shell.wait()
        assert shell.status is Status.RUNNING
        os.kill(shell.pid, signal.SIGCONT)
        info = await shell.wait()
    assert (info.status, info.returncode) == (Status.EXITED, 5)


async def test_neighbour_the_main_thread_may_leave_before_the_process(case: Case) -> None:
    """A leader whose main thread has left looks like a zombie; its other threads go on."""
    program = """if True:
        import ctypes, os, sys, threading
        def work():
            print("ready", flush=True)
            sys.stdin.read()
            os._exit(7)
        threading.Thread(target=work).start()
        ctypes.CDLL(None).syscall(%d, 0)
    """
    async with case.open():
        number = _EXIT_CALL.get(os.uname().machine)
        if number is None:
            pytest.skip("the number of the exit system call is not known here")
        command = [sys.executable, "-c", program % number]
        shell = await case.start(command, stdin=subprocess.PIPE)
        await until_output(shell, b"ready\n")
        await until(lambda: _state(shell.pid) == "Z")
        with trio.move_on_after(0.1):
            await shell.wait()
        assert shell.status is Status.RUNNING
        assert shell.stdin is not None
        await shell.stdin.aclose()
        info = await shell.wait()
    assert (info.status, info.returncode) == (Status.EXITED, 7)


async def test_neighbour_a_host_that_reaps_every_child_gets_no_invented_code(case: Case) -> None:
    """Some hosts reap all children, because they are process 1 or know no better."""
    over = threading.Event()

    def reap() -> None:
        while not over.wait(0.001):
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                continue

    thread = threading.Thread(target=reap)
    async with case.open():
        thread.start()
        try:
            infos = [(await case.run("exit 7"))[0] for _ in range(5)]
        finally:
            over.set()
            thread.join()
    for info in infos:
        assert info.status is Status.EXITED
        check_not_invented(case, info)


async def test_neighbour_a_core_dump_does_not_change_the_signal(case: Case) -> None:
    """The wait status has a bit for the core dump next to the signal's number."""
    async with case.open():
        for number in (signal.SIGABRT, signal.SIGQUIT, signal.SIGRTMIN):
            info, _ = await case.run(f"ulimit -c unlimited; kill -{int(number)} $$")
            assert (info.status, info.returncode, info.signal) == (Status.EXITED, -number, number)


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


_EXIT_CALL = {"x86_64": 60, "aarch64": 93}


async def test_neighbour_a_host_without_proc_still_tells_the_end(tmp_path: Path) -> None:
    """In a bare container nothing lists processes. The end comes from the kernel all the same."""
    case = Case(partial(make_launcher, "direct"), tmp_path)
    program = """
    async def main():
        async with trioshell.open_shells(grace=0.2) as shells:
            told = [shells.guarantees.launcher]
            for command in ("echo out; exit 3", "kill -9 $$", "sleep 0.1 & exit 5"):
                info = await (await shells.create(command)).wait()
                told.append([info.status, info.returncode, info.reason])
            info = await (await shells.create("sleep 300")).kill()
            answer([*told, [info.status, info.returncode, info.reason], shells.guarantees.launcher])

    trio.run(main)
    """
    bare = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "-"]
    if shutil.which("unshare") is None or subprocess.run([*bare, "true"], check=False).returncode:
        pytest.skip("it takes a mount namespace of one's own")
    assert await run_host(case, program, through=bare) == [
        "supervised",  # until it is found out, at the first command
        ["exited", 3, None],
        ["exited", -9, None],
        ["exited", 5, None],
        ["killed", -15, None],
        "direct",
    ]


PYTHON = f"{shlex.quote(sys.executable)} -c"

# What the leader does, how it ends, what it writes. For bash.
ENDS = [
    ("coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x; exit 3", 3, b"hi\n"),
    ("set -m; sleep 300 & disown; exit 4", 4, b""),
    ("trap 'sleep 0.1; echo bye' EXIT; sleep 300 & exit 5", 5, b"bye\n"),
    ("set -m; sh -c 'kill -STOP $$' & wait; exit 6", 6, None),
    ("(sleep 0.1; kill -9 $$; echo after) & wait", -9, b"after\n"),
    ("cat <(echo 1) <(echo 2); exit 7", 7, b"1\n2\n"),
    ('for f in /proc/$$/fd/*; do eval "exec ${f##*/}>&-"; done 2>&-; exit 8', 8, None),
    ("exec 100>&1; echo high >&100; exit 9", 9, b"high\n"),
    ("kill -64 $$", -64, b""),
    ("exec -a 'a) Z 1' sh -c 'exec sh -c \"exit 10\"'", 10, b""),
    ("timeout 0.1 sleep 300; exit $?", 124, b""),
    ("setsid sh -c 'echo in; exit 11'; exit $?", 11, b"in\n"),
    (f"{PYTHON} 'import atexit, os; atexit.register(os._exit, 12)'", 12, b""),
    (f"{PYTHON} 'import os, threading; threading.Timer(0.1, os._exit, [13]).start()'", 13, b""),
    ("cat <<E | wc -c\n" + 100_000 * "x" + "\nE", 0, b"100001\n"),
    ("printf '\\0\\0'; exit 255", 255, b"\0\0"),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="it takes bash")
async def test_neighbour_every_kind_of_end_is_told_as_it_was(case: Case) -> None:
    """Side by side: coprocesses, disowned and stopped jobs, traps, exec, threads, signals."""
    async with case.open(shell="bash", retain=len(ENDS)):
        shells = [await case.start(command, timeout=30) for command, _, _ in ENDS]
        for shell, (command, code, output) in zip(shells, ENDS, strict=True):
            info = await shell.wait()
            assert (command, info.status, info.returncode) == (command, Status.EXITED, code)
            assert output in (None, await read_all(shell)), command
