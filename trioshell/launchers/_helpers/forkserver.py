"""The fork server: forks supervisors, and inherits what they leave when they are killed.

A single thread of a small program, so that forking is cheap, safe, and independent of how large
the host is or how many threads it has. It starts no commands itself.

Once a supervisor is dead, its orphans are our children, for we are a child subreaper too. Every
child of ours that is not a supervisor is such an orphan.
"""

from __future__ import annotations

import gc
import math
import os
import select
import signal
import socket
import time

from . import kernel, messages, supervisor, waking, warming
from .orphans import Orphans

NAME = "trioshell-forks"

_REPEAT = 0.01
# How long supervisors may take to end their trees once the host is gone.
_FAREWELL = 3.0

# Faults must end a process, and SIGCHLD is what we live by. Everything else is ignored, so that a
# terminal, or a command such as `pkill -u me`, does not take the helpers along.
_DEFAULTS = {
    signal.SIGCONT,
    signal.SIGCHLD,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
}


class ForkServer:
    """The loop. Runs until the host is gone or lets go, and no child is left."""

    def __init__(self, control: socket.socket, host: int, null: int, waker: waking.Waker) -> None:
        self._control = control
        self._channel = messages.Channel(control)
        self._host = host
        self._null = null
        self._waker = waker
        self._poll = select.poll()
        for fd in (control.fileno(), host, self._waker.fd):
            self._poll.register(fd, select.POLLIN)
        self._serials: dict[int, int] = {}  # of the living supervisors, by pid
        self._orphans = Orphans()
        self._questions: list[messages.Message] = []
        self._farewell = math.inf

    def run(self) -> None:
        while not (self._closing and not self._serials and self._orphans.ended):
            for fd, _ in self._poll.poll(self._timeout()):
                self._handle(fd)
            self._orphans.end(frozenset(self._serials))
            self._answer()
            if time.monotonic() > self._farewell:
                self._kill_supervisors()

    @property
    def _closing(self) -> bool:
        return self._farewell < math.inf

    def _timeout(self) -> float | None:
        if not self._orphans.ended:
            return _REPEAT * 1000
        if not self._closing:
            return None
        return max(_REPEAT, self._farewell - time.monotonic()) * 1000

    def _handle(self, fd: int) -> None:
        if fd == self._waker.fd:
            self._waker.clear()
            self._reap()
        elif fd == self._host:
            self._close()
        else:
            self._listen()

    def _listen(self) -> None:
        try:
            here = self._channel.receive()
        except OSError:
            here = False
        while self._channel.arrived:
            message = self._channel.arrived.popleft()
            if not message.whole:
                continue  # no descriptor was left to receive it; the host sees its end close
            if message.kind == messages.FORK:
                self._fork(message)
            elif message.kind == messages.ASK:
                self._consider(message)
        if not here:
            self._close()

    def _close(self) -> None:
        if not self._closing:
            self._farewell = time.monotonic() + _FAREWELL
            for fd in (self._control.fileno(), self._host):
                self._poll.unregister(fd)

    def _fork(self, message: messages.Message) -> None:
        with socket.socket(fileno=message.fds[0]) as sock:
            try:
                pid = os.fork()
            except OSError as error:
                body = (error.errno, "supervisor")
                _tell(sock, messages.FAILED, 1, body)
                return
            if pid == 0:
                self._become_supervisor(sock)
            self._serials[pid] = message.number

    def _become_supervisor(self, sock: socket.socket) -> None:
        """In the new process: keep nothing of the fork server, and never return to its loop."""
        status = 1
        try:
            self._control.close()
            for question in self._questions:
                os.close(question.fds[0])
            if supervisor.main(sock, self._host, self._null, self._waker):
                status = 0
        finally:
            os._exit(status)

    def _consider(self, question: messages.Message) -> None:
        """Somebody wants to know when a supervisor and all it left are gone."""
        self._questions.append(question)
        if question.body:
            for pid, serial in self._serials.items():
                if serial == question.number:
                    os.kill(pid, signal.SIGKILL)  # our child, not reaped: the number is its own

    def _answer(self) -> None:
        if not self._questions or not self._orphans.ended:
            return
        living = set(self._serials.values())
        for question in self._questions:
            if question.number not in living:
                self._say_cleared(question)
        self._questions = [each for each in self._questions if each.number in living]

    def _say_cleared(self, question: messages.Message) -> None:
        with socket.socket(fileno=question.fds[0]) as sock:
            _tell(sock, messages.CLEARED, question.number, self._orphans.refused())

    def _reap(self) -> None:
        """After a SIGCHLD only: to find that none is dead, the kernel looks at each."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._serials.pop(pid, None) is not None and status != 0:
                self._orphans.expect()

    def _kill_supervisors(self) -> None:
        for pid in self._serials:
            os.kill(pid, signal.SIGKILL)


def _tell(sock: socket.socket, kind: int, number: int, body: object) -> None:
    try:
        messages.Channel(sock).send(kind, number, body)
    except OSError:
        pass  # whoever asked is gone


def main(host: int) -> None:
    """Be the fork server of a host.

    Args:
        host: Its pid. Our standard input is the control socket.
    """
    control, null = _take_over_descriptors()
    channel = messages.Channel(control)
    try:
        pidfd = os.pidfd_open(host)
        if os.getppid() != host:
            return  # the host was gone before we looked, and its number may be another's
        _prepare()
        waker = waking.Waker()
        warming.warm(pidfd, null, waker)
    except OSError as error:
        channel.send(messages.HELLO, 0, (messages.VERSION, str(error)))
        return
    channel.send(messages.HELLO, 0, (messages.VERSION, ""))
    ForkServer(control, pidfd, null, waker).run()


def _take_over_descriptors() -> tuple[socket.socket, int]:
    """Keep the control socket alone; 0 to 2 become the null device, so no pipe gets them."""
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    return socket.socket(fileno=control), null


def _prepare() -> None:
    # Whatever the host ignores is ignored here, too: SIGCHLD for example, and then the kernel
    # would not leave us any exit status.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL if number in _DEFAULTS else signal.SIG_IGN)
    kernel.become_subreaper()
    kernel.set_name(NAME)
    gc.disable()  # it writes to everything it looks at, so that nothing would stay shared
