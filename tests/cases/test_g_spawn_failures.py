"""Kind (g): commands that cannot be started, and what is left of them: nothing (C2, C14)."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from trioshell import Pty, Shells, SpawnError, Status, _checks, open_shells

from .hosts import run_host
from .support import Case, read_all, rounds, until

# One string for the kernel, its final NUL included.
LIMIT = 131_072

# As a user that has no other process, which the kernel counts; but reading what root can.
AS_LONER = [
    "setpriv",
    "--reuid=61729",
    "--regid=61729",
    "--clear-groups",
    "--inh-caps=-all,+dac_override",
    "--ambient-caps=-all,+dac_override",
]


@pytest.mark.parametrize(
    ("name", "error"), [("gone", FileNotFoundError), ("plain-file", NotADirectoryError)]
)
async def test_a_bad_directory_is_named(case: Case, name: str, error: type[OSError]) -> None:
    """Case 51: a missing working directory blamed on the shell.

    https://github.com/anomalyco/opencode/pull/30090
    """
    (case.path / "plain-file").touch()
    async with case.open() as shells:
        with pytest.raises(SpawnError) as raised:
            await case.start("echo hi", cwd=case.path / name)
        assert isinstance(raised.value, error)
        assert raised.value.filename == str(case.path / name)
        assert str(case.path / name) in str(raised.value)
        assert "/bin/sh" not in str(raised.value)
        _assert_nothing_exists(case, shells)
        info, output = await case.run("echo hi")
    assert (info.returncode, output) == (0, b"hi\n")


async def test_a_missing_shell_is_named(case: Case) -> None:
    """Case 52: a shell that is not installed, and an error that names nothing.

    https://github.com/NVIDIA/OpenShell/issues/3116
    """
    with pytest.raises(FileNotFoundError, match="no-such-shell-xyz"):
        async with case.open(shell="no-such-shell-xyz"):
            raise AssertionError("a scope was opened")
    plain = case.path / "plain-file"
    plain.touch(mode=0o644)
    with pytest.raises(PermissionError, match=str(plain)):
        async with case.open(shell=plain):
            raise AssertionError("a scope was opened")
    assert case.events == []


async def test_the_default_shell_is_found_without_path(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 52, with an empty PATH of the host and of the command."""
    empty = case.path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("SHELL", raising=False)
    async with case.open(shell=None):
        info, output = await case.run("echo hi", env={"PATH": str(empty)})
    assert (info.returncode, output) == (0, b"hi\n")


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, 2_000_000])
async def test_a_command_too_long_for_the_kernel_is_told_so(case: Case, length: int) -> None:
    """Case 53: a command of 128 KiB or more cannot be started.

    https://github.com/mmeyerlein/meclaw/issues/351
    """
    command = "echo ok #" + "x" * (length - 9)
    async with case.open() as shells:
        if length < LIMIT:
            info, output = await case.run(command)
            assert (info.returncode, output) == (0, b"ok\n")
            return
        with pytest.raises(SpawnError, match=f"{length + 1} bytes.*{LIMIT}") as raised:
            await case.start(command)
        assert raised.value.errno == errno.E2BIG
        _assert_nothing_exists(case, shells)


async def test_a_variable_too_long_for_the_kernel_is_told_so(case: Case) -> None:
    """Case 53, for the environment."""
    async with case.open() as shells:
        with pytest.raises(SpawnError, match=f"'BIG' takes {LIMIT + 5} bytes.*{LIMIT}") as raised:
            await case.start("true", env={"BIG": "y" * LIMIT})
        assert raised.value.errno == errno.E2BIG
        _assert_nothing_exists(case, shells)


async def test_a_nul_or_a_bad_name_is_refused(case: Case) -> None:
    """Case 54: NUL inside a command, directory or variable.

    https://github.com/Kludex/zuvloop/pull/59
    """
    bad: list[dict[str, Any]] = [
        {"command": 'echo a\0; touch "$T/ran"'},
        {"command": ["touch", "ran\0"]},
        {"cwd": "x\0y"},
        {"env": {"K\0": "v"}},
        {"env": {"K": "v\0"}},
        {"env": {"K=L": "v"}},
        {"env": {"": "v"}},
    ]
    async with case.open() as shells:
        for arguments in bad:
            with pytest.raises(ValueError, match=r"NUL|env name"):
                await case.start(**{"command": 'touch "$T/ran"', **arguments})
        _assert_nothing_exists(case, shells)
    assert list(case.path.iterdir()) == []


