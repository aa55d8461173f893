"""C14: bad input is named, before anything exists."""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from trioshell import Guarantees, Pty, SpawnError
from trioshell._interpreter import Interpreter
from trioshell._request import MAX_ARGUMENT, Request, Requests

ALL = Guarantees("test", True, True, True, True, True)
NONE = Guarantees("test", False, False, False, False, False)


def ask(
    command: Any = "true",
    *,
    guarantees: Guarantees = ALL,
    durable: bool = False,
    scope: Requests | None = None,
    **changes: Any,
) -> Request:
    arguments: dict[str, Any] = {
        "cwd": None,
        "env": None,
        "timeout": None,
        "grace": None,
        "background": None,
        "output_limit": None,
        "on_output_limit": "cut",
        "stdin": None,
        "pty": None,
        "metadata": None,
    }
    scope = scope or requests(guarantees, durable=durable)
    return scope.new(command, **(arguments | changes))


def requests(guarantees: Guarantees = ALL, *, durable: bool = False) -> Requests:
    return Requests(
        interpreter=Interpreter("/bin/sh"),
        guarantees=guarantees,
        real=True,
        durable=durable,
        grace=3.0,
        background="kill",
        output_limit=None,
    )


def test_request_text_goes_to_the_interpreter_unchanged() -> None:
    asked = ask(" echo 'x' \\\n")
    assert asked.argv == (b"/bin/sh", b"-c", b" echo 'x' \\\n")
    assert asked.executable == b"/bin/sh"


def test_request_sequence_is_executed_directly() -> None:
    asked = ask(["sh", b"-c", Path("x y")])
    assert asked.argv == (b"sh", b"-c", b"x y")
    assert os.path.isabs(asked.executable)
    assert asked.shell is None
    assert asked.command == ("sh", b"-c", Path("x y"))


