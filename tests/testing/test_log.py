"""The log as an observer, and as a fold."""

from __future__ import annotations

from trio.testing import MockClock

from trioshell import open_shells
from trioshell.testing import EventLog, FakeLauncher, Script


async def test_log_folds_to_what_there_is(autojump_clock: MockClock) -> None:
    log = EventLog()
    launcher = FakeLauncher().on("short", Script.exits(after=1.0))
    launcher.on("shorter", Script.exits(3, after=0.5))
    async with open_shells(launcher=launcher, observers=[log], retain=1) as shells:
        first = await shells.create("shorter")
        second = await shells.create("short")
        third = await shells.create("long")
        assert log.running() == {first.id, second.id, third.id}
        assert list(log.running()) == [info.id for info in shells.list()]
        await shells[second.id].wait()
        assert (log.running(), list(log.retained())) == ({third.id}, [second.id])
        await third.remove()
        assert (log.running(), log.retained()) == (set(), {second.id})
        assert log.of(third.id) == ["created", "exited(killed)", "deleted"]
    assert (log.running(), log.retained()) == (set(), set())
    assert log.of(second.id) == ["created", "exited(exited)", "deleted"]
    assert log.view().splitlines() == [
        "shell 1: created@1 -> exited(exited)@4 -> deleted@6",
        "shell 2: created@2 -> exited(exited)@5 -> deleted@9",
        "shell 3: created@3 -> exited(killed)@7 -> deleted@8",
    ]
    assert log.times == [0, 0, 0, 0.5, 1, 1, 1, 1, 1]
    assert len(log) == 9


async def test_log_takes_what_was_written_down(autojump_clock: MockClock) -> None:
    log, again = EventLog(), EventLog()
    async with open_shells(launcher=FakeLauncher(), observers=[log]) as shells:
        await shells.create(("echo", b"x"), metadata={"number": 1})
    for event in log:
        again(event.as_dict())
    assert again.view() == log.view()
    assert [event.as_dict() for event in again] == [event.as_dict() for event in log]
