"""Starting a leader, and saying what was wrong if it cannot be."""

from __future__ import annotations

import os

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StartError(Exception):
    """A command could not be started.

    Attributes:
        number: The errno.
        what: "directory", "program", or "supervisor": what is not about the command.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, what)
        self.number = number
        self.what = what


def start(request: dict[str, Any], fds: list[int], null: int) -> tuple[int, int]:
    """Start the command of a SPAWN message.

    Args:
        request: Its body.
        fds: Its descriptors after the capture file. They stay the caller's.
        null: The null device.

    Returns:
        Where its output is read, and the leader's pid.

    Raises:
        StartError: It could not be started; nothing of it exists.
    """
    rest = list(fds)
    given = rest.pop(0) if request["stdin"] or request["terminal"] else null
    _enter(request["cwd"], rest)
    try:
        if request["terminal"]:
            source = os.dup(given)
            return source, _spawn(request, source, null, null)
        return _spawn_with_pipe(request, given)
    finally:
        os.chdir("/")


def _enter(path: str | None, fds: list[int]) -> None:
    try:
        if path is None:
            os.fchdir(fds[0])
        else:
            os.chdir(path)
    except OSError as error:
        raise StartError(error.errno or 0, "directory") from error


def _spawn_with_pipe(request: dict[str, Any], stdin: int) -> tuple[int, int]:
    try:
        source, output = os.pipe()
    except OSError as error:
        raise StartError(error.errno or 0, "supervisor") from error
    try:
        return source, _spawn(request, source, stdin, output)
    finally:
        os.close(output)


def _spawn(request: dict[str, Any], source: int, stdin: int, output: int) -> int:
    try:
        return kernel.spawn(
            request["executable"],
            request["argv"],
            request["env"],
            stdin=stdin,
            output=output,
            terminal=request["terminal"],
        )
    except OSError as error:
        os.close(source)
        raise StartError(error.errno or 0, "program") from error
