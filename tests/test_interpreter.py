"""Which shell runs a command, and with which arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trioshell import SpawnError
from trioshell._interpreter import choose


def program(path: Path, *, executable: bool = True) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755 if executable else 0o644)
    return path


def test_choose_takes_the_users_shell_if_it_is_posix(tmp_path: Path) -> None:
    zsh = program(tmp_path / "zsh")
    assert choose(None, {"SHELL": str(zsh)}).path == str(zsh)


@pytest.mark.parametrize("name", ["fish", "nu", "csh", "tcsh", "xonsh"])
def test_choose_passes_over_a_shell_with_another_syntax(tmp_path: Path, name: str) -> None:
    other = program(tmp_path / name)
    bash = program(tmp_path / "bin" / "bash")
    assert choose(None, {"SHELL": str(other), "PATH": str(bash.parent)}).path == str(bash)


@pytest.mark.parametrize("value", ["/dev/null", "no-such", "", "bash", "/no/such/bash"])
def test_choose_passes_over_a_shell_that_cannot_be_run(tmp_path: Path, value: str) -> None:
    assert choose(None, {"SHELL": value, "PATH": str(tmp_path)}).path == "/bin/sh"


def test_choose_falls_back_to_sh_without_a_path() -> None:
    path = choose(None, {}).path
    assert os.path.isabs(path)
    assert os.access(path, os.X_OK)


def test_choose_finds_a_named_shell_on_path(tmp_path: Path) -> None:
    fish = program(tmp_path / "fish")
    assert choose("fish", {"PATH": str(tmp_path)}).path == str(fish)
    assert choose(fish, {}).path == str(fish)


def test_choose_names_a_shell_that_does_not_exist(tmp_path: Path) -> None:
    """C14."""
    with pytest.raises(FileNotFoundError, match="no-such-shell-xyz"):
        choose("no-such-shell-xyz", {"PATH": str(tmp_path)})
    with pytest.raises(SpawnError, match="gone"):
        choose(tmp_path / "gone", {})


def test_choose_names_a_shell_that_cannot_be_executed(tmp_path: Path) -> None:
    """C14."""
    plain = program(tmp_path / "plain", executable=False)
    with pytest.raises(PermissionError, match="plain") as caught:
        choose(plain, {})
    assert isinstance(caught.value, SpawnError)
    with pytest.raises(PermissionError):
        choose(tmp_path, {})


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_choose_refuses_what_is_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="shell"):
        choose(name, {})


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("sh", ["-c"]),
        ("bash", ["-c"]),
        ("zsh", ["-f", "-c"]),
        ("fish", ["--no-config", "-c"]),
        ("nu", ["--no-config-file", "-c"]),
        ("tcsh", ["-f", "-c"]),
        ("something-else", ["-c"]),
    ],
)
def test_interpreter_gets_the_text_unchanged_and_no_start_up_files(
    tmp_path: Path, name: str, before: list[str]
) -> None:
    text = " \n echo 'a \\\n' # remark\n"
    path = str(program(tmp_path / name))
    assert choose(path, {}).argv(text) == (path, *before, text)
