"""quiet(): wait until nothing else can happen."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, final

import attrs
import trio
import trio.testing

from ._gate import Gate, Waiter
from ._schedule import current_gate


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
        with trio.CancelScope() as body, _place() as place:
            nursery.start_soon(_cancel_when_quiet, body, place, name="quiet")
            try:
                yield body
            except Exception as raised:  # noqa: BLE001 - raised below, not wrapped in a group
                error = raised
        nursery.cancel_scope.cancel()
    if error is not None:
        raise error


async def _cancel_when_quiet(body: trio.CancelScope, place: Place) -> None:
    await place.wait()
    body.cancel()


async def _wait() -> None:
    with _place() as place:
        await place.wait()


@contextmanager
def _place() -> Generator[Place]:
    """Take a place in this run's order of those that wait for quiet: the last is served first.

    Taken before the wait begins, so that a body inside a body comes first under every schedule.
    """
    gate = current_gate()
    if gate is not None and gate.virtual and gate.controlled:
        place = Place(gate.when_quiet, gate)
    else:
        place = Place(_places_without_gate(), None)
    place.places.append(place)
    try:
        yield place
    finally:
        if place in place.places:  # the gate takes out those that it serves
            place.places.remove(place)


_places: trio.lowlevel.RunVar[list[Waiter]] = trio.lowlevel.RunVar("_places")


def _places_without_gate() -> list[Waiter]:
    try:
        return _places.get()
    except LookupError:
        _places.set([])
        return _places.get()


@attrs.define(eq=False)
class Place:
    """A place in the order of those that wait for quiet."""

    places: list[Waiter]
    _gate: Gate | None
    _task: trio.lowlevel.Task | None = None

    async def wait(self) -> None:
        if self._gate is None:
            await self._wait_for_trio()
        else:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.SUCCEEDED)

    def serve(self) -> None:
        """End the wait: called by the gate, once nothing else can happen."""
        assert self._task is not None, "it is not quiet while a task has still to wait"
        trio.lowlevel.reschedule(self._task)

    async def _wait_for_trio(self) -> None:
        while True:
            await trio.testing.wait_all_tasks_blocked()
            timer = trio.lowlevel.current_statistics().seconds_to_next_deadline
            if timer < math.inf:
                await trio.sleep(max(0, timer))
            elif self.places[-1] is self:
                return
