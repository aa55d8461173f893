"""Starting a leader, and saying what was wrong if it cannot be."""

from __future__ import annotations

import os

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes

    from .messages import Command


class StartError(Exception):
    """A command could not be started.

    Attributes:
        number: The errno.
        what: "capture", "directory", "program", or "supervisor": what is not about the command.
    """

    def __init__(self, number: int, what: str) -> None:
        super().__init__(number, what)
        self.number = number
        self.what = what


def start(
    command: Command, fds: list[int], env: ctypes.Array[ctypes.c_char_p], null: int
) -> tuple[int, int, int]:
    """Start a command.

    Args:
        command: What to run.
        fds: The descriptors that came with it. They stay the caller's.
        env: Its environment, with the mark.
        null: The null device.

    Returns:
        The leader's pid; where its output is read; and the other end of the pipe, or -1.

    Raises:
        StartError: It could not be started; nothing of it exists.
    """
    given = fds[0] if command.stdin or command.terminal else null
    _enter(command.cwd, fds)
    try:
        if command.terminal:
            return _spawn_on_terminal(command, env, given, null)
        return _spawn_with_pipe(command, env, given)
    finally:
        os.chdir("/")  # a supervisor keeps no file system busy


def _enter(path: bytes | None, fds: list[int]) -> None:
    try:
        if path is None:
            os.fchdir(fds[-1])
        else:
            os.chdir(path)
    except OSError as error:
        raise StartError(error.errno or 0, "directory") from error


def _spawn_on_terminal(
    command: Command, env: ctypes.Array[ctypes.c_char_p], master: int, null: int
) -> tuple[int, int, int]:
    try:
        source = os.dup(master)
    except OSError as error:
        raise StartError(error.errno or 0, "supervisor") from error
    return _spawn(command, env, source, null, null), source, -1


def _spawn_with_pipe(
    command: Command, env: ctypes.Array[ctypes.c_char_p], stdin: int
) -> tuple[int, int, int]:
    try:
        source, output = os.pipe()
    except OSError as error:
        raise StartError(error.errno or 0, "supervisor") from error
    try:
        return _spawn(command, env, source, stdin, output), source, output
    except StartError:
        os.close(output)
        raise


def _spawn(
    command: Command, env: ctypes.Array[ctypes.c_char_p], source: int, stdin: int, output: int
) -> int:
    try:
        return kernel.spawn(
            command.executable,
            command.argv,
            env,
            stdin=stdin,
            output=output,
            terminal=command.terminal,
        )
    except OSError as error:
        os.close(source)
        raise StartError(error.errno or 0, "program") from error
