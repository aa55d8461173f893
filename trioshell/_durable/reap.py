"""Ending what a crashed host left behind, and nobody else.

A tree is found by its leader, if the process with the recorded identity is still there, and by
the mark ``TRIOSHELL_ID`` in the environment; with these go their descendants and their sessions
(see `launchers._sweep`). It is killed at once: the grace was the host's to give, and the host is
gone.

What cannot be told for sure is left alone and named. That is a process in a session with the
recorded number, when the leader is gone and no member carries the mark: the session may be a
stranger's, who was given the number later.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import trio

from .._records import Leftover
from ..launchers._helpers import procfs
from ..launchers._seam import MARK
from ..launchers._sweep import Tree, sweep
from .identity import Identity
from .record_format import Record

# Supervisors that live on end their trees within a second (C11), and record how they ended.
_KEEPERS: Final = 1.2
_KILLING: Final = 0.7

# Sessions that no leader of ours can have: of the kernel and what came before init, and of init.
_NOBODYS: Final = frozenset({0, 1})

# What was between fork and exec when its host died carries no mark yet.
_EXEC: Final = 0.05


async def wait_for_keepers(records: Sequence[Record]) -> None:
    """Give the helpers of a dead host the time to end its trees themselves.

    Cancellation: they go on.
    """
    await trio.lowlevel.checkpoint()
    keepers = {record.keeper for record in records if record.keeper is not None}
    with trio.move_on_after(_KEEPERS):
        for keeper in keepers:
            await _wait_dead(keeper)


async def reap(records: Sequence[Record]) -> dict[str, tuple[Leftover, ...]]:
    """Kill the trees of these shells, all of which have no `obstacle`.

    Returns:
        For each id what is alive all the same: it could not be killed, or not be told for sure.

    Cancellation: some of it may live.
    """
    ids = [record.info.id for record in records]
    await sweep(ids, known=_known(records), seconds=_KILLING)
    await trio.sleep(_EXEC)
    await sweep(ids, known=_known(records), seconds=_KILLING)
    return {record.info.id: tuple(_remains(record)) for record in records}


def obstacle(record: Record) -> str | None:
    """Why the processes of a shell cannot be looked for, or None."""
    if record.owner is None:
        return "this system cannot tell which processes were its own, so none was signalled"
    if not record.owner.is_here:
        if record.owner.rebooted:
            return "the machine was restarted since"
        return "it ran in another pid namespace, whose processes cannot be told from here"
    if _marks(record) in procfs.environment(os.getpid()).split(b"\0"):
        return "this program was started by it, so it was left alone"
    return None


def _known(records: Sequence[Record]) -> set[tuple[int, int]]:
    """The leaders that are still there, and who is in their sessions.

    A leader that is dead and not yet collected holds the number of its session, too.
    """
    sessions = {
        record.process.session
        for record in records
        if record.process is not None and record.process.look() is not None
    } - _NOBODYS
    return {each.identity for each in procfs.everybody() if each.session in sessions}


def _remains(record: Record) -> Iterator[Leftover]:
    found = Tree.of([record.info.id], _known([record])).find()
    for process in found or _unproven(record.process):
        yield Leftover(process.pid, process.name)


def _unproven(leader: Identity | None) -> list[procfs.Process]:
    """Who may belong to the session of a leader that is gone, or to a stranger's."""
    if leader is None or leader.session in _NOBODYS:
        return []
    everybody = list(procfs.everybody())
    if any(each.pid == leader.session for each in everybody):
        # Somebody else was given the number, so nothing of ours had it any more.
        return []
    return [each for each in everybody if each.session == leader.session and not each.dead]


def _marks(record: Record) -> bytes:
    return b"%b=%b" % (MARK, record.info.id.encode())


async def _wait_dead(identity: Identity) -> None:
    fd = identity.open()
    if fd is None:
        return
    try:
        await trio.lowlevel.wait_readable(fd)
    finally:
        os.close(fd)
