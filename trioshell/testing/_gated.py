"""Gated: stands in for the coroutine of one task, and takes a step only when granted one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import outcome
import trio

_EMPTY: Any = object()


def _refuse(_: Callable[[], NoReturn]) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _park_message() -> object:
    """Return what a coroutine yields to trio to block without being cancellable."""
    waiting = trio.lowlevel.wait_task_rescheduled(_refuse)  # noqa: ASYNC105 - driven by hand
    try:
        return waiting.send(None)
    finally:
        waiting.close()


_PARK = _park_message()


class Gated:
    """Stands in for the coroutine of one task, and takes a step only when granted one.

    An object, not a generator around the coroutine: with the attributes of the coroutine behind
    it, `trio.lowlevel.Task.iter_await_frames` and debuggers see what they always see.
    """

    __slots__ = ("_arrive", "_coro", "_held", "batch", "message", "number", "task")

    def __init__(self, task: trio.lowlevel.Task, arrive: Callable[[Gated], bool]) -> None:
        self._arrive = arrive  # queues it up, and says whether its turn has come at once
        self._coro: Any = task.coro
        self._held = _EMPTY
        self.task: trio.lowlevel.Task = task
        self.number: int = -1  # the gate numbers newcomers when all of them have queued up
        self.batch: int = 0  # the batch in which trio would run the coming step
        self.message: object = _PARK  # what the last real step yielded

    def send(self, value: object) -> object:
        __tracebackhide__ = True
        if self._held is _EMPTY:
            self._held = value
            if not self._arrive(self):
                return _PARK
        value, self._held = self._held, _EMPTY
        self.message = self._coro.send(value)
        return self.message

    def throw(self, *args: Any) -> object:
        """Pass on the error trio throws at a task that yielded something foreign."""
        __tracebackhide__ = True
        self.message = self._coro.throw(*args)
        return self.message

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coro, name)

    @property
    def queued(self) -> bool:
        return self._held is not _EMPTY

    @property
    def abort(self) -> Callable[[Callable[[], NoReturn]], trio.lowlevel.Abort] | None:
        """The abort function with which the task blocked; None after a mere checkpoint."""
        return getattr(self.message, "abort_func", None)

    def interrupt(self, error: Exception) -> bool:
        """Raise ``error`` where the task is, even inside a shield; return whether that can be."""
        if self.queued and self.abort is None:
            self._held = outcome.Error(error)
            return True
        # A task that was woken from anything but a checkpoint must get what it was woken for.
        if self.queued or self.abort is None:
            return False

        def fail() -> NoReturn:
            raise error

        if self.abort(fail) is not trio.lowlevel.Abort.SUCCEEDED:
            return False
        trio.lowlevel.reschedule(self.task, outcome.Error(error))
        return True