async def test_metadata_may_hold_a_nul(case: Case) -> None:
    """Case 54, for metadata: kept as they are."""
    async with case.open():
        info, _ = await case.run("true", metadata={"k\0": "v\0"})
    assert info.metadata == {"k\0": "v\0"}


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
async def test_a_fork_refused_for_good_is_an_error(
    case: Case, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Case 55: fork refused for the moment.

    https://github.com/swiftlang/swift-subprocess/pull/312
    """
    async with case.open() as shells:
        popen = _Refusing(number, times=1000)
        monkeypatch.setattr(subprocess, "Popen", popen)
        with trio.fail_after(10), pytest.raises(SpawnError) as raised:
            await case.start("true")
        monkeypatch.undo()
        assert raised.value.errno == number
        _assert_nothing_exists(case, shells)
        info, output = await case.run("echo ok")
        assert (info.returncode, output) == (0, b"ok\n")


async def test_a_fork_refused_for_a_moment_is_tried_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 55, failing twice."""
    async with case.open():
        popen = _Refusing(errno.EAGAIN, times=2)
        monkeypatch.setattr(subprocess, "Popen", popen)
        info, output = await case.run("echo ok")
    assert popen.left == 0
    assert (info.returncode, output) == (0, b"ok\n")


async def test_the_process_limit_of_the_kernel(case: Case) -> None:
    """Case 55, with a kernel that refuses: the limit of a user's processes is reached."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to be a user whose processes can be counted")
    program = """
    limits = resource.getrlimit(resource.RLIMIT_NPROC)

    def allow(more):
        soft = limits[0] if more else 1
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    if os.stat(f"/proc/{name}").st_uid == os.getuid():
                        resource.prlimit(int(name), resource.RLIMIT_NPROC, (soft, limits[1]))

    async def main():
        async with case.open() as shells:
            running = await case.start("read line; exit 3", stdin=subprocess.PIPE)
            allow(False)
            refused = None
            try:
                await case.start("true")
            except trioshell.SpawnError as error:
                refused = [error.errno, str(error)]
            listed = len(shells)
            async with trio.open_nursery() as nursery:
                infos = []
                async def late():
                    infos.append(await (await case.start("exit 4")).wait())
                nursery.start_soon(late)
                await trio.sleep(0.1)
                allow(True)
            await running.stdin.send_all(b"\\n")
            codes = [(await running.wait()).returncode, infos[0].returncode]
        answer({"refused": refused, "listed": listed, "codes": codes})

    trio.run(main)
    """
    answer = await run_host(case, program, through=AS_LONER)
    number, text = answer["refused"]
    assert number == errno.EAGAIN
    assert "RLIMIT_NPROC" in text
    assert answer["listed"] == 1
    assert answer["codes"] == [3, 4]


@rounds(24, 500)
async def test_failed_starts_leave_no_descriptors(case: Case, rounds: int) -> None:
    """Case 56: each failed start leaks descriptors.

    https://github.com/nodejs/node-v0.x-archive/issues/8504
    """
    orphan = case.path / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    state = case.path / "state"
    attempts: list[dict[str, Any]] = [
        {"command": "echo hi", "cwd": case.path / "gone"},
        {"command": [orphan]},  # only the kernel sees what is wrong
    ]
    async with case.open(directory=state):
        await (await case.start("true")).remove()
        before = _footprint(state)
        for i in range(rounds):
            with pytest.raises(SpawnError):
                await case.start(**attempts[i % 2], **_inputs(i // 2))
        assert _footprint(state) == before


@rounds(24, 500)
async def test_good_starts_leave_no_descriptors(case: Case, rounds: int) -> None:
    """Case 56, for commands that ran and were deleted."""
    state = case.path / "state"
    async with case.open(directory=state):
        await (await case.start("true")).remove()
        before = _footprint(state)
        for i in range(rounds):
            shell = await case.start("echo hi", **_inputs(i))
            await shell.wait()
            await shell.remove()
        assert _footprint(state) == before


async def test_a_host_whose_directory_was_deleted(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 57: the host stands in a deleted directory.

    https://github.com/oven-sh/bun/pull/33829
    """
    monkeypatch.chdir(case.path)
    async with case.open(directory="state") as shells:
        early, _ = await case.run("echo early")
        (case.path / "d").mkdir()
        monkeypatch.chdir(case.path / "d")
        (case.path / "d").rmdir()
        info, output = await case.run("pwd", cwd=case.path)
        assert (info.returncode, output) == (0, os.fsencode(case.path) + b"\n")
        inherited = await shells.create("echo ok", env={"CASE": case.tag})
        info = await inherited.wait()
        assert info.returncode == 0
        assert (await read_all(inherited)).endswith(b"ok\n")  # some shells complain, and go on
        assert info.cwd is None
        assert await read_all(shells[early.id]) == b"early\n"


@pytest.mark.parametrize("what", [{"directory": "state"}, {"shell": "./sh"}])
async def test_a_relative_path_in_a_deleted_directory_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch, what: dict[str, str]
) -> None:
    """Case 57: no bare FileNotFoundError without a path."""
    (case.path / "d").mkdir()
    monkeypatch.chdir(case.path / "d")
    (case.path / "d").rmdir()
    with pytest.raises(FileNotFoundError, match=next(iter(what.values()))):
        async with case.open(**what):
            raise AssertionError("a scope was opened")
    async with case.open():
        for cwd in (".", "sub"):
            with pytest.raises(FileNotFoundError, match=f"'{cwd}'"):
                await case.start("true", cwd=cwd)


