"""The task that lives one shell's life: launch, publish, wait, end, settle.

It is the only one that waits for the process, and the only one that settles. `kill`, `remove`
and the end of the scope make their claim and cancel the entry's scope; whatever ends the wait,
the task goes on to the same finaliser.

The whole task runs with Ctrl+C held back (trio then delivers it to the main task): an interrupt
between deciding and recording would break the step that C5 promises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import attrs
import trio

from ._entry import Entry
from ._records import Ending, Status
from ._registry import Registry
from .launchers import Launcher, Process

# How long a launcher may take to bring a tree down after its grace, and to tell. Part of the
# promise of C9: a scope takes at most grace + 2 s to leave.
MARGIN: Final = 1.5

_logger = logging.getLogger("trioshell")


@trio.lowlevel.enable_ki_protection
async def live(
    entry: Entry, launcher: Launcher, registry: Registry, tell: Callable[[], None]
) -> None:
    """Live one shell's life. A trouble of this shell never gets out (C9).

    Args:
        entry: The shell, not yet registered.
        launcher: Starts its process.
        registry: Is told of its birth and its end.
        tell: Called once, in the step in which the shell is registered or ``entry.failure`` set.
    """
    try:
        ending = await _end(entry, launcher, registry, tell)
        if ending is not None:
            await _settle(entry, ending, registry)
    finally:
        entry.process = None
        entry.gone.set()


async def _end(
    entry: Entry, launcher: Launcher, registry: Registry, tell: Callable[[], None]
) -> Ending | None:
    """Start the process and see it to its end; None if it could not be started."""
    try:
        ending = await _end_by_itself(entry, launcher, registry, tell)
        if ending is None and entry.process is not None:
            ending = await _end_by_force(entry, entry.process)
    except Exception as error:  # a fault in a launcher: the shell still has its one `exited`
        assert entry.process is not None
        _logger.exception("the launcher failed while it looked after %s", entry.id)
        ending = attrs.evolve(_give_up(entry.process), trouble=f"the launcher failed: {error!r}")
    return ending


async def _end_by_itself(
    entry: Entry, launcher: Launcher, registry: Registry, tell: Callable[[], None]
) -> Ending | None:
    """Start the process and wait for its end; None if something else comes first."""
    # That the scope around all shells is cancelled means for a shell that it is killed. The
    # exception is not passed on, because there is work to do under a shield of its own. It is not
    # lost either: cancellation in trio is a level, and the next checkpoint outside that shield
    # raises it again. It may come in a group, out of a nursery of the launcher.
    try:
        with entry.scope:
            process = await _start(entry, launcher, registry, tell)
            if process is not None:
                return await process.wait()
    except* trio.Cancelled:
        pass
    return None


async def _start(
    entry: Entry, launcher: Launcher, registry: Registry, tell: Callable[[], None]
) -> Process | None:
    assert entry.spec is not None
    entry.failure = trio.ClosedResourceError("the scope of these shells ended meanwhile")
    try:
        registry.announce(entry)
        process = await launcher.launch(entry.spec)
        if not entry.scope.cancel_called:
            # No checkpoint since the launch: a process that runs is a shell that is registered.
            entry.begin()
            entry.failure = registry.admit(entry, process)
            if entry.failure is None:
                return process
        await _undo(process)
    except Exception as error:  # noqa: BLE001 - it is the creator's
        entry.failure = error
    finally:
        if entry.failure is not None:
            registry.reject(entry)
            entry.leave()
        tell()
    return None


async def _undo(process: Process) -> None:
    """The creator was cancelled, or it cannot be recorded: there was no shell (C2)."""
    process.kill(0)
    with trio.CancelScope(shield=True, deadline=trio.current_time() + MARGIN) as bounded:
        await process.wait()
        await process.wait_empty()
    if bounded.cancelled_caught:
        process.abandon()
    process.capture.remove()


async def _end_by_force(entry: Entry, process: Process) -> Ending:
    # Something else came first, it seems. A host that was frozen finds deadline and end
    # together: an end that has been reported is looked at before the deadline is acted on (C3).
    reported = process.poll()
    if reported is not None:
        return reported
    # Whoever else cancels the scope has made a claim before.
    entry.life.claim(Status.TIMEOUT if entry.scope.cancelled_caught else Status.KILLED)
    process.kill(entry.kill_grace)
    with trio.CancelScope(shield=True) as bounded:
        bounded.deadline = trio.current_time() + entry.kill_grace + MARGIN
        return await process.wait()
    return process.abandon()


async def _settle(entry: Entry, ending: Ending, registry: Registry) -> None:
    process = entry.process
    assert process is not None
    if entry.keeps:
        entry.renew_scope()
    registry.settle(entry, ending)
    if entry.keeps:
        try:
            await _tend(entry, process)
        except Exception:
            _logger.exception("the launcher failed after the end of %s", entry.id)
            _give_up(process)
        registry.release(entry)
    if entry.removal:
        registry.delete(entry, "removed")


async def _tend(entry: Entry, process: Process) -> None:
    """After the end: look after what ``background="keep"`` kept, and end it in the end (C10)."""
    try:
        with entry.scope:
            await process.wait_empty()
            return
    except* trio.Cancelled:  # as before the end
        pass
    process.kill(entry.kill_grace)
    with trio.CancelScope(shield=True) as bounded:
        bounded.deadline = trio.current_time() + entry.kill_grace + MARGIN
        await process.wait_empty()
        return
    process.abandon()


def _give_up(process: Process) -> Ending:
    """Abandon the process of a launcher that has a fault, and may have another one there."""
    try:
        return process.abandon()
    except Exception:
        _logger.exception("the launcher failed while it gave up process %d", process.pid)
        return Ending(None, by_itself=False)
