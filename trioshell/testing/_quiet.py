"""quiet(): wait until nothing else can happen."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, final

import attrs
import trio
import trio.testing

from ._gate import Gate
from ._schedule import current_gate

# Those that wait in a run without a schedule. The last one is served first.
_waiters: trio.lowlevel.RunVar[list[object]] = trio.lowlevel.RunVar("quiet")


def quiet() -> Quiet:
    """Wait until nothing else can happen: every other task waits, and no timer is pending.

    ``await quiet()`` returns then. ``async with quiet():`` ends the waits of its body then, by
    cancelling them, and gives the cancel scope that does so; a body that ends by itself is not
    affected. A test uses either where it would otherwise wait for an arbitrary time.

    Under a `Schedule` this is exact. Without one it works as well as trio can tell: threads and
    the operating system may still bring something, and timers take the time they take. When
    several wait for quiet, one is served, the last that began, then it must become quiet again
    for the next. A deadline around it is a pending timer, too: it fires first.

    Cancellation ends the wait.
    """
    return Quiet()


@final
@attrs.define(eq=False)
class Quiet:
    """What `quiet` returns: to be awaited, or entered with ``async with``."""

    _body: AbstractAsyncContextManager[trio.CancelScope] = attrs.field(init=False)

    def __await__(self) -> Generator[Any, Any, None]:
        return _wait().__await__()

    async def __aenter__(self) -> trio.CancelScope:
        self._body = _cancelled_when_quiet()
        return await self._body.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._body.__aexit__(kind, error, traceback)


@asynccontextmanager
async def _cancelled_when_quiet() -> AsyncGenerator[trio.CancelScope]:
    error: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when_quiet, nursery.cancel_scope, name="quiet")
        try:
            yield nursery.cancel_scope
        except Exception as raised:  # noqa: BLE001 - raised below, not wrapped in a group
            error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


async def _cancel_when_quiet(scope: trio.CancelScope) -> None:
    await _wait()
    scope.cancel()


async def _wait() -> None:
    gate = current_gate()
    if gate is not None and gate.virtual and gate.controlled:
        await _wait_for_gate(gate)
    else:
        await _wait_for_trio()


async def _wait_for_gate(gate: Gate) -> None:
    task = trio.lowlevel.current_task()

    def wake() -> None:
        trio.lowlevel.reschedule(task)

    def abort(_: object) -> trio.lowlevel.Abort:
        gate.when_quiet.remove(wake)
        return trio.lowlevel.Abort.SUCCEEDED

    gate.when_quiet.append(wake)
    await trio.lowlevel.wait_task_rescheduled(abort)


async def _wait_for_trio() -> None:
    waiters = _waiters_of_this_run()
    me = object()
    waiters.append(me)
    try:
        while True:
            await trio.testing.wait_all_tasks_blocked()
            timer = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if timer < math.inf:
                await trio.sleep(max(0, timer))
            elif waiters[-1] is me:
                return
    finally:
        waiters.remove(me)


def _waiters_of_this_run() -> list[object]:
    try:
        return _waiters.get()
    except LookupError:
        waiters: list[object] = []
        _waiters.set(waiters)
        return waiters
