"""What the library says of processes is compared with what truly happened to the fake ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from trioshell import Exited, Status
from trioshell.testing import (
    Call,
    Do,
    EventLog,
    Life,
    Performance,
    Program,
    Script,
    Violation,
    check_events,
    perform,
    run,
)

PROGRAM = Program(
    (
        (Life(Script.exits(3, after=1.0).prints(b"out"), (Do("wait"), Do("output"))),),
        (Life(Script.forever().holds_output_open(), (Do("kill", 0.5),)),),
        (Life(Script.exits().holds_output_open(), (Do("wait"),), background="keep"),),
        (Life(Script.forever(), (Do("wait"),), timeout=2.0),),
    )
)
EXITS, KILLED, KEEPS, LIMITED = range(4)


def told(performance: Performance, number: int, **changes: Any) -> None:
    """Let the events about the end of one shell say something else."""
    pid = performance.launcher.processes[number].pid
    events = performance.log.events
    for index, event in enumerate(events):
        if event.info.pid == pid and event.info.ended is not None:
            events[index] = attrs.evolve(event, info=attrs.evolve(event.info, **changes))


def output_is_lost(performance: Performance) -> None:
    performance.launcher.processes[EXITS].owed += b"more"


def page_is_wrong(performance: Performance) -> None:
    (page,) = [call for call in performance.calls if call.op == "output"]
    page.answer = attrs.evolve(page.answer, data=b"0ut")


def output_stays(performance: Performance) -> None:
    performance.launcher.processes[EXITS].capture.removed = False


def descendant_lives(performance: Performance, number: int) -> None:
    member = performance.launcher.processes[number].members[1]
    member.ended_at = None
    member.signals.clear()


def descendant_ends_late(performance: Performance) -> None:
    performance.launcher.processes[KILLED].members[1].ended_at = 100.0


def grace_is(performance: Performance, seconds: float) -> None:
    performance.launcher.processes[KILLED].kills[:] = [(0.0, seconds)]


def killed_after_the_limit(performance: Performance) -> None:
    """As if the end had been begun by the time limit, and the kill had come during the grace."""
    for call in performance.calls:
        if call.op in ("kill", "leave"):
            assert call.at is not None
            call.at += 0.5


def kill_spares_somebody(performance: Performance) -> None:
    """As if it had been killed before it was quiet, when what it keeps was still there."""
    (quiet,) = [call for call in performance.calls if call.op == "quiet"]
    keeper = performance.launcher.processes[KEEPS]
    (id,) = {event.id for event in performance.log if event.info.pid == keeper.pid}
    killed = Call("kill", id, {}, "actor 3", quiet.began, quiet.began, "cancelled", at=quiet.at)
    performance.calls.insert(performance.calls.index(quiet), killed)
    descendant_lives(performance, KEEPS)


def limit_is_longer(performance: Performance) -> None:
    """As if somebody had moved the limit, and that had been without effect."""
    (create,) = [call for call in performance.calls if call.args.get("timeout")]
    moved = Call("set_timeout", create.id, {"seconds": None}, "actor 4", 4, 4, "returned", at=1.0)
    performance.calls.insert(performance.calls.index(create) + 1, moved)


CHANGES: dict[str, tuple[str, Callable[[Performance], None]]] = {
    "killed, but it exited": (
        "status-truth",
        lambda p: told(p, EXITS, status=Status.KILLED),
    ),
    "exited, but it was killed": (
        "status-truth",
        lambda p: told(p, KILLED, status=Status.EXITED),
    ),
    "killed, but the limit came first": ("status-truth", killed_after_the_limit),
    "timed out, but no limit had passed": ("status-truth", limit_is_longer),
    "killed, but not all of it": ("kill-completes", kill_spares_somebody),
    "killed with more grace": ("kill-grace", lambda p: grace_is(p, 0.6)),
    "killed with less grace": ("kill-grace", lambda p: grace_is(p, 0.4)),
    "another code": ("status-truth", lambda p: told(p, EXITS, returncode=0)),
    "no code and no reason": ("status-truth", lambda p: told(p, EXITS, returncode=None)),
    "size too small": ("output-complete", lambda p: told(p, EXITS, size=2)),
    "size too large": ("output-complete", lambda p: told(p, EXITS, size=4)),
    "output lost": ("output-complete", output_is_lost),
    "page of another output": ("output-exact", page_is_wrong),
    "output of a deleted one": ("output-deleted", output_stays),
    "alive at exited": ("exited-true", lambda p: descendant_lives(p, KILLED)),
    "ended after exited": ("exited-true", descendant_ends_late),
    "alive after the scope": ("no-leak", lambda p: descendant_lives(p, KEEPS)),
}

LIES = {name: rule for name, (rule, _) in CHANGES.items()}


@pytest.mark.parametrize("name", CHANGES)
def test_lies_about_processes_are_caught_by_their_rule(name: str) -> None:
    rule, change = CHANGES[name]
    performance = run(perform, PROGRAM)
    performance.check()
    change(performance)
    calls = performance.calls
    with pytest.raises(Violation, match=r"process \d+ .*\(actor \d life 1") as caught:
        check_events(performance.log, launcher=performance.launcher, calls=calls)
    assert caught.value.rule == rule
    assert "its script: Script." in str(caught.value)


def test_log_without_times_is_checked_without_them() -> None:
    """Read from a file, for example."""
    performance = run(perform, PROGRAM)
    again = EventLog()
    for event in performance.log:
        again(event.as_dict())
    assert set(again.times) == {None}
    assert any(isinstance(event, Exited) for event in again)
    check_events(again, launcher=performance.launcher)
