"""A supervisor: runs one shell at a time, then waits for the next one.

It has a single loop over four things: the host's messages, the host's life, its own dead
children, and the output of its shell. Every turn does a bounded amount of each, so that neither a
flood of output nor a storm of processes keeps a kill from being heard.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import time

from . import kernel, messages, waking
from .procfs import OwnChildren
from .shell import Shell
from .starting import StartError

NAME = "trioshell-super"

# Seconds. What is due later than that is looked at too often: poll() refuses a time beyond an int.
_LONGEST = 3600.0

# Not more: on a machine that is busy with other things, we have to end, too.
_AFTER_OTHERS = 10


class Supervisor:
    """The loop. Runs until the host is gone or lets go, or until a tree cannot be ended."""

    def __init__(self, sock: socket.socket, host: int, null: int, waker: waking.Waker) -> None:
        self._channel = messages.Channel(sock)
        self._host = host
        self._null = null
        self._own_children = OwnChildren()
        self._environment = kernel.Environment()
        self._waker = waker
        self._poll = select.poll()
        self._sock = sock.fileno()
        for fd in (self._sock, self._host, self._waker.fd):
            self._poll.register(fd, select.POLLIN)
        self._shell: Shell | None = None
        self._reading = -1
        self._host_gone = False
        self._clean = True

    def run(self) -> bool:
        """Serve. Returns whether nothing is left behind."""
        while self._clean and not (self._host_gone and self._shell is None):
            self.step()
        return self._clean

    def step(self) -> None:
        """Wait for something to happen, and do what is to be done."""
        for fd, _ in self._poll.poll(self._timeout()):
            self._handle(fd)
        # Also a shell that was just started: there may have been an old SIGCHLD in the same batch,
        # and with it that of a leader that has ended already would have been cleared away.
        if self._shell is not None:
            self._turn(self._shell)

    def close(self) -> None:
        self._own_children.close()

    def _timeout(self) -> float | None:
        """Milliseconds until something is due without being told."""
        shell = self._shell
        if shell is None:
            return None
        due = shell.due
        if shell.pump.paused_until:
            due = min(due, shell.pump.paused_until)
        if due == math.inf:
            return None
        return min(max(0.0, due - time.monotonic()), _LONGEST) * 1000

    def _handle(self, fd: int) -> None:
        if fd == self._sock:
            self._listen()
        elif fd == self._waker.fd:
            self._waker.clear()
        elif fd == self._host:
            self._lose_host()
        elif self._shell is not None and fd == self._reading:
            self._shell.output()

    def _turn(self, shell: Shell) -> None:
        shell.act()
        if shell.done:
            self._finish(shell)
        else:
            self._aim(shell)

    def _finish(self, shell: Shell) -> None:
        self._stop_reading()
        self._shell = None
        shell.close()
        # What we could not end is the fork server's from now on.
        self._clean = shell.clean

    def _aim(self, shell: Shell) -> None:
        """Look at the output, unless there will be none, or none for a moment."""
        pump = shell.pump
        if pump.paused_until and pump.paused_until <= time.monotonic():
            pump.paused_until = 0.0  # it would be due for ever, and the loop never sleep
        if pump.ended or pump.paused_until:
            self._stop_reading()
        elif self._reading == -1:
            self._reading = pump.fd
            self._poll.register(pump.fd, select.POLLIN)

    def _stop_reading(self) -> None:
        if self._reading != -1:
            self._poll.unregister(self._reading)
            self._reading = -1

    def _listen(self) -> None:
        try:
            here = self._channel.receive()
        except OSError:
            here = False
        while self._channel.arrived:
            message = self._channel.arrived.popleft()
            self._obey(message)
        if not here:
            self._lose_host()

    def _obey(self, message: messages.Message) -> None:
        if message.kind == messages.SPAWN:
            self._spawn(message)
        elif self._shell is None or message.number != self._shell.number:
            pass  # it was meant for a shell that has ended meanwhile
        elif message.kind == messages.KILL:
            self._shell.kill(message.body)
        elif message.kind == messages.SIGNAL:
            self._shell.signal(message.body)
        elif message.kind == messages.WATCH:
            self._shell.watch(message.body)

    def _spawn(self, message: messages.Message) -> None:
        command = messages.Command(*message.body)
        if command.env is not None:
            # Whatever becomes of this command: the next one may rely on it.
            self._environment.replace(command.env)
        try:
            if not message.whole:
                raise StartError(errno.EMFILE, "supervisor")
            self._shell = Shell(
                self._channel,
                message.number,
                command,
                message.fds,
                env=self._environment.of(command.id),
                null=self._null,
                own_children=self._own_children,
            )
        except StartError as error:
            self._refuse(message.number, error)
        for fd in message.fds:
            os.close(fd)

    def _refuse(self, number: int, error: StartError) -> None:
        try:
            self._channel.send(messages.FAILED, number, (error.number, error.what))
        except OSError:
            pass  # the host is gone

    def _lose_host(self) -> None:
        """Nobody is there to hear of the shell: end it at once, and then ourselves."""
        if not self._host_gone:
            self._host_gone = True
            self._poll.unregister(self._sock)
            self._poll.unregister(self._host)
            if self._shell is not None:
                self._shell.kill(0)


def main(sock: socket.socket, host: int, null: int, waker: waking.Waker) -> bool:
    """Be a supervisor, in a process just forked for it.

    Returns:
        Whether nothing is left behind.
    """
    kernel.become_subreaper()
    kernel.set_name(NAME)
    clean = Supervisor(sock, host, null, waker).run()
    # When a thousand shells are ended, their reports come before the end of those who made them:
    # freeing our memory takes as long as ending a shell does.
    os.nice(_AFTER_OTHERS)
    return clean
