"""The live table of ``trioshell run`` on a terminal. Needs rich, the ``cli`` extra."""

from __future__ import annotations

import contextlib
import time
from typing import Final

import attrs
import trio
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .._ansi import strip_ansi
from .._events import Created, Event, Exited, Subscription
from .._exceptions import OutputLostError, ShellNotFoundError
from .._records import ShellInfo, Status
from .._shells import Shells
from .report import Reporter, describe, one_line, short

# Seconds between two pictures: smooth for the eye, and nothing for a processor.
_REFRESH: Final = 0.1

# Bytes at the end of the output in which the last line is looked for.
_LAST_LINE: Final = 4096

_COLOURS: Final = {
    Status.RUNNING: "cyan",
    Status.EXITED: "green",
    Status.TIMEOUT: "magenta",
    Status.KILLED: "yellow",
}


@attrs.define(eq=False)
class _Row:
    info: ShellInfo
    last: str = ""

    def read(self, data: bytes | bytearray) -> None:
        """Take the last line of some output."""
        text = strip_ansi(data[-_LAST_LINE:].decode("utf-8", "replace").replace("\r", "\n"))
        self.last = next((line for line in reversed(text.split("\n")) if line.strip()), self.last)

    def cells(self) -> tuple[Text, ...]:
        info = self.info
        elapsed = (info.ended or time.time()) - info.started
        failed = info.status is Status.EXITED and info.returncode != 0
        colour = "red" if failed else _COLOURS[info.status]
        status = str(info.status)
        if info.status is Status.EXITED:
            status = describe(info).split(",")[0]
        return (
            Text(short(info.id), "dim"),
            Text(one_line(info.command)),
            Text(status, colour),
            Text(f"{elapsed:.1f} s"),
            Text(_bytes(info.size)),
            Text(self.last, "dim"),
        )


@attrs.define(eq=False)
class TableReporter(Reporter):
    """A row for each command: id, command, status, elapsed, size, last line of output."""

    _rows: dict[str, _Row] = attrs.field(factory=dict)
    _live: Live = attrs.field(init=False)
    _nursery: trio.Nursery = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # auto_refresh would start a thread; the pictures are drawn by a task of ours.
        self._live = Live(console=Console(), auto_refresh=False, get_renderable=self._table)

    async def run(self, shells: Shells, events: Subscription) -> None:
        """Show the table beside the commands, until cancelled."""
        with self._live:
            try:
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._redraw, shells)
                    await super().run(shells, events)
            finally:
                self._live.refresh()

    async def show(self, event: Event, shells: Shells) -> None:
        """Show one event."""
        await trio.lowlevel.checkpoint()
        match event:
            case Created():
                self._rows[event.id] = _Row(event.info)
                self._nursery.start_soon(self._follow, event.id, shells)
            case Exited():
                row = self._rows[event.id]
                row.info = event.info
                with contextlib.suppress(OutputLostError):
                    page = await shells[event.id].output(_near_end(row.info.size), _LAST_LINE)
                    row.read(page.data)
                for line in await self.last_lines(event, shells):
                    self._live.console.print(Text(f"{short(event.id)} | {line}"))
            case _:
                pass  # at the end every record goes; the table stays as it was

    async def _redraw(self, shells: Shells) -> None:
        while True:
            for info in shells.list():
                if info.id in self._rows:
                    self._rows[info.id].info = info
            self._live.refresh()
            await trio.sleep(_REFRESH)

    async def _follow(self, id: str, shells: Shells) -> None:
        """Keep the last line up to date: woken by output, and not more often than seen."""
        row = self._rows[id]
        with contextlib.suppress(ShellNotFoundError, OutputLostError):
            async with shells[id].follow() as stream:
                async for data in stream:
                    row.read(data)
                    await trio.sleep(_REFRESH)
                    # What a flood has written meanwhile is passed over.
                    stream.cursor = max(stream.cursor, _near_end(row.info.size))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, expand=True)
        table.add_column("id", no_wrap=True)
        table.add_column("command", no_wrap=True, overflow="ellipsis", ratio=2)
        table.add_column("status", no_wrap=True)
        table.add_column("elapsed", no_wrap=True, justify="right")
        table.add_column("size", no_wrap=True, justify="right")
        table.add_column("last line", no_wrap=True, overflow="ellipsis", ratio=3)
        for row in self._rows.values():
            table.add_row(*row.cells())
        return table


def _near_end(size: int) -> int:
    return max(0, size - _LAST_LINE)


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
