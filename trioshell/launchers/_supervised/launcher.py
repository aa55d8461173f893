"""The supervised launcher: nothing is left behind, whoever dies. The default on Linux.

The processes behind it are explained in ``_helpers/__init__.py``. Here is the host's part: it
keeps one fork server and a few idle supervisors, and hands commands to them. A command costs one
message out and two in, one descriptor while it runs, and no thread.

Two properties of the host do not matter to it, because the commands are not the host's children:
whether SIGCHLD is ignored, and whether other code waits for any child.

Umask, resource limits, priority and user of the commands, and of the files that their output is
kept in, are those that the host has when the first command of a scope is started.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections import deque
from types import TracebackType
from typing import final

import attrs
import trio

from ..._exceptions import SpawnError, spawn_error
from ..._records import Leftover
from .._files import FileCapture, remove, unmade
from .._helpers import messages
from .._refusal import refusal
from .._seam import Guarantees, Launcher, Spec
from .._sweep import Sweeper
from .forkserver import ForkServer, ServerGoneError
from .link import Link, LinkLostError, is_free
from .order import Order
from .process import SupervisedProcess

# Supervisors that wait for their next command: about 1 MiB of memory each.
_MAX_IDLE = 64

# A command that the system refused for the moment is tried again, for 1.3 s in all.
_FOR_THE_MOMENT = {errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY}
_RETRIES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)

# How often a supervisor may be found dead before it read the command, and seconds to end a
# command whose creator was cancelled, what a dead supervisor left, and the helpers.
_DEAD_ONES = 5
_UNDOING = 2.0
_CLEARING = 0.7
_CLOSING = 0.5

# What STARTED says.
Started = tuple[int, int, int, tuple[int, int]]


@final
@attrs.define(eq=False)
class SupervisedLauncher(Launcher):
    """Starts commands under supervisors, for one scope."""

    _server: ForkServer | None = None
    _starting: trio.Lock = attrs.field(factory=trio.Lock)
    _idle: list[Link] = attrs.field(factory=list)
    _leaving: deque[Link] = attrs.field(factory=deque)
    _sweeper: Sweeper = attrs.field(factory=Sweeper)

    @property
    def guarantees(self) -> Guarantees:
        return Guarantees(
            launcher="supervised",
            escapees=True,
            host_crash=True,
            tree_usage=True,
            output_limit=True,
            pty=True,
        )

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        links = [*self._idle, *self._leaving]
        self._idle, self._leaving = [], deque()
        server, self._server = self._server, None
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSING):
                for link in links:
                    link.let_go()
                for link in links:
                    await link.wait_gone()
        finally:  # a shield keeps out cancellation, but not Ctrl+C, which comes to the main task
            for link in links:
                link.close()
            if server is not None:
                await server.close()
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def prepare(self) -> None:
        """Start the helpers, which otherwise happens at the first command.

        Raises:
            HelperError: They cannot work here.
            OSError: The system has not the means at the moment.
        """
        await self._live_server()
        await trio.lowlevel.checkpoint()

    async def launch(self, spec: Spec) -> SupervisedProcess:
        try:
            order = Order.of(spec)
            try:
                return await self._launch(spec, order)
            except BaseException:
                order.inputs.close()
                raise
            finally:
                order.close_theirs()
        except OSError as error:
            if isinstance(error, SpawnError):
                raise
            raise refusal(error, spec) from None

    def take_back(self, link: Link) -> None:
        """A supervisor is free for another shell."""
        if link.server is not self._server:
            self._part_with(link)
        elif len(self._idle) < _MAX_IDLE:
            self._idle.append(link)
        else:
            link.close()

    def retire(self, link: Link) -> None:
        """A supervisor is not to be used again; whatever it has running is to be killed."""
        link.server.give_up(link.serial)
        link.close()

    async def clear(self, link: Link, id: str) -> tuple[Leftover, ...]:
        """End what a supervisor has, if it still lives, and what it left behind."""
        leftovers = None
        with trio.move_on_after(_CLEARING):
            leftovers = await link.server.clear(link.serial, kill=True)
        if leftovers is None:
            leftovers = await self._sweeper.sweep(id)
        link.close()
        return leftovers

    def _part_with(self, link: Link) -> None:
        """Its fork server is gone, so nobody but us can tell when the supervisor is, too."""
        link.let_go()
        self._leaving.append(link)
        while self._leaving and self._leaving[0].is_gone():
            self._leaving.popleft().close()

    async def _launch(self, spec: Spec, order: Order) -> SupervisedProcess:
        link, (supervisor, pid, fd, identity) = await self._start(spec, order)
        capture = FileCapture(order.path, identity, spec.output_limit is not None)
        capture.rescue_with(functools.partial(_open_again, f"/proc/{supervisor}/fd/{fd}"))
        return SupervisedProcess(spec, self, link, pid, capture, order.inputs)

    async def _start(self, spec: Spec, order: Order) -> tuple[Link, Started]:
        for pause in _RETRIES:
            try:
                return await self._try(spec, order)
            except OSError as error:
                if isinstance(error, SpawnError) or error.errno not in _FOR_THE_MOMENT:
                    raise
            await trio.sleep(pause)
        return await self._try(spec, order)

    async def _try(self, spec: Spec, order: Order) -> tuple[Link, Started]:
        link, answer = await self._ask(spec, order)
        if answer.kind == messages.STARTED:
            return link, answer.body
        number, what = answer.body
        self._put_aside(link, what)
        if what == "capture":
            raise unmade(number, order.path)
        raise OSError(number, os.strerror(number), spec.cwd if what == "directory" else None)

    def _put_aside(self, link: Link, what: str) -> None:
        """After a refused command: its supervisor is as good as before, if there is one."""
        if what == "supervisor":
            link.close()
        else:
            self.take_back(link)

    async def _ask(self, spec: Spec, order: Order) -> tuple[Link, messages.Message]:
        """Give the command to a supervisor, and return what it answers."""
        for _ in range(_DEAD_ONES):
            link = await self._find()
            link.number += 1
            try:
                await link.send(messages.SPAWN, order.body(spec, link.news(order.env)), order.fds)
                return link, await link.receive()
            except LinkLostError as lost:
                link.look()
                if (refused := link.take()) is not None:
                    return link, refused  # the fork server's, who could not fork a supervisor
                await self._bury(spec, order, link, heard=not lost.unheard)
            except BaseException:
                await self._undo(spec, order, link)
                raise
        raise spawn_error(errno.ECONNABORTED, "the helpers of this scope are killed all the time")

    async def _bury(self, spec: Spec, order: Order, link: Link, *, heard: bool) -> None:
        """End what a lost supervisor may have begun; if it cannot have begun, another may."""
        try:
            await self.clear(link, spec.id)
        finally:
            if heard:
                remove(order.path)
        if heard:
            # It may have run for a moment. Running it twice would be worse than an error.
            what = "the supervisor was killed while it started the command; nothing is left"
            raise spawn_error(errno.ECONNABORTED, what) from None

    async def _undo(self, spec: Spec, order: Order, link: Link) -> None:
        last = None
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _UNDOING) as scope:
                last = await link.call_off()
                if last is not None and is_free(last):
                    self.take_back(link)
                else:
                    await self.clear(link, spec.id)
            if scope.cancelled_caught:
                self.retire(link)
        finally:
            if last is None or last.kind != messages.FAILED:
                remove(order.path)

    async def _find(self) -> Link:
        """An idle supervisor, or a new one."""
        for _ in range(_DEAD_ONES):
            server = await self._live_server()
            if self._idle:
                return self._idle.pop()
            with contextlib.suppress(ServerGoneError):
                return await server.fork()
        raise spawn_error(errno.ECONNABORTED, "the helpers of this scope are killed all the time")

    async def _live_server(self) -> ForkServer:
        if self._server is not None and self._server.alive():
            return self._server
        async with self._starting:
            if self._server is not None and not self._server.alive():
                self._forget_server()
            if self._server is None:
                self._server = await ForkServer.start()
            return self._server

    def _forget_server(self) -> None:
        """The fork server is gone. What runs goes on, but nothing new starts without one."""
        assert self._server is not None
        self._server.kill()
        self._server = None
        idle, self._idle = self._idle, []
        for link in idle:
            self.take_back(link)


def _open_again(path: str) -> int | None:
    """Open a file that a supervisor has open, when its own path is gone."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