# Neighbours that nobody has reported.


async def test_a_host_without_descriptors_gets_an_error_or_a_shell(case: Case) -> None:
    """With few descriptors left, `create` works or says so, leaves nothing, and works later."""
    worked = []
    async with case.open(retain=0) as shells:
        assert await _works_or_says_so(case)  # the helpers have descriptors of their own
        before = len(os.listdir("/proc/self/fd"))
        for spare in range(14):
            with _descriptors_left(spare):
                worked.append(await _works_or_says_so(case))
            assert len(shells) == 0
            assert len(os.listdir("/proc/self/fd")) == before
            assert await _works_or_says_so(case)
    assert not worked[0]
    assert worked[-1]


async def _works_or_says_so(case: Case) -> bool:
    try:
        shell = await case.start("exit 3", stdin=subprocess.PIPE)
    except SpawnError as error:
        told = error
    else:
        assert (await shell.wait()).returncode == 3
        return True
    assert told.errno == errno.EMFILE
    assert "RLIMIT_NOFILE" in str(told)
    return False


async def test_a_host_without_descriptors_can_still_end_its_shells(case: Case) -> None:
    """Ends and kills need no descriptor that may not be there."""
    async with case.open():
        natural = await case.start("read line; exit 3", stdin=subprocess.PIPE)
        killed = await case.start("sleep 300 & sleep 300; :")
        await until(lambda: len(case.left()) >= 3)
        assert natural.stdin is not None
        with _descriptors_left(0):
            await natural.stdin.send_all(b"\n")
            infos = [await natural.wait(), await killed.kill()]
        assert case.left() == []
    assert [info.status for info in infos] == [Status.EXITED, Status.KILLED]
    assert [info.returncode for info in infos] == [3, -15]
    assert [info.leftovers for info in infos] == [(), ()]


async def test_arguments_too_large_in_all_are_told_so(case: Case) -> None:
    """No single string is too long, but all of them are; only the kernel knows its limit."""
    many = {f"V{i}": "y" * 100_000 for i in range(70)}
    async with case.open() as shells:
        with pytest.raises(SpawnError, match=r"take 7\d{6} bytes") as raised:
            await case.start("true", env=many)
        assert raised.value.errno == errno.E2BIG
        _assert_nothing_exists(case, shells)


@pytest.mark.parametrize(
    ("text", "number", "says"),
    [
        ("#!/no/such/interpreter\n", errno.ENOENT, "the interpreter it names"),
        ("neither a script nor a program\n", errno.ENOEXEC, "a first line such as"),
    ],
)
async def test_a_program_that_the_kernel_refuses_is_named(
    case: Case, text: str, number: int, says: str
) -> None:
    """A script whose interpreter is missing "does not exist" for the kernel, though it is there."""
    program = case.path / "program"
    program.write_text(text)
    program.chmod(0o755)
    async with case.open() as shells:
        for pty in (None, Pty()):
            with pytest.raises(SpawnError, match=says) as raised:
                await case.start([program], pty=pty)
            assert raised.value.errno == number
            assert str(program) in str(raised.value)
        _assert_nothing_exists(case, shells)


