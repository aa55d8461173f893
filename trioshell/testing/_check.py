"""`check_events`: does a log keep the promises?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from .._events import Created, Deleted, Event, Exited
from .._records import Status
from ._answers import check_calls
from ._calls import Call
from ._fake import FakeLauncher
from ._log import EventLog, History, Life
from ._rules import Violation, violation
from ._truth import check_truth


def check_events(
    events: EventLog | Iterable[Event | Mapping[str, Any]],
    *,
    complete: bool = True,
    launcher: FakeLauncher | None = None,
    retain: int | None = None,
    limit: int | None = None,
    calls: Iterable[Call] = (),
) -> None:
    """Check a log against the contract. A pure function, also for logs of production.

    Args:
        events: The events of one scope in order: a log, events, or what their ``as_dict()``
            returned. A log may begin anywhere.
        complete: It goes to the end of the scope.
        launcher: Compare it with what truly happened to the fake processes, too.
        retain: How many ended shells the scope retains, if that is known.
        limit: How many shells may run at once, if that is known.
        calls: Answers to be explained by the log, from `play` or a `Recorder`.

    Raises:
        Violation: A promise is broken: the first one that is found.
    """
    __tracebackhide__ = True
    log = events if isinstance(events, EventLog) else _collect(events)
    calls = tuple(calls)
    try:
        history = History.of(log)
        for broken in _violations(history, complete=complete, retain=retain, limit=limit):
            raise broken
        if launcher is not None:
            check_truth(history, launcher, calls, complete=complete)
        check_calls(history, calls, limit)
    except Violation as broken:
        raise broken.with_traceback(None) from None  # where it was found says nothing


def _collect(events: Iterable[Event | Mapping[str, Any]]) -> EventLog:
    log = EventLog()
    for event in events:
        log(event)
    return log


def _violations(
    history: History, *, complete: bool, retain: int | None, limit: int | None
) -> Iterator[Violation]:
    yield from _numbering(history)
    for life in history.lives.values():
        yield from _grammar(history, life)
        yield from _infos(history, life)
    yield from _retained(history, retain)
    yield from _crowded(history, limit)
    if complete:
        yield from _endings(history)


def _numbering(history: History) -> Iterator[Violation]:
    expected = history.first_seq
    for event in history.events:
        if event.seq != expected:
            what = f"seq {event.seq} follows {expected - 1}"
            yield violation(history, "gapless-seq", what, event=event)
        expected = event.seq + 1


def _grammar(history: History, life: Life) -> Iterator[Violation]:
    """The automaton of one shell: what has been said so far allows what is said next."""
    # Of a log that begins in the middle, the first words about some shells are missing.
    said = "" if history.first_seq == 1 or life.created else "unknown"
    for event in life.events:
        broken = _BROKEN.get((type(event), said))
        if broken is not None:
            yield violation(history, *broken, event=event)
        said = event.type.removeprefix("shell.")


_BROKEN: Mapping[tuple[type[Event], str], tuple[str, str]] = {
    (Created, "created"): ("one-created", "created twice"),
    (Created, "exited"): ("created-first", "created after exited"),
    (Created, "deleted"): ("created-first", "created after deleted"),
    (Exited, ""): ("created-first", "exited, but never created"),
    (Exited, "exited"): ("one-exited", "exited twice"),
    (Exited, "deleted"): ("exited-before-deleted", "exited after deleted"),
    (Deleted, ""): ("created-first", "deleted, but never created"),
    (Deleted, "created"): ("exited-before-deleted", "deleted without exited"),
    (Deleted, "deleted"): ("one-deleted", "deleted twice"),
}


def _endings(history: History) -> Iterator[Violation]:
    for life in history.lives.values():
        if life.exited is None:
            what = "the scope ended and exited was never reported"
            yield violation(history, "exited-missing", what, id=life.id)


def _infos(history: History, life: Life) -> Iterator[Violation]:
    for event in life.events:
        for what in _contradictions(life, event):
            yield violation(history, "info-consistent", what, event=event)


def _contradictions(life: Life, event: Event) -> Iterator[str]:
    info = event.info
    if info.id != event.id:
        yield f"the info is that of {info.id}"
    if isinstance(event, Created):
        if info.status is not Status.RUNNING or info.ended is not None:
            yield f"created with an info that has ended: {info!r}"
        if info.pid <= 0:
            yield f"created without a pid: {info.pid}"
        return
    if info.status is Status.RUNNING or info.ended is None:
        yield f"ended with an info that runs: {info!r}"
    elif info.ended < info.started:
        yield f"ended at {info.ended}, before it started at {info.started}"
    if life.created is not None and _identity(info) != _identity(life.created.info):
        yield f"another shell than was created: {info!r}, not {life.created.info!r}"
    if isinstance(event, Deleted) and life.exited is not None and info != life.exited.info:
        yield f"deleted with another info than it ended with: {info!r}"


def _identity(info: Any) -> tuple[object, ...]:
    """What does not change in the life of a shell."""
    return (
        *(info.id, info.command, info.cwd, info.shell, info.pid, info.file, info.started),
        dict(info.metadata),
    )


def _crowded(history: History, limit: int | None) -> Iterator[Violation]:
    """Who runs while there is no place for it."""
    if limit is None or history.first_seq != 1:
        return
    running = 0
    for event in history.events:
        running += isinstance(event, Created) - isinstance(event, Exited)
        if isinstance(event, Created) and running > limit:
            what = f"{running} shells run at once, where {limit} may"
            yield violation(history, "places", what, event=event)


def _retained(history: History, retain: int | None) -> Iterator[Violation]:
    """Who has a place among the retained ones, event by event."""
    if retain is None or history.first_seq != 1:
        return
    places = _Places(history, retain)
    for event in history.events:
        yield from places.step(event)


@attrs.define(eq=False)
class _Places:
    """The retained shells, in the order of their ends."""

    history: History
    retain: int
    kept: list[str] = attrs.field(factory=list)

    def step(self, event: Event) -> Iterator[Violation]:
        if isinstance(event, Deleted):
            yield from self._deleted(event)
        elif len(self.kept) > self.retain:
            # An end and the eviction that makes room for it are one step, so nothing may be
            # published between them.
            what = f"{len(self.kept)} ended shells are kept, where {self.retain} are retained"
            yield violation(self.history, "retention", what, event=event)
        if isinstance(event, Exited):
            self.kept.append(event.id)

    def _deleted(self, event: Deleted) -> Iterator[Violation]:
        if event.id not in self.kept:
            return
        if event.reason == "evicted":
            if len(self.kept) <= self.retain:
                what = f"evicted, while {len(self.kept)} of {self.retain} places were taken"
                yield violation(self.history, "retention", what, event=event)
            if self.kept[0] != event.id:
                what = f"evicted before {self.history.name(self.kept[0])}, which ended first"
                yield violation(self.history, "eviction-order", what, event=event)
        self.kept.remove(event.id)
