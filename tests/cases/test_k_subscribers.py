"""Kind (k): those who listen, and what they do to each other: nothing (C12)."""

from __future__ import annotations

import os
import signal
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from trioshell import (
    Created,
    Deleted,
    Exited,
    Shell,
    ShellInfo,
    Status,
    Subscription,
    SubscriptionLaggedError,
)
from trioshell._events import HISTORY, Event, Log, subscribe

from .support import Case, check_grammar, rounds, until

# Only against hangs.
LONG = 30.0


@rounds(30, 100)
async def test_subscribing_and_leaving_at_each_event(case: Case, rounds: int) -> None:
    """Case 75: subscribing or leaving inside a callback, and the size changed during iteration.

    https://github.com/OpenHands/OpenHands/pull/7984
    """
    opened: list[tuple[int, Subscription]] = []
    steady: list[Event] = []
    firsts: list[tuple[int, int]] = []

    def turn_over(event: Event) -> None:
        opened.append((event.seq, case.shells.subscribe()))
        if len(opened) > 3:
            seq, oldest = opened.pop(0)
            first = oldest._buffer[0]
            firsts.append((seq, first.seq))
            oldest.close()

    async def turn_over_too(events: Subscription) -> None:
        async with events:
            async for _ in events:
                turn_over_from_a_task()

    def turn_over_from_a_task() -> None:
        with_others.append(case.shells.subscribe())
        if len(with_others) > 3:
            with_others.pop(0).close()

    with_others: list[Subscription] = []
    async with trio.open_nursery() as nursery, case.open(observers=[turn_over]) as shells:
        nursery.start_soon(turn_over_too, shells.subscribe())
        nursery.start_soon(_record, shells.subscribe(), steady)
        for _ in range(rounds // 10):
            async with trio.open_nursery() as batch:
                for _ in range(10):
                    batch.start_soon(_run_and_remove, case, "true")
    check_grammar(steady)
    assert steady == case.events
    assert len(steady) == 3 * rounds
    # Who subscribes while an event is handed out gets the next one first.
    assert firsts == [(seq, seq + 1) for seq, _ in firsts]
    assert len(firsts) == 3 * rounds - 3


async def test_a_failing_subscriber_stops_nobody(case: Case) -> None:
    """Case 76: one failing subscriber stops the others.

    https://github.com/locustio/locust/pull/1462
    """
    first: list[Event] = []
    third: list[Event] = []
    steady: list[Event] = []
    raised: list[Event] = []

    def fail_once(event: Event) -> None:
        if not raised:
            raised.append(event)
            raise ValueError("mine")

    async def fail(events: Subscription) -> None:
        async with events:
            async for _ in events:
                raise LookupError("its own")

    async def run() -> list[ShellInfo]:
        async with trio.open_nursery() as nursery:
            observers = [first.append, fail_once, third.append]
            async with case.open(observers=observers) as shells:
                nursery.start_soon(_record, shells.subscribe(), steady)
                nursery.start_soon(_expect, LookupError, fail, shells.subscribe())
                return [await _run_and_remove(case, f"exit {i}") for i in range(20)]

    with pytest.warns(RuntimeWarning, match="mine") as warned:
        infos = await run()
    assert [info.returncode for info in infos] == list(range(20))
    assert len(first) == 60
    assert first == third == steady == case.events
    assert len(warned) == 1


@rounds(60, 500)
async def test_a_slow_subscriber_is_told_what_it_missed(case: Case, rounds: int) -> None:
    """Case 77: a slow subscriber: events dropped and nobody told.

    https://github.com/charmbracelet/crush/pull/30
    """
    fast: list[Event] = []
    patient: list[Event] = []
    async with trio.open_nursery() as nursery, case.open() as shells:
        nursery.start_soon(_record, shells.subscribe(), fast)
        slow = shells.subscribe()
        slower = shells.subscribe(max_buffer=20)
        for _ in range(rounds):
            await (await case.start("true")).wait()
            if len(patient) < 3:
                patient.append(await slow.receive())
    # The one that has the room gets all of it in the end; the other is told what it missed.
    await _record(slow, patient)
    assert patient == fast == case.events
    kept = [await slower.receive() for _ in range(20)]
    assert kept == case.events[:20]
    with pytest.raises(SubscriptionLaggedError) as lagged:
        await slower.receive()
    assert (lagged.value.seq, lagged.value.missed) == (20, len(case.events) - 20)
    with pytest.raises(trio.EndOfChannel):
        await slower.receive()


def test_a_waiting_event_costs_little() -> None:
    """Case 77: less than 2 KB of this process's memory per event, for any number of subscribers."""
    log = Log()
    slow = [subscribe(log, since=None, max_buffer=4096) for _ in range(10)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for i in range(4000):
            log.created(_info(f"sh_{i:028}"), time=float(i))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(slow[0]._buffer) == 4000
    assert (after - before) / 4000 < 2000


async def test_nothing_is_given_after_the_subscription_was_closed(case: Case) -> None:
    """Case 78: a callback still fires after it was unsubscribed.

    https://github.com/KanishJebaMathewM/Truxify/issues/5268
    """
    closed: dict[str, int] = {}
    got: dict[str, list[Event]] = defaultdict(list)
    subscriptions: dict[str, Subscription] = {}

    def close(event: Event) -> None:
        if isinstance(event, Exited) and not closed:
            for name, subscription in subscriptions.items():
                closed[name] = event.seq
                subscription.close()
                subscription.close()

    async with trio.open_nursery() as nursery, case.open(observers=[close]) as shells:
        subscriptions["waiting"] = shells.subscribe()
        subscriptions["behind"] = shells.subscribe()
        nursery.start_soon(_record, subscriptions["waiting"], got["waiting"])
        shell = await case.start("sleep 300; :")
        await until(lambda: got["waiting"])
        await shell.kill()
        await shell.remove()
        with trio.fail_after(LONG), pytest.raises(trio.EndOfChannel):
            await subscriptions["behind"].receive()
        for _ in range(10):
            await _run_and_remove(case, "true")
        await subscriptions["behind"].aclose()
        assert shells.statistics().subscribers == 0
    # Not even the event that was being handed out: it had not got it yet.
    assert [event.seq for event in got["waiting"]] == [1]
    assert closed == {"waiting": 2, "behind": 2}


@rounds(40, 200)
@pytest.mark.parametrize("how", ["by themselves", "killed from outside"])
async def test_ends_at_the_same_time_are_all_told(case: Case, rounds: int, how: str) -> None:
    """Case 79: several tasks end at the same time, and notices are lost.

    https://github.com/anthropics/claude-code/issues/20754
    """
    os.mkfifo(case.path / "go")
    gate = os.open(case.path / "go", os.O_RDWR)
    codes: dict[int, int | None] = {}

    async def wait(i: int, shell: Shell) -> None:
        codes[i] = (await shell.wait()).returncode

    try:
        async with case.open(retain=rounds), trio.open_nursery() as nursery:
            shells = []
            for i in range(rounds):
                # Each takes one line, whenever it comes to that, and leaves the others.
                shells.append(await case.start(f'read line <"$T/go"; exit {i % 256}'))
                nursery.start_soon(wait, i, shells[-1])
            with trio.fail_after(LONG):
                if how == "by themselves":
                    os.write(gate, b"\n" * rounds)
                else:
                    for shell in shells:
                        os.kill(shell.pid, 9)  # not reaped before its end is said
                await until(lambda: len(codes) == rounds, LONG)
    finally:
        os.close(gate)
    ended = [event.id for event in case.events if isinstance(event, Exited)]
    assert sorted(ended) == sorted(shell.id for shell in shells)
    expected = [i % 256 if how == "by themselves" else -9 for i in range(rounds)]
    assert [codes[i] for i in range(rounds)] == expected


@rounds(60, 3000)
async def test_a_subscriber_that_never_reads_holds_up_nobody(case: Case, rounds: int) -> None:
    """Case 80: a subscriber that never reads stalls everything, shutdown too.

    https://github.com/blinklabs-io/dingo/issues/3550
    """
    with trio.fail_after(LONG * (1 + rounds / 300)):
        async with case.open(retain=rounds) as shells:
            unread = shells.subscribe(max_buffer=100)
            created = [await case.start("true") for _ in range(rounds)]
            for shell in created:
                await shell.wait()
            for shell in created:
                await shell.remove()
            begin = trio.current_time()
    assert trio.current_time() - begin < LONG
    assert [(await unread.receive()).seq for _ in range(100)] == list(range(1, 101))
    with pytest.raises(SubscriptionLaggedError) as lagged:
        await unread.receive()
    assert lagged.value.missed == 3 * rounds - 100
    with pytest.raises(trio.EndOfChannel):
        await unread.receive()


# Neighbours that nobody has reported.


async def test_a_cancelled_receiver_loses_no_event(case: Case) -> None:
    """Each event is taken with a receiver that may be cancelled at that very moment."""
    got: list[Event] = []
    async with trio.open_nursery() as nursery, case.open() as shells:
        events = shells.subscribe()
        nursery.start_soon(_run_many, case, 10)
        while len(got) < 30:
            with trio.move_on_after(0.003):
                got.append(await events.receive())
        await events.aclose()
    assert got == case.events


async def test_two_receivers_share_a_subscription(case: Case) -> None:
    """Each event goes to one of them, none to both, none to nobody."""
    shares: list[list[Event]] = [[], []]
    async with trio.open_nursery() as nursery, case.open() as shells:
        events = shells.subscribe()
        for share in shares:
            nursery.start_soon(_record_without_closing, events, share)
        await _run_many(case, 10)
    taken = sorted(shares[0] + shares[1], key=lambda event: event.seq)
    assert taken == case.events


async def test_who_fell_behind_resumes_without_a_gap(case: Case) -> None:
    """``since=`` goes on after the last event that was given, also after the end of the scope."""
    async with case.open() as shells:
        behind = shells.subscribe(max_buffer=5)
        await _run_many(case, 5)
        got = [await behind.receive() for _ in range(5)]
        with pytest.raises(SubscriptionLaggedError) as lagged:
            await behind.receive()
        resumed = shells.subscribe(since=lagged.value.seq)
        await _run_many(case, 5)
    await _record(resumed, got)
    assert got == case.events
    late: list[Event] = []
    await _record(shells.subscribe(since=25), late)
    assert late == case.events[25:]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl+C interrupts, also where the tests run in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("kind", [Created, Exited, Deleted])
def test_ctrl_c_divides_no_step(case: Case, kind: type[Event]) -> None:
    """It comes again and again, within publications, in the main task too (C5, C9)."""
    told: list[Event] = []
    subscriptions: list[Subscription] = []

    def interrupt(event: Event) -> None:
        if isinstance(event, kind):
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        async with case.open(observers=[interrupt, told.append], retain=1) as shells:
            subscriptions.append(shells.subscribe())
            await _run_and_remove(case, "true")
            for _ in range(3):
                await case.start("sleep 300; :")
            await trio.sleep(LONG)

    with pytest.raises(BaseException) as raised:
        trio.run(main)
    assert _is_interrupt(raised.value)
    assert case.left() == []
    assert told == case.events == list(subscriptions[0]._buffer)
    assert not subscriptions[0]._open
    check_grammar(told)


def _is_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_interrupt, error.exceptions))
    return isinstance(error, KeyboardInterrupt)


