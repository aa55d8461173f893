from __future__ import annotations

import contextlib
import contextvars
import gc
import itertools
import signal
import subprocess
import sys
import types
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

import pytest
import trio
import trio.testing

from trioshell.testing import GateWarning, Hang, Schedule, _gate, _selftest, explore, quiet, run
from trioshell.testing._hang import where

PORTFOLIO = Schedule.portfolio(9)
MODES = [
    *PORTFOLIO,
    *Schedule.portfolio(3, batch=True),
    *Schedule.portfolio(3, allow_io=True),
]

every_mode = pytest.mark.parametrize("schedule", MODES, ids=str)


async def both(
    left: Callable[[], Awaitable[object]], right: Callable[[], Awaitable[object]]
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(left, name="left")
        nursery.start_soon(right, name="right")


def order_of_two(schedule: Schedule | None) -> str:
    """Return the order in which two tasks of three steps each took them."""
    log: list[str] = []

    def worker(letter: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            for _ in range(2):
                log.append(letter)
                await trio.lowlevel.checkpoint()
            log.append(letter)

        return work

    if schedule is None:
        trio.run(both, worker("l"), worker("r"))
    else:
        run(both, worker("l"), worker("r"), schedule=schedule)
    return "".join(log)


def test_gate_runs_each_task_until_it_blocks_by_default() -> None:
    assert order_of_two(Schedule.hold()) == "lllrrr"


def test_gate_takes_exactly_the_order_it_is_told() -> None:
    # Decision 0 is the main task; 1 holds "left" before its first step, and so on.
    assert order_of_two(Schedule.hold(1)) == "rrrlll"
    assert order_of_two(Schedule.hold(2)) == "lrrrll"
    assert order_of_two(Schedule.hold(3)) == "llrrrl"
    assert order_of_two(Schedule.priorities(0, 1, 0)) == "rrrlll"
    assert order_of_two(Schedule.priorities(demote=(2,))) == "lrrrll"


def test_gate_reaches_every_order_and_batches_only_those_of_trio() -> None:
    """Batch mode is exactly what trio does: no order missing, none too many."""
    walks = {order_of_two(Schedule.walk(seed)) for seed in range(300)}
    batches = {order_of_two(Schedule.walk(seed, batch=True)) for seed in range(100)}
    trios = {order_of_two(None) for _ in range(100)}
    assert len(walks) == 20  # 6! / (3! 3!)
    assert batches == trios
    assert len(batches) == 8  # each of three batches either way round


def test_gate_knows_which_orders_trio_produces() -> None:
    trios = {order_of_two(Schedule.walk(seed, batch=True)) for seed in range(100)}
    for seed in range(100):
        schedule = Schedule.walk(seed)
        order = order_of_two(schedule)
        assert ("not batch-legal" in schedule.explain()) == (order not in trios)


def test_gate_never_depends_on_trios_own_shuffle() -> None:
    async def main() -> None:
        gate = trio.Event()

        async def wait() -> None:
            await gate.wait()
            with trio.move_on_after(1):
                await trio.sleep(2)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(wait)
            gate.set()

    for schedule in [*PORTFOLIO, *Schedule.portfolio(3, batch=True)]:
        traces = set()
        for _ in range(5):
            run(main, schedule=schedule)
            traces.add(schedule.trace)
        assert len(traces) == 1


def test_tasks_are_numbered_as_spawned_but_for_the_fixtures_of_pytest_trio() -> None:
    """pytest-trio starts the test and its fixtures in the order of a set."""

    async def main(names: tuple[str, ...]) -> None:
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(trio.lowlevel.checkpoint, name=name)

    def trace(*names: str) -> tuple[str, ...]:
        schedule = Schedule.walk(3)
        run(main, names, schedule=schedule)
        return schedule.trace

    assert "b#1" in trace("b", "a")
    assert "a#1" in trace("a", "b")
    fixtures = ("<fixture 'a'>", "<fixture 'b'>", "<test 'c'>")
    assert len({trace(*order) for order in itertools.permutations(fixtures)}) == 1


# Time.


def test_time_jumps_only_to_timers() -> None:
    async def main() -> list[float]:
        times = []
        for delay in (3600, 0.5, 86_400):
            await trio.sleep(delay)
            times.append(trio.current_time())
        return times

    for schedule in PORTFOLIO:
        assert run(main, schedule=schedule) == [3600, 3600.5, 90_000.5]


def test_time_may_pass_while_tasks_are_ready() -> None:
    async def main() -> bool:
        with trio.move_on_after(1) as scope:
            for _ in range(3):
                await trio.lowlevel.checkpoint()
        return scope.cancelled_caught

    assert run(main, schedule=Schedule.hold()) is False
    assert run(main, schedule=Schedule.hold(jumps=(2,))) is True
    assert explore(main, time=False).results == {False: 1}
    assert set(explore(main).results) == {False, True}
    walks = {run(main, schedule=Schedule.walk(seed)) for seed in range(20)}
    assert walks == {False, True}
    patient = {run(main, schedule=Schedule.walk(seed, time=False)) for seed in range(20)}
    assert patient == {False}


def test_time_passes_before_slow_tasks_run() -> None:
    async def main() -> list[str]:
        log = []

        async def work() -> None:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            log.append("work")

        async def alarm() -> None:
            await trio.sleep(1)
            log.append("alarm")

        await both(work, alarm)
        return log

    assert run(main, schedule=Schedule.priorities(0, 1, 0)) == ["work", "alarm"]
    assert run(main, schedule=Schedule.priorities(0, 1, 0, clock=0)) == ["alarm", "work"]


def test_time_in_batches_passes_only_between_them() -> None:
    """C3-like races with a timer stay possible, but no timer fires inside a batch of trio."""

    async def main() -> None:
        async def work() -> None:
            with trio.move_on_after(1):
                for _ in range(3):
                    await trio.lowlevel.checkpoint()

        await both(work, work)

    early = 0
    for seed in range(50):
        schedule = Schedule.walk(seed, batch=True)
        run(main, schedule=schedule)
        assert "[batch-legal" in schedule.explain()
        early += "early" in schedule.explain()
    assert early > 0


def test_jump_that_wakes_nobody_goes_on() -> None:
    async def main() -> None:
        with trio.CancelScope(deadline=1), trio.CancelScope(shield=True):
            for _ in range(5):
                await trio.lowlevel.checkpoint()

    run(main, schedule=Schedule.hold(jumps=(1,)))


# What trio can do, it can do here.


@every_mode
def test_gate_keeps_values_errors_and_contexts(schedule: Schedule) -> None:
    variable = contextvars.ContextVar("variable", default=0)

    async def child(task_status: trio.TaskStatus[int]) -> None:
        variable.set(1)
        await trio.lowlevel.checkpoint()
        task_status.started(variable.get() + 41)
        await trio.lowlevel.checkpoint()
        raise KeyError("child")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            assert await nursery.start(child) == 42
            assert variable.get() == 0
            await trio.sleep_forever()

    with pytest.raises(ExceptionGroup) as caught:
        run(main, schedule=schedule)
    (error,) = caught.value.exceptions
    assert isinstance(error, KeyError)


@every_mode
def test_gate_keeps_channels_and_async_generators(schedule: Schedule) -> None:
    closed = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in range(10):
                yield number
                await trio.lowlevel.checkpoint()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            closed.append(True)

    async def main() -> list[int]:
        send, receive = trio.open_memory_channel[int](1)

        async def produce() -> None:
            generator = numbers()
            async with send:
                async for number in generator:
                    await send.send(number)
                    if number == 4:
                        await generator.aclose()
                        return

        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce)
            return [number async for number in receive]

    assert run(main, schedule=schedule) == [0, 1, 2, 3, 4]
    assert closed == [True]


@every_mode
def test_gate_keeps_wait_all_tasks_blocked(schedule: Schedule) -> None:
    async def main() -> list[str]:
        log = []

        async def work() -> None:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
            log.append("work")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            log.append("blocked")
            await trio.testing.wait_all_tasks_blocked(0.001)
            log.append("blocked for a while")
            nursery.cancel_scope.cancel()
        return log

    assert run(main, schedule=schedule) == ["work", "blocked", "blocked for a while"]


@every_mode
def test_gate_keeps_assert_checkpoints(schedule: Schedule) -> None:
    async def main() -> None:
        with trio.testing.assert_checkpoints():
            await trio.lowlevel.checkpoint()
        with trio.testing.assert_no_checkpoints():
            pass
        with pytest.raises(AssertionError), trio.testing.assert_checkpoints():
            pass

    run(main, schedule=schedule)


@every_mode
def test_gate_keeps_system_tasks(schedule: Schedule) -> None:
    log = []

    async def system() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("system task ended")

    async def main() -> None:
        trio.lowlevel.spawn_system_task(system)
        await trio.testing.wait_all_tasks_blocked()

    run(main, schedule=schedule)
    assert log == ["system task ended"]


@every_mode
def test_gate_passes_on_trios_complaint_about_foreign_awaitables(schedule: Schedule) -> None:
    @types.coroutine
    def foreign() -> Generator[object]:
        yield object()

    async def main() -> str:
        with pytest.raises(TypeError, match="unrecognized yield message"):
            await foreign()
        await trio.lowlevel.checkpoint()
        return "alive"

    assert run(main, schedule=schedule) == "alive"


@every_mode
def test_gate_delivers_cancellation_as_trio_does(schedule: Schedule) -> None:
    """A task that was woken before it was cancelled still gets what woke it."""

    async def main() -> bool:
        send, receive = trio.open_memory_channel[int](0)
        got = []

        async def take(task_status: trio.TaskStatus[trio.CancelScope]) -> None:
            with trio.CancelScope() as scope:
                task_status.started(scope)
                got.append(await receive.receive())
                await trio.lowlevel.checkpoint()
                got.append(2)

        async with trio.open_nursery() as nursery:
            scope = await nursery.start(take)
            await trio.testing.wait_all_tasks_blocked()
            send.send_nowait(1)
            scope.cancel()
        return got == [1]

    assert run(main, schedule=schedule)


@every_mode
def test_gate_lets_ctrl_c_through(schedule: Schedule) -> None:
    async def main() -> None:
        await trio.lowlevel.checkpoint()
        signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        run(main, schedule=schedule)


def test_gate_shows_the_frames_of_user_code() -> None:
    async def main() -> None:
        async def sleeper() -> None:
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sleeper)
            await trio.testing.wait_all_tasks_blocked()
            (task,) = nursery.child_tasks
            assert "sleeper" in where(task)
            assert "await trio.sleep_forever()" in where(task)
            nursery.cancel_scope.cancel()

    run(main)


