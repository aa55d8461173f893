"""The descriptors between a command and us."""

from __future__ import annotations

import os
import subprocess
import termios
from typing import Self

import attrs

from ..._records import Pty
from .._seam import Spec


@attrs.define(eq=False)
class Wiring:
    """A pipe or a terminal for the output, and what the command reads from.

    Our ends are non-blocking. Theirs are not, because they are other ends: a command that finds
    a non-blocking stdout loses output (C15).

    Attributes:
        output: Our end of stdout and stderr.
        stdin: Our end of stdin, or None.
        child_output: Their end of stdout and stderr.
        child_stdin: Their end of stdin, or `subprocess.DEVNULL`.
        terminal: The output is a terminal, and so is the input.
    """

    output: int
    stdin: int | None
    child_output: int
    child_stdin: int
    _open: list[int]
    terminal: bool = attrs.field(default=False, kw_only=True)

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """Open what the command needs; raises `OSError` and leaves nothing open."""
        opened: list[int] = []
        try:
            if spec.pty is not None:
                return cls._terminal(spec.pty, opened)
            return cls._pipes(opened, stdin=spec.stdin is not None)
        except OSError:
            _close(opened)
            raise

    @classmethod
    def _pipes(cls, opened: list[int], *, stdin: bool) -> Self:
        output, child_output = _pipe(opened)
        os.set_blocking(output, False)
        theirs, ours = _pipe(opened) if stdin else (subprocess.DEVNULL, None)
        if ours is not None:
            os.set_blocking(ours, False)
        return cls(output, ours, child_output, theirs, opened)

    @classmethod
    def _terminal(cls, size: Pty, opened: list[int]) -> Self:
        master, slave = os.openpty()
        opened += master, slave
        os.set_blocking(master, False)
        termios.tcsetwinsize(slave, (size.rows, size.columns))
        # One of its own, so that stdin can be closed and the output still read.
        stdin = os.dup(master)
        opened.append(stdin)
        return cls(master, stdin, slave, slave, opened, terminal=True)

    def close_theirs(self) -> None:
        """The command has them: from now on the output ends when the command's ends are gone."""
        _close([fd for fd in self._open if fd in (self.child_stdin, self.child_output)])

    def close(self) -> None:
        """The command was not started."""
        _close(self._open)


def _pipe(opened: list[int]) -> tuple[int, int]:
    reading, writing = os.pipe()
    opened += reading, writing
    return reading, writing


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
