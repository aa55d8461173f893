"""Following the output of a shell while it runs: live bytes, and lines on top of them.

A follower keeps its own place in the capture and reads it by offset, so it slows neither the
command nor another follower, and a fast command costs it few large reads.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from . import _checks
from .launchers import Capture

_CHUNK: Final = 1 << 20

# A line without end must not fill the memory: beyond this many characters it is given in pieces.
MAX_LINE: Final = 64 * 1024


@final
@attrs.define(eq=False)
class Follower(trio.abc.ReceiveStream):
    """The bytes of a shell from a cursor on, live, until its output is final.

    Made by `Shell.follow`. It reads on to the end when the shell is deleted meanwhile, also with
    its scope.

    Attributes:
        cursor: Offset of the next byte to be given.
        gap: Bytes passed over so far because the output limit dropped them.
    """

    _capture: Capture
    _final: Callable[[], bool]
    _wait_output: Callable[[int], Awaitable[None]]
    cursor: int
    gap: int = 0
    _holding: bool = False
    _closed: bool = False
    _ended: bool = False
    _waits: list[trio.CancelScope] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self._capture.hold()
        self._holding = True

    def __del__(self) -> None:
        self._let_go()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for output and return some of it; ``b""`` once the output is final.

        Args:
            max_bytes: Most bytes to return; None: 1 MiB.

        Raises:
            trio.ClosedResourceError: The follower was closed.
            OutputLostError: The output is gone.

        Cancellation: no byte is lost.
        """
        limit = _CHUNK if max_bytes is None else _checks.count("max_bytes", max_bytes, least=1)
        await trio.lowlevel.checkpoint()
        while True:
            if self._closed:
                raise trio.ClosedResourceError("this follower was closed")
            if self._ended:
                return b""
            # Asked before reading: what is final now was written before.
            final = self._final()
            if data := self._read(limit):
                return data
            if final:
                self._ended = True
                self._let_go()
                return b""
            await self._wait()

    async def _wait(self) -> None:
        """Wait for more output, or until this is closed."""
        with trio.CancelScope() as scope:
            self._waits.append(scope)
            try:
                await self._wait_output(self.cursor)
            finally:
                self._waits.remove(scope)

    def _read(self, limit: int) -> bytes:
        gap = self._capture.gap(self.cursor)
        data = self._capture.read(self.cursor + gap, limit)
        self.gap += gap
        self.cursor += gap + len(data)
        return data

    async def aclose(self) -> None:
        """Stop following. A task that waits in `receive_some` gets `trio.ClosedResourceError`."""
        self._closed = True
        for scope in self._waits:
            scope.cancel()
        self._let_go()
        await trio.lowlevel.checkpoint()

    def _let_go(self) -> None:
        if self._holding:
            self._holding = False
            self._capture.let_go()


@final
@attrs.define(eq=False)
class LineReader(trio.abc.ReceiveChannel[str]):
    """The lines of a shell from a cursor on, live: ``async for line in reader``.

    Made by `Shell.lines`. Lines come without their newline; a carriage return before it is kept
    off too. Text is decoded as UTF-8, with U+FFFD for what is not. A line of more than
    ``max_line`` characters is given in pieces of that length, so no line can fill the memory.
    """

    _follower: Follower
    _max_line: int
    _decoder: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )
    _rest: str = ""
    _lines: deque[str] = attrs.field(factory=deque)
    _ended: bool = False

    async def receive(self) -> str:
        """Wait for the next line.

        Raises:
            trio.EndOfChannel: The output is final and every line was given.
            trio.ClosedResourceError: The reader was closed.

        Cancellation: no line is lost.
        """
        await trio.lowlevel.checkpoint()
        if self._follower._closed:
            raise trio.ClosedResourceError("this reader was closed")
        while not self._lines and not self._ended:
            data = await self._follower.receive_some()
            self._ended = not data
            self._split(self._decoder.decode(data, self._ended))
        if not self._lines:
            raise trio.EndOfChannel
        return self._lines.popleft()

    def _split(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._add(line.removesuffix("\r"))
        while len(self._rest) > self._max_line:
            self._lines.append(self._rest[: self._max_line])
            self._rest = self._rest[self._max_line :]
        if self._ended and self._rest:
            self._lines.append(self._rest)
            self._rest = ""

    def _add(self, line: str) -> None:
        for start in range(0, max(1, len(line)), self._max_line):
            self._lines.append(line[start : start + self._max_line])

    async def aclose(self) -> None:
        """Stop reading."""
        await self._follower.aclose()
