"""Places: how many shells may run at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs
import trio

OVER: Final = "the scope of these shells is over: nothing can start"


@attrs.define(eq=False)
class Places:
    """The places of a scope. Without a limiter there are any number.

    Attributes:
        closed: The scope is over, and nobody gets a place.
    """

    _limiter: trio.CapacityLimiter | None
    closed: bool = False
    _waiting: list[trio.CancelScope] = attrs.field(factory=list)

    async def take(self) -> Callable[[], None]:
        """Wait for a place, but not longer than there is a scope.

        Returns:
            What gives it back.

        Raises:
            trio.ClosedResourceError: The scope is over.

        Cancellation: no place was taken.
        """
        if self._limiter is None:
            await trio.lowlevel.checkpoint_if_cancelled()
            return lambda: None
        place = object()
        with trio.CancelScope() as waiting:
            self._waiting.append(waiting)
            if self.closed:
                waiting.cancel()
            try:
                await self._limiter.acquire_on_behalf_of(place)
            finally:
                self._waiting.remove(waiting)
        if waiting.cancelled_caught:
            raise trio.ClosedResourceError(OVER)
        return partial(self._limiter.release_on_behalf_of, place)

    def close(self) -> None:
        """Send away who waits, and whoever comes."""
        self.closed = True
        for waiting in self._waiting:
            waiting.cancel()
