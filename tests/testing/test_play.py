"""Programs, played on a scope of the caller's own, as users test what they build on shells."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given, settings

import trioshell.testing
from trioshell import Created, Deleted, Event, Exited, Shells
from trioshell.testing import (
    Do,
    EventLog,
    Life,
    Program,
    Schedule,
    Script,
    check_events,
    lifecycles,
    play,
    quiet,
    run,
    schedules,
)


class Dashboard:
    """Somebody's code: shows what runs."""

    def __init__(self) -> None:
        self.running: set[str] = set()

    async def follow(self, shells: Shells) -> None:
        async with shells.subscribe() as events:
            async for event in events:
                self.take(event)

    def take(self, event: Event) -> None:
        match event:
            case Created():
                self.running.add(event.id)
            case Exited():
                self.running.discard(event.id)


class WrongDashboard(Dashboard):
    """Takes a shell off when it is deleted: one that only ended is shown for ever."""

    def take(self, event: Event) -> None:
        match event:
            case Created():
                self.running.add(event.id)
            case Deleted():
                self.running.discard(event.id)


async def show(board: Dashboard, program: Program) -> None:
    log = EventLog()
    launcher = program.launcher()
    async with trio.open_nursery() as nursery, program.open_shells(launcher, log) as shells:
        nursery.start_soon(board.follow, shells)
        calls = await play(program, shells)
        await quiet()
        assert board.running == log.running()
    check_events(log, launcher=launcher, retain=program.retain, calls=calls)


@settings(max_examples=50)
@given(program=lifecycles(), schedule=schedules())
def test_right_dashboard_passes(program: Program, schedule: Schedule) -> None:
    run(show, Dashboard(), program, schedule=schedule)


def test_wrong_dashboard_is_found() -> None:
    """And the program that shows it shrinks to one life without a rival."""
    found: list[Program] = []

    @settings(max_examples=100, database=None, derandomize=True)
    @given(program=lifecycles(), schedule=schedules())
    def look(program: Program, schedule: Schedule) -> None:
        try:
            run(show, WrongDashboard(), program, schedule=schedule)
        except* AssertionError:
            found.append(program)
            raise

    with pytest.raises(BaseExceptionGroup):
        look()
    ((life,),) = found[-1].actors
    assert life.rivals == ()


async def answers(program: Program) -> list[tuple[str, str]]:
    async with program.open_shells(program.launcher()) as shells:
        return [(call.op, call.outcome) for call in await play(program, shells)]


def test_callers_that_nobody_answers_are_given_up() -> None:
    program = Program(((Life(Script.forever(), (Do("wait"), Do("remove"))),),))
    assert run(answers, program) == [("create", "returned"), ("wait", "unfinished")]


def test_refusals_are_noted_and_the_actor_goes_on() -> None:
    failing = Life(Script.fails_to_start(), (Do("wait"),))
    twice = Life(Script.exits(), (Do("remove"), Do("remove"), Do("wait")))
    assert run(answers, Program(((failing, twice),))) == [
        ("create", "raised"),
        ("create", "returned"),
        ("remove", "returned"),
        ("remove", "raised"),
        ("wait", "raised"),
    ]


def test_limit_of_a_call_is_the_callers() -> None:
    program = Program(((Life(Script.exits(after=2.0), (Do("wait", within=1.0), Do("wait"))),),))
    assert run(answers, program)[1:] == [("wait", "cancelled"), ("wait", "returned")]


def test_literals_leave_out_what_is_usual() -> None:
    program = Program(((Life(Script.exits(), (Do("kill", 0.0, within=1.0),), timeout=2.0),),))
    text = "Program(((Life(Script.exits(0), (Do('kill', value=0.0, within=1.0),), timeout=2.0),),))"
    assert repr(program) == text
    assert eval(text, vars(trioshell.testing)) == program


def test_unknown_operation_is_named() -> None:
    with pytest.raises(ValueError, match="destroy"):
        Do("destroy")  # type: ignore[arg-type]
