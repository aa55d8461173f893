"""The interesting situations, so that a test can see that the programs drawn reach them.

Without that, nobody notices when a change of the strategies makes the harness blind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs
import trio

from trioshell import Created, Deleted, Exited, SpawnError, Status, SubscriptionLaggedError
from trioshell.testing import Call, FakeProcess, Life, Performance


@attrs.frozen
class Case:
    """One shell of a performance that was created."""

    performance: Performance
    life: Life
    process: FakeProcess
    created: Created
    exited: Exited
    deleted: Deleted | None

    @property
    def id(self) -> str:
        return self.created.id

    @property
    def status(self) -> Status:
        return self.exited.info.status

    def calls(self, *ops: str) -> list[Call]:
        """The calls about this shell."""
        return [call for call in self.performance.calls if call.id == self.id and call.op in ops]

    def began_running(self, *ops: str) -> list[Call]:
        """Those that began while it ran."""
        return [call for call in self.calls(*ops) if call.began < self.exited.seq]

    def began_ended(self, *ops: str) -> list[Call]:
        """Those that began after its end and before its deletion."""
        until = float("inf") if self.deleted is None else self.deleted.seq
        return [call for call in self.calls(*ops) if self.exited.seq <= call.began < until]


def cases(performance: Performance) -> Iterator[Case]:
    """Every shell of a performance."""
    lives = dict(performance.program.lives())
    processes = {process.spec.id: process for process in performance.launcher.processes}
    events = performance.log.events
    for created in events:
        if isinstance(created, Created):
            mine = [event for event in events if event.id == created.id]
            yield Case(
                performance,
                lives[processes[created.id].command],
                processes[created.id],
                created,
                next(event for event in mine if isinstance(event, Exited)),
                next((event for event in mine if isinstance(event, Deleted)), None),
            )


def _outlived(case: Case) -> bool:
    """Something of the tree lived on when the leader had ended by itself."""
    leader, *descendants = case.process.members
    if leader.ended_at is None or leader.signals:
        return False
    return any(
        member.ended_at is None or member.ended_at > leader.ended_at or member.signals
        for member in descendants
    )


def _late_limit(case: Case) -> bool:
    """The limit was reached, but the end had come first."""
    process, limit = case.process, case.life.timeout
    if case.status is not Status.EXITED or limit is None or process.ended_at is None:
        return False
    return process.ended_at - process.started_at >= limit


def _removed(case: Case) -> bool:
    return case.deleted is not None and case.deleted.reason == "removed"


def _stubborn(case: Case) -> bool:
    return [sent.signal for sent in case.process.signals][-1:] == ["KILL"]


OF_A_SHELL: Final[dict[str, Callable[[Case], object]]] = {
    "removed while it ran": lambda c: c.began_running("remove"),
    "removed after its end": lambda c: c.began_ended("remove"),
    "removed twice": lambda c: len([k for k in c.calls("remove") if k.outcome == "returned"]) > 1,
    "removed while it was killed": lambda c: c.began_running("remove") and c.began_running("kill"),
    "removal refused": lambda c: any(k.outcome == "raised" for k in c.calls("remove")),
    "removal given up": lambda c: any(k.outcome == "cancelled" for k in c.calls("remove")),
    "kill given up": lambda c: any(k.outcome == "cancelled" for k in c.calls("kill")),
    "killed after its end": lambda c: c.began_ended("kill"),
    "end before a kill": lambda c: c.status is Status.EXITED and c.began_running("kill", "remove"),
    "end before the limit": _late_limit,
    "limit before the end": lambda c: (
        c.status is Status.TIMEOUT and c.life.script.returncode is not None
    ),
    "limit before a kill": lambda c: (
        c.status is Status.TIMEOUT and c.began_running("kill", "remove")
    ),
    "kill before the limit": lambda c: c.status is Status.KILLED and c.life.timeout is not None,
    "kill of a stubborn one": lambda c: c.status is Status.KILLED and _stubborn(c),
    "limit of a stubborn one": lambda c: c.status is Status.TIMEOUT and _stubborn(c),
    "code of its own when killed": lambda c: (
        c.status is not Status.EXITED and (c.exited.info.returncode or -1) >= 0
    ),
    "evicted": lambda c: c.deleted is not None and c.deleted.reason == "evicted",
    "evicted while somebody removed it": lambda c: (
        c.deleted is not None and c.deleted.reason == "evicted" and c.began_ended("remove")
    ),
    "waiter told of a removal": lambda c: any(
        k.outcome == "raised" for k in c.began_running("wait")
    ),
    "waiter told the end of a removed one": lambda c: (
        _removed(c) and any(k.outcome == "returned" for k in c.began_running("wait"))
    ),
    "waiter came after the removal": lambda c: any(
        k.outcome == "raised" and k.began > c.exited.seq for k in c.calls("wait")
    ),
    "waiter gave up": lambda c: any(k.outcome == "cancelled" for k in c.calls("wait")),
    "outlived and ended": lambda c: _outlived(c) and c.life.background == "kill",
    "outlived and waited for": lambda c: _outlived(c) and c.life.background == "wait",
    "outlived and kept": lambda c: _outlived(c) and c.life.background == "keep",
    "kept and removed": lambda c: (
        _outlived(c) and c.life.background == "keep" and c.began_ended("remove")
    ),
    "output after the end": lambda c: c.began_ended("output"),
    "output came late": lambda c: c.life.script.lag and c.process.owed,
    "leftovers": lambda c: c.exited.info.leftovers,
    "output lost": lambda c: c.exited.info.output_error,
    "output cut": lambda c: c.exited.info.cut,
    "helper lost": lambda c: c.exited.info.returncode is None and c.exited.info.reason,
    "limit moved": lambda c: c.began_running("set_timeout"),
    "ended with its scope": lambda c: (
        c.status is Status.KILLED and c.deleted is not None and c.deleted.reason == "closed"
    ),
    "stubborn at the end of its scope": lambda c: (
        c.deleted is not None and c.deleted.reason == "closed" and _stubborn(c)
    ),
    "kept at the end of its scope": lambda c: (
        c.status is Status.EXITED and c.deleted is not None and c.deleted.reason == "closed"
    ),
}


def _creates(performance: Performance, outcome: str) -> list[Call]:
    return [c for c in performance.calls if c.op == "create" and c.outcome == outcome]


def _undone(performance: Performance) -> bool:
    """A process ran, and its creator was gone: there was no shell."""
    told = {event.id for event in performance.log}
    return any(process.spec.id not in told for process in performance.launcher.processes)


def _waited_for_place(performance: Performance) -> bool:
    limit = performance.program.limit
    created = [event for event in performance.log if isinstance(event, Created)]
    calls = _creates(performance, "returned")
    return (
        limit is not None
        and len(created) > limit
        and any(call.ended is not None and call.ended > call.began + 1 for call in calls)
    )


def _left_early(performance: Performance, leave: str) -> bool:
    program = performance.program
    closed = any(isinstance(e, Deleted) and e.reason == "closed" for e in performance.log)
    return program.leave == leave and program.leave_after is not None and closed


def _subscriptions(performance: Performance) -> list[Call]:
    return [call for call in performance.calls if call.op == "subscribe"]


OF_A_SCOPE: Final[dict[str, Callable[[Performance], object]]] = {
    "start failed": lambda p: any(isinstance(c.answer, SpawnError) for c in _creates(p, "raised")),
    "creation came too late": lambda p: any(
        isinstance(c.answer, trio.ClosedResourceError) for c in _creates(p, "raised")
    ),
    "creation given up": lambda p: _creates(p, "cancelled"),
    "creation given up when the process ran": _undone,
    "creation waited for a place": _waited_for_place,
    "left early by return": lambda p: _left_early(p, "return"),
    "left early by an exception": lambda p: _left_early(p, "raise"),
    "left early by cancellation": lambda p: _left_early(p, "cancel"),
    "subscriber saw the end": lambda p: any(
        c.outcome == "returned" and c.answer for c in _subscriptions(p)
    ),
    "subscriber came late": lambda p: any(c.began for c in _subscriptions(p)),
    "subscriber fell behind": lambda p: any(
        isinstance(c.args.get("lagged"), SubscriptionLaggedError) for c in _subscriptions(p)
    ),
    "subscriber resumed": lambda p: any(c.args["since"] for c in _subscriptions(p)),
    "subscriber left": lambda p: any(
        c.outcome == "unfinished" and c.answer for c in _subscriptions(p)
    ),
}


def reached(performance: Performance) -> set[str]:
    """The situations that a performance was in."""
    found = {name for name, holds in OF_A_SCOPE.items() if holds(performance)}
    for case in cases(performance):
        found |= {name for name, holds in OF_A_SHELL.items() if holds(case)}
    return found
