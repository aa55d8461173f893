"""What is known and held of one shell: the private side of `Shell`."""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import trio

from ._events import Reason
from ._lifecycle import Lifecycle, State
from ._records import Ending, ShellInfo, Status
from .launchers import Capture, Process, Spec


@attrs.define(eq=False)
class Entry:
    """One shell, from the request to its deletion. Nothing here waits or publishes.

    Attributes:
        info: The newest info.
        spec: How it was started; None for one that a durable directory remembers.
        life: What may happen to it and what may be said about it.
        grace: Seconds between SIGTERM and SIGKILL, unless a kill says otherwise.
        timeout: The time limit in seconds, from the start.
        output_limit: Bytes of output that are kept on disk, or None.
        process: Set while the process, or what it left behind, is in our care.
        capture: Its output, from the start of the process on.
        stdin: Its input, if it has one that can be written to.
        scope: Cancelled to make the shell's task end the tree. Its deadline is the time limit.
        end: Set in the step that says `exited`.
        gone: Set when the shell's task is over: nothing of the tree is in our care.
        failure: Why it could not be started.
        leave: Gives the shell's place at the scope's limiter back; called once, at its end.
        removed: Waiters of a running shell are told that it was removed.
        deleted: Why its record is gone, or None.
        removal: Delete it once its task is over.
    """

    info: ShellInfo
    spec: Spec | None
    grace: float
    timeout: float
    output_limit: int | None = None
    life: Lifecycle = attrs.field(factory=Lifecycle)
    process: Process | None = None
    capture: Capture | None = None
    stdin: trio.abc.SendStream | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    end: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)
    failure: Exception | None = None
    leave: Callable[[], None] = lambda: None
    removed: bool = False
    deleted: Reason | None = None
    removal: bool = False
    kill_grace: float = attrs.field(init=False)
    started_at: float = attrs.field(factory=trio.current_time)

    def __attrs_post_init__(self) -> None:
        self.kill_grace = self.grace

    @property
    def id(self) -> str:
        return self.info.id

    @property
    def keeps(self) -> bool:
        """Whether processes may live on in our care when the shell has ended."""
        return self.spec is not None and self.spec.background == "keep"

    @property
    def stored(self) -> int:
        """Bytes of output on disk once the shell has ended, a page or so more or less."""
        if self.output_limit is None:
            return self.info.size
        return min(self.info.size, self.output_limit)

    def begin(self) -> None:
        """The process runs: its time limit counts from now."""
        if self.timeout != math.inf:
            self.scope.deadline = trio.current_time() + self.timeout

    def renew_scope(self) -> None:
        """The end has come: the scope is now for what ``background="keep"`` keeps.

        A kill or a removal that came too late for the leader is still one for those.
        """
        self.scope = trio.CancelScope()
        if self.life.state is State.ENDING:
            self.scope.cancel()

    @trio.lowlevel.enable_ki_protection  # called by any task: claimed is also begun
    def request_end(self, *, grace: float | None = None, removal: bool = False) -> None:
        """Have the shell's task end the tree, or hasten that (C6); nothing once all is gone.

        The claim is made here, in the caller's step, so that the first cause stands (C3).
        The work is the shell's own task's, so a caller that is cancelled takes nothing back.
        """
        grace = self.grace if grace is None else grace
        if self.life.claim(Status.KILLED, removal=removal):
            self.kill_grace = grace
        elif self.process is not None:
            self.kill_grace = min(self.kill_grace, grace)
            self.process.kill(self.kill_grace)
        self.scope.cancel()

    def set_timeout(self, seconds: float) -> None:
        """Move the time limit to ``seconds`` from now."""
        if not self.life.ended:
            self.scope.deadline = trio.current_time() + seconds

    def elapsed(self) -> float:
        """Seconds since the start, on trio's clock: the wall clock may jump."""
        return trio.current_time() - self.started_at

    def final_info(self, ending: Ending, status: Status) -> ShellInfo:
        """The terminal info."""
        return attrs.evolve(
            self.info,
            status=status,
            returncode=ending.returncode,
            size=ending.size,
            ended=self.info.started + self.elapsed(),
            usage=ending.usage,
            leftovers=ending.leftovers,
            output_error=ending.output_error,
            cut=ending.cut,
            reason=ending.trouble,
        )
