"""Standard input of a command, seen from our side: bytes that are fed, or a stream.

Both own the descriptor they are given: the writing end of a pipe, or a duplicate of the master
side of a terminal. It must be non-blocking *before* it comes here. A duplicate shares that flag
with its original, and trio gives a descriptor back the flag it found when it closes it: finding
"blocking" would make the next read of a terminal's output block the whole host.
"""

from __future__ import annotations

import contextlib
import os
import termios
from collections.abc import Generator
from typing import Self, final

import attrs
import trio

# A terminal takes these as the end of a line; anything else leaves a line begun.
_LINE_ENDS = (b"\n", b"\r")


@final
@attrs.define(eq=False)
class StdinStream(trio.abc.SendStream):
    """What `Shell.stdin` is: bytes sent here are what the command reads.

    A command that has closed its input, and one that has ended, are both `BrokenResourceError`.
    Closing is harmless at any time. On a terminal it sends the end-of-file character, as a
    person would with Ctrl-D: programs that do not read lines see that character.
    """

    _stream: trio.lowlevel.FdStream
    _terminal: bool
    _line_begun: bool = False
    _closed: bool = False
    _hung_up: bool = False

    @classmethod
    def of(cls, fd: int, *, terminal: bool) -> Self:
        """Wrap a non-blocking descriptor, which is ours to close from now on."""
        return cls(trio.lowlevel.FdStream(fd), terminal)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes.

        Raises:
            trio.BrokenResourceError: The command does not read its input any more, or has ended.
            trio.ClosedResourceError: This stream was closed.

        Cancellation: some of the bytes may have been sent.
        """
        with self._telling_apart():
            await self._stream.send_all(data)
            if data:
                self._line_begun = not bytes(data[-1:]).endswith(_LINE_ENDS)

    async def wait_send_all_might_not_block(self) -> None:
        with self._telling_apart():
            await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """End the input. Cancellation: it is closed all the same."""
        already = self._closed
        self._closed = True
        try:
            if self._terminal and not already and not self._hung_up:
                await self._send_end_of_file()
        finally:
            self._stream.close()
        await trio.lowlevel.checkpoint()

    def hang_up(self) -> None:
        """The shell has ended: free a writer whose reader will never read.

        A descendant that holds the reading end keeps the pipe from breaking, so a writer would
        wait for ever.
        """
        self._hung_up = True
        self._stream.close()

    async def _send_end_of_file(self) -> None:
        # Gone, or in the middle of another task's send: what is left to do is to close.
        with contextlib.suppress(
            trio.BrokenResourceError, trio.ClosedResourceError, trio.BusyResourceError
        ):
            await self._stream.send_all(
                end_of_file(self._stream.fileno(), line_begun=self._line_begun)
            )

    @contextlib.contextmanager
    def _telling_apart(self) -> Generator[None]:
        try:
            yield
        except trio.ClosedResourceError:
            if self._closed:
                raise
            raise trio.BrokenResourceError("the shell has ended") from None


@final
@attrs.define(eq=False)
class StdinFeeder:
    """Bytes on their way to a command.

    `run` may be cancelled and run again; nothing is lost and nothing is sent twice. A command
    that does not read to the end is no error: `exit 0` may be its whole answer.
    """

    _fd: int | None
    _rest: memoryview

    @classmethod
    def of(cls, fd: int, data: bytes, *, terminal: bool) -> Self:
        """Feed a non-blocking descriptor, which is ours to close from now on.

        What fits into the pipe is written at once: mostly that is everything.
        """
        if terminal:
            begun = bool(data) and not data.endswith(_LINE_ENDS)
            data += end_of_file(fd, line_begun=begun)
        feeder = cls(fd, memoryview(data))
        while feeder._write():
            pass
        return feeder

    async def run(self) -> None:
        """Write until everything is written or nobody reads. Cancellation: run it again."""
        await trio.lowlevel.checkpoint()
        # Closed under us: the shell has ended.
        with contextlib.suppress(trio.ClosedResourceError):
            while self._fd is not None:
                await trio.lowlevel.wait_writable(self._fd)
                self._write()

    def close(self) -> None:
        """End the input here, whatever is left to be fed."""
        if self._fd is not None:
            trio.lowlevel.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = None
            self._rest = memoryview(b"")

    def _write(self) -> bool:
        """Write what fits. False: there is nothing to do now, or ever."""
        if self._fd is None:
            return False
        try:
            self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return False
        except OSError:  # EPIPE, or EIO on a terminal: nobody reads any more
            self._rest = memoryview(b"")
        if not self._rest:
            self.close()
        return True


def end_of_file(fd: int, *, line_begun: bool) -> bytes:
    """What ends the input of a program that reads lines from this terminal.

    Within a line the first end-of-file character only hands over the line; it takes a second
    one to say that there is no more.
    """
    try:
        character = termios.tcgetattr(fd)[6][termios.VEOF]
    except termios.error:  # hung up
        return b""
    return bytes(character) * (2 if line_begun else 1)