def test_gate_keeps_nothing_alive_after_the_run() -> None:
    class Something:
        pass

    refs = []

    async def main() -> None:
        something = Something()
        refs.append(weakref.ref(something))
        await trio.lowlevel.checkpoint()

    schedule = Schedule.hold()
    run(main, schedule=schedule)
    gc.collect()
    assert refs[0]() is None
    assert schedule.trace == ("main#0", "main#0")


def test_io_within_the_program_works_in_virtual_time() -> None:
    async def main() -> bytes:
        left, right = trio.socket.socketpair()
        with left, right:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(left.send, b"hello")
                # Time must not jump before the operating system has been asked.
                with trio.fail_after(1):
                    return await right.recv(5)

    for schedule in (Schedule.hold(), Schedule.hold(2), Schedule.priorities(0, 1)):
        assert run(main, schedule=schedule) == b"hello"


def test_threads_work_with_the_real_clock() -> None:
    async def main() -> int:
        return await trio.to_thread.run_sync(lambda: 42)

    for schedule in Schedule.portfolio(3, allow_io=True):
        assert run(main, schedule=schedule) == 42


def test_order_is_controlled_with_the_real_clock() -> None:
    assert order_of_two(Schedule.hold(2, allow_io=True)) == "lrrrll"


# Hangs and loops.