class Surprise(BaseException):
    """Not an `Exception`, like `SystemExit` and `asyncio.CancelledError`."""


@pytest.mark.parametrize("error", [Surprise(), SystemExit(3), KeyboardInterrupt(), Warning()])
async def test_nothing_an_observer_raises_breaks_the_step(case: Case, error: BaseException) -> None:
    """Publication is one step with the change it tells of (C5), whatever an observer does."""

    def fail(event: Event) -> None:
        raise error

    with pytest.warns(RuntimeWarning, match=type(error).__name__):
        async with case.open(observers=[fail], retain=1):
            infos = [(await case.run(f"exit {i}"))[0] for i in range(3)]
    assert [info.returncode for info in infos] == [0, 1, 2]
    assert sum(isinstance(event, Deleted) for event in case.events) == 3


async def test_an_observer_may_act_on_the_shells(case: Case) -> None:
    """From inside of a publication: signals, limits, looks; each shell as the event says it is."""
    seen: list[tuple[type[Event], bool, Status]] = []

    def act(event: Event) -> None:
        known = event.id in case.shells
        seen.append((type(event), known, event.info.status))
        if isinstance(event, Created):
            shell = case.shells[event.id]
            assert shell.pid == event.info.pid
            assert shell.status is Status.RUNNING
            shell.set_timeout(0.05)
        elif isinstance(event, Exited):
            assert case.shells[event.id].info is event.info

    async with case.open(observers=[act]):
        shell = await case.start("sleep 300; :")
        info = await shell.wait()
        await shell.remove()
    assert info.status is Status.TIMEOUT
    assert seen == [
        (Created, True, Status.RUNNING),
        (Exited, True, Status.TIMEOUT),
        (Deleted, False, Status.TIMEOUT),
    ]


