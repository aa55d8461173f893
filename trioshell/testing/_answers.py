"""Is every answer explained by the log?

Publishing is the moment at which a change happens for everyone, so an answer has to be true at
some position in the log between the call and the return. Shells are independent of each other, so
there is no order to be searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs
import trio

from .._events import Event
from .._exceptions import ShellNotFoundError, ShellRemovedError, SubscriptionLaggedError
from .._records import Status
from ._calls import Call, are_all, time_limits
from ._log import History, Life
from ._rules import Violation, violation


def check_calls(history: History, calls: Iterable[Call], limit: int | None) -> None:
    """Explain each call.

    Args:
        history: The log.
        calls: In the order they were made.
        limit: How many shells may run at once, if that is known.

    Raises:
        Violation: One of them cannot be explained.
    """
    calls = tuple(calls)
    for call in calls:
        explain = _EXPLAIN.get(call.op)
        if explain is not None and call.outcome in ("returned", "raised", "unfinished"):
            explain(_Case(history, call, calls, limit))
    _check_half_shells(history, calls)
    _check_removals(history, calls)
    _check_reasons(history, calls)


@attrs.frozen
class _Case:
    """One call and what the log knows of its shell."""

    history: History
    call: Call
    calls: tuple[Call, ...] = ()
    limit: int | None = None

    @property
    def life(self) -> Life:
        life = self.history.lives.get(self.call.id or "")
        if life is None:
            raise self.broken("call-explained", "the log does not know this shell")
        return life

    @property
    def returned(self) -> bool:
        return self.call.outcome == "returned"

    @property
    def began(self) -> int:
        return self.call.began

    @property
    def ended(self) -> int:
        return self.history.last_seq if self.call.ended is None else self.call.ended

    @property
    def answer(self) -> Any:
        return self.call.answer

    @property
    def refused(self) -> bool:
        """It was told that the shell is not known (any more)."""
        return isinstance(self.answer, ShellNotFoundError)

    @property
    def removed_before(self) -> bool:
        """Somebody asked to forget the shell, and that was done before the call."""
        deleted = self.life.deleted
        return deleted is not None and deleted.reason == "removed" and deleted.seq <= self.began

    @property
    def removed_while_running(self) -> bool:
        """A removal was the first cause of its end, which then is told to nobody (C7)."""
        exited = self.life.exited
        if exited is None or exited.info.status is not Status.KILLED or not are_all(self.calls):
            return False
        first = next(filter(self._claims, self.calls), None)
        return first is not None and first.op == "remove" and first.began < exited.seq

    def _claims(self, call: Call) -> bool:
        ends = call.op in ("kill", "remove") and call.id == self.call.id
        return call.op == "leave" or (ends and call.outcome != "raised")

    def happened(self, event: Event | None, by: int) -> bool:
        return event is not None and event.seq <= by

    def demand(self, condition: object, rule: str, what: str) -> None:
        if not condition:
            raise self.broken(rule, what)

    def broken(self, rule: str, what: str) -> Violation:
        facts = [f"the call:  {self.call}"]
        return violation(self.history, rule, what, id=self.call.id, facts=facts)


def _create(case: _Case) -> None:
    if not case.returned:
        lost = are_all(case.calls) and case.call.outcome == "unfinished"
        case.demand(not lost, "call-explained", "create was never answered, though the scope ended")
        return
    created = case.life.created
    inside = created is not None and case.began < created.seq <= case.ended
    case.demand(inside, "call-explained", "create returned, but not with what it created")


def _get(case: _Case) -> None:
    if not case.returned:
        known = case.life.known_at(case.began)
        case.demand(not known, "call-explained", "get did not find a shell that is known")
        return
    case.demand(case.life.known_at(case.began), "call-explained", "get found a deleted shell")
    runs = case.answer.status is Status.RUNNING
    told = case.life.runs_at(case.began) == runs
    case.demand(told, "call-explained", f"get said {case.answer.status}")


def _list(case: _Case) -> None:
    told = [info.id for info in case.answer]
    _compare(case, told, case.history.running_at(case.began), "list")


def _known(case: _Case) -> None:
    lives = case.history.lives.values()
    true = [life.id for life in lives if life.known_at(case.began)]
    _compare(case, case.answer, true, "iterating")


def _compare(case: _Case, told: list[str], true: list[str], what: str) -> None:
    names = [[case.history.name(id) for id in ids] for ids in (told, true)]
    case.demand(told == true, "call-explained", f"{what} gave {names[0]}, but there are {names[1]}")


def _statistics(case: _Case) -> None:
    lives, seq = case.history.lives.values(), case.began
    running = sum(life.runs_at(seq) for life in lives)
    known = sum(life.known_at(seq) for life in lives)
    created = sum(case.happened(life.created, seq) for life in lives)
    ended = sum(case.happened(life.exited, seq) for life in lives)
    told = case.answer
    counts = (told.running, told.retained, told.created, told.ended)
    true = (running, known - running, created, ended)
    what = f"statistics gave {counts} (running, retained, created, ended), but it is {true}"
    case.demand(counts == true, "call-explained", what)


def _wait_all(case: _Case) -> None:
    positions = range(case.began, case.ended + 1)
    idle = any(not case.history.running_at(seq) for seq in positions)
    case.demand(not case.returned or idle, "waiter-agrees", "wait_all returned while shells ran")


def _wait(case: _Case) -> None:
    exited, deleted = case.life.exited, case.life.deleted
    if case.returned:
        _check_info(case, case.answer)
        gone = case.removed_before
        case.demand(not gone, "waiter-agrees", "a wait that began after its removal was answered")
        case.demand(
            not case.removed_while_running, "waiter-agrees", "a waiter was not told of the removal"
        )
    elif isinstance(case.answer, ShellRemovedError):
        _check_info(case, case.answer.info)
        gone = case.happened(deleted, case.ended)
        case.demand(gone, "waiter-agrees", "told of a removal before deleted")
        case.demand(_may_be_told_removed(case), "waiter-agrees", "a waiter lost its result")
    _check_woken(case, exited)


def _may_be_told_removed(case: _Case) -> bool:
    """It was removed before, or while it ran: an end that came first is what is told (C7)."""
    exited, deleted = case.life.exited, case.life.deleted
    if deleted is None or deleted.reason != "removed":
        return False  # an eviction takes an end from nobody who has the handle (C8)
    if case.happened(deleted, case.began) or exited is None:
        return True
    return exited.info.status is Status.KILLED


def _result(case: _Case) -> None:
    if case.returned:
        _check_info(case, case.answer.info)
        has_output = case.answer.output is not None
        gone = case.removed_while_running
        case.demand(not (gone and has_output), "waiter-agrees", "a removed shell gave output")
    _check_woken(case, case.life.exited)


def _kill(case: _Case) -> None:
    if case.returned:
        _check_info(case, case.answer)
    elif case.refused:
        gone = case.removed_before
        case.demand(gone, "call-explained", "kill was refused before the removal")
    _check_woken(case, case.life.exited)


def _remove(case: _Case) -> None:
    deleted = case.life.deleted
    if case.returned:
        gone = case.happened(deleted, case.ended)
        case.demand(gone, "call-explained", "remove returned before deleted")
    elif case.refused:
        gone = case.happened(deleted, case.began)
        case.demand(gone, "call-explained", "remove was refused before deleted")
    _check_woken(case, deleted)


def _check_info(case: _Case, info: Any) -> None:
    exited = case.life.exited
    said = case.happened(exited, case.ended)
    case.demand(said, "waiter-agrees", "told of an end before exited")
    assert exited is not None
    what = f"was told {info.status} with {info.returncode}, not what exited says"
    case.demand(info == exited.info, "waiter-agrees", what)


def _check_woken(case: _Case, event: Event | None) -> None:
    waited = case.call.outcome == "unfinished" and case.call.ended is not None
    lost = waited and case.happened(event, case.ended)
    case.demand(not lost, "waiter-agrees", f"{case.call.op} was never answered")


def _quiet(case: _Case) -> None:
    """Nothing could happen any more: whatever was begun by then had to be over."""
    running = case.history.running_at(case.began)
    before = case.calls[: case.calls.index(case.call)]
    for call in before:
        if call.op in ("kill", "remove") and call.id in running:
            what = f"it runs on for ever, although it was to be ended by {call.actor}"
            raise _Case(case.history, call).broken("kill-completes", what)
    for id in running:
        limit = _time_limit(id, before)
        if limit is not None:
            what = "it runs on for ever, although this was its time limit"
            raise _Case(case.history, limit).broken("limit-ends", what)
    _check_places(case, before, len(running))


def _time_limit(id: str, calls: Iterable[Call]) -> Call | None:
    """The call that gave a shell the time limit that it has after all these calls."""
    last = None
    for call, seconds in time_limits(id, calls):
        last = call if seconds < math.inf else None
    return last


def _check_places(case: _Case, before: Iterable[Call], running: int) -> None:
    """Nobody may wait for a place while there is one."""
    if case.limit is None or running >= case.limit:
        return
    for call in before:
        over = isinstance(call.answer, trio.ClosedResourceError)
        if call.op == "create" and (over or call.outcome == "unfinished"):
            what = f"it waited for ever, while {running} of {case.limit} places were taken"
            raise _Case(case.history, call).broken("places", what)


def _subscribe(case: _Case) -> None:
    since = case.call.args["since"]
    first = case.began if since is None else since
    seen: list[Event] = case.answer
    true = [event for event in case.history.events if event.seq > first][: len(seen)]
    case.demand(seen == true, "same-order", f"a subscriber saw {_seqs(seen)}, not {_seqs(true)}")
    if isinstance(lag := case.call.args.get("lagged"), SubscriptionLaggedError):
        last = seen[-1].seq if seen else first
        case.demand(lag.seq == last, "same-order", f"told to resume at {lag.seq}, not at {last}")
    elif case.returned:
        whole = len(seen) == case.history.last_seq - first
        case.demand(whole, "same-order", f"a subscriber saw no event after {_seqs(seen)}")


def _seqs(events: Iterable[Event]) -> list[int]:
    return [event.seq for event in events]


def _output(case: _Case) -> None:
    if not case.returned:
        return
    page, exited = case.answer, case.life.exited
    short = exited is not None and page.size > exited.info.size
    case.demand(not short, "output-exact", "a page knew of more bytes than there were in the end")
    final = not page.final or case.happened(exited, case.ended)
    case.demand(final, "output-exact", "a page was called final while the shell ran")


_EXPLAIN: Mapping[str, Callable[[_Case], None]] = {
    "create": _create,
    "get": _get,
    "list": _list,
    "known": _known,
    "statistics": _statistics,
    "wait_all": _wait_all,
    "wait": _wait,
    "result": _result,
    "kill": _kill,
    "remove": _remove,
    "subscribe": _subscribe,
    "quiet": _quiet,
    "output": _output,
}


def _check_half_shells(history: History, calls: Iterable[Call]) -> None:
    """Whoever was told that there is no shell was told the truth (C2)."""
    creates = [call for call in calls if call.op == "create"]
    claimed = {call.id for call in creates if call.outcome == "returned"}
    for call in creates:
        if call.outcome == "returned":
            continue
        case = _Case(history, call)
        for life in history.lives.values():
            created = life.created
            if created is None or life.id in claimed:
                continue
            inside = case.began < created.seq <= case.ended
            if inside and created.info.command == call.args["command"]:
                raise case.broken("half-shell", f"but there is {history.name(life.id)}")


def _check_removals(history: History, calls: Iterable[Call]) -> None:
    """A shell that was running when `remove` was called is deleted in the step of its end."""
    for call in calls:
        if call.op != "remove" or call.outcome == "raised":
            continue
        case = _Case(history, call)
        exited, deleted = case.life.exited, case.life.deleted
        if exited is None or exited.seq <= call.began:
            continue
        at_once = deleted is not None and deleted.seq == exited.seq + 1
        case.demand(at_once, "removed-not-retained", "it was kept after its end")


def _check_reasons(history: History, calls: tuple[Call, ...]) -> None:
    """Who was removed was removed by somebody."""
    if not are_all(calls):
        return
    for life in history.lives.values():
        deleted = life.deleted
        if deleted is None or deleted.reason != "removed":
            continue
        asked = (call.op == "remove" and call.id == life.id for call in calls)
        if not any(asked):
            what = "deleted as removed, but nobody has removed it"
            raise violation(history, "retention", what, event=deleted)