@pytest.mark.parametrize("command", ["", "  ", [], [""], ()])
def test_request_refuses_an_empty_command(command: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        ask(command)


@pytest.mark.parametrize("command", [b"true", Path("true"), 3, None, ["sh", 3], {"sh": 1}])
def test_request_refuses_what_is_no_command(command: Any) -> None:
    with pytest.raises(TypeError, match="command"):
        ask(command)


@pytest.mark.parametrize(
    "bad",
    [
        {"command": "echo a\0; touch ran"},
        {"command": ["echo", "a\0"]},
        {"command": ["echo", b"a\0"]},
        {"cwd": "x\0y"},
        {"env": {"K\0": "v"}},
        {"env": {"K": "v\0"}},
    ],
)
def test_request_refuses_a_nul(bad: dict[str, Any]) -> None:
    """The kernel's strings end there: another command would run."""
    with pytest.raises(ValueError, match="NUL"):
        ask(**bad)


@pytest.mark.parametrize("timeout", [0, 0.0, -1, -0.001, -math.inf, math.nan, -(10**400)])
def test_request_refuses_a_limit_that_is_none(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        ask(timeout=timeout)


@pytest.mark.parametrize("timeout", ["5", True, b"5", [5]])
def test_request_refuses_a_limit_that_is_no_number(timeout: Any) -> None:
    with pytest.raises(TypeError, match="timeout"):
        ask(timeout=timeout)


@pytest.mark.parametrize("timeout", [0.001, 1, 1e12, 10**30, 10**400, math.inf])
def test_request_takes_any_limit_however_long(timeout: float) -> None:
    assert ask(timeout=timeout).timeout > 0


def test_request_without_limit_never_ends() -> None:
    assert ask().timeout == math.inf


@pytest.mark.parametrize("grace", [-1, -math.inf, math.nan])
def test_request_refuses_a_bad_grace(grace: float) -> None:
    with pytest.raises(ValueError, match="grace"):
        ask(grace=grace)


@pytest.mark.parametrize("grace", [0, 0.5, math.inf])
def test_request_takes_a_grace(grace: float) -> None:
    assert ask(grace=grace).grace == grace


@pytest.mark.parametrize("name", ["background", "on_output_limit"])
def test_request_names_the_choices(name: str) -> None:
    changes: dict[str, Any] = {name: "never"}
    with pytest.raises(ValueError, match=f"{name} must be one of .*kill.*'never'"):
        ask(**changes)


def test_request_cwd_is_blamed_for_itself(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with pytest.raises(FileNotFoundError, match="gone") as caught:
        ask(cwd=tmp_path / "gone")
    assert isinstance(caught.value, SpawnError)
    assert caught.value.filename == str(tmp_path / "gone")
    with pytest.raises(NotADirectoryError, match="plain"):
        ask(cwd=plain)


def test_request_cwd_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    assert ask(cwd="below").cwd == str(tmp_path / "below")
    assert ask().cwd == str(tmp_path)


def test_request_cwd_that_is_gone_is_inherited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert ask().cwd is None


def test_request_program_is_blamed_for_itself(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with pytest.raises(FileNotFoundError, match=r"no-such-program-xyz.*PATH"):
        ask(["no-such-program-xyz"])
    with pytest.raises(FileNotFoundError, match="gone"):
        ask([tmp_path / "gone"])
    with pytest.raises(PermissionError, match="plain"):
        ask([tmp_path / "plain"])
    with pytest.raises(PermissionError, match="not an executable"):
        ask([tmp_path])


def test_request_program_is_looked_up_as_the_child_would(tmp_path: Path) -> None:
    """PATH of the child's environment, relative names from the child's directory."""
    program = tmp_path / "bin" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert ask(["mine"], env={"PATH": str(program.parent)}).executable == bytes(program)
    assert ask(["bin/mine"], cwd=tmp_path).executable == bytes(program)
    assert ask(["mine"], env={"PATH": "bin"}, cwd=tmp_path).executable == bytes(program)


def test_request_says_size_and_limit_of_what_is_too_long() -> None:
    ask("#" * (MAX_ARGUMENT - 1))
    with pytest.raises(SpawnError, match=rf"{MAX_ARGUMENT + 1} bytes.*{MAX_ARGUMENT}") as caught:
        ask("#" * MAX_ARGUMENT)
    assert caught.value.errno == 7  # E2BIG
    with pytest.raises(SpawnError, match="BIG"):
        ask(env={"BIG": "y" * MAX_ARGUMENT})


def test_request_environment_is_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """C15."""
    monkeypatch.setenv("MINE", "host")
    assert ask().env[b"MINE"] == b"host"
    monkeypatch.setenv("MINE", "later")
    assert ask().env[b"MINE"] == b"later"
    assert ask(env={"MINE": "call"}).env[b"MINE"] == b"call"
    assert b"MINE" not in ask(env={"MINE": None}).env


def test_request_environment_keeps_bytes_that_are_no_text() -> None:
    asked = ask(env={"K\udcfe": "\udcfd"})
    assert asked.env[b"K\xfe"] == b"\xfd"


def test_request_environment_without_start_up_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited they would run before every command; given, they are meant."""
    monkeypatch.setenv("BASH_ENV", "/host")
    monkeypatch.setenv("ENV", "/host")
    assert not {b"BASH_ENV", b"ENV"} & ask().env.keys()
    assert ask(env={"ENV": "/mine"}).env[b"ENV"] == b"/mine"


@pytest.mark.parametrize("env", [{"": "v"}, {"K=L": "v"}])
def test_request_refuses_a_variable_without_a_name(env: Any) -> None:
    with pytest.raises(ValueError, match="env name"):
        ask(env=env)


@pytest.mark.parametrize("env", [{"K": 3}, {3: "v"}, ["K=v"]])
def test_request_refuses_an_environment_of_other_things(env: Any) -> None:
    with pytest.raises(TypeError, match="env"):
        ask(env=env)


@pytest.mark.parametrize("stdin", ["text", 7, subprocess.DEVNULL, True])
def test_request_refuses_another_stdin(stdin: Any) -> None:
    with pytest.raises(TypeError, match="stdin must be"):
        ask(stdin=stdin)


def test_request_stdin() -> None:
    assert ask().stdin is None
    assert ask(stdin=b"x").stdin == b"x"
    assert ask(stdin=subprocess.PIPE).stdin is True


def test_request_refuses_bytes_for_a_terminal() -> None:
    with pytest.raises(ValueError, match="exclude"):
        ask(stdin=b"x", pty=Pty())


def test_request_refuses_what_the_launcher_cannot_do() -> None:
    with pytest.raises(ValueError, match="pty is not possible"):
        ask(pty=Pty(), guarantees=NONE)
    with pytest.raises(ValueError, match="output_limit is not possible"):
        ask(output_limit=9, guarantees=NONE)


@pytest.mark.parametrize("limit", [0, -1])
def test_request_refuses_a_limit_without_room(limit: int) -> None:
    with pytest.raises(ValueError, match="output_limit"):
        ask(output_limit=limit)


def test_request_kill_at_a_limit_needs_one() -> None:
    """C14: the limit may be the scope's, but without any it would never come to the kill."""
    with pytest.raises(ValueError, match="needs an output_limit"):
        ask(on_output_limit="kill")
    assert ask(on_output_limit="kill", output_limit=7).output_limit == 7
    scope = attrs.evolve(requests(), output_limit=9)
    assert ask(scope=scope, on_output_limit="kill").output_limit == 9


def test_request_metadata() -> None:
    assert ask(metadata={"k": object}).metadata == {"k": object}
    with pytest.raises(TypeError, match="metadata"):
        ask(metadata=[1])


@pytest.mark.parametrize(("rows", "columns"), [(0, 80), (24, 65536), (-1, 1)])
def test_pty_has_a_size_that_a_terminal_can_have(rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match="Pty"):
        Pty(rows, columns)


def test_pty_size_is_whole() -> None:
    with pytest.raises(TypeError, match="Pty rows"):
        Pty("24", 80)  # type: ignore[arg-type]
