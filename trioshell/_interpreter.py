"""Which shell runs a command given as text, and with which arguments.

The text reaches the interpreter unchanged, as one argument: quoting, wrapping or trimming it
breaks here-documents, comments and continuation lines. No start-up files are read: a slow line in
a profile would run before every command.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping
from typing import Final

import attrs

from ._checks import absolute, may_execute
from ._checks import path as checked_path
from ._exceptions import spawn_error

# Shells that understand POSIX syntax, which is what commands are written in.
_POSIX: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "zsh", "yash"})

# The arguments before the command text, where they are not just -c. zsh reads ~/.zshenv even
# with -c, csh its rc file, fish and nu their configuration.
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "zsh": ("-f", "-c"),
    "csh": ("-f", "-c"),
    "tcsh": ("-f", "-c"),
    "fish": ("--no-config", "-c"),
    "nu": ("--no-config-file", "-c"),
    "pwsh": ("-NoLogo", "-NoProfile", "-NonInteractive", "-Command"),
}


@attrs.frozen
class Interpreter:
    """A shell program.

    Attributes:
        path: Where it is, absolute.
    """

    path: str

    def argv(self, command: str) -> tuple[str, ...]:
        """The argument list that runs ``command``."""
        return (self.path, *_ARGUMENTS.get(os.path.basename(self.path), ("-c",)), command)


def choose(shell: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Interpreter:
    """Choose the interpreter.

    Args:
        shell: A path or a name to look up on PATH, or None: ``$SHELL`` if it is an absolute path
            of a POSIX-compatible shell that can be executed, else bash, else ``/bin/sh``.
        environ: The environment to look in.

    Raises:
        SpawnError: The shell asked for does not exist or cannot be executed.
    """
    if shell is not None:
        return Interpreter(_named(checked_path("shell", shell), environ))
    inherited = environ.get("SHELL", "")
    if os.path.isabs(inherited) and os.path.basename(inherited) in _POSIX and _runs(inherited):
        return Interpreter(inherited)
    return Interpreter(_find("bash", environ) or "/bin/sh")


def _named(shell: str, environ: Mapping[str, str]) -> str:
    path = absolute("shell", shell) if os.path.dirname(shell) else _find(shell, environ)
    what = f"the shell {shell!r} cannot be run: give the path or name of an installed shell"
    if path is None or not os.path.exists(path):
        raise spawn_error(errno.ENOENT, what, shell)
    if not _runs(path):
        raise spawn_error(errno.EACCES, what, path)
    return path


def _runs(path: str) -> bool:
    return os.path.isfile(path) and may_execute(path)


def _find(name: str, environ: Mapping[str, str]) -> str | None:
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    return None if found is None else absolute("shell", found)
