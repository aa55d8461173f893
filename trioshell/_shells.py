"""`open_shells`, the scope, and `Shells`, what it gives."""

from __future__ import annotations

import builtins
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Any, Final, NoReturn, final

import attrs
import trio

from . import _checks, _interpreter
from ._directory import Directory, open_private
from ._durable.directory import DurableDirectory, open_durable_soon
from ._durable.recovery import recover
from ._entry import Entry
from ._events import Log, Observer, Subscription, subscribe
from ._ids import Ids
from ._places import OVER, Places
from ._records import Argument, Pty, ShellInfo, Status
from ._registry import Registry
from ._request import BACKGROUNDS, Request, Requests, Stdin, check_output_limit
from ._shell import Shell, current_info
from ._task import live
from .launchers import Background, Guarantees, Launcher, OnOutputLimit, Spec, best_launcher

# Beyond the graces of its shells, what leaving a scope may take (C9).
_LEAVE: Final = 2.0


@final
@attrs.frozen
class Statistics:
    """Counts of a scope at one moment.

    Attributes:
        running: Shells that have not ended.
        retained: Ended shells that are kept.
        created: Shells created so far, and those taken over with a durable directory.
        ended: How many of these have ended so far.
        last_seq: ``seq`` of the newest event; ``subscribe(since=last_seq)`` misses nothing.
        subscribers: Open subscriptions.
    """

    running: int
    retained: int
    created: int
    ended: int
    last_seq: int
    subscribers: int


