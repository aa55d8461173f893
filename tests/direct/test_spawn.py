"""Starting: a clean context, and errors that name the culprit."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.direct.rig import SpecOf, Start, children, linux_only, run, signals
from trioshell._exceptions import SpawnError
from trioshell._records import Pty
from trioshell.launchers._direct import DirectLauncher
from trioshell.launchers._direct import spawn as spawn_module


@pytest.fixture
def impolite_host() -> Generator[None]:
    """A host started by nohup in the background of a script, that blocks signals as well."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("executable", ["", "/usr/sbin/server", "/nowhere/python3"])
async def test_host_without_a_python_starts_commands_all_the_same(
    start: Start, impolite_host: None, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    """Embedded in another program there is none; what the host ignores is then ignored."""
    monkeypatch.setattr(sys, "executable", executable)
    ending, output = await run(start, "echo up; exit 3")
    assert (ending.returncode, output) == (3, b"up\n")


@linux_only
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_signals_are_default_whatever_the_host_does(
    start: Start, impolite_host: None, pty: Pty | None
) -> None:
    """C15: nothing ignored, nothing blocked."""
    command = "trap 'echo got' INT; kill -INT $$; grep -E 'Sig(Ign|Blk)' /proc/self/status"
    _, output = await run(start, command, pty=pty)
    lines = output.split(b"\n")
    assert lines[0].strip() == b"got"
    assert [signals(line.split()[1]) for line in lines[1:3]] == [0, 0]


@linux_only
async def test_signals_are_default_in_whatever_thread_it_starts(start: Start) -> None:
    """C15: trio keeps its worker threads, one that was made while signals were blocked as well."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        await trio.to_thread.run_sync(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGINT})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        _, output = await run(start, ("/bin/grep", "SigBlk", "/proc/self/status"))  # no shell's own
        assert signals(output.split()[1]) == 0
    finally:
        await trio.to_thread.run_sync(signal.pthread_sigmask, signal.SIG_SETMASK, before)


async def test_broken_pipe_ends_a_writer(start: Start, tmp_path: Path) -> None:
    """C15: Python ignores SIGPIPE, its commands do not."""
    ending, _ = await run(start, "mkfifo fifo; head -n 1 <fifo & exec yes >fifo", cwd=str(tmp_path))
    assert ending.returncode == -signal.SIGPIPE


@linux_only
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
@pytest.mark.parametrize("stdin", [None, True])
async def test_only_three_descriptors(start: Start, pty: Pty | None, stdin: bool | None) -> None:
    """C15: an inheritable descriptor of the host stays with the host."""
    leaky = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaky, True)
    try:
        _, output = await run(start, "ls /proc/$$/fd", pty=pty, stdin=stdin)
    finally:
        os.close(leaky)
    assert output.split() == [b"0", b"1", b"2"]


@linux_only
@pytest.mark.parametrize("locale", [None, b"C", b"", b"C.UTF-8"])
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_environment_is_exact(start: Start, pty: Pty | None, locale: bytes | None) -> None:
    """C15: byte for byte, and whoever prepares the command adds nothing but the shell's id."""
    env = {b"PATH": os.environb[b"PATH"], b"BAD": b"\xff\xfe", b"K\xfe": b"\xfd", b"LANG": b"C"}
    if locale is not None:
        env[b"LC_CTYPE"] = locale
    _, output = await run(start, ("/usr/bin/env", "-0"), env=env, pty=pty)
    found = dict(item.split(b"=", 1) for item in output.split(b"\0")[:-1])
    assert found.pop(b"TRIOSHELL_ID")
    assert found == env


@linux_only
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_session_and_directory(start: Start, tmp_path: Path, pty: Pty | None) -> None:
    process = await start("cut -d' ' -f5,6 /proc/$$/stat; pwd", cwd=str(tmp_path), pty=pty)
    await process.wait()
    lines = process.capture.read(0, 1000).split(b"\n")
    assert lines[0].split() == [b"%d" % process.pid] * 2
    assert lines[1].strip() == os.fsencode(tmp_path)


async def test_program_may_be_relative_to_the_directory(start: Start, tmp_path: Path) -> None:
    program = tmp_path / "hello"
    program.write_text("#!/bin/sh\necho hello $1\n")
    program.chmod(0o755)
    options = {"cwd": str(tmp_path), "executable": b"hello"}
    _, output = await run(start, ("hello", "you"), **options)
    assert output == b"hello you\n"


def make(path: Path, text: str, mode: int) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_errors_name_the_culprit_and_leave_nothing(
    spec: SpecOf, tmp_path: Path, pty: Pty | None
) -> None:
    """C2, C14: also when the program is prepared by another one first."""
    gone = str(tmp_path / "gone")
    plain = make(tmp_path / "plain", "no program", 0o755)
    orphan = make(tmp_path / "orphan", "#!/no/such/interpreter\n", 0o755)
    closed = make(tmp_path / "closed", "#!/bin/sh\n", 0o644)
    huge = "x" * 200_000
    cases: list[tuple[Any, dict[str, Any], int, str, type[OSError]]] = [
        ((gone,), {}, errno.ENOENT, gone, FileNotFoundError),
        ((plain,), {}, errno.ENOEXEC, "#!/bin/sh", OSError),
        ((orphan,), {}, errno.ENOENT, "interpreter", FileNotFoundError),
        ((closed,), {}, errno.EACCES, closed, PermissionError),
        ("true", {"cwd": gone}, errno.ENOENT, "directory", FileNotFoundError),
        ("true", {"cwd": plain}, errno.ENOTDIR, "directory", NotADirectoryError),
        (f"echo {huge}", {}, errno.E2BIG, "131072", OSError),
    ]
    before = sorted(os.listdir(tmp_path))
    for command, options, number, text, kind in cases:
        with pytest.raises(SpawnError, match=text) as caught:
            await DirectLauncher().launch(spec(command, pty=pty, stdin=True, **options))
        assert caught.value.errno == number
        assert isinstance(caught.value, kind)
    assert sorted(os.listdir(tmp_path)) == before


@contextlib.contextmanager
def descriptors_left(count: int) -> Generator[None]:
    """As if the host had used up all of its descriptors but some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, hard))
    used: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                used.append(os.dup(2))
        while count:
            os.close(used.pop())
            count -= 1
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in used:
            os.close(fd)


@linux_only
@pytest.mark.parametrize("pty", [None, Pty()], ids=["pipe", "terminal"])
async def test_no_descriptors_left_is_told(spec: SpecOf, tmp_path: Path, pty: Pty | None) -> None:
    """C2, C14: at every point where one is missing; nothing is left each time."""
    outcomes = []
    for count in range(14):
        process = None
        with contextlib.suppress(SpawnError), descriptors_left(count):
            process = await DirectLauncher().launch(spec("exit 5", pty=pty, stdin=True))
        outcomes.append(process is not None)
        if process is None:
            assert (os.listdir(tmp_path), children()) == ([], [])
        else:
            assert (await process.wait()).returncode == 5
            process.capture.remove()
    assert outcomes == sorted(outcomes)
    assert outcomes.count(False) > 4
    assert outcomes[-1]
    with pytest.raises(SpawnError, match="RLIMIT_NOFILE") as caught, descriptors_left(2):
        await DirectLauncher().launch(spec("exit 5"))
    assert caught.value.errno == errno.EMFILE


async def test_refused_fork_is_tried_again(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    really = subprocess.Popen
    calls: list[int] = []

    def flaky(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) <= 2:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return really(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", flaky)
    ending, _ = await run(start, "exit 5")
    assert (ending.returncode, len(calls)) == (5, 3)


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
async def test_refused_fork_is_told(
    spec: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """C14: within a bounded time."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(spawn_module, "_RETRIES", (0.001, 0.001))
    with pytest.raises(SpawnError) as caught:
        await DirectLauncher().launch(spec("exit 5"))
    assert caught.value.errno == number
    assert os.listdir(tmp_path) == []


def test_retries_are_bounded() -> None:
    assert sum(spawn_module._RETRIES) < 2


async def test_frozen_program_has_no_terminals_and_says_so(
    spec: SpecOf, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert not DirectLauncher().guarantees.pty
    with pytest.raises(ValueError, match="frozen"):
        await DirectLauncher().launch(spec("exit 0", pty=Pty()))
    ending, _ = await run(start, "exit 5")
    assert ending.returncode == 5


async def test_starter_that_does_not_run_is_an_error(
    spec: SpecOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Python that cannot run its script is not taken for a command that ended."""
    broken = make(tmp_path / "python", "#!/bin/sh\nexit 0\n", 0o755)
    monkeypatch.setattr(sys, "executable", broken)
    with pytest.raises(SpawnError):
        await DirectLauncher().launch(spec("exit 0", pty=Pty()))
    assert os.listdir(tmp_path) == ["python"]


async def test_guarantees_are_honest() -> None:
    guarantees = DirectLauncher(note="asked for").guarantees
    assert (guarantees.launcher, guarantees.note) == ("direct", "asked for")
    assert not guarantees.escapees
    assert not guarantees.host_crash
    assert not guarantees.tree_usage


async def test_many_starts_leave_no_descriptor(start: Start) -> None:
    """C10; the fixture counts descriptors, processes, threads and tasks at the end."""

    async def one(number: int) -> None:
        ending, output = await run(start, f"echo {number}; exit {number}", stdin=b"x")
        assert (ending.returncode, output) == (number, b"%d\n" % number)

    async with trio.open_nursery() as nursery:
        for number in range(60):
            nursery.start_soon(one, number)