def test_hang_names_each_task_and_where_it_waits() -> None:
    async def main() -> None:
        event = trio.Event()

        async def waiter() -> None:
            await event.wait()

        await both(waiter, trio.sleep_forever)

    for schedule in MODES[:12]:
        with pytest.raises(ExceptionGroup) as caught:
            run(main, schedule=schedule)
        assert caught.group_contains(Hang)
        hang = schedule.hang
        assert isinstance(hang, Hang)
        left, right = (line for line in hang.blocked if "left#" in line or "right#" in line)
        assert "waiter" in left
        assert "test_gate.py" in left
        assert left.endswith(": await event.wait()")
        assert "sleep_forever" in right
        assert all(line in str(hang) for line in hang.blocked)


def test_hang_breaks_shields() -> None:
    async def main() -> None:
        async def stubborn() -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()

        await both(stubborn, stubborn)

    with pytest.raises(ExceptionGroup) as caught:
        run(main)
    assert [type(error) for error in caught.value.exceptions] == [Hang, Hang]


def test_hang_is_raised_even_if_the_program_swallows_it() -> None:
    async def main() -> None:
        with contextlib.suppress(Hang):
            await trio.sleep_forever()

    with pytest.raises(Hang, match="sleep_forever"):
        run(main)


@pytest.mark.slow
def test_hang_swallowed_for_ever_still_ends_the_run() -> None:
    """In a process of its own: trio abandons its coroutines, which complain when collected."""
    program = """if True:
        import contextlib, trio
        from trioshell.testing import Hang, run

        async def main():
            while True:
                with contextlib.suppress(Hang):
                    await trio.sleep_forever()

        try:
            run(main)
        except Hang:
            print("Hang")
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "Hang\n"


@pytest.mark.parametrize("schedule", MODES[:12], ids=str)
def test_loops_that_only_checkpoint_let_the_others_run(schedule: Schedule) -> None:
    """Neither a task that spins until another acts nor one that polls the clock starves a run."""

    async def main() -> None:
        done = False

        async def spin() -> None:
            while not done:
                await trio.lowlevel.checkpoint()

        async def act() -> None:
            nonlocal done
            await trio.sleep(1)
            done = True

        async def poll() -> None:
            with trio.move_on_after(2):
                while True:
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for task in (spin, spin, act, poll):
                nursery.start_soon(task)

    run(main, schedule=schedule)


async def spin() -> None:
    while True:
        await trio.lowlevel.checkpoint()


async def heartbeat() -> None:
    while True:  # noqa: ASYNC110 - as some programs do
        await trio.sleep(1)


async def spin_with_children() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        with trio.CancelScope(shield=True):
            await spin()


@pytest.mark.parametrize("schedule", PORTFOLIO[:3], ids=str)
@pytest.mark.parametrize("endless", [spin, heartbeat, spin_with_children])
def test_endless_program_is_a_hang(
    schedule: Schedule, endless: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is always busy never blocks, so it must be ended by its number of steps."""
    monkeypatch.setattr(_gate, "ENDLESS", 1000)
    with pytest.raises(ExceptionGroup) as caught:
        run(both, endless, endless, schedule=schedule)
    assert caught.group_contains(Hang, match="still busy after 1,000 steps")


