"""A command under a supervisor, as the host sees it."""

from __future__ import annotations

import math
import os
import termios
from typing import Protocol

import attrs
import trio

from ..._records import Ending, Leftover, Pty, Usage
from .._files import FileCapture
from .._helpers import messages
from .._seam import Process, Spec
from .._stdin import StdinStream
from .link import Link, LinkLostError
from .order import Inputs

_LOST = "the supervisor of this shell was killed, so how its leader ended is not known"
_ABANDONED = "the shell could not be ended in time"


class Home(Protocol):
    """Where links come from and go back to: the launcher."""

    def take_back(self, link: Link) -> None:
        """The supervisor is free for another shell."""

    def retire(self, link: Link) -> None:
        """The supervisor is not to be used again; whatever it has running is to be killed."""

    async def clear(self, link: Link, id: str) -> tuple[Leftover, ...]:
        """The supervisor was killed: end what it left, and tell what could not be ended."""
        ...


@attrs.define(eq=False)
class SupervisedProcess(Process):
    """One command. It holds its link from the start until nothing of it is left."""

    _spec: Spec
    _home: Home
    _link: Link | None
    _pid: int
    _capture: FileCapture
    _inputs: Inputs
    _ending: Ending | None = None
    _leftovers: tuple[Leftover, ...] = ()
    _kill_requested: bool = False
    _grown: int = 0
    _watched: float = math.inf
    _followers: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def capture(self) -> FileCapture:
        return self._capture

    @property
    def stdin(self) -> StdinStream | None:
        return self._inputs.stream

    async def wait(self) -> Ending:
        if self._ending is not None:
            await trio.lowlevel.checkpoint()
            return self._ending
        if self._inputs.feeder is None:
            return await self._wait()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._inputs.feeder.run)
            ending = await self._wait()
            nursery.cancel_scope.cancel()
        return ending

    def poll(self) -> Ending | None:
        link = self._link
        if self._ending is None and link is not None:
            link.look()
            while self._link is link and (message := link.take()) is not None:
                self._heed(message)
        return self._ending

    def kill(self, grace: float) -> None:
        if self._link is not None:
            self._kill_requested = True
            self._link.post(messages.KILL, float(grace))

    def send_signal(self, number: int) -> None:
        if self._link is not None and self._ending is None:
            self._link.post(messages.SIGNAL, int(number))

    def resize(self, size: Pty) -> None:
        if self._inputs.terminal is not None:
            termios.tcsetwinsize(self._inputs.terminal, (size.rows, size.columns))

    async def wait_empty(self) -> tuple[Leftover, ...]:
        await trio.lowlevel.checkpoint()
        while self._link is not None:
            await self._hear(self._link)
        return self._leftovers

    async def wait_output(self, size: int) -> None:
        await trio.lowlevel.checkpoint()
        while self._ending is None and self._link is not None and self._grown <= size:
            if size < self._watched:
                self._watched = size
                self._link.post(messages.WATCH, size)
            await self._followers.park()

    def abandon(self) -> Ending:
        if self._link is not None:
            self._home.retire(self._link)
            self._link = None
        if self._ending is None:
            self._end(self._unknown(_ABANDONED, ()))
        assert self._ending is not None
        return self._ending

    async def _wait(self) -> Ending:
        while self._ending is None:
            assert self._link is not None
            await self._hear(self._link)
        return self._ending

    async def _hear(self, link: Link) -> None:
        try:
            self._heed(await link.receive())
        except LinkLostError:
            await self._lose(link)

    def _heed(self, message: messages.Message) -> None:
        match message.kind:
            case messages.GREW:
                self._grown = message.body
                self._watched = math.inf
                self._followers.unpark_all()
            case messages.ENDED:
                self._ended(message)
            case messages.EMPTY:
                self._leftovers = _leftovers(message.body)
                self._let_go(clean=not message.body)
            case _:
                pass  # a helper of this version says nothing else here

    def _ended(self, message: messages.Message) -> None:
        ended = messages.Ended(*message.body)
        trouble = self._capture.finish(ended.size, message.fds[0] if message.fds else None)
        if not ended.kept:
            self._let_go(clean=ended.clean)
        self._end(_ending(ended, ended.output_error or trouble))

    def _let_go(self, *, clean: bool) -> None:
        link, self._link = self._link, None
        assert link is not None
        if clean:
            self._home.take_back(link)
        else:
            self._home.retire(link)

    async def _lose(self, link: Link) -> None:
        leftovers = await self._home.clear(link, self._spec.id)
        self._link = None
        if self._ending is None:
            self._end(self._unknown(_LOST, leftovers))
        else:
            self._leftovers = leftovers

    def _unknown(self, trouble: str, leftovers: tuple[Leftover, ...]) -> Ending:
        return Ending(
            returncode=None,
            by_itself=not self._kill_requested,
            size=self._capture.size,
            leftovers=leftovers,
            cut=True,
            trouble=trouble,
        )

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        self._inputs.close()
        self._followers.unpark_all()


def _ending(ended: messages.Ended, output_error: str | None) -> Ending:
    user, system, max_rss = ended.usage
    return Ending(
        returncode=None if ended.status is None else os.waitstatus_to_exitcode(ended.status),
        by_itself=ended.by_itself,
        size=ended.size,
        usage=Usage(user, system, max_rss),
        leftovers=_leftovers(ended.leftovers),
        cut=ended.cut,
        output_error=output_error,
        trouble=ended.trouble,
    )


def _leftovers(body: list[tuple[int, str]]) -> tuple[Leftover, ...]:
    return tuple(Leftover(pid, name) for pid, name in body)
