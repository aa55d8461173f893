"""What will happen, in order of time: the heart of everything that is fake."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator

import attrs
import trio


@attrs.frozen(order=True)
class _Item:
    at: float
    number: int
    action: Callable[[], object] = attrs.field(eq=False)


@attrs.define(eq=False)
class Agenda:
    """Actions and their times on trio's clock; of two at one time the first planned is first."""

    _items: list[_Item] = attrs.field(factory=list)
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)
    _planned: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    def later(self, delay: float, action: Callable[[], object]) -> None:
        """Plan an action for so many seconds from now."""
        self.at(trio.current_time() + delay, action)

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Plan an action for a moment; infinity: never."""
        heapq.heappush(self._items, _Item(when, next(self._numbers), action))
        self._planned.unpark_all()

    async def take(self) -> Callable[[], object]:
        """Wait for the next action that is due. Always lets others run first."""
        await trio.lowlevel.checkpoint()
        while (due := self._due()) > trio.current_time():
            with trio.move_on_at(due):
                await self._planned.park()
        return heapq.heappop(self._items).action

    def _due(self) -> float:
        return self._items[0].at if self._items else math.inf