def test_the_log_keeps_what_it_promises() -> None:
    """The newest events can be replayed; who asks for more is told how many there were."""
    log = Log()
    for i in range(HISTORY + 10):
        log.created(_info(f"sh_{i}"), time=float(i))
    assert len(subscribe(log, since=10, max_buffer=1)._buffer) == HISTORY
    with pytest.raises(SubscriptionLaggedError) as lagged:
        subscribe(log, since=9, max_buffer=1)
    assert lagged.value.missed == HISTORY + 1


def _info(id: str) -> ShellInfo:
    return ShellInfo(
        id=id,
        status=Status.RUNNING,
        command="sleep 300",
        cwd="/tmp",
        shell="/bin/sh",
        pid=1234,
        file=f"/tmp/trioshell/{id}.out",
        started=1.5e9,
    )


async def _run_and_remove(case: Case, command: str) -> ShellInfo:
    shell = await case.start(command)
    info = await shell.wait()
    await shell.remove()
    return info


async def _run_many(case: Case, count: int) -> None:
    for _ in range(count):
        await _run_and_remove(case, "true")


async def _record(events: Subscription, into: list[Event]) -> None:
    async with events:
        await _record_without_closing(events, into)


async def _record_without_closing(events: Subscription, into: list[Event]) -> None:
    # Not extend(), which would keep them to itself until the end.
    async for event in events:
        into.append(event)  # noqa: PERF401


async def _expect(
    error: type[Exception], function: Callable[[Subscription], Any], events: Subscription
) -> None:
    with pytest.raises(error):
        await function(events)