def test_long_program_is_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real clock, only the operating system knows what a program waits for."""
    monkeypatch.setattr(_gate, "ENDLESS", 1000)

    async def main() -> None:
        for _ in range(2000):
            await trio.lowlevel.checkpoint()

    run(main, schedule=Schedule.hold(allow_io=True))
    with pytest.raises(Hang):
        run(main)


# Waiting for quiet.


async def quiet_program() -> list[str]:
    log = []
    event = trio.Event()

    async def work() -> None:
        await trio.sleep(3)
        await trio.lowlevel.checkpoint()
        log.append("work")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(work)
        nursery.start_soon(trio.sleep_forever)
        await quiet()
        log.append("quiet")
        async with quiet():
            async with quiet():
                await event.wait()
            log.append("still inside")
            await event.wait()
        async with quiet() as unused:
            await trio.lowlevel.checkpoint()
        assert not unused.cancel_called
        with pytest.raises(KeyError):
            async with quiet():
                raise KeyError
        nursery.cancel_scope.cancel()
    return log


def test_quiet_waits_for_timers_and_ends_the_innermost_body_first() -> None:
    for schedule in [*PORTFOLIO, *Schedule.portfolio(3, batch=True)]:
        assert run(quiet_program, schedule=schedule) == ["work", "quiet", "still inside"]


def test_quiet_works_without_a_schedule() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    assert trio.run(quiet_program, clock=clock) == ["work", "quiet", "still inside"]


@pytest.mark.parametrize("under", [run, trio.run])
def test_quiet_can_be_cancelled(under: Callable[..., None]) -> None:
    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await quiet()
        assert scope.cancelled_caught
        await quiet()

    under(main)


# The self-test.


def test_selftest_accepts_this_trio() -> None:
    verdict = _selftest.examine()
    assert verdict.problem is None
    assert verdict.idle_code is not None


@pytest.fixture
def broken_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand for a trio that looks at a coroutine before it tells of the task."""
    monkeypatch.setattr(_gate.Gate, "task_spawned", lambda *_: None)
    verdict = _selftest.examine()
    for name in ("_schedule", "_explore", "_schedules"):
        monkeypatch.setattr(f"trioshell.testing.{name}.verdict", lambda: verdict)


@pytest.mark.usefixtures("broken_trio")
def test_fallback_warns_and_leaves_the_order_to_trio() -> None:
    with pytest.warns(GateWarning, match="ran as"):
        schedule = Schedule.hold()

    async def main() -> list[float]:
        times = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5000)
            for _ in range(2):
                await trio.testing.wait_all_tasks_blocked()
                times.append(trio.current_time())
                await trio.sleep(1000)
        return [*times, trio.current_time()]

    assert run(main, schedule=schedule) == [0, 1000, 5000]
    assert "not controlled" in schedule.explain()
    orders = set()
    for _ in range(50):
        with pytest.warns(GateWarning):
            orders.add(order_of_two(Schedule.hold()))
    assert len(orders) > 1


@pytest.mark.usefixtures("broken_trio")
def test_fallback_promises_no_proof() -> None:
    with pytest.raises(RuntimeError, match="must control the order"):
        explore(trio.sleep_forever)
