"""The host's end of one supervisor."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs
import trio

from ..._records import Leftover
from .._helpers import messages


class LinkLostError(Exception):
    """The supervisor at the other end is gone.

    Attributes:
        unheard: It cannot have read the last message that was sent to it.
    """

    def __init__(self, *, unheard: bool) -> None:
        super().__init__(unheard)
        self.unheard = unheard


class Server(Protocol):
    """Who forked a supervisor, and inherits what it leaves."""

    async def clear(self, serial: int, *, kill: bool) -> tuple[Leftover, ...] | None:
        """Wait until the supervisor is gone with everything it left; None: that cannot be told."""
        ...

    def give_up(self, serial: int) -> None:
        """Have it killed with everything it has running, and do not wait for that."""


@attrs.define(eq=False)
class Link:
    """A socket to a supervisor, which serves one shell after another.

    Attributes:
        server: The fork server that forked it, and inherits what it leaves.
        serial: Its name there.
        number: Of its current shell. Whatever is said about an earlier one is ignored.
    """

    server: Server
    serial: int
    _channel: messages.Channel
    number: int = 0
    _broken: bool = False
    _env: Mapping[bytes, bytes] | None = None

    def news(self, env: Mapping[bytes, bytes]) -> list[bytes] | None:
        """What the next command has to say of its environment: nothing if it is the last one's."""
        known, self._env = self._env, env
        if env is known or env == known:
            return None
        return [name + b"=" + value for name, value in env.items()]

    async def send(self, kind: int, body: object, fds: Sequence[int] = ()) -> None:
        """Send a message of any size.

        Raises:
            LinkLostError: The supervisor is gone.

        Cancellation: part of it may have been sent, so that the link is of no more use.
        """
        sock = self._channel.sock
        rest = memoryview(messages.encode(kind, self.number, body, len(fds)))
        self._broken = True
        try:
            while True:
                try:
                    rest = rest[messages.send(sock, rest, fds) :]
                    fds = ()
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(sock)
                if not rest:
                    self._broken = False
                    return
        except OSError as error:
            raise LinkLostError(unheard=True) from error

    def post(self, kind: int, body: object) -> None:
        """Send a small message now. A supervisor that is gone, or stuck, does not get it."""
        # Whoever reads the link sees its end; a supervisor that is stuck will be abandoned.
        with contextlib.suppress(OSError):
            messages.send(self._channel.sock, messages.encode(kind, self.number, body))

    async def receive(self) -> messages.Message:
        """The next message about the current shell.

        Raises:
            LinkLostError: The supervisor is gone.

        Cancellation: nothing is lost.
        """
        if self._channel.arrived:
            await trio.lowlevel.checkpoint()
        while (message := self.take()) is None:
            await trio.lowlevel.wait_readable(self._channel.sock)
            self._listen()
        return message

    def take(self) -> messages.Message | None:
        """The next message about the current shell, if it has been read from the socket."""
        while self._channel.arrived:
            message = self._channel.arrived.popleft()
            if message.number == self.number:
                return message
        return None

    def look(self) -> None:
        """Read what has arrived, without waiting. The end is left for `receive` to find."""
        with contextlib.suppress(BlockingIOError, LinkLostError):
            self._listen()

    async def call_off(self) -> messages.Message | None:
        """End the shell that was just sent here, wherever its start has got to.

        Returns:
            The last that is said about it; None: the supervisor is lost.
        """
        if self._broken:
            return None
        self.post(messages.KILL, 0.0)
        with contextlib.suppress(LinkLostError):
            while True:
                message = await self.receive()
                for fd in message.fds:
                    os.close(fd)
                match message.kind:
                    case messages.FAILED | messages.EMPTY:
                        return message
                    case messages.ENDED if not messages.Ended(*message.body).kept:
                        return message
                    case _:
                        pass  # it has started, or is still ending
        return None

    def let_go(self) -> None:
        """Nothing more is wanted of the supervisor: it ends, and with it whatever it has running.

        A shutdown and not only a close, because a forked worker of this program may hold a
        copy of the socket.
        """
        with contextlib.suppress(OSError):
            self._channel.sock.shutdown(socket.SHUT_WR)

    def is_gone(self) -> bool:
        """Whether the supervisor has ended. After `let_go`, when nothing is to be read."""
        try:
            self._listen()
        except BlockingIOError:
            return False
        except LinkLostError:
            return True
        return False

    async def wait_gone(self) -> None:
        """After `let_go`: wait until the supervisor has ended, and free the socket."""
        with self._channel.sock, contextlib.suppress(LinkLostError):
            while True:
                await self.receive()

    def close(self) -> None:
        self.let_go()
        self._channel.sock.close()

    def _listen(self) -> None:
        try:
            here = self._channel.receive()
        except BlockingIOError:
            raise
        except ConnectionResetError as error:
            # Linux says this, and not just "end", if the other end was closed with unread
            # messages in it.
            raise LinkLostError(unheard=True) from error
        if not here:
            raise LinkLostError(unheard=False)


def is_free(last: messages.Message) -> bool:
    """Whether a supervisor that said this as the last of a shell may serve another one."""
    match last.kind:
        case messages.ENDED:
            return bool(messages.Ended(*last.body).clean)
        case messages.EMPTY:
            return not last.body
        case _:
            return True


def make_link(server: Server, serial: int) -> tuple[Link, socket.socket]:
    """A new link, and the end that a supervisor is to get.

    Raises:
        OSError: No descriptor is left.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return Link(server, serial, messages.Channel(ours)), theirs
