"""`Shell`: the handle to one shell."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import final, get_args

import attrs
import trio

from . import _checks
from ._entry import Entry
from ._exceptions import OutputLostError, ShellRemovedError
from ._excerpt import LIMIT, LINES, Part, excerpt
from ._follow import MAX_LINE, Follower, LineReader
from ._pages import Page, page
from ._records import Pty, Result, ShellInfo, Status, command_line
from ._registry import Registry
from .launchers import Capture


@final
@attrs.frozen(repr=False)
class Shell:
    """One command under the library's care.

    Made by `Shells.create` and looked up with `Shells.get`; not made by hand. A handle stays
    usable for what is known after the shell was deleted: `info`, `result`. All handles of one
    shell are equal.
    """

    _entry: Entry
    _registry: Registry

    def __repr__(self) -> str:
        info = self._entry.info
        return f"<Shell {info.id} {command_line(info.command)!r} {info.status}>"

    @property
    def id(self) -> str:
        """The shell's id."""
        return self._entry.id

    @property
    def info(self) -> ShellInfo:
        """What is known now. Of a running shell, ``size`` is what has been written so far."""
        return current_info(self._entry)

    @property
    def status(self) -> Status:
        """`Status.RUNNING` until the end is true (C4), also while it is being killed."""
        return self._entry.info.status

    @property
    def pid(self) -> int:
        """The leader's process id. Once the shell has ended it may belong to a stranger."""
        return self._entry.info.pid

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """Standard input, with ``stdin=subprocess.PIPE`` or a pty; else None.

        Sending raises `trio.BrokenResourceError` once nobody reads: the command closed it, or
        has ended. Closing a pty's gives the end-of-file character.
        """
        return self._entry.stdin

    async def wait(self) -> ShellInfo:
        """Wait until the shell has ended.

        Any number of tasks may wait; all get the same info.

        Returns:
            The terminal info, also after the shell was evicted, or its scope ended. A handle
            never loses an end for which nobody asked to forget it (C8).

        Raises:
            ShellRemovedError: It was removed: while this waited for it to end, or before this
                was called. The error has the final info.

        Cancellation: gives up waiting; the shell goes on.
        """
        entry = self._entry
        if not entry.life.ended:
            await entry.end.wait()
            if entry.removed:
                raise ShellRemovedError(entry.info)
            return entry.info
        # Decided before the checkpoint: a removal that comes there takes no result away.
        removed = entry.deleted == "removed"
        await trio.lowlevel.checkpoint()
        if removed:
            raise ShellRemovedError(entry.info)
        return entry.info

    async def result(
        self, *, lines: int = LINES, limit: int = LIMIT, part: Part = "tail"
    ) -> Result:
        """Wait until the shell has ended and take a part of its output.

        Args:
            lines: Most lines of output.
            limit: Most bytes of output.
            part: ``"tail"``, ``"head"``, or ``"both"``: half of the limits from each end.

        Returns:
            The final info and the output as text, in whole lines where that is possible; output
            None when the shell was removed while it ran, or deleted before this was called, or
            its capture file is lost. Never raises for that.

        Cancellation: gives up waiting; the shell goes on.
        """
        _checks.count("lines", lines, least=0)
        _checks.count("limit", limit, least=0)
        _checks.choice("part", part, get_args(Part))
        entry = self._entry
        # Whoever waits for the output has it, also when the shell is evicted at its end (C8).
        with _held(None if entry.life.deleted else entry.capture) as capture:
            await entry.end.wait()
            if capture is not None and not entry.removed:
                with contextlib.suppress(OutputLostError):
                    taken = excerpt(capture, part=part, lines=lines, limit=limit)
                    return Result(entry.info, taken.text, taken.missing)
        return Result(entry.info, None, entry.info.size)

    async def output(self, cursor: int = 0, limit: int = 65536) -> Page:
        """Read output, while the shell runs and after.

        Args:
            cursor: Byte offset to start at: 0, or the ``cursor`` of the page before. Beyond the
                end it gives an empty page whose ``cursor`` is the end.
            limit: Most bytes to read, 1 or more.

        Raises:
            ShellRemovedError: The shell is deleted.
            OutputLostError: The capture file was deleted or cannot be read.

        Cancellation: nothing is read.
        """
        _checks.count("cursor", cursor, least=0)
        _checks.count("limit", limit, least=1)
        await trio.lowlevel.checkpoint()
        return page(self._capture(), cursor, limit, ended=self._entry.life.ended)

    def follow(self, cursor: int = 0) -> Follower:
        """Follow the output from a cursor on, live, until it is final.

        ``async with shell.follow() as stream: async for data in stream: ...``. Any number of
        followers may read at different places; none slows the command or another.

        Args:
            cursor: Byte offset to start at.

        Returns:
            A `trio.abc.ReceiveStream`.

        Raises:
            ShellRemovedError: The shell is deleted.
        """
        _checks.count("cursor", cursor, least=0)
        return Follower(self._capture(), self._is_final, self._wait_output, cursor)

    def lines(self, cursor: int = 0, *, max_line: int = MAX_LINE) -> LineReader:
        """Follow the output as lines of text.

        ``async with shell.lines() as lines: async for line in lines: ...``

        Args:
            cursor: Byte offset to start at.
            max_line: Longest line in characters; a longer one is given in pieces.

        Returns:
            A `trio.abc.ReceiveChannel` of str.

        Raises:
            ShellRemovedError: The shell is deleted.
        """
        _checks.count("max_line", max_line, least=1)
        return LineReader(self.follow(cursor), max_line)

    async def kill(self, *, grace: float | None = None) -> ShellInfo:
        """End the whole tree: SIGTERM and SIGCONT, up to ``grace``, then SIGKILL.

        Any number of kills may run at once; the shortest grace counts and all see the same end.
        On an ended shell it ends what ``background="keep"`` kept, if anything, and returns the
        info, also when it was evicted meanwhile.

        Args:
            grace: Seconds between SIGTERM and SIGKILL; None: the shell's own.

        Returns:
            The final info, once the tree is gone. Its status is `Status.EXITED` if the leader
            had ended by itself before a signal reached it. What could not be ended is in
            ``leftovers``.

        Raises:
            ShellRemovedError: The shell was removed.

        Cancellation: gives up waiting; the kill is completed all the same (C6).
        """
        seconds = None if grace is None else _checks.grace(grace)
        if self._entry.deleted == "removed":
            raise ShellRemovedError(self._entry.info)
        self._entry.request_end(grace=seconds)
        await self._entry.gone.wait()
        return self._entry.info

    async def remove(self) -> None:
        """Forget the shell: kill it if it runs, wait for its end, delete record and output.

        `Exited` is published before `Deleted`. Tasks that wait for a running shell get
        `ShellRemovedError`. Concurrent removes succeed together; afterwards the id is unknown.

        Raises:
            ShellNotFoundError: The shell is deleted already.

        Cancellation: gives up waiting; the removal is completed all the same.
        """
        entry = self._entry
        self._check_not_deleted()
        if not entry.gone.is_set():
            entry.removal = True
            entry.request_end(removal=True)
            await entry.gone.wait()
            return
        await trio.lowlevel.checkpoint()
        self._registry.delete(entry, "removed")

    def set_timeout(self, seconds: float | None) -> None:
        """Set the time limit to ``seconds`` from now; None clears it. No effect once ended."""
        self._entry.set_timeout(_checks.timeout(seconds))

    def send_signal(self, sig: int) -> None:
        """Send a signal to the leader's process group. No effect once the leader has ended.

        Raises:
            TypeError, ValueError: There is no such signal.
        """
        number = _checks.signal_number(sig)
        if self._entry.process is not None and self._entry.life.live:
            self._entry.process.send_signal(number)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the shell's terminal. No effect once ended.

        Raises:
            ValueError: The shell has no pty.
        """
        size = Pty(rows, columns)
        if self._entry.spec is None or self._entry.spec.pty is None:
            raise ValueError(f"shell {self.id} has no pty to resize: create it with pty=Pty()")
        if self._entry.process is not None and self._entry.life.live:
            self._entry.process.resize(size)

    def _check_not_deleted(self) -> None:
        if self._entry.life.deleted:
            raise ShellRemovedError(self._entry.info)

    def _capture(self) -> Capture:
        self._check_not_deleted()
        assert self._entry.capture is not None
        return self._entry.capture

    def _is_final(self) -> bool:
        return self._entry.life.ended

    async def _wait_output(self, size: int) -> None:
        process = self._entry.process
        if process is None:
            await self._entry.end.wait()
        else:
            await process.wait_output(size)


@contextlib.contextmanager
def _held(capture: Capture | None) -> Generator[Capture | None]:
    if capture is None:
        yield None
        return
    capture.hold()
    try:
        yield capture
    finally:
        capture.let_go()


def current_info(entry: Entry) -> ShellInfo:
    """The info, with the size so far of what still runs."""
    if not entry.life.live or entry.capture is None:
        return entry.info
    size = entry.capture.size
    return attrs.evolve(entry.info, size=size) if size else entry.info
