"""A process or nothing (C2), and what is said when it is nothing (C14)."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from tests import leaks
from tests.direct.rig import SpecOf, Start, alive, run, until
from tests.supervised import rig
from tests.supervised.rig import marked
from trioshell._exceptions import SpawnError
from trioshell.launchers import Spec
from trioshell.launchers._supervised import SupervisedLauncher
from trioshell.launchers._supervised.forkserver import ForkServer, HelperError

# Nobody carries it: what counts is what descends from here.
OURS = f"no mark {os.getpid()}"


def executable(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o700)
    return str(path)


async def refused(start: Start, command: str | tuple[str, ...], **options: object) -> SpawnError:
    with pytest.raises(SpawnError) as caught:
        await start(command, **options)
    return caught.value


async def test_missing_program_is_named(start: Start) -> None:
    error = await refused(start, ("/nowhere/program",))
    assert (error.errno, error.filename) == (errno.ENOENT, "/nowhere/program")
    assert isinstance(error, FileNotFoundError)


async def test_missing_directory_is_named(start: Start) -> None:
    error = await refused(start, "exit 0", cwd="/nowhere")
    assert (error.errno, error.filename) == (errno.ENOENT, "/nowhere")


async def test_directory_that_is_a_file_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    error = await refused(start, "exit 0", cwd=str(tmp_path / "file"))
    assert (error.errno, error.filename) == (errno.ENOTDIR, str(tmp_path / "file"))


async def test_missing_interpreter_is_not_taken_for_the_program(
    start: Start, tmp_path: Path
) -> None:
    script = executable(tmp_path / "script", "#!/nowhere/interpreter\n")
    error = await refused(start, (script,))
    assert (error.errno, error.filename) == (errno.ENOENT, script)
    assert "interpreter" in str(error)


async def test_script_without_a_first_line_is_explained(start: Start, tmp_path: Path) -> None:
    error = await refused(start, (executable(tmp_path / "script", "echo hello\n"),))
    assert error.errno == errno.ENOEXEC
    assert "#!" in str(error)


async def test_program_that_may_not_be_executed_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    error = await refused(start, (str(tmp_path / "data"),))
    assert (error.errno, error.filename) == (errno.EACCES, str(tmp_path / "data"))


async def test_too_long_an_argument_is_measured(start: Start) -> None:
    error = await refused(start, ("/bin/true", "x" * 200_000))
    assert error.errno == errno.E2BIG
    assert "200001" in str(error)
    assert "131072" in str(error)


async def test_too_many_arguments_are_measured(start: Start) -> None:
    error = await refused(start, ("/bin/true", *["x" * 100_000] * 60))
    assert error.errno == errno.E2BIG
    assert "60" in str(error)


async def test_program_that_is_being_written_is_waited_for(start: Start, tmp_path: Path) -> None:
    """ETXTBSY is of the moment: somebody has just copied the program."""
    program = str(tmp_path / "program")
    with open("/bin/true", "rb") as source:
        data = source.read()
    writer = os.open(program, os.O_WRONLY | os.O_CREAT, 0o700)
    os.write(writer, data)

    async def close() -> None:
        await trio.sleep(0.05)
        os.close(writer)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        assert (await run(start, (program,)))[0].returncode == 0


async def test_program_that_is_always_being_written_is_refused(
    start: Start, tmp_path: Path
) -> None:
    program = executable(tmp_path / "program", "")
    writer = os.open(program, os.O_WRONLY)
    try:
        with trio.fail_after(10):
            assert (await refused(start, (program,))).errno == errno.ETXTBSY
    finally:
        os.close(writer)


async def test_refused_commands_leave_nothing_and_cost_no_supervisor(
    start: Start, launcher: SupervisedLauncher, tmp_path: Path
) -> None:
    await run(start, "exit 0")
    before = leaks.Snapshot.take(OURS)
    for _ in range(20):
        await refused(start, ("/nowhere/program",), stdin=b"x" * 100_000)
        await refused(start, "exit 0", cwd="/nowhere", stdin=True)
    assert leaks.Snapshot.take(OURS).since(before) == []
    assert len(list(tmp_path.iterdir())) == 1
    assert len(launcher._idle) == 1


async def test_no_descriptor_left_is_said(start: Start) -> None:
    """Case: EMFILE. Nothing stays open, and the next command works again."""
    await run(start, "exit 0")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, before[1]))
    taken: list[int] = []
    outcomes: list[str] = []
    try:
        for spare in range(6):
            while True:
                try:
                    taken.append(os.dup(0))
                except OSError:
                    break
            for _ in range(spare):
                os.close(taken.pop())
            outcomes.append(await _outcome(start))
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert set(outcomes[:2]) == {"no descriptor"}
    assert set(outcomes) <= {"no descriptor", "3"}
    assert (await run(start, "exit 4"))[0].returncode == 4


async def _outcome(start: Start) -> str:
    try:
        process = await start("exit 3", stdin=True)
    except SpawnError as error:
        told = error.errno == errno.EMFILE and "RLIMIT_NOFILE" in str(error)
        return "no descriptor" if told else repr(error)
    return str((await process.wait()).returncode)


async def test_supervisors_are_reused(start: Start, launcher: SupervisedLauncher) -> None:
    for _ in range(10):
        await run(start, "exit 0")
    assert len(launcher._idle) == 1


async def test_idle_supervisors_are_bounded(
    start: Start, launcher: SupervisedLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trioshell.launchers._supervised.launcher._MAX_IDLE", 3)
    processes = [await start("read x", stdin=True) for _ in range(6)]
    supervisors = {rig.parent(process.pid) for process in processes}
    assert len(supervisors) == 6
    server = rig.parent(supervisors.pop())
    for process in processes:
        assert process.stdin is not None
        await process.stdin.aclose()
        await process.wait()
    assert len(launcher._idle) == 3
    await until(lambda: len(rig.below(server)) == 3)


@pytest.mark.parametrize("steps", range(12))
async def test_launch_may_be_cancelled_at_every_step(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path, steps: int
) -> None:
    """C2: the process is handed over or there is none of it, however often it was resumed."""
    await _cancel_after(launcher, spec("sleep 300", stdin=b"x" * 100_000), steps)
    assert list(tmp_path.iterdir()) == []
    process = await launcher.launch(spec("exit 3"))
    assert (await process.wait()).returncode == 3
    process.capture.remove()


async def _cancel_after(launcher: SupervisedLauncher, spec: Spec, steps: int) -> None:
    """Cancel after so many passes of the scheduler."""
    process = None

    async def launch(scope: trio.CancelScope) -> None:
        nonlocal process
        with scope:
            process = await launcher.launch(spec)

    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()
        nursery.start_soon(launch, scope)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        scope.cancel()
    if process is not None:
        process.kill(0)
        await process.wait()
        process.capture.remove()
    assert marked(spec.id) == []


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 0.0005, 0.001, 0.002, 0.004])
async def test_launch_may_be_cancelled_at_any_time(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path, delay: float
) -> None:
    await (await launcher.launch(spec("exit 0", capture=None))).wait()
    for _ in range(5):
        one = spec("setsid sleep 300 & wait")
        with trio.move_on_after(delay):
            process = await launcher.launch(one)
            process.kill(0)
            with trio.CancelScope(shield=True):
                await process.wait()
            process.capture.remove()
        assert marked(one.id) == []
    assert list(tmp_path.iterdir()) == []


async def test_large_command_may_be_cancelled_half_sent(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path
) -> None:
    """A supervisor that has read half of a message is of no more use, and is replaced."""
    one = spec(("/bin/echo", *["x" * 100_000] * 15))
    with trio.CancelScope() as scope:
        scope.cancel()
        await launcher.launch(one)
    await _cancel_after(launcher, one, 4)
    process = await launcher.launch(spec("exit 3"))
    assert (await process.wait()).returncode == 3
    process.capture.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", range(12))
async def test_planted_file_outlives_a_cancelled_start(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path, steps: int
) -> None:
    """What is undone is what we did: the file was there before, and is not ours."""
    planted = tmp_path / "planted"
    planted.write_text("precious")
    with contextlib.suppress(SpawnError):
        await _cancel_after(launcher, spec("exit 0", capture=str(planted)), steps)
    assert planted.read_text() == "precious"


async def test_supervisor_killed_within_a_start_leaves_nothing(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path
) -> None:
    """C2: also not the capture file that it had made."""
    async with trio.open_nursery() as nursery:
        one = _stuck(spec, tmp_path)
        nursery.start_soon(_killed_by_others, launcher, one)
        await until(lambda: os.path.exists(str(one.capture)))
        rig.crash(_supervisor(launcher))
    assert not os.path.exists(str(one.capture))
    assert (await (await launcher.launch(spec("exit 3"))).wait()).returncode == 3


async def test_stuck_start_may_be_cancelled(
    launcher: SupervisedLauncher, spec: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor that does not answer is given up, and what it has made is deleted."""
    monkeypatch.setattr("trioshell.launchers._supervised.launcher._UNDOING", 0.1)
    one = _stuck(spec, tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(launcher.launch, one)
        await until(lambda: os.path.exists(str(one.capture)))
        supervisor = _supervisor(launcher)
        nursery.cancel_scope.cancel()
    assert not os.path.exists(str(one.capture))
    await until(lambda: not alive(supervisor))
    assert (await (await launcher.launch(spec("exit 3"))).wait()).returncode == 3


def _stuck(spec: SpecOf, directory: Path) -> Spec:
    """A command whose supervisor waits for ever to open its notes: a pipe that nobody reads."""
    notes = str(directory / "notes")
    os.mkfifo(notes)
    return spec("exit 0", notes=notes)


def _supervisor(launcher: SupervisedLauncher) -> int:
    """The only one there is."""
    assert launcher._server is not None
    (supervisor,) = rig.below(launcher._server._process.pid)
    return supervisor


async def _killed_by_others(launcher: SupervisedLauncher, spec: Spec) -> None:
    with pytest.raises(SpawnError) as caught:
        await launcher.launch(spec)
    assert caught.value.errno == errno.ECONNABORTED


async def test_leaving_ends_all_helpers(spec: SpecOf) -> None:
    """C10: no helper, descriptor or zombie; also when it is left by a cancellation."""
    before = leaks.Snapshot.take(OURS)
    with trio.CancelScope() as scope:
        async with SupervisedLauncher() as launcher:
            processes = [await launcher.launch(spec("exit 0")) for _ in range(4)]
            for process in processes:
                await process.wait()
                process.capture.remove()
            scope.cancel()
    assert leaks.Snapshot.take(OURS).since(before) == []


async def test_launcher_that_started_nothing_starts_no_helper() -> None:
    before = leaks.Snapshot.take(OURS)
    async with SupervisedLauncher():
        assert leaks.Snapshot.take(OURS).since(before) == []


async def test_launcher_serves_one_scope_after_another(spec: SpecOf) -> None:
    launcher = SupervisedLauncher()
    for code in range(3):
        async with launcher:
            process = await launcher.launch(spec(f"exit {code}"))
            assert (await process.wait()).returncode == code
            process.capture.remove()


async def test_output_goes_to_a_file_of_our_own_without_a_path(start: Start) -> None:
    process = await start("echo hello", capture=None)
    await process.wait()
    assert process.capture.read(0, 100) == b"hello\n"


async def test_helper_that_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that is not our Python is ended, and explained."""
    silent = executable(tmp_path / "python-silent", "#!/bin/sh\nexec sleep 300\n")
    monkeypatch.setattr(sys, "executable", silent)
    monkeypatch.setattr("trioshell.launchers._supervised.forkserver._START", 0.2)
    with pytest.raises(HelperError, match="did not answer"):
        await ForkServer.start()


async def test_helper_that_cannot_start_is_explained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = executable(tmp_path / "python-broken", "#!/bin/sh\necho noise >&2; exit 1\n")
    monkeypatch.setattr(sys, "executable", broken)
    with pytest.raises(HelperError, match="instead of answering"):
        await ForkServer.start()


async def test_end_is_heard_beside_an_older_signal(
    launcher: SupervisedLauncher, spec: SpecOf
) -> None:
    """A SIGCHLD that was there before the command must not hide that of its end."""
    first = await launcher.launch(spec("exec sleep 60"))
    supervisor = rig.parent(first.pid)
    first.kill(0)
    await first.wait()
    first.capture.remove()
    for _ in range(20):
        # Both are there when it looks: the command, and a signal that means nothing any more.
        os.kill(supervisor, signal.SIGSTOP)
        os.kill(supervisor, signal.SIGCHLD)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_while_stopped, launcher, spec("exit 3"), supervisor)
            await trio.testing.wait_all_tasks_blocked()
            os.kill(supervisor, signal.SIGCONT)


async def end_while_stopped(launcher: SupervisedLauncher, spec: Spec, supervisor: int) -> None:
    process = await launcher.launch(spec)
    os.kill(supervisor, signal.SIGSTOP)
    await until(lambda: not alive(process.pid))
    os.kill(supervisor, signal.SIGCONT)
    with trio.fail_after(20):
        assert (await process.wait()).returncode == 3
    process.capture.remove()