async def test_text_that_has_no_bytes_is_named(case: Case) -> None:
    """Half of a surrogate pair, as JSON lets it through, is in no encoding: which argument?"""
    bad: list[tuple[dict[str, Any], str]] = [
        ({"command": "echo \ud800"}, "command"),
        ({"command": ["echo", "\ud800"]}, "command"),
        ({"cwd": "/\ud800"}, "cwd"),
        ({"env": {"K": "\ud800"}}, "'K'"),
        ({"env": {"\ud800": "v"}}, "env name"),
    ]
    async with case.open() as shells:
        for arguments, named in bad:
            with pytest.raises(ValueError, match=named) as raised:
                await case.start(**{"command": "true", **arguments})
            assert "\\ud800" in str(raised.value)
        _assert_nothing_exists(case, shells)


async def test_a_directory_that_goes_while_the_start_is_under_way(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there when it was checked and is gone when it is entered is named all the same."""
    gone = case.path / "gone"
    monkeypatch.setattr(os.path, "isdir", lambda path: True)
    monkeypatch.setattr(_checks, "may_execute", lambda path: True)
    async with case.open() as shells:
        with pytest.raises(FileNotFoundError, match=str(gone)) as raised:
            await case.start("true", cwd=gone)
        assert raised.value.filename == str(gone)
        _assert_nothing_exists(case, shells)


async def test_a_failed_start_gives_its_place_back(case: Case) -> None:
    """A limiter with one place: a start that failed, or was cancelled, does not keep it."""
    limiter = trio.CapacityLimiter(1)
    async with case.open(limiter=limiter):
        with pytest.raises(SpawnError):
            await case.start("true", cwd=case.path / "gone")
        assert limiter.borrowed_tokens == 0
        first = await case.start("sleep 300")
        with trio.move_on_after(0.05) as waiting:
            await case.start("true")
        assert waiting.cancelled_caught
        assert limiter.statistics().tasks_waiting == 0
        await first.kill()
        assert (await case.run("exit 3"))[0].returncode == 3
        assert limiter.borrowed_tokens == 0


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EMFILE, errno.ENOMEM])
async def test_a_moment_without_resources_does_not_cost_the_better_launcher(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The best launcher falls back for a system that cannot, not for a moment that could not."""
    async with open_shells() as shells:
        if shells.guarantees.launcher != "supervised":
            pytest.skip("guarantees: the supervised launcher is not for this platform")
        monkeypatch.setattr(subprocess, "Popen", _Refusing(number, times=1000))
        with pytest.raises(SpawnError) as raised:
            await shells.create("true")
        assert raised.value.errno == number
        monkeypatch.undo()
        assert (await (await shells.create("exit 3")).wait()).returncode == 3
        assert shells.guarantees.launcher == "supervised"


class _Refusing:
    """In place of `subprocess.Popen`: the kernel refuses some times."""

    def __init__(self, number: int, times: int) -> None:
        self.number = number
        self.left = times
        self._real = subprocess.Popen

    def __call__(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number))
        return self._real(*args, **kwargs)


def _assert_nothing_exists(case: Case, shells: Shells) -> None:
    assert len(shells) == 0
    assert case.events == []
    assert case.left() == []


def _inputs(i: int) -> dict[str, Any]:
    return {"pty": Pty() if i % 2 else None, "stdin": subprocess.PIPE if i % 3 else None}


def _footprint(state: Path) -> tuple[int, int, list[Path]]:
    """Descriptors, threads (but for trio's cached ones), and files of the state directory."""
    threads = [thread for thread in threading.enumerate() if "rio" not in thread.name]
    files = sorted(state.rglob("*"))
    return len(os.listdir("/proc/self/fd")), len(threads), files


@contextmanager
def _descriptors_left(spare: int) -> Iterator[None]:
    """Use up the descriptors, but for some, for a while."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir("/proc/self/fd"))) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (top + spare, limits[1]))
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many"):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        for _ in range(spare):
            os.close(taken.pop())
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)


@pytest.mark.parametrize(
    ("path", "number"),
    [("loop", errno.ELOOP), ("file/below", errno.ENOTDIR), ("x" * 300, errno.ENAMETOOLONG)],
)
async def test_the_reason_is_that_of_the_kernel(case: Case, path: str, number: int) -> None:
    """What is there and cannot be reached does not "not exist" (C14)."""
    (case.path / "loop").symlink_to("loop")
    (case.path / "file").touch()
    bad = case.path / path
    async with case.open():
        for refused in (partial(case.start, "true", cwd=bad), partial(case.start, [bad])):
            with pytest.raises(SpawnError, match=os.strerror(number)) as error:
                await refused()
            assert (error.value.errno, error.value.filename) == (number, str(bad))
