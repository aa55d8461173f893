"""C12: the same events in the same order for everyone, and nobody slows a shell down."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from trioshell import (
    Created,
    Deleted,
    Event,
    Exited,
    ShellInfo,
    Status,
    Subscription,
    SubscriptionLaggedError,
)
from trioshell._events import HISTORY, Log, subscribe


def info(number: int = 1) -> ShellInfo:
    return ShellInfo(
        id=f"sh_{number}",
        status=Status.RUNNING,
        command="true",
        cwd="/",
        shell="/bin/sh",
        pid=number,
        file=None,
        started=1.0,
    )


def publish(log: Log, count: int = 1) -> None:
    for _ in range(count):
        log.created(info(log.last_seq + 1), time=1.0)


def follow(log: Log, *, since: int | None = None, max_buffer: int = 100) -> Subscription:
    return subscribe(log, since=since, max_buffer=max_buffer)


async def drain(subscription: Subscription) -> list[int]:
    return [event.seq async for event in subscription]


async def test_subscription_gets_every_event_from_then_on() -> None:
    log = Log()
    publish(log, 2)
    subscription = follow(log)
    publish(log, 3)
    log.close()
    assert await drain(subscription) == [3, 4, 5]


async def test_subscription_since_replays_without_a_gap() -> None:
    log = Log()
    publish(log, 3)
    subscription = follow(log, since=1, max_buffer=1)
    publish(log)
    log.close()
    assert await drain(subscription) == [2, 3, 4]


async def test_subscription_after_the_end_replays_and_ends() -> None:
    log = Log()
    publish(log, 2)
    log.close()
    assert await drain(follow(log, since=0)) == [1, 2]
    assert await drain(follow(log)) == []
    assert log.subscribers == 0


@pytest.mark.parametrize("since", [-1, 3, 10**9])
def test_subscription_since_must_be_a_position(since: int) -> None:
    log = Log()
    publish(log, 2)
    with pytest.raises(ValueError, match="since"):
        follow(log, since=since)


@pytest.mark.parametrize("since", [True, "1", 1.0])
def test_subscription_since_must_be_an_int(since: object) -> None:
    with pytest.raises(TypeError, match="since"):
        follow(Log(), since=since)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1])
def test_subscription_buffer_must_hold_something(size: int) -> None:
    with pytest.raises(ValueError, match="max_buffer"):
        follow(Log(), max_buffer=size)


def test_subscription_since_too_long_ago_is_told() -> None:
    log = Log()
    publish(log, HISTORY + 2)
    with pytest.raises(SubscriptionLaggedError) as caught:
        follow(log, since=1)
    assert (caught.value.seq, caught.value.missed) == (1, HISTORY + 1)
    follow(log, since=2).close()


async def test_subscription_that_lags_is_told_once_and_can_resume() -> None:
    """Never silently skipped: what it kept, then how many it missed, then the end."""
    log = Log()
    slow = follow(log, max_buffer=2)
    publish(log, 5)
    assert [(await slow.receive()).seq, (await slow.receive()).seq] == [1, 2]
    with pytest.raises(SubscriptionLaggedError) as caught:
        await slow.receive()
    assert (caught.value.seq, caught.value.missed) == (2, 3)
    assert await drain(slow) == []
    resumed = follow(log, since=caught.value.seq, max_buffer=2)
    log.close()
    assert await drain(resumed) == [3, 4, 5]


async def test_subscription_that_lags_does_not_hide_an_event_from_others() -> None:
    """The one that leaves the list must not make the next one miss the event."""
    log = Log()
    slow, *fast = follow(log, max_buffer=1), follow(log), follow(log)
    publish(log, 3)
    log.close()
    assert [await drain(each) for each in fast] == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(SubscriptionLaggedError):
        await drain(slow)


async def test_subscription_closed_by_another_task_ends_its_reader() -> None:
    log = Log()
    subscription = follow(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain, subscription)
        await trio.testing.wait_all_tasks_blocked()
        subscription.close()
    assert log.subscribers == 0


async def test_subscription_closed_gives_nothing_more() -> None:
    """Not even what it had got: the call that closes it has returned."""
    log = Log()
    subscription = follow(log)
    publish(log)
    subscription.close()
    subscription.close()
    publish(log)
    assert await drain(subscription) == []


async def test_subscription_closed_by_an_observer_misses_that_event() -> None:
    subscriptions: list[Subscription] = []
    log = Log((lambda event: subscriptions[0].close(),))
    subscriptions.append(follow(log))
    publish(log)
    log.close()
    assert await drain(subscriptions[0]) == []


async def test_subscription_opened_by_an_observer_starts_with_the_next_event() -> None:
    opened: list[Subscription] = []
    log = Log((lambda event: opened.append(follow(log)),))
    publish(log, 2)
    log.close()
    assert [await drain(each) for each in opened] == [[2], []]


async def test_subscription_wakes_a_waiting_reader() -> None:
    log = Log()
    async with follow(log) as subscription, trio.open_nursery() as nursery:
        got: list[Event] = []

        async def read() -> None:
            got.append(await subscription.receive())

        nursery.start_soon(read)
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        publish(log, 2)
    assert [event.seq for event in got] == [1, 2]
    assert log.subscribers == 0


async def test_subscription_receive_is_a_checkpoint_and_loses_nothing_cancelled() -> None:
    log = Log()
    subscription = follow(log)
    publish(log)
    with trio.CancelScope() as scope:
        scope.cancel()
        await subscription.receive()
    with trio.testing.assert_checkpoints():
        assert (await subscription.receive()).seq == 1
    with trio.testing.assert_checkpoints():
        await subscription.aclose()


def test_observers_see_each_event_in_the_step_that_publishes_it() -> None:
    seen: list[Event] = []
    log = Log((seen.append,))
    log.created(info(), time=1.0)
    assert isinstance(seen[-1], Created)
    log.exited(info(), time=2.0)
    assert isinstance(seen[-1], Exited)
    log.deleted(info(), time=3.0, reason="removed")
    assert isinstance(seen[-1], Deleted)
    assert [event.seq for event in seen] == [1, 2, 3]


def fail(event: Event) -> None:
    raise ValueError("a bad day")


def test_observer_that_raises_is_warned_of_and_reaches_nobody_else() -> None:
    seen: list[Event] = []
    log = Log((fail, seen.append))
    with pytest.warns(RuntimeWarning, match="a bad day"):
        publish(log)
    assert len(seen) == 1


def test_observer_that_raises_is_logged_where_warnings_are_errors(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C5: a warning turned into an exception must not break the step."""
    seen: list[Event] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        publish(Log((fail, seen.append)))
    assert len(seen) == 1
    assert "a bad day" in caplog.text


def events() -> Iterator[Event]:
    yield Created(seq=1, time=1.5, id="sh_1", info=info())
    yield Exited(seq=2, time=2.5, id="sh_1", info=info())
    yield Deleted(seq=3, time=3.5, id="sh_1", info=info(), reason="closed")


@pytest.mark.parametrize("event", list(events()), ids=lambda event: event.type)
def test_event_as_dict_is_json_safe(event: Event) -> None:
    decoded = json.loads(json.dumps(event.as_dict()))
    assert decoded["type"] == event.type
    assert decoded["seq"] == event.seq
    assert decoded["info"]["command"] == "true"
    assert decoded.get("reason") == getattr(event, "reason", None)
