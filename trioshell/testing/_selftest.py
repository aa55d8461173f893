"""The gate's self-test: does this version of trio do what the gate rests on?

That the hook of a new task comes before trio first touches its coroutine, that rescheduling reads
``Task.coro`` afresh, and that a task is resumed once for each time it is rescheduled: the last two
are not documented. If a release of trio changes them, this says so at first use.
"""

from __future__ import annotations

import functools
import threading
from types import CodeType
from typing import NoReturn

import attrs
import trio
import trio.testing

from ._families import Hold
from ._gate import Gate

# The second decision, the first after the main task, holds "left" back; the sixth holds "right",
# when both have slept.
_SCHEDULE = Hold(at=(1, 5))
_EXPECTED = ["main", "right", "left", "left 5.0", "right 5.0"]
_EXPECTED_STEPS = [0, 2, 1, 1, 2, 0]

# Seconds; it takes milliseconds.
_LONGEST = 30


@attrs.frozen
class Verdict:
    """What the self-test found.

    Attributes:
        problem: Why the gate cannot be used with this trio; None if it can.
        idle_code: How to recognise a task in ``wait_all_tasks_blocked``.
    """

    problem: str | None
    idle_code: CodeType | None = None


@functools.cache
def verdict() -> Verdict:
    """Run the self-test once for each process.

    In a thread of its own, because the first schedule may be made inside a running trio.
    """
    found: list[Verdict] = []
    thread = threading.Thread(target=lambda: found.append(examine()), daemon=True)
    thread.start()
    thread.join(_LONGEST)
    return found[0] if found else Verdict(f"two toy tasks did not end in {_LONGEST} seconds")


def examine() -> Verdict:
    """Run two toy tasks under a known schedule and compare what they did."""
    gate = Gate(_SCHEDULE.chooser())
    log: list[str] = []
    try:
        code = trio.run(_toy, log, clock=gate, instruments=[gate])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return Verdict(f"two toy tasks failed: {error!r}")
    if log != _EXPECTED or gate.record.steps != _EXPECTED_STEPS:
        return Verdict(f"two toy tasks ran as {log}, steps {gate.record.steps}")
    return Verdict(None, code)


async def _toy(log: list[str]) -> CodeType:
    async def sleeper(name: str) -> None:
        log.append(name)
        await trio.sleep(5)
        log.append(f"{name} {trio.current_time()}")

    log.append("main")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeper, "left")
        nursery.start_soon(sleeper, "right")
    return _idle_code()


def _idle_code() -> CodeType:
    """Return the code of the abort function with which ``wait_all_tasks_blocked`` blocks.

    Its tasks must be told from all others, for trio wakes them only in a pause, and a pause that
    nobody waits for would cost a millisecond each time.
    """
    waiting = trio.testing.wait_all_tasks_blocked()
    abort = waiting.send(None).abort_func
    abort(_cancel)  # forget that the current task was about to wait
    waiting.close()
    code: CodeType = abort.__code__
    return code


def _cancel() -> NoReturn:
    raise AssertionError("the abort function of wait_all_tasks_blocked does not raise")
