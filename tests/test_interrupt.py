"""Ctrl+C while a scope is being left (C9)."""

from __future__ import annotations

import signal

import pytest
import trio

from trioshell import Exited, Status, open_shells
from trioshell._events import Event
from trioshell.testing import FakeLauncher, Script


@pytest.mark.parametrize("body", [None, KeyboardInterrupt, LookupError])
def test_interrupt_while_leaving_comes_out_as_itself(body: type[BaseException] | None) -> None:
    """Not in a group, whatever the body ended with; and the shells are ended all the same."""
    events: list[Event] = []

    def observe(event: Event) -> None:
        events.append(event)
        if isinstance(event, Exited) and len(events) == 3:
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        launcher = FakeLauncher().on("stubborn", Script.forever().ignores("TERM"))
        async with open_shells(launcher=launcher, observers=[observe], grace=0.05) as shells:
            await shells.create("meek")
            await shells.create("stubborn")
            if body is not None:
                raise body

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert [event.info.status for event in events if isinstance(event, Exited)] == [
        Status.KILLED,
        Status.KILLED,
    ]
