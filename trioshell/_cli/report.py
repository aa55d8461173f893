"""What ``trioshell run`` tells while its commands live."""

from __future__ import annotations

import abc
import json

import attrs
import trio

from .._ansi import strip_ansi
from .._events import Created, Deleted, Event, Exited, Subscription
from .._exceptions import ShellNotFoundError
from .._records import Command, ShellInfo, Status, command_line
from .._shells import Shells
from .streams import say

# Lines of output shown for a command that failed, unless --tail says otherwise.
_TAIL = 10


@attrs.define(eq=False)
class Reporter(abc.ABC):
    """Shows events, in order."""

    tail: int | None
    _seq: int = 0
    _moved: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    async def run(self, shells: Shells, events: Subscription) -> None:
        """Show events beside the commands, until cancelled."""
        async for event in events:
            await self.show(event, shells)
            self._seq = event.seq
            self._moved.unpark_all()

    async def finish(self, shells: Shells, events: Subscription) -> None:
        """Show what was still to be said when the scope had ended."""
        async for event in events:
            await self.show(event, shells)

    async def caught_up(self, seq: int) -> None:
        """Wait until the event ``seq`` was shown."""
        await trio.lowlevel.checkpoint()
        while self._seq < seq:
            await self._moved.park()

    @abc.abstractmethod
    async def show(self, event: Event, shells: Shells) -> None:
        """Show one event."""

    async def last_lines(self, event: Exited, shells: Shells) -> list[str]:
        """The lines to show at an end: asked for, or because it failed."""
        lines = self.tail
        if lines is None:
            lines = 0 if succeeded(event.info) else _TAIL
        if not lines:
            return []
        result = await shells[event.id].result(lines=lines)
        return output_lines(result.output or "")


def succeeded(info: ShellInfo) -> bool:
    """Whether a command ended by itself with 0."""
    return info.status is Status.EXITED and info.returncode == 0


def describe(info: ShellInfo) -> str:
    """How a shell ended, in a few words."""
    if info.returncode is None:
        how = "exit status unknown"
    elif info.signal is not None:
        how = f"signal {info.signal}"
    else:
        how = f"code {info.returncode}"
    notes = [how, f"{info.size} bytes"]
    notes += [f"after {(info.ended or info.started) - info.started:.2f} s"]
    notes += [note for note in (info.reason, info.output_error) if note]
    if info.leftovers:
        notes.append("left running: " + " ".join(str(left.pid) for left in info.leftovers))
    return ", ".join(notes)


def one_line(command: Command) -> str:
    """A command for a line of its own, whatever is in it."""
    return strip_ansi(command_line(command)).replace("\n", " ")


def output_lines(text: str) -> list[str]:
    """The lines of some output, fit to be shown."""
    return strip_ansi(text).removesuffix("\n").split("\n") if text else []


@attrs.define(eq=False)
class JsonReporter(Reporter):
    """One event a line, and nothing else."""

    async def show(self, event: Event, shells: Shells) -> None:
        """Show one event."""
        del shells
        say(json.dumps(event.as_dict()))
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class LineReporter(Reporter):
    """A readable line for each event, and the tail of what failed."""

    async def show(self, event: Event, shells: Shells) -> None:
        """Show one event."""
        await trio.lowlevel.checkpoint()
        match event:
            case Created():
                say(f"{event.id} created  {one_line(event.info.command)}")
            case Exited():
                say(f"{event.id} {event.info.status:<8} {describe(event.info)}")
                for line in await self.last_lines(event, shells):
                    say(f"    {line}")
            case Deleted():
                say(f"{event.id} deleted  {event.reason}")


@attrs.define(eq=False)
class PrefixReporter(Reporter):
    """All output as it comes, each line with the short id of its command."""

    _nursery: trio.Nursery | None = None
    _printed: dict[str, trio.Event] = attrs.field(factory=dict)

    async def run(self, shells: Shells, events: Subscription) -> None:
        """Show events and lines beside the commands, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            await super().run(shells, events)

    async def show(self, event: Event, shells: Shells) -> None:
        """Show one event."""
        await trio.lowlevel.checkpoint()
        match event:
            case Created():
                self._printed[event.id] = trio.Event()
                say(f"{short(event.id)} | $ {one_line(event.info.command)}")
                assert self._nursery is not None
                self._nursery.start_soon(self._lines, event.id, shells)
            case Exited():
                await self._printed.pop(event.id).wait()
                say(f"{short(event.id)} | {event.info.status}: {describe(event.info)}")
            case Deleted():
                pass  # the scope is over; the ends were told

    async def _lines(self, id: str, shells: Shells) -> None:
        printed = self._printed[id]
        try:
            async with shells[id].lines() as lines:
                async for line in lines:
                    say(f"{short(id)} | {line}")
        except ShellNotFoundError:
            pass  # killed and gone with its scope
        finally:
            printed.set()


def short(id: str) -> str:
    """The random part of an id: enough to tell a few commands apart."""
    return id[-6:]
