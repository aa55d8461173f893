"""The best launcher of the platform."""

from __future__ import annotations

import sys
from types import TracebackType

import attrs
import trio

from ._direct import DirectLauncher
from ._seam import Guarantees, Launcher, Process, Spec
from ._supervised import HelperError, SupervisedLauncher


def best_launcher() -> Launcher:
    """A new launcher of the best kind that this platform has."""
    return BestLauncher() if sys.platform == "linux" else DirectLauncher()


@attrs.define(eq=False)
class BestLauncher(Launcher):
    """The supervised launcher, or the direct one where the helpers cannot work.

    Whether they can is found out at the first command, because starting them takes a moment that
    a scope without commands need not spend. `guarantees` tells what is in use.
    """

    _supervised: SupervisedLauncher = attrs.field(factory=SupervisedLauncher)
    _direct: DirectLauncher | None = None
    _decided: bool = False
    _deciding: trio.Lock = attrs.field(factory=trio.Lock)

    @property
    def guarantees(self) -> Guarantees:
        return self._used.guarantees

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._used.__aexit__(exc_type, exc, traceback)

    async def launch(self, spec: Spec) -> Process:
        if not self._decided:
            async with self._deciding:
                await self._decide()
        return await self._used.launch(spec)

    @property
    def _used(self) -> Launcher:
        return self._supervised if self._direct is None else self._direct

    async def _decide(self) -> None:
        try:
            if not self._decided:
                await self._supervised.prepare()
        except HelperError as error:
            note = f"the supervised launcher is not in use: {error}"
            self._direct = await DirectLauncher(note=note).__aenter__()
        except OSError:
            return  # of the moment: the launch that follows tries again, and explains it
        self._decided = True
