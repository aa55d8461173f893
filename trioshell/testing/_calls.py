"""Calls and their answers, each with its place in the log."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, final

import attrs
import trio

from .. import Shell, Shells
from .._events import Event
from .._records import ShellInfo

T = TypeVar("T")

Outcome = Literal["returned", "raised", "cancelled", "unfinished"]


@final
@attrs.define(eq=False)
class Call:
    """One call of the library and its answer.

    Attributes:
        op: The method: ``"create"``, ``"wait"``, ``"list"`` ... Also ``"leave"``, the end of the
            scope's body, and ``"quiet"``, the moment when nothing could happen any more in it.
        id: The shell it was about, or None.
        args: Its other arguments, as they were given.
        actor: Who called.
        began: ``seq`` of the newest event when it was called.
        ended: ``seq`` of the newest event when it was answered; or, of an unfinished one, when
            nothing could happen any more. None: that is not known.
        outcome: How it ended.
        answer: What it returned or raised.
        at: When it was called, on trio's clock, if that is known.
        done: When it was answered, the same.
    """

    op: str
    id: str | None
    args: dict[str, Any]
    actor: str
    began: int
    ended: int | None = None
    outcome: Outcome = "unfinished"
    answer: Any = None
    at: float | None = None
    done: float | None = None

    def __str__(self) -> str:
        words = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        until = "never" if self.ended is None else f"@{self.ended}"
        told = "" if self.outcome == "cancelled" else f" {self.answer!r}"
        return f"{self.actor}: {self.op}({words}) @{self.began}..{until} {self.outcome}{told}"


@final
@attrs.define(eq=False)
class Recorder:
    """Makes calls and notes them with their answers, for `check_events` to explain.

    Attributes:
        shells: What is called.
        calls: In the order they were made.
    """

    shells: Shells
    calls: list[Call] = attrs.field(factory=list)

    async def create(self, command: Any, **options: Any) -> Shell:
        """`Shells.create`."""
        call = self._begin("create", None, {"command": command, **options})
        shell = await self._answer(call, self.shells.create(command, **options))
        call.id = shell.id
        return shell

    async def wait(self, shell: Shell) -> Any:
        """`Shell.wait`."""
        return await self._answer(self._begin("wait", shell.id), shell.wait())

    async def result(self, shell: Shell) -> Any:
        """`Shell.result`."""
        return await self._answer(self._begin("result", shell.id), shell.result())

    async def output(self, shell: Shell, cursor: int = 0, limit: int = 65536) -> Any:
        """`Shell.output`."""
        call = self._begin("output", shell.id, {"cursor": cursor, "limit": limit})
        return await self._answer(call, shell.output(cursor, limit))

    async def kill(self, shell: Shell, **options: Any) -> Any:
        """`Shell.kill`."""
        return await self._answer(self._begin("kill", shell.id, options), shell.kill(**options))

    async def remove(self, shell: Shell) -> None:
        """`Shell.remove`."""
        await self._answer(self._begin("remove", shell.id), shell.remove())

    async def wait_all(self) -> None:
        """`Shells.wait_all`."""
        await self._answer(self._begin("wait_all", None), self.shells.wait_all())

    def get(self, id: str) -> Shell:
        """`Shells.get`; the answer that is noted is the info of that moment."""
        call = self._begin("get", id)
        shell = self._answer_now(call, lambda: self.shells.get(id))
        call.answer = shell.info
        return shell

    def known(self) -> list[str]:
        """The ids that iterating over `Shells` gives."""
        call = self._begin("known", None)
        return self._answer_now(call, lambda: [shell.id for shell in self.shells])

    def running(self) -> list[ShellInfo]:
        """`Shells.list`."""
        return self._answer_now(self._begin("list", None), self.shells.list)

    def statistics(self) -> Any:
        """`Shells.statistics`."""
        return self._answer_now(self._begin("statistics", None), self.shells.statistics)

    def set_timeout(self, shell: Shell, seconds: float | None) -> None:
        """`Shell.set_timeout`."""
        call = self._begin("set_timeout", shell.id, {"seconds": seconds})
        self._answer_now(call, lambda: shell.set_timeout(seconds))

    def subscribe(self, since: int | None) -> Call:
        """Note a subscription that begins now; its answer is the list of events it gives.

        Its outcome is to be set to ``"returned"`` when it has come to the end of all events.
        """
        call = self._begin("subscribe", None, {"since": since})
        call.answer = list[Event]()
        return call

    def note(self, op: Literal["leave", "quiet"]) -> None:
        """Note a moment of the scope: its body ends, or nothing can happen any more in it."""
        self._answer_now(self._begin(op, None), lambda: None)

    def give_up(self) -> None:
        """`give_up` the calls that have no answer now."""
        give_up(self.calls, self.seq)

    @property
    def seq(self) -> int:
        """Where the log is now."""
        return self.shells.statistics().last_seq

    def _begin(self, op: str, id: str | None, args: dict[str, Any] | None = None) -> Call:
        call = Call(op, id, args or {}, _actor(), self.seq, at=trio.current_time())
        self.calls.append(call)
        return call

    async def _answer(self, call: Call, awaitable: Awaitable[T]) -> T:
        try:
            answer = await awaitable
        except trio.Cancelled:
            self._end(call, "cancelled", None)
            raise
        except Exception as error:
            self._end(call, "raised", error)
            raise
        self._end(call, "returned", answer)
        return answer

    def _answer_now(self, call: Call, function: Callable[[], T]) -> T:
        try:
            answer = function()
        except Exception as error:
            self._end(call, "raised", error)
            raise
        self._end(call, "returned", answer)
        return answer

    def _end(self, call: Call, outcome: Outcome, answer: Any) -> None:
        if call.ended is None:  # else: cancelled after it was given up
            call.ended = self.seq
            call.done = trio.current_time()
            call.outcome = outcome
            call.answer = answer


def are_all(calls: Iterable[Call]) -> bool:
    """Whether all calls in a scope were noted: then that it was left was noted, too.

    Leaving is a kill of everything, so without it nobody knows what was the first cause of an end.
    """
    return any(call.op == "leave" for call in calls)


def time_limits(id: str, calls: Iterable[Call]) -> Iterator[tuple[Call, float]]:
    """The calls that set a time limit of a shell, each with its seconds; infinity: no limit."""
    for call in calls:
        if call.id == id and call.op in ("create", "set_timeout"):
            seconds = call.args.get("timeout" if call.op == "create" else "seconds")
            yield call, math.inf if seconds is None else seconds


def give_up(calls: Iterable[Call], seq: int) -> None:
    """Nothing will happen any more: who has no answer now will never get one.

    The callers may be cancelled then; what is noted of them stays.

    Args:
        calls: All of them.
        seq: Of the newest event.
    """
    for call in calls:
        if call.ended is None:
            call.ended = seq


def _actor() -> str:
    return trio.lowlevel.current_task().name
