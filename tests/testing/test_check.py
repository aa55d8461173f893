"""`check_events`: what is right passes, and every kind of lie is caught under its own name."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
import trio

from trioshell import (
    Created,
    Deleted,
    Event,
    Exited,
    Page,
    Result,
    ShellInfo,
    ShellNotFoundError,
    ShellRemovedError,
    Statistics,
    Status,
    SubscriptionLaggedError,
)
from trioshell.testing import (
    RULES,
    Call,
    Violation,
    check_events,
)

from .test_truth import LIES

RUNNING = ShellInfo(
    id="",
    status=Status.RUNNING,
    command="cmd",
    cwd="/",
    shell="/bin/sh",
    pid=1,
    file=None,
    started=0.0,
)


def info_of(id: str, status: str = "running", **changes: Any) -> ShellInfo:
    ended = None if status == "running" else 1.0
    returncode = None if status == "running" else 0
    changes = {"ended": ended, "returncode": returncode} | changes
    return attrs.evolve(RUNNING, id=id, status=Status(status), **changes)


def log(*words: str) -> list[Event]:
    """Events from words: ``a`` creates shell a, ``a!killed`` ends it, ``-a`` deletes it."""
    events: list[Event] = []
    ends: dict[str, ShellInfo] = {}
    for seq, word in enumerate(words, 1):
        id, _, status = word.strip("-~").partition("!")
        common: dict[str, Any] = {"seq": seq, "time": 0.0, "id": id}
        if word[0] in "-~":
            reason = "removed" if word[0] == "-" else "evicted"
            info = ends.get(id, info_of(id, "killed"))
            events.append(Deleted(info=info, reason=reason, **common))  # type: ignore[arg-type]
        elif status:
            ends[id] = info_of(id, status)
            events.append(Exited(info=ends[id], **common))
        else:
            events.append(Created(info=info_of(id), **common))
    return events


def changed(events: list[Event], index: int, **changes: Any) -> list[Event]:
    """Another info in one of the events."""
    info = attrs.evolve(events[index].info, **changes)
    events[index] = attrs.evolve(events[index], info=info)
    return events


def call(op: str, began: int, ended: int | None, answer: object, **more: Any) -> Call:
    outcome = "raised" if isinstance(answer, Exception) else "returned"
    fields = {"id": "a", "args": {}, "actor": "somebody", "outcome": outcome} | more
    return Call(op, began=began, ended=ended, answer=answer, **fields)


def caught(events: Any, **options: Any) -> Violation:
    with pytest.raises(Violation) as violation:
        check_events(events, **options)
    return violation.value


GOOD = {
    "nothing": log(),
    "a life": log("a", "a!exited", "-a"),
    "kept": log("a", "a!timeout"),
    "two lives": log("a", "b", "b!killed", "-b", "a!exited"),
    "evicted": log("a", "b", "a!exited", "b!exited", "~a"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_logs_pass(name: str) -> None:
    check_events(GOOD[name], retain=1)
    # As a program that ran long ago has written them.
    check_events([json.loads(json.dumps(event.as_dict())) for event in GOOD[name]], retain=1)


def test_log_that_is_cut_passes_if_it_says_so() -> None:
    """At the end, and at the beginning: the first words about some shells are missing."""
    whole = log("a", "b", "a!exited", "-a", "b!exited")
    for first in range(5):
        for last in range(first, 6):
            check_events(whole[first:last], complete=False, retain=25)


BAD: dict[str, tuple[str, list[Event]]] = {
    "exited only": ("created-first", log("a!exited")),
    "deleted only": ("created-first", log("-a")),
    "created last": ("created-first", log("a", "a!exited", "a")),
    "created when it was gone": ("created-first", log("a", "a!exited", "-a", "a")),
    "created twice": ("one-created", log("a", "a", "a!exited")),
    "exited twice": ("one-exited", log("a", "a!exited", "a!killed")),
    "exited when it was gone": ("exited-before-deleted", log("a", "a!killed", "-a", "a!exited")),
    "deleted without an end": ("exited-before-deleted", log("a", "-a")),
    "deleted, then exited": ("exited-before-deleted", log("a", "-a", "a!exited")),
    "deleted twice": ("one-deleted", log("a", "a!exited", "-a", "-a")),
    "never exited": ("exited-missing", log("a", "b", "b!exited")),
    "missing event": ("gapless-seq", log("a", "b", "a!exited", "b!exited")[:1] + log(*"abcd")[2:]),
    "too many kept": ("retention", log("a", "b", "a!exited", "b!exited", "c", "c!exited", "~a")),
    "evicted too early": ("retention", log("a", "a!exited", "~a")),
    "evicted the wrong one": (
        "eviction-order",
        log("a", "b", "b!exited", "a!exited", "~a"),
    ),
    "created as ended": ("info-consistent", changed(log("a", "a!exited"), 0, status=Status.EXITED)),
    "created without a pid": ("info-consistent", changed(log("a", "a!exited"), 0, pid=0)),
    "exited as running": ("info-consistent", changed(log("a", "a!exited"), 1, ended=None)),
    "ended before it started": ("info-consistent", changed(log("a", "a!exited"), 1, ended=-1.0)),
    "another command": ("info-consistent", changed(log("a", "a!exited"), 1, command="other")),
    "another metadata": ("info-consistent", changed(log("a", "a!exited"), 1, metadata={"a": 1})),
    "info of another": ("info-consistent", changed(log("a", "a!exited"), 1, id="b")),
    "deleted with another end": (
        "info-consistent",
        changed(log("a", "a!exited", "-a"), 2, returncode=1),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_logs_are_caught_by_their_rule(name: str) -> None:
    rule, events = BAD[name]
    assert caught(events, retain=1).rule == rule


LIFE = log("a", "a!killed", "-a")
END = LIFE[1].info
REMOVED = ShellRemovedError(END)
KEPT = log("a", "a!exited")
LATE = log("a", "b", "a!exited", "b!exited", "-a")
LAGGED = SubscriptionLaggedError(0, 2)
WHOLE = log("a", "b", "a!exited", "b!exited")


def counted(running: int, retained: int) -> Statistics:
    return Statistics(
        running=running, retained=retained, created=1, ended=retained, last_seq=0, subscribers=0
    )


EXPLAINED: dict[str, tuple[list[Event], Call]] = {
    "create": (LIFE, call("create", 0, 1, None)),
    "create refused": (
        LIFE,
        call("create", 0, 1, OSError(), args={"command": "x"}),
    ),
    "get": (KEPT, call("get", 1, 1, info_of("a"))),
    "get of an ended one": (KEPT, call("get", 2, 2, END)),
    "get of a deleted one": (LIFE, call("get", 3, 3, ShellNotFoundError("a"))),
    "list": (LIFE, call("list", 1, 1, [info_of("a")], id=None)),
    "list of nothing": (LIFE, call("list", 2, 2, [], id=None)),
    "known": (KEPT, call("known", 2, 2, ["a"], id=None)),
    "statistics": (KEPT, call("statistics", 2, 2, counted(0, 1), id=None)),
    "wait": (KEPT, call("wait", 0, 2, KEPT[1].info)),
    "wait for one that is removed": (LIFE, call("wait", 1, 3, REMOVED)),
    "wait for one that was removed": (LIFE, call("wait", 3, 3, REMOVED)),
    "wait for a killed one that is removed then": (LIFE, call("wait", 1, 3, END)),
    "wait given up": (KEPT, call("wait", 1, 2, None, outcome="cancelled")),
    "wait still going on": (KEPT, call("wait", 1, None, None, outcome="unfinished")),
    "wait in vain": (KEPT, call("wait", 1, 1, None, outcome="unfinished")),
    "result": (LIFE, call("result", 1, 3, Result(END, None))),
    "kill": (LIFE, call("kill", 1, 2, END)),
    "kill refused": (LIFE, call("kill", 3, 3, REMOVED)),
    "remove": (LIFE, call("remove", 1, 3, None)),
    "remove refused": (LIFE, call("remove", 3, 3, REMOVED)),
    "remove given up": (LIFE, call("remove", 1, 1, None, outcome="cancelled")),
    "wait_all": (WHOLE, call("wait_all", 1, 4, None, id=None)),
    "output": (KEPT, call("output", 2, 2, Page(b"", 0, 0, final=True))),
    "subscribed": (WHOLE, call("subscribe", 1, 4, WHOLE[1:], args={"since": None})),
    "subscribed since": (WHOLE, call("subscribe", 3, 4, WHOLE, args={"since": 0})),
    "subscribed and left": (
        WHOLE,
        call("subscribe", 0, 2, WHOLE[:2], args={"since": None}, outcome="unfinished"),
    ),
    "subscribed and fell behind": (
        WHOLE,
        call(
            "subscribe",
            *(0, 2, []),
            args={"since": None, "lagged": LAGGED},
            outcome="unfinished",
        ),
    ),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_right_answers_are_explained(name: str) -> None:
    events, answered = EXPLAINED[name]
    check_events(events, calls=[answered])


UNEXPLAINED: dict[str, tuple[str, list[Event], Call]] = {
    "create too early": ("call-explained", LATE, call("create", 0, 1, None, id="b")),
    "create of nothing": ("call-explained", LIFE, call("create", 0, 1, None, id="c")),
    "create that raised": (
        "half-shell",
        LIFE,
        call("create", 0, 1, OSError(), id=None, args={"command": "cmd"}),
    ),
    "get of a deleted one": ("call-explained", LIFE, call("get", 3, 3, END)),
    "get that misses one": ("call-explained", LIFE, call("get", 1, 1, ShellNotFoundError("a"))),
    "get of a running one as ended": ("call-explained", LIFE, call("get", 1, 1, END)),
    "list of an ended one": ("call-explained", KEPT, call("list", 2, 2, [END], id=None)),
    "list that misses one": ("call-explained", KEPT, call("list", 1, 1, [], id=None)),
    "known without one": ("call-explained", KEPT, call("known", 2, 2, [], id=None)),
    "statistics": ("call-explained", KEPT, call("statistics", 2, 2, counted(1, 0), id=None)),
    "wait that ends too early": ("waiter-agrees", KEPT, call("wait", 0, 1, KEPT[1].info)),
    "wait with another end": ("waiter-agrees", KEPT, call("wait", 0, 2, info_of("a", "timeout"))),
    "wait answered after the removal": ("waiter-agrees", LIFE, call("wait", 3, 3, END)),
    "wait refused before the removal": ("waiter-agrees", LIFE, call("wait", 1, 2, REMOVED)),
    "wait that loses its result": (
        "waiter-agrees",
        LATE,
        call("wait", 1, 5, ShellRemovedError(LATE[2].info)),
    ),
    "wait that loses it to an eviction": (
        "waiter-agrees",
        log("a", "a!killed", "~a"),
        call("wait", 3, 3, REMOVED),
    ),
    "wait that is forgotten": (
        "waiter-agrees",
        KEPT,
        call("wait", 1, 2, None, outcome="unfinished"),
    ),
    "wait_all too early": ("waiter-agrees", WHOLE, call("wait_all", 1, 3, None, id=None)),
    "kill with another end": ("waiter-agrees", LIFE, call("kill", 1, 2, info_of("a", "exited"))),
    "kill that ends too early": ("waiter-agrees", LIFE, call("kill", 1, 1, END)),
    "kill refused": ("call-explained", LIFE, call("kill", 1, 2, REMOVED)),
    "remove that ends too early": ("call-explained", LIFE, call("remove", 1, 2, None)),
    "remove refused": ("call-explained", LIFE, call("remove", 2, 2, REMOVED)),
    "remove that is forgotten": (
        "waiter-agrees",
        LIFE,
        call("remove", 1, 3, None, outcome="unfinished"),
    ),
    "removed one that is kept": ("removed-not-retained", LATE, call("remove", 2, 5, None)),
    "subscriber that misses one": (
        "same-order",
        WHOLE,
        call("subscribe", 0, 4, [WHOLE[0], WHOLE[2]], args={"since": None}),
    ),
    "subscriber that sees another order": (
        "same-order",
        WHOLE,
        call("subscribe", 0, 4, WHOLE[::-1], args={"since": None}),
    ),
    "subscriber that misses the end": (
        "same-order",
        WHOLE,
        call("subscribe", 0, 4, WHOLE[:3], args={"since": None}),
    ),
    "subscriber that resumes elsewhere": (
        "same-order",
        WHOLE,
        call(
            "subscribe",
            *(0, 4, WHOLE[:2]),
            args={"since": None, "lagged": LAGGED},
            outcome="unfinished",
        ),
    ),
    "final page of a running one": (
        "output-exact",
        KEPT,
        call("output", 1, 1, Page(b"", 0, 0, final=True)),
    ),
    "page beyond the end": ("output-exact", KEPT, call("output", 1, 1, Page(b"x", 1, 1))),
}


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_wrong_answers_are_caught_by_their_rule(name: str) -> None:
    rule, events, answered = UNEXPLAINED[name]
    violation = caught(events, calls=[answered])
    assert violation.rule == rule
    assert f"somebody: {answered.op}(" in str(violation)


@pytest.mark.parametrize("op", ["kill", "remove"])
def test_kill_that_never_completes_is_caught(op: str) -> None:
    """C6: whether its caller still waits for it or not."""
    quiet = call("quiet", 1, 1, None, id=None)
    begun = call(op, 1, 1, None, outcome="cancelled")
    assert caught(KEPT, calls=[begun, quiet]).rule == "kill-completes"
    check_events(LIFE, calls=[begun, attrs.evolve(quiet, began=3)])


def test_time_limit_that_never_ends_a_shell_is_caught() -> None:
    """C3: the limit that counts is the one that was set last."""
    quiet = call("quiet", 1, 1, None, id=None)
    begun = call("create", 0, 1, None, args={"command": "cmd", "timeout": 1.0})
    assert caught(KEPT, calls=[begun, quiet]).rule == "limit-ends"
    cleared = call("set_timeout", 1, 1, None, args={"seconds": None})
    check_events(KEPT, calls=[begun, cleared, quiet])
    again = call("set_timeout", 1, 1, None, args={"seconds": 2.0})
    assert caught(KEPT, calls=[begun, cleared, again, quiet]).rule == "limit-ends"
    check_events(KEPT, calls=[begun, attrs.evolve(quiet, began=2)])


def test_place_that_is_not_given_back_is_caught() -> None:
    """C9: a create waits for a place as long as there is none, and no longer."""
    waiting = call("create", 0, 3, None, id=None, args={"command": "b"}, outcome="unfinished")
    sent_away = attrs.evolve(waiting, outcome="raised", answer=trio.ClosedResourceError())
    for create in (waiting, sent_away):
        calls = [create, call("quiet", 2, 2, None, id=None)]
        assert caught(KEPT, calls=calls, limit=1).rule == "places"
        check_events(KEPT, calls=calls)
        check_events(KEPT, calls=[calls[0], attrs.evolve(calls[1], began=1)], limit=1)


def test_shell_without_a_place_is_caught() -> None:
    assert caught(WHOLE, limit=1).rule == "places"
    check_events(WHOLE, limit=2)
    check_events(log("a", "a!exited", "b", "b!exited"), limit=1)


@pytest.mark.parametrize(
    ("op", "answer"), [("wait", END), ("result", Result(END, "output"))], ids=["wait", "result"]
)
def test_waiter_that_is_not_told_of_the_removal_is_caught(op: str, answer: object) -> None:
    """C7: but if something else came first, that is what is told."""
    waiting, removing = call(op, 1, 2, answer), call("remove", 1, 3, None)
    leaving = call("leave", 3, 3, None, id=None)
    assert caught(LIFE, calls=[waiting, removing, leaving]).rule == "waiter-agrees"
    killing = call("kill", 1, 2, END)
    check_events(LIFE, calls=[waiting, killing, removing, leaving])
    check_events(LIFE, calls=[waiting, leaving, removing])
    check_events(LIFE, calls=[waiting, removing])  # who knows when the scope was left


def test_removal_that_nobody_asked_for_is_caught() -> None:
    """C8: an ended shell stays as long as it may."""
    leaving = call("leave", 3, 3, None, id=None)
    assert caught(LIFE, calls=[leaving]).rule == "retention"
    check_events(LIFE, calls=[call("remove", 1, 3, None), leaving])


def test_create_that_is_never_answered_is_caught() -> None:
    """It may wait for a place as long as the scope lasts, and no longer."""
    waiting = call("create", 0, 3, None, id=None, args={"command": "b"}, outcome="unfinished")
    check_events(LIFE, calls=[waiting])
    left = call("leave", 3, 3, None, id=None)
    assert caught(LIFE, calls=[waiting, left]).rule == "call-explained"


def test_violation_tells_the_story() -> None:
    violation = caught(log("b", "a", "-a"))
    assert (violation.rule, violation.id, violation.seq) == ("exited-before-deleted", "a", 3)
    assert str(violation).splitlines() == [
        "[exited-before-deleted] shell 2: deleted without exited",
        "  its life:  created@2 -> deleted@3 <-- here",
        "  rule:      exited comes before any deleted (C1)",
        "  around it: created shell 1@1  created shell 2@2  deleted shell 2@3",
    ]


def test_every_rule_is_tested() -> None:
    """Here or in test_truth."""
    rules = {rule for rule, *_ in (*BAD.values(), *UNEXPLAINED.values())}
    assert rules | set(LIES.values()) | {"kill-completes", "limit-ends", "places"} == set(RULES)


@pytest.mark.parametrize("wrong", [{}, {"type": "shell.born"}, "created", None])
def test_what_is_no_event_is_named(wrong: Any) -> None:
    with pytest.raises(ValueError, match="not an event"):
        check_events([wrong])
