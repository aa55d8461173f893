"""The host's side of the fork server: starting it, asking it, and ending it."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys
from typing import Self

import attrs
import trio

from ..._exceptions import SpawnError
from ..._records import Leftover
from .._helpers import messages
from .._python import python
from .._refusal import shortage
from .link import Link, make_link

_LAUNCHERS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PROGRAM = os.path.join(_LAUNCHERS, "_helpers", "__main__.py")

# Seconds. The first one is for a machine that has to read Python from a slow disk; the second one
# for a machine so busy that many shells were given up: who ends the fork server before it has
# ended what is left of them lets that live for ever.
_START = 15.0
_END = 60.0
_BREATH = 0.005


class HelperError(SpawnError):
    """The helper processes cannot work on this system: nothing was started."""


class ServerGoneError(Exception):
    """The fork server has ended; another one may be started."""


@attrs.define(eq=False)
class ForkServer:
    """A running fork server."""

    _channel: messages.Channel
    _process: subprocess.Popen[bytes]
    _pidfd: int
    # After its greeting it says nothing on this socket, so whatever can be read is its end.
    _events: select.poll = attrs.field(factory=select.poll)
    _serial: int = 0
    _sending: trio.Lock = attrs.field(factory=trio.Lock)

    @classmethod
    async def start(cls) -> Self:
        """Start one and wait until it says that it works.

        Raises:
            HelperError: It does not.
            OSError: The system has not the means at the moment.

        Cancellation: none is left.
        """
        program = _program()
        try:
            server = cls._popen(program)
        except OSError as error:
            if shortage(error.errno or 0) is not None:
                raise  # that is of the moment, and says nothing about this system
            what = f"the helper cannot be started: {error}"
            raise HelperError(error.errno, what) from error
        try:
            with trio.fail_after(_START):
                await server._greet()
        except trio.TooSlowError:
            server.kill()
            raise HelperError(errno.ETIMEDOUT, "the helper did not answer") from None
        except BaseException:
            server.kill()
            raise
        server._events.register(server._channel.sock, select.POLLIN)
        return server

    @classmethod
    def _popen(cls, program: list[str]) -> Self:
        """Start it inline: a thread for it would cost more than it takes."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with contextlib.ExitStack() as undo, theirs:
            undo.callback(ours.close)
            process = subprocess.Popen(
                program,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
            undo.callback(process.wait)
            undo.callback(process.kill)
            server = cls(messages.Channel(ours), process, os.pidfd_open(process.pid))
            undo.pop_all()
        return server

    def alive(self) -> bool:
        """Whether it has not ended."""
        return not self._events.poll(0)

    async def fork(self) -> Link:
        """Ask for a supervisor. What is sent on the link at once will reach it.

        Raises:
            ServerGoneError: The fork server has ended.
            OSError: No descriptor is left.
        """
        self._serial += 1
        link, theirs = make_link(self, self._serial)
        try:
            with theirs:
                await self._send(messages.FORK, self._serial, None, theirs)
        except BaseException:
            link.close()
            raise
        return link

    async def clear(self, serial: int, *, kill: bool) -> tuple[Leftover, ...] | None:
        """Wait until a supervisor is gone with everything it left.

        Args:
            serial: Its name.
            kill: End it first.

        Returns:
            What could not be ended, or None if the fork server cannot tell: it has ended.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with ours:
            channel = messages.Channel(ours)
            try:
                with theirs:
                    await self._send(messages.ASK, serial, kill, theirs)
                while not channel.arrived:
                    await trio.lowlevel.wait_readable(ours)
                    if not channel.receive():
                        return None
            except (ServerGoneError, OSError):
                return None
        return tuple(Leftover(pid, name) for pid, name in channel.arrived[0].body)

    def give_up(self, serial: int) -> None:
        """Have a supervisor killed with everything it has running, and do not wait for it."""
        data = messages.encode(messages.ASK, serial, True, 1)
        with contextlib.suppress(OSError):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                messages.send(self._channel.sock, data, [theirs.fileno()])

    async def close(self) -> None:
        """Have it end everything that is left, and then itself, and wait for that.

        It takes milliseconds, unless shells were given up. Cancellation does not hinder it.
        """
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGCONT)  # if somebody has stopped it
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _END):
                await trio.lowlevel.wait_readable(self._pidfd)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it now, if it has not ended, and free what is held for it."""
        self._channel.sock.close()
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        os.close(self._pidfd)
        self._process.wait()

    async def _greet(self) -> None:
        sock = self._channel.sock
        while not self._channel.arrived:
            await trio.lowlevel.wait_readable(sock)
            if not self._channel.receive():
                raise HelperError(errno.ECHILD, "the helper ended instead of answering")
        version, trouble = self._channel.arrived.popleft().body
        if trouble:
            raise HelperError(errno.ENOSYS, f"the helper cannot work here: {trouble}")
        if version != messages.VERSION:
            raise HelperError(errno.EPROTO, f"the helper speaks version {version}")

    async def _send(self, kind: int, serial: int, body: object, given: socket.socket) -> None:
        data = messages.encode(kind, serial, body, 1)
        async with self._sending:
            while True:
                try:
                    # So small that the socket takes it whole or not at all.
                    messages.send(self._channel.sock, data, [given.fileno()])
                    return
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._channel.sock)
                except OSError as error:
                    if error.errno != errno.ETOOMANYREFS:
                        raise ServerGoneError from error
                    # Too many descriptors of this user are on their way to somebody.
                    await trio.sleep(_BREATH)


def _program() -> list[str]:
    """What to run as a fork server."""
    interpreter = python()
    if interpreter is None:
        raise HelperError(errno.ENOENT, f"there is no Python to run helpers: {sys.executable!r}")
    if not os.path.isfile(_PROGRAM):
        raise HelperError(errno.ENOENT, "the helpers are not installed as files", _PROGRAM)
    return [interpreter, "-I", "-S", _PROGRAM, "trioshell-forkserver", str(os.getpid())]
