"""How macOS and BSD tell that a child has ended, without reaping it."""

from __future__ import annotations

import contextlib
import select
import sys
from typing import TYPE_CHECKING

import trio

# For type checkers only: on Linux select has none of these names.
assert sys.platform != "linux" or not TYPE_CHECKING


def has_exited(pid: int) -> bool:
    """Whether a child has ended, or is not there."""
    kqueue = select.kqueue()
    try:
        return bool(kqueue.control([_exit_note(pid, select.KQ_EV_ADD)], 1, 0))
    except ProcessLookupError:  # what kqueue says of a zombie
        return True
    finally:
        kqueue.close()


async def wait_exit(pid: int) -> None:
    """Wait until a child has ended. One task at a time for each child."""
    kqueue = trio.lowlevel.current_kqueue()
    try:
        kqueue.control([_exit_note(pid, select.KQ_EV_ADD | select.KQ_EV_ONESHOT)], 0)
    except ProcessLookupError:
        return

    def abort(_: object) -> trio.lowlevel.Abort:
        # It may have fired already, and then there is nothing to delete.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            kqueue.control([_exit_note(pid, select.KQ_EV_DELETE)], 0)
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_kevent(pid, select.KQ_FILTER_PROC, abort)


def _exit_note(pid: int, flags: int) -> select.kevent:
    return select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)
