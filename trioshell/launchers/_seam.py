"""The seam behind which processes are started: public, so that others can write launchers.

A launcher starts commands and ends them truly; it knows nothing of ids that were removed, of
retention, of events or of who waits. The library asks three things of it:

*   `Launcher.launch` gives a running `Process`, or raises and leaves nothing.
*   `Process.wait` returns the one `Ending` when it is *true*: the leader is reaped, the
    background policy has been carried out, the output is complete (C4).
*   `Process.kill` starts or hastens the end of the tree. It never waits; `wait` tells when.

Everything is called from trio tasks of one thread. `wait` and `wait_empty` are called by one
task, the shell's own; it may be cancelled and call again, and nothing is lost by that.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Literal, Self, final

import attrs
import trio

from .._records import Ending, Leftover, Pty

# The variable by which a shell's processes can be told from others.
MARK: Final = b"TRIOSHELL_ID"

Background = Literal["kill", "wait", "keep"]
OnOutputLimit = Literal["cut", "kill"]


@final
@attrs.frozen
class Guarantees:
    """What the launcher in use can promise. The reference explains each.

    Attributes:
        launcher: ``"supervised"``, ``"direct"``, ``"fake"``, or another launcher's name.
        escapees: Descendants that left the session (``setsid``, double fork) end too (C10).
        host_crash: Trees end within a second when the host is SIGKILLed (C11).
        tree_usage: `ShellInfo.usage` counts the whole tree, not the leader alone.
        output_limit: ``output_limit`` is possible.
        pty: ``pty`` is possible.
        note: Why the best launcher of the platform is not in use, or ``""``.
    """

    launcher: str
    escapees: bool
    host_crash: bool
    tree_usage: bool
    output_limit: bool
    pty: bool
    note: str = ""


@final
@attrs.frozen(kw_only=True)
class Spec:
    """One command to start, checked and resolved.

    Attributes:
        id: The shell's id. Launchers that start real processes set ``TRIOSHELL_ID`` to it.
        argv: The arguments, the program's name first.
        executable: The program: an absolute path, or a path relative to ``cwd``.
        cwd: Working directory, or None to inherit the host's.
        env: The environment, without ``TRIOSHELL_ID``. Mostly it is the very object that the
            command before had, so that what is made of it can be kept.
        capture: Path of the capture file to create (it does not exist), or None: the launcher
            keeps output where it likes.
        stdin: None (nothing to read), bytes to be fed, or True for a stream.
        pty: Give the command a terminal of this size.
        background: What happens to processes that outlive the leader.
        grace: Seconds that leftovers of a natural end get between SIGTERM and SIGKILL.
        output_limit: Bytes of output kept on disk, or None.
        on_output_limit: What happens beyond it.
        notes: Path of a file in which a helper that may outlive the host notes what the host may
            never hear, before it is reported; None: not asked for. A line ``{"pid": N, "start":
            N}`` as soon as the leader runs (its start time in clock ticks after the boot), and a
            line ``{"status": N, "by_itself": true}`` as soon as it has ended (its raw wait
            status, and as in `Ending`). The next scope reads it there.
    """

    id: str
    argv: tuple[bytes, ...]
    executable: bytes
    cwd: str | None
    env: Mapping[bytes, bytes]
    capture: str | None
    stdin: bytes | bool | None = None
    pty: Pty | None = None
    background: Background = "kill"
    grace: float = 3.0
    output_limit: int | None = None
    on_output_limit: OnOutputLimit = "cut"
    notes: str | None = None

    @property
    def whole_env(self) -> dict[bytes, bytes]:
        """The environment with ``TRIOSHELL_ID``."""
        return {**self.env, MARK: self.id.encode()}


class Capture(abc.ABC):
    """What a shell has written so far, by absolute byte offset. Nothing here waits."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many bytes the command has written. Never goes down."""

    @abc.abstractmethod
    def read(self, start: int, limit: int) -> bytes:
        """Up to ``limit`` bytes from ``start``; fewer at the end and at a gap.

        Raises:
            OutputLostError: The output is gone.
        """

    @abc.abstractmethod
    def gap(self, start: int) -> int:
        """How many bytes from ``start`` on were dropped by an output limit; mostly 0."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Delete what is stored. Called once, when the shell is deleted."""

    def hold(self) -> None:  # noqa: B027 - without it, who reads on is told that the output is lost
        """Somebody reads on: what is stored stays readable after `remove`, until `let_go`."""

    def let_go(self) -> None:  # noqa: B027
        """One who held it has read enough."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Free what is held; what is stored stays. Called when a durable scope is over."""


class Process(abc.ABC):
    """One command under a launcher's care."""

    @property
    @abc.abstractmethod
    def pid(self) -> int:
        """The leader's process id. It may be reused once `wait` has returned."""

    @property
    @abc.abstractmethod
    def capture(self) -> Capture:
        """Its output."""

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """Its standard input, when the spec asked for a stream or for a pty."""
        return None

    @abc.abstractmethod
    async def wait(self) -> Ending:
        """Wait until the end is true, and tell it. Cancellation: call again, nothing is lost."""

    @abc.abstractmethod
    def poll(self) -> Ending | None:
        """The ending if it has been reported by now. Looks at what has arrived; never waits.

        A host that was frozen past a deadline asks this before it acts on the deadline (C3).
        """

    @abc.abstractmethod
    def kill(self, grace: float) -> None:
        """Start the end of the whole tree, or hasten it: the earliest deadline counts.

        SIGTERM and SIGCONT at once, SIGKILL after ``grace`` seconds, until nothing is left.
        With nothing left it does nothing. What cannot be ended is reported by `wait` as
        leftovers, at most about a second after the grace. After `wait` has returned this ends
        what ``background="keep"`` kept.
        """

    @abc.abstractmethod
    def send_signal(self, number: int) -> None:
        """Send a signal to the leader's process group; nothing once the leader has ended."""

    def resize(self, size: Pty) -> None:
        """Change the size of the terminal. Only called with a pty."""
        raise NotImplementedError

    @abc.abstractmethod
    async def wait_empty(self) -> tuple[Leftover, ...]:
        """After `wait`: wait until nothing of the tree is left in our care, and let go of it.

        Returns at once except under ``background="keep"``.

        Returns:
            What could not be ended.
        """

    @abc.abstractmethod
    async def wait_output(self, size: int) -> None:
        """Wait until more than ``size`` bytes are captured or the output is final.

        Any number of tasks may wait, at different sizes. They never slow the command down.
        """

    @abc.abstractmethod
    def abandon(self) -> Ending:
        """Give up: called when `wait` did not return in time after `kill`. Frees what we hold."""


class Launcher(abc.ABC):
    """Starts commands. `open_shells` enters it, uses it for one scope, and leaves it.

    A launcher object serves one scope at a time.
    """

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free everything. Called after every process was waited for; at most about a second.

        Longer only while something of a process that was given up is still being ended.
        """
        await trio.lowlevel.cancel_shielded_checkpoint()

    @property
    @abc.abstractmethod
    def guarantees(self) -> Guarantees:
        """What it can promise here."""

    @property
    def needs_files(self) -> bool:
        """Whether it starts real programs, so that directories and programs are checked for it."""
        return True

    @abc.abstractmethod
    async def launch(self, spec: Spec) -> Process:
        """Start a command.

        Raises:
            SpawnError: It could not be started.

        Cancellation: a process or nothing. If it raises, whatever was begun is undone: no
        process, descriptor or file is left.
        """
