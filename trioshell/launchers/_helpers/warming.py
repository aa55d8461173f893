"""Running a few commands in the fork server before it forks anything.

A page that a supervisor writes to is no longer shared with the fork server. Much of what Python
writes it writes once: specialised instructions, caches of attributes, tables that grow to the
size they need. What has been written before the fork stays shared: half of all.
"""

from __future__ import annotations

import os
import socket

from . import messages
from .supervisor import Supervisor
from .waking import Waker

# Python specialises a function at its eighth call. Each round has another end: by itself, asked,
# killed.
_ROUNDS = 12
_ENDS = (None, 1.0, 0.0)
_COMMAND = messages.Command(
    id=b"",
    argv=(b"sh", b"-c", b"echo"),
    executable=b"/bin/sh",
    env=[b"%b=%b" % each for each in os.environb.items()],
    cwd=b"/",
    stdin=False,
    terminal=None,
    path=None,
    background="kill",
    grace=0.0,
    limit=None,
    kill_at_limit=False,
    notes=None,
)


def warm(host: int, null: int, waker: Waker) -> None:
    """Be a supervisor for a moment, of commands that do nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor = Supervisor(theirs, host, null, waker)
        channel = messages.Channel(ours)
        ours.setblocking(False)
        for number in range(_ROUNDS):
            grace = _ENDS[number % len(_ENDS)]
            channel.send(messages.SPAWN, number, tuple(_COMMAND))
            if grace is not None:
                channel.send(messages.KILL, number, grace)
            while not _has_ended(channel):
                supervisor.step()
        supervisor.close()


def _has_ended(channel: messages.Channel) -> bool:
    try:
        channel.receive()
    except BlockingIOError:
        return False
    ended = False
    while channel.arrived:
        ended = channel.arrived.popleft().kind != messages.STARTED
    return ended
