"""cancel_everywhere(): cancel an operation before each step of its run."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import trio

from ._explore import demand_control
from ._run import run
from ._schedule import Schedule, current_gate


def cancel_everywhere(
    op: Callable[..., Awaitable[object]],
    *,
    schedules: int | Iterable[Schedule] = 5,
    setup: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    check: Callable[..., object] | None = None,
) -> int:
    """Run an operation again and again, and cancel it one step later each time.

    The first run cancels it before it begins; the k-th before the k-th step that any task takes,
    and each time that time passes, counted from there. So it is cancelled while it waits, when it
    has been woken but did not run yet, and in every state of the tasks that work for it. The last
    run of each schedule is the one in which it completes first.

    Args:
        op: The operation: called with the value of ``setup``, or without arguments.
        schedules: How many schedules of `Schedule.portfolio` to do this under, or which ones.
        setup: Makes an async context manager, entered afresh for each run and never cancelled by
            this.
        check: Called inside ``setup`` when the operation has ended, cancelled or not, with the
            same arguments; it may be async.

    Returns:
        How many runs there were.

    Raises:
        BaseException: What a run raised first, with the step and the schedule in a note.
        RuntimeError: This version of trio does not let a schedule control the order of tasks.
    """
    demand_control("cancel_everywhere()")
    runs = 0
    for schedule in Schedule.portfolio(schedules) if isinstance(schedules, int) else schedules:
        for step in itertools.count():
            sweep = _Sweep(op, setup, check, step)
            try:
                run(sweep.main, schedule=schedule)
            except BaseException as error:
                when = f"cancelled before step {step}" if sweep.cancelled else "not cancelled"
                error.add_note(f"the operation was {when}")
                raise
            runs += 1
            if not sweep.cancelled:
                break
    return runs


@attrs.define(eq=False)
class _Sweep:
    """One run of it."""

    _op: Callable[..., Awaitable[object]]
    _setup: Callable[[], AbstractAsyncContextManager[Any]] | None
    _check: Callable[..., object] | None
    _left: int  # steps before the cancellation
    cancelled: bool = False
    _error: Exception | None = None

    async def main(self) -> None:
        if self._setup is None:
            await self._operate()
        else:
            async with self._setup() as value:
                await self._operate(value)

    async def _operate(self, *args: Any) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._operation, *args, name="operation")
        if self._error is not None:
            raise self._error
        if self._check is not None:
            answer = self._check(*args)
            if inspect.isawaitable(answer):
                await answer

    async def _operation(self, *args: Any) -> None:
        gate = current_gate()
        assert gate is not None, "run() installs one"
        with trio.CancelScope() as scope:

            def count() -> None:
                if self._left == 0 and not self.cancelled:
                    self.cancelled = True
                    gate.record.mark("cancel")
                    scope.cancel()
                self._left -= 1

            count()
            gate.watch = count
            try:
                await self._op(*args)
            except Exception as error:  # noqa: BLE001 - raised by _operate, not wrapped in a group
                self._error = error
            finally:
                gate.watch = None
