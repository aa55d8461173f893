"""Kind (i): what a command inherits, and what it must not (C15)."""

from __future__ import annotations

import ast
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.direct.rig import signals
from trioshell import Pty

from .hosts import run_host
from .support import Case, read_all, until

# Only against hangs.
LONG = 20.0

KANJI = "\N{CJK UNIFIED IDEOGRAPH-65E5}\N{CJK UNIFIED IDEOGRAPH-672C}"

# Not KILL and STOP, and not those that Python needs.
UNWANTED = {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGTSTP,
    signal.SIGTTOU,
}


async def test_commands_are_run_by_a_posix_shell(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 63: the user's interactive shell runs the commands.

    https://github.com/cline/cline/issues/3918
    """
    for value in ("/dev/null", "no-such", "", None, "/usr/bin/fish", "dash"):
        _set(monkeypatch, "SHELL", value)
        async with case.open(shell=None):
            info, output = await case.run('x=$(echo ok) && echo "$x"')
            assert (info.returncode, output) == (0, b"ok\n")
            assert await _variable(case, "SHELL") == value


async def test_a_posix_shell_of_the_user_is_taken(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 63, the other way round: a user's shell that understands the commands runs them."""
    dash = case.path / "dash"
    dash.symlink_to("/bin/sh")
    monkeypatch.setenv("SHELL", str(dash))
    async with case.open(shell=None):
        info, output = await case.run('echo "$0"')
    assert (info.shell, output) == (str(dash), os.fsencode(dash) + b"\n")


@pytest.fixture
def polluted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose start-up files are slow and talk."""
    home = tmp_path / "home"
    home.mkdir()
    for name in (".bashrc", ".profile", ".bash_profile", ".zshenv", ".kshrc", "rc"):
        (home / name).write_text("echo POLLUTED; sleep 300\n")
    for variable, value in {"HOME": home, "ZDOTDIR": home}.items():
        monkeypatch.setenv(variable, str(value))
    for variable in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(variable, str(home / "rc"))
    return home


@pytest.mark.parametrize("shell", [None, "bash", "sh", "dash", "zsh", "ksh"])
async def test_no_start_up_file_is_read(case: Case, polluted: Path, shell: str | None) -> None:
    """Case 64: start-up files run before every command.

    https://github.com/anthropics/claude-code/issues/40354
    """
    if shell is not None and shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    async with case.open(shell=shell):
        with trio.fail_after(LONG):
            info, output = await case.run("echo ok")
        assert (info.returncode, output) == (0, b"ok\n")


async def test_a_start_up_file_that_was_asked_for_is_read(case: Case, polluted: Path) -> None:
    """Case 64: BASH_ENV in the call's own ``env`` has its normal effect."""
    asked = case.path / "asked"
    asked.write_text("echo asked\n")
    async with case.open(shell="bash"):
        _, output = await case.run("echo ok", env={"BASH_ENV": str(asked)})
    assert output == b"asked\nok\n"


async def test_a_broken_pipe_ends_a_writer(case: Case) -> None:
    """Case 65: signals that the host ignores stay ignored in the command: SIGPIPE, in Python.

    https://github.com/xroche/httrack/pull/1141
    """
    async with case.open(shell="bash"):
        with trio.fail_after(LONG):
            _, output = await case.run("yes | head -n1 >/dev/null; echo ${PIPESTATUS[0]}")
    assert output == b"141\n"


@pytest.mark.parametrize("pty", [None, Pty()])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_signals_that_the_host_ignores_can_be_trapped(
    case: Case, when: str, pty: Pty | None
) -> None:
    """Case 65, in a host that ignores or blocks signals, before or after the helpers started."""
    early, late = (_unwanted(), nullcontext()) if when == "before" else (nullcontext(), _unwanted())
    command = "trap 'echo got' INT; kill -INT $$; grep -E 'Sig(Ign|Blk)' /proc/self/status"
    with early:
        async with case.open():
            await case.run("true")
            with late:
                _, output = await case.run(command, pty=pty)
    got, _, blocked, _, ignored = output.split()
    assert (got, signals(blocked), signals(ignored)) == (b"got", 0, 0)


async def test_variables_that_are_not_utf_8_are_passed_on(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 66: a variable that is not UTF-8 makes every start or record fail.

    https://github.com/phillipberndt/autorandr/pull/180
    """
    monkeypatch.setitem(os.environb, b"BAD", b"\xff\xfe")
    state = case.path / "state"
    metadata = {"k": "\udcff"}
    async with case.open(directory=state):
        _, output = await case.run('printf %s "$BAD" | od -An -tx1')
        assert output.split() == [b"ff", b"fe"]
        _, output = await case.run("printf %s \udcff | od -An -tx1")
        assert output.split() == [b"ff"]
        info, output = await case.run(["env"], env={"K\udcfe": "\udcfd"}, metadata=metadata)
        assert b"K\xfe=\xfd" in output.splitlines()
        assert info.metadata == metadata
    async with case.open(directory=state):
        info, _ = await case.run("true", metadata=metadata)
        assert info.metadata == metadata


async def test_text_survives_every_locale_of_the_host(case: Case) -> None:
    """Case 67: with an empty locale, text is shown as escapes.

    https://github.com/openai/codex/issues/26980
    """
    program = f"""
    text = {KANJI!a}
    folder = os.path.join(os.fsencode(case.path), text.encode())
    os.mkdir(folder)

    async def main():
        told = []
        async with case.open():
            for pty in (None, Pty()):
                shell = await case.start(
                    f"pwd; echo {{text}} $V; env | grep -E '^L(ANG|C_)'",
                    cwd=str(case.path) + "/" + text, env={{"V": text}}, metadata={{text: text}},
                    pty=pty,
                )
                info = await shell.wait()
                page = await shell.output()
                result = await shell.result()
                told.append([
                    page.data.hex(), page.text, result.output, info.as_dict()["metadata"],
                    json.loads(json.dumps(info.as_dict()))["command"],
                ])
        answer([sys.getfilesystemencoding(), told])

    trio.run(main)
    """
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = os.environ["PATH"]
    encoding, told = await run_host(case, program, env={"PATH": path, **env})
    assert encoding == "ascii"
    expected = f"{case.path}/{KANJI}\n{KANJI} {KANJI}\nLC_ALL=C\n"
    for text, (data, page, result, metadata, command) in zip(
        (expected, expected.replace("\n", "\r\n")), told, strict=True
    ):
        assert bytes.fromhex(data) == text.encode()
        assert page == text
        assert result.splitlines() == text.splitlines()
        assert metadata == {KANJI: KANJI}
        assert KANJI in command


@pytest.mark.parametrize("open_first", [True, False])
async def test_open_files_of_the_host_stay_there(case: Case, open_first: bool) -> None:
    """Case 68: open files of the host leak into commands.

    https://github.com/kgs19/cmdx/issues/2
    """
    lock = case.path / "lock"
    with contextlib.ExitStack() as at_last:
        held = _hold(lock, at_last) if open_first else None
        async with case.open():
            with contextlib.ExitStack() as before_that:
                if held is None:
                    await case.run("true")  # the helpers, if there are any, came before the file
                    held = _hold(lock, before_that)
                await _assert_only_standard_descriptors(case)
                # Closes it, and takes its number. The lock is free unless somebody else has it.
                again = os.open(lock, os.O_RDWR)
                os.dup2(again, held)
                os.close(again)
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def _assert_only_standard_descriptors(case: Case) -> None:
    shells = [await case.start(["sleep", "30"], **_inputs(i)) for i in range(5)]
    for i in range(3):
        _, output = await case.run("ls /proc/$$/fd", **_inputs(i))
        assert output.split() == [b"0", b"1", b"2"]
    for shell in shells:
        directory = Path(f"/proc/{shell.pid}")
        await until(partial(_is_sleep, directory))
        assert sorted(os.listdir(directory / "fd")) == ["0", "1", "2"]


def _is_sleep(process: Path) -> bool:
    return process.joinpath("cmdline").read_bytes().startswith(b"sleep")


# Neighbours that nobody has reported.


async def test_the_environment_is_that_of_the_moment(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of the scope's beginning; arguments override it, and None drops a variable."""
    monkeypatch.setenv("EARLY", "early")
    monkeypatch.delenv("LATE", raising=False)
    async with case.open():
        assert await _variable(case, "LATE") is None
        monkeypatch.setenv("LATE", "late")
        monkeypatch.setenv("EARLY", "")
        monkeypatch.chdir("/")
        assert await _variable(case, "LATE") == "late"
        assert await _variable(case, "EARLY") == ""
        assert await _variable(case, "LATE", env={"LATE": None}) is None
        assert await _variable(case, "LATE", env={"LATE": "other"}) == "other"
        shell = await case.shells.create("pwd", env={"CASE": case.tag})
        await shell.wait()
        assert await read_all(shell) == b"/\n"


async def test_a_shell_within_a_shell_has_its_own_id(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that is itself run by trioshell does not hand its own id down."""
    monkeypatch.setenv("TRIOSHELL_ID", "sh_of_the_host")
    async with case.open():
        shell = await case.start('echo "$TRIOSHELL_ID"')
        await shell.wait()
        assert await read_all(shell) == shell.id.encode() + b"\n"


async def test_umask_limits_and_priority_are_those_of_the_host(case: Case) -> None:
    """Helpers that keep their own files private, or have limits of their own, keep them."""
    before = os.umask(0o027)
    limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limit[1]))
    try:
        async with case.open():
            _, output = await case.run("umask; ulimit -Sn; ulimit -Hn; ulimit -Sc; nice; id -u")
    finally:
        os.umask(before)
        resource.setrlimit(resource.RLIMIT_CORE, limit)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = ["0027", str(soft), str(hard), "0", str(os.nice(0)), str(os.getuid())]
    assert output.decode().split() == expected


@pytest.mark.parametrize("options", [{}, {"stdin": subprocess.PIPE}, {"pty": Pty()}])
async def test_standard_descriptors_block(case: Case, options: dict[str, Any]) -> None:
    """Our own ends do not block, and that must not be seen on theirs: output would be lost."""
    program = "import os; print([os.get_blocking(fd) for fd in range(3)])"
    async with case.open():
        _, output = await case.run([sys.executable, "-c", program], **options)
    assert output.split() == b"[True, True, True]".split()


async def test_functions_that_the_host_exported_are_there(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of variables that no shell would take as such (``BASH_FUNC_f%%``) are passed on."""
    monkeypatch.setenv("BASH_FUNC_greet%%", "() { echo hello $1; }")
    monkeypatch.setenv("a.b-c", "odd")
    async with case.open(shell="bash"):
        _, output = await case.run("greet you; env | grep '^a.b-c='")
    assert output == b"hello you\na.b-c=odd\n"


def _inputs(i: int) -> dict[str, Any]:
    return {"pty": Pty() if i % 2 else None, "stdin": subprocess.PIPE}


def _hold(lock: Path, close: contextlib.ExitStack) -> int:
    held = os.open(lock, os.O_CREAT | os.O_RDWR)
    close.callback(os.close, held)
    os.set_inheritable(held, True)
    fcntl.flock(held, fcntl.LOCK_EX)
    return held


def _set(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)


async def _variable(case: Case, name: str, **options: Any) -> str | None:
    """A variable as a program sees it that no shell has started."""
    _, output = await case.run(["/usr/bin/env", "-0"], **options)
    lines = [line.partition("=") for line in output.decode().split("\0")]
    return next((value for key, _, value in lines if key == name), None)


@contextmanager
def _unwanted() -> Iterator[None]:
    """Ignore some signals, and block some, as a careless host may."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in UNWANTED}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_variables_of_every_kind_and_size(case: Case) -> None:
    """Names that no shell could set, values of many lines, and far more than a pipe holds."""
    odd = {"A B": "1", "1X": "2", "X.Y": "3", "\N{SNOWMAN}": "\N{COMET}", "N": "a\nb", "E": ""}
    many = {f"V{i}": "x" * 1000 for i in range(1000)}
    program = "import os, sys; sys.stdout.buffer.write(repr(dict(os.environb)).encode())"
    async with case.open():
        _, output = await case.run([sys.executable, "-c", program], env={**odd, **many})
        seen = ast.literal_eval(output.decode())
        given = {name.encode(): value.encode() for name, value in {**odd, **many}.items()}
        assert {name: seen.get(name) for name in given} == given
