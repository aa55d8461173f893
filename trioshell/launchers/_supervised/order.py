"""A command made ready to be sent to a supervisor, and what the host keeps of its input."""

from __future__ import annotations

import os
import tempfile
import termios
from collections.abc import Mapping
from typing import Self

import attrs

from .._helpers import messages
from .._seam import MARK, Spec
from .._stdin import StdinFeeder, StdinStream


@attrs.define(eq=False)
class Inputs:
    """What a command reads from, seen from the host. Any of it may be missing.

    Attributes:
        stream: For others to send to.
        feeder: Sends bytes that were given beforehand.
        terminal: The master side of a terminal.
    """

    stream: StdinStream | None = None
    feeder: StdinFeeder | None = None
    terminal: int | None = None

    def close(self) -> None:
        """The shell has ended: nobody may be kept waiting for it to read."""
        if self.stream is not None:
            self.stream.hang_up()
        if self.feeder is not None:
            self.feeder.close()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None


@attrs.define(eq=False)
class Order:
    """What a SPAWN message says, and the descriptors that go with it.

    Attributes:
        path: Of the capture file to be made.
        env: The environment without the mark, which the supervisor adds.
        fds: To be sent. The master of a terminal is not owned.
        inputs: The host's part.
    """

    path: str
    env: Mapping[bytes, bytes]
    fds: list[int] = attrs.field(factory=list)
    inputs: Inputs = attrs.field(factory=Inputs)
    _theirs: list[int] = attrs.field(factory=list)
    _terminal: bytes | None = None

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """Open what the command needs.

        Raises:
            OSError: Something cannot be opened. Nothing is left open.
        """
        path = spec.capture or os.path.abspath(f"{tempfile.gettempdir()}/{spec.id}.out")
        order = cls(path, _without_mark(spec.env))
        try:
            order._open(spec)
        except BaseException:
            order.close_theirs()
            order.inputs.close()
            raise
        return order

    def body(self, spec: Spec, env: list[bytes] | None) -> tuple[object, ...]:
        """What is sent, to a supervisor that needs to be told this of the environment."""
        command = messages.Command(
            id=spec.id.encode(),
            argv=spec.argv,
            executable=spec.executable,
            env=env,
            cwd=None if spec.cwd is None else os.fsencode(spec.cwd),
            stdin=spec.stdin is not None and spec.pty is None,
            terminal=self._terminal,
            path=os.fsencode(self.path),
            background=spec.background,
            grace=float(spec.grace),
            limit=spec.output_limit,
            kill_at_limit=spec.on_output_limit == "kill",
            notes=None if spec.notes is None else os.fsencode(spec.notes),
        )
        return tuple(command)

    def close_theirs(self) -> None:
        """The supervisor has its copies."""
        while self._theirs:
            os.close(self._theirs.pop())

    def _open(self, spec: Spec) -> None:
        if spec.pty is not None:
            self._open_terminal(spec)
        elif spec.stdin is not None:
            self._open_pipe(spec)
        if spec.cwd is None:
            self._give(os.open(".", os.O_PATH | os.O_DIRECTORY))

    def _give(self, fd: int) -> None:
        self._theirs.append(fd)
        self.fds.append(fd)

    def _open_pipe(self, spec: Spec) -> None:
        theirs, ours = os.pipe()
        self._give(theirs)
        os.set_blocking(ours, False)
        if isinstance(spec.stdin, bytes):
            self.inputs.feeder = StdinFeeder.of(ours, spec.stdin, terminal=False)
        else:
            self.inputs.stream = StdinStream.of(ours, terminal=False)

    def _open_terminal(self, spec: Spec) -> None:
        assert spec.pty is not None
        master, slave = os.openpty()
        # Somebody has to hold the other side until the command has opened it by its name.
        self._theirs.append(slave)
        self.inputs.terminal = master
        self.fds.append(master)
        # All copies of the master share this; the supervisor must never wait in a read.
        os.set_blocking(master, False)
        termios.tcsetwinsize(slave, (spec.pty.rows, spec.pty.columns))
        self._terminal = os.fsencode(os.ttyname(slave))
        copy = os.dup(master)
        if isinstance(spec.stdin, bytes):
            self.inputs.feeder = StdinFeeder.of(copy, spec.stdin, terminal=True)
        else:
            self.inputs.stream = StdinStream.of(copy, terminal=True)


def _without_mark(env: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    if MARK not in env:
        return env
    return {name: value for name, value in env.items() if name != MARK}
