"""What the host and its helpers say to each other, and how it is framed.

A message is a header (length, number, kind, how many descriptors) and a marshalled body. A stream
socket and a length, because a command and its environment may be 2 MiB and a packet socket takes
no more than its buffer. `marshal` at a fixed version, because it is fast, needs no import, and
knows bytes and integers without conversion; both ends are ours.

Numbers say which shell of a supervisor is meant. A supervisor serves one shell after another, and
a message that was on its way when a shell ended must not reach the next one.

Host to fork server::

    FORK   serial, one descriptor: the supervisor's end of its socket
    ASK    serial, one descriptor: where to answer CLEARED; body True: kill that supervisor first

Fork server to host::

    HELLO    version, and why it cannot work or ""
    CLEARED  leftovers: nothing that the supervisor left is alive, except these

Host to supervisor::

    SPAWN   a `Command`; descriptors: stdin, or else the terminal; then the working directory; as
            far as the command says
    KILL    grace in seconds
    SIGNAL  number
    WATCH   size: say GREW once when there is more output than that

Supervisor to host::

    STARTED  supervisor's pid, leader's pid, the capture file's descriptor in the supervisor, and
             the file's identity (device, number)
    FAILED   errno, what could not be done; there is no capture file of ours
    GREW     size
    ENDED    an `Ended`; the capture file's descriptor if its path is gone
    EMPTY    leftovers: what ``background="keep"`` kept is gone, except these

Commands and ends travel as plain tuples. The environment is by far the largest part of a command
and hardly ever changes, so it is sent only when it is not that of the last command.
"""

# `typing` is not for here, see below.
# pyright: reportUntypedNamedTuple=false

from __future__ import annotations

import array
import collections
import marshal
import socket
import struct

TYPE_CHECKING = False  # `typing` takes longer to import than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

VERSION = 1

FORK, ASK, HELLO, CLEARED, SPAWN, KILL, SIGNAL, WATCH, STARTED, FAILED, GREW, ENDED, EMPTY = range(
    1, 14
)

_HEADER = struct.Struct("<IIBB")
_HEADER_SIZE = _HEADER.size
_MARSHAL = 4
_MAX_DESCRIPTORS = 8
_ANCILLARY = socket.CMSG_SPACE(_MAX_DESCRIPTORS * 4)
_RECEIVE = 65536


Command = collections.namedtuple(  # noqa: PYI024 - `typing` is not for here, see above
    "Command",
    (
        "id",
        "argv",
        "executable",
        "env",  # NAME=value each, without the mark; None: that of the last command sent here
        "cwd",  # None: it comes as a descriptor
        "stdin",  # whether it comes as a descriptor
        "terminal",  # the path of its other side, or None
        "path",  # of the capture file, which the supervisor makes; None: output is thrown away
        "background",
        "grace",
        "limit",
        "kill_at_limit",
        "notes",
    ),
)

Ended = collections.namedtuple(  # noqa: PYI024
    "Ended",
    (
        "status",  # raw, or None
        "by_itself",
        "size",
        "usage",  # user and system seconds, and the largest resident size in bytes
        "leftovers",  # pid and name each
        "kept",  # EMPTY will follow
        "clean",  # the supervisor may serve another shell
        "cut",
        "output_error",
        "trouble",
    ),
)


class Message:
    """One message as it arrived. Whoever takes it owns its descriptors.

    Attributes:
        kind: One of the constants above.
        number: Which shell, or which supervisor, it is about.
        body: What it says.
        fds: The descriptors that came with it.
        whole: All of them did; a receiver that has too many open loses them.
    """

    __slots__ = ("body", "fds", "kind", "number", "whole")

    def __init__(self, kind: int, number: int, body: Any, fds: list[int], whole: bool) -> None:
        self.kind: int = kind
        self.number: int = number
        self.body: Any = body
        self.fds: list[int] = fds
        self.whole: bool = whole


def encode(kind: int, number: int, body: Any = None, descriptors: int = 0) -> bytes:
    data = marshal.dumps(body, _MARSHAL)
    return _HEADER.pack(len(data), number, kind, descriptors) + data


class Channel:
    """One end of a stream socket that carries messages. Either end may be non-blocking.

    Attributes:
        sock: The socket.
        arrived: Messages that have been received, to be taken from the left.
    """

    __slots__ = ("_buffer", "_fds", "arrived", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.arrived: collections.deque[Message] = collections.deque()
        self._buffer = bytearray()
        self._fds: list[int] = []

    def receive(self) -> bool:
        """Take in what has arrived. False when the other end is gone.

        Raises:
            BlockingIOError: Nothing has arrived, and the socket does not block.
            ConnectionResetError: The other end is gone without having read what we sent.
        """
        data, ancillary, _, _ = self.sock.recvmsg(_RECEIVE, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                # An incomplete number at the end: the kernel cut the list.
                self._fds += array.array("i", content[: len(content) // 4 * 4])
        if self._buffer:
            self._buffer += data
            del self._buffer[: self._parse(self._buffer)]
        else:  # nearly always, and nearly always whole messages
            self._buffer += data[self._parse(data) :]
        return bool(data)

    def send(self, kind: int, number: int, body: object = None, fds: Sequence[int] = ()) -> None:
        """Send a small message at once, from a helper.

        A host that does not read cannot block us: there are a handful of messages per shell, and
        the socket's buffer holds thousands.
        """
        send(self.sock, encode(kind, number, body, len(fds)), fds)

    def _parse(self, data: bytes | bytearray) -> int:
        """Take in the whole messages at the beginning. Returns their size."""
        start = 0
        while len(data) - start >= _HEADER_SIZE:
            length, number, kind, descriptors = _HEADER.unpack_from(data, start)
            body = start + _HEADER_SIZE
            end = body + length
            if end > len(data):
                break
            fds: list[int] = []
            if descriptors:
                fds, self._fds = self._fds[:descriptors], self._fds[descriptors:]
            whole = len(fds) == descriptors
            self.arrived.append(Message(kind, number, marshal.loads(data[body:end]), fds, whole))
            start = end
        return start


def send(sock: socket.socket, data: bytes | memoryview, fds: Sequence[int] = ()) -> int:
    """Send as much of a message as the socket takes, its descriptors with the first byte."""
    if not fds:
        return sock.send(data, socket.MSG_NOSIGNAL)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    return sock.sendmsg([data], rights, socket.MSG_NOSIGNAL)
