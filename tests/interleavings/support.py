"""Programs, performed with everything checked that can be."""

from __future__ import annotations

import attrs
import trio
import trio.abc

from trioshell import Shells
from trioshell.testing import EventLog, Performance, Program, perform

Lives = tuple[tuple[str, ...], ...]


@attrs.define(eq=False)
class Mirror(trio.abc.Instrument):
    """Looks after every step of every task whether the events tell of the same shells as the scope.

    Attributes:
        differences: What was seen; an instrument must not raise.
    """

    shells: Shells
    log: EventLog
    steps: int = 0
    differences: list[str] = attrs.field(factory=list)
    _seen: object = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        # Counting is cheaper than comparing, and whatever comes or goes changes a count.
        seen = self.shells.statistics(), len(self.log)
        if seen != self._seen:
            self._seen = seen
            self._compare(task.name)

    def _compare(self, who: str) -> None:
        running = [info.id for info in self.shells.list()]
        retained = {shell.id for shell in self.shells} - set(running)
        told = list(self.log.running()), set(self.log.retained())
        if told != (running, retained):
            self.differences.append(f"after a step of {who}: {told}, not {running, retained}")


async def checked(program: Program) -> Performance:
    """Perform a program; the log, the answers, the truth and the fold must all agree."""
    mirrors = []

    def watch(shells: Shells, log: EventLog) -> None:
        mirror = Mirror(shells, log)
        mirrors.append(mirror)
        trio.lowlevel.add_instrument(mirror)

    performance = await perform(program, watch=watch)
    (mirror,) = mirrors
    assert mirror.steps
    assert mirror.differences == []
    performance.check()
    return performance


def lives(performance: Performance) -> Lives:
    """What was said of each shell, in the order of creation."""
    ids = dict.fromkeys(event.id for event in performance.log)
    return tuple(tuple(performance.log.of(id)) for id in ids)