@final
@attrs.define(eq=False, repr=False)
class Shells:
    """The shells of one scope. Given by `open_shells`; not made by hand.

    Every task of the run may use it, also while others do.
    """

    _registry: Registry
    _launcher: Launcher
    _nursery: trio.Nursery
    _directory: Directory
    _requests: Requests
    _places: Places
    _ids: Ids

    def __repr__(self) -> str:
        counts = self.statistics()
        state = "closed" if self._registry.log.closed else f"{counts.running} running"
        return f"<Shells {state}, {counts.retained} retained>"

    async def create(
        self,
        command: str | Sequence[Argument],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str | None] | None = None,
        timeout: float | None = None,
        grace: float | None = None,
        background: Background | None = None,
        output_limit: int | None = None,
        on_output_limit: OnOutputLimit = "cut",
        stdin: Stdin = None,
        pty: Pty | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Shell:
        """Start a command.

        With a limiter it first waits for a place.

        Args:
            command: A str is run by the interpreter, unchanged; a sequence of arguments is
                executed directly.
            cwd: Working directory; None: the host's of this moment.
            env: Variables over the host's environment of this moment; None as a value drops one.
                The shell also sees its own id as ``TRIOSHELL_ID``.
            timeout: Seconds until the shell is ended with `Status.TIMEOUT`; None: no limit.
            grace: Seconds between SIGTERM and SIGKILL; None: the scope's.
            background: What happens to processes that outlive the leader: ``"kill"``, ``"wait"``
                for them, or ``"keep"`` them until the shell is removed or the scope ends. None:
                the scope's.
            output_limit: Bytes of output to keep on disk: the first and the last part; what is
                between becomes a gap. None: the scope's.
            on_output_limit: ``"cut"``, or ``"kill"`` to end the tree at the limit, which then
                has to be given, here or for the scope.
            stdin: None: nothing to read; bytes: fed, then closed; `subprocess.PIPE`: write to
                `Shell.stdin`.
            pty: Give the command a terminal.
            metadata: Kept and echoed, never interpreted.

        Returns:
            The running shell.

        Raises:
            TypeError, ValueError: An argument makes no sense; the message says which and why.
            SpawnError: The command could not be started.
            trio.ClosedResourceError: The scope is over.

        Cancellation: a shell or nothing (C2): what was begun is undone before this returns.
        """
        asked = self._requests.new(
            command,
            cwd=cwd,
            env=env,
            timeout=timeout,
            grace=grace,
            background=background,
            output_limit=output_limit,
            on_output_limit=on_output_limit,
            stdin=stdin,
            pty=pty,
            metadata=metadata,
        )
        leave = await self._places.take()
        return Shell(await self._start(asked, leave), self._registry)

    @trio.lowlevel.enable_ki_protection
    async def _start(self, asked: Request, leave: Callable[[], None]) -> Entry:
        """Start the shell's task and wait for its word: the shell, or why there is none.

        Not ``nursery.start``: a creator that is cancelled there is left waiting for the task
        when that is shielded, which ours is while it undoes the start. Here a cancellation is
        handed to the task, and the creator stays until the task has said how it went.
        """
        if self._places.closed:
            leave()
            raise trio.ClosedResourceError(OVER)
        entry = self._entry(asked, leave)
        tell = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        raise_cancel: Callable[[], NoReturn] | None = None

        def abort(raise_: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
            nonlocal raise_cancel
            raise_cancel = raise_
            entry.scope.cancel()
            return trio.lowlevel.Abort.FAILED

        name = f"shell {entry.id}"
        self._nursery.start_soon(live, entry, self._launcher, self._registry, tell, name=name)
        await trio.lowlevel.wait_task_rescheduled(abort)
        if entry.failure is None:
            return entry
        if raise_cancel is not None:
            raise_cancel()
        raise entry.failure

    def _entry(self, asked: Request, leave: Callable[[], None]) -> Entry:
        id = self._ids.new()
        capture = self._directory.capture(id)
        info = ShellInfo(
            id=id,
            status=Status.RUNNING,
            command=asked.command,
            cwd=asked.cwd,
            shell=asked.shell,
            pid=0,
            file=capture,
            metadata=asked.metadata,
            started=time.time(),
        )
        spec = Spec(
            id=id,
            argv=asked.argv,
            executable=asked.executable,
            cwd=asked.cwd,
            env=asked.env,
            capture=capture,
            stdin=asked.stdin,
            pty=asked.pty,
            background=asked.background,
            grace=asked.grace,
            output_limit=asked.output_limit,
            on_output_limit=asked.on_output_limit,
            notes=self._directory.notes(id),
        )
        return Entry(
            info=info,
            spec=spec,
            grace=asked.grace,
            timeout=asked.timeout,
            output_limit=asked.output_limit,
            leave=leave,
        )

    def __getitem__(self, id: str) -> Shell:
        return Shell(self._registry.get(id), self._registry)

    def get(self, id: str) -> Shell:
        """The running or retained shell with this id.

        Raises:
            ShellNotFoundError: There is none: it never was, or it was deleted.
        """
        return self[id]

    def __contains__(self, id: object) -> bool:
        return id in self._registry

    def __len__(self) -> int:
        return len(self._registry)

    def __iter__(self) -> Iterator[Shell]:
        """The running and the retained shells, in creation order."""
        return (Shell(entry, self._registry) for entry in self._registry)

    def list(self) -> builtins.list[ShellInfo]:
        """The infos of the running shells, in creation order."""
        return [current_info(entry) for entry in self._registry.running]

    def subscribe(self, *, since: int | None = None, max_buffer: int = 4096) -> Subscription:
        """Subscribe to the events of this scope.

        ``async with shells.subscribe() as events: async for event in events: ...``. It holds
        every event from this call on, in one order, with gapless ``seq``, and ends after the
        last event of the scope.

        Args:
            since: A ``seq`` (0: from the beginning): the events after it are given first.
            max_buffer: Events that the subscriber may be behind. One more, and it is told so
                with `SubscriptionLaggedError`; it never slows a shell down.

        Raises:
            ValueError: ``since`` is no position in this log.
            SubscriptionLaggedError: The log no longer holds all events after ``since`` (it
                holds the newest 8,192).
        """
        return subscribe(self._registry.log, since=since, max_buffer=max_buffer)

    async def wait_all(self) -> None:
        """Wait until no shell is running.

        Cancellation: gives up waiting; the shells go on.
        """
        await trio.lowlevel.checkpoint()
        while running := self._registry.running:
            await running[0].end.wait()

    def statistics(self) -> Statistics:
        """Counts of this moment."""
        return Statistics(
            running=self._registry.created - self._registry.ended,
            retained=self._registry.retained,
            created=self._registry.created,
            ended=self._registry.ended,
            last_seq=self._registry.log.last_seq,
            subscribers=self._registry.log.subscribers,
        )

    @property
    def guarantees(self) -> Guarantees:
        """What the launcher in use can promise."""
        return self._launcher.guarantees

    def _close(self) -> None:
        """Start the end of everything. The nursery waits for it."""
        self._places.close()
        for entry in self._registry.running:
            entry.request_end()
        self._nursery.cancel_scope.cancel()

    @property
    def _longest_grace(self) -> float:
        return max((entry.kill_grace for entry in self._registry.running), default=0.0)


@asynccontextmanager
async def open_shells(
    *,
    directory: str | os.PathLike[str] | None = None,
    shell: str | os.PathLike[str] | None = None,
    retain: int = 25,
    retain_bytes: int | None = None,
    grace: float = 3.0,
    background: Background = "kill",
    output_limit: int | None = None,
    limiter: trio.CapacityLimiter | None = None,
    observers: Sequence[Observer] = (),
    launcher: Launcher | None = None,
) -> AsyncGenerator[Shells]:
    """Open a scope for shells: ``async with open_shells() as shells: ...``.

    Leaving it, however, kills all running shells at once, publishes their `Exited`, deletes what
    the scope owns and ends every subscription, within grace + 2 s however many shells there are
    (C9). An exception of the body leaves as itself. Cancelling the scope from outside kills its
    shells at once, also while the body still cleans up.

    Args:
        directory: A durable directory: shells and their output outlive the scope in it, and
            what a crashed host left there is ended. One scope at a time has it. None: a private
            directory, deleted at the end.
        shell: Path or name of the interpreter for commands given as text; None: ``$SHELL`` if it
            is POSIX-compatible, else bash, else ``/bin/sh``.
        retain: Ended shells to keep; beyond it the one that ended first goes.
        retain_bytes: Bytes of output of ended shells to keep; beyond it the one that ended first
            goes, down to none. None: no limit.
        grace: Seconds between SIGTERM and SIGKILL.
        background: What happens to processes that outlive their leader: ``"kill"``, ``"wait"``
            or ``"keep"``.
        output_limit: Bytes of output to keep on disk per shell; None: no limit.
        limiter: How many shells may run at once; `Shells.create` waits for a place.
        observers: Called with each event, in the step that publishes it. They must not wait. An
            exception in one is reported as a `RuntimeWarning` and reaches nobody else.
        launcher: How processes are started; None: the best way of this platform.

    Raises:
        TypeError, ValueError: An argument makes no sense.
        RuntimeError: This is not a task of trio.
        SpawnError: The interpreter does not exist or cannot be executed.
        DirectoryInUseError: Another scope has the directory.
        OSError: The directory cannot be used.
    """
    if not trio.lowlevel.in_trio_task():
        raise RuntimeError(
            "trioshell works under trio: use trio.run, or anyio.run with backend='trio'"
        )
    _checks.count("retain", retain, least=0)
    if retain_bytes is not None:
        _checks.count("retain_bytes", retain_bytes, least=0)
    _checks.choice("background", background, BACKGROUNDS)
    seconds = _checks.grace(grace)
    watchers = _checks.observers(observers)
    if limiter is not None:
        hint = "a trio.CapacityLimiter, such as trio.CapacityLimiter(10)"
        _checks.instance("limiter", limiter, trio.CapacityLimiter, hint)
    if launcher is not None:
        hint = "a launcher object, such as trioshell.launchers.DirectLauncher()"
        _checks.instance("launcher", launcher, Launcher, hint)
    interpreter = _interpreter.choose(shell, os.environ)
    async with launcher or best_launcher() as entered:
        if output_limit is not None:
            check_output_limit(output_limit, entered.guarantees)
        home = await _open(directory) if entered.needs_files else Directory()
        requests = Requests(
            interpreter=interpreter,
            guarantees=entered.guarantees,
            real=entered.needs_files,
            durable=home.durable,
            grace=seconds,
            background=background,
            output_limit=output_limit,
        )
        # Last among the observers: said is what all of them have heard.
        log = Log((*watchers, home.ledger.tell))
        registry = Registry(retain, log, home.ledger, retain_bytes)
        ids = Ids()
        failure: BaseException | None = None
        # However the wait for the shells ends, also by another Ctrl+C: the registry is closed.
        with closing(home), closing(registry), trio.CancelScope() as leaving:
            if isinstance(home, DurableDirectory):
                await recover(home.ledger, registry, ids)
            async with trio.open_nursery() as nursery:
                shells = Shells(registry, entered, nursery, home, requests, Places(limiter), ids)
                try:
                    yield shells
                except BaseException as error:  # noqa: BLE001 - out of the nursery, so out of a group
                    failure = error
                shells._close()
                leaving.shield = True
                leaving.deadline = trio.current_time() + shells._longest_grace + _LEAVE
    if failure is not None:
        raise failure


async def _open(directory: str | os.PathLike[str] | None) -> Directory:
    if directory is not None:
        return await open_durable_soon(directory)
    await trio.lowlevel.checkpoint()
    return open_private()
