"""One shell under a supervisor: from its start to the report that it ended.

Stages::

    RUNNING --the leader ended, others live--> SETTLING --50 ms--> ASKING
    RUNNING --kill-----------------------------------------------> ASKING
    ASKING --10 ms--> ASKED --grace--> KILLING

In every stage an empty tree is the end. ``background`` says what the leader's end does while
others live: "kill" goes to SETTLING, "wait" stays where it is, "keep" reports the end at once and
then stays where it is, throwing away what is written.
"""

from __future__ import annotations

import math
import os
import signal
import time

from . import limiting, messages, starting
from .keeping import CaptureFile
from .notes import Notes
from .pumping import Pump
from .storing import LimitedStore, Store
from .tree import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    from .procfs import OwnChildren

RUNNING, SETTLING, ASKING, ASKED, KILLING = range(5)

# What a leader leaves behind may be about to end by itself: `> >(tee log)`, a pipeline's tail.
_SETTLE = 0.05
# Those who have left the leader's group are looked for this long after the group was asked.
_STRAYS = 0.01
# How often SIGKILL is repeated, and for how long at most: as long as processes die of it or are
# about to, and a second without a death. Who lives then may not be signalled by us.
_REPEAT = 0.01
_NO_DEATH = 1.0
_GIVE_UP = 5.0

_UNENDED = "the leader could not be ended: it belongs to another user, or is stuck in the kernel"


class Shell:
    """One running command.

    Attributes:
        number: Which shell of this supervisor it is.
        tree: Its processes.
        pump: Its output.
        due: When `act` has something to do, a moment of `time.monotonic`.
        done: Everything has been said.
        clean: Nothing is left, so that this supervisor may serve another shell.
    """

    def __init__(
        self,
        channel: messages.Channel,
        number: int,
        command: messages.Command,
        fds: list[int],
        *,
        env: ctypes.Array[ctypes.c_char_p],
        null: int,
        own_children: OwnChildren,
    ) -> None:
        """Start the command.

        Raises:
            StartError: It could not be started, and nothing of it is left.
        """
        self.number = number
        self._channel = channel
        self._command = command
        self._file = CaptureFile(command.path)
        self._notes = Notes(command.notes)
        try:
            leader, source, output = starting.start(command, fds, env, null)
        except starting.StartError:
            self._notes.close()
            self._file.remove()
            raise
        self._notes.began(leader)
        self._say(messages.STARTED, (os.getpid(), leader, self._file.fd, self._file.identity))
        self.tree = Tree(leader, own_children)
        store = _make_store(self._file.fd, null, command.limit)
        self.pump = Pump(source, output, store, terminal=command.terminal is not None)
        self.due = math.inf
        self.done = False
        self.clean = True
        self._stage = RUNNING
        self._deaths = 0
        self._until = math.inf
        self._patience = math.inf
        self._give_up = math.inf
        self._watched = math.inf
        self._drained = False
        self._reported = False
        self._trouble: str | None = None

    def kill(self, grace: float) -> None:
        """End the tree, or end it sooner."""
        self.tree.reap()
        until = time.monotonic() + grace
        if self._stage < ASKING:
            self._ask(until)
        elif self._stage < KILLING:
            self._until = min(self._until, until)
            self.due = min(self.due, until)

    def signal(self, number: int) -> None:
        """Pass on a signal to the leader's group."""
        self.tree.reap()
        if not self.tree.leader_ended:
            self.tree.signal_group(number)

    def watch(self, size: int) -> None:
        """Say GREW once when there is more output than this."""
        self._watched = size
        self._tell_growth()

    def output(self) -> None:
        """The output can be read."""
        self.pump.step()
        self._tell_growth()
        limit = self._command.limit
        if limit is not None and self.pump.store.size > limit and self._command.kill_at_limit:
            self._kill_for_output(limit)

    def act(self) -> None:
        """Look at the tree, and do what is due."""
        self.tree.reap()
        if self.tree.empty:
            self._end()
        elif self.tree.leader_ended and not self._drained:
            self._drained = True
            self.pump.drain()
            self._leader_ended()
        elif time.monotonic() >= self.due:
            self._next_stage()

    def close(self) -> None:
        self.pump.close()
        self._file.close()
        self._notes.close()

    def _leader_ended(self) -> None:
        self._note_end()
        background = self._command.background
        if background == "keep":
            self.tree.release()
            self.tree.reap()
            if self.tree.empty:
                self._end()
            else:
                self._report()
        elif background == "kill" and self._stage == RUNNING:
            self._stage = SETTLING
            self.due = time.monotonic() + _SETTLE

    def _next_stage(self) -> None:
        now = time.monotonic()
        if self._stage == SETTLING:
            self._ask(now + self._command.grace)
        elif self._stage == ASKING and now < self._until:
            self._stage = ASKED
            self.due = self._until
            self.tree.ask_strays(*self._polite_signals())
        elif self._stage < KILLING:
            self._stage = KILLING
            self._patience = now + _NO_DEATH
            self._give_up = now + _GIVE_UP
            self._kill()
        elif self._is_hopeless(now):
            self._end()
        else:
            self._kill()

    def _ask(self, until: float) -> None:
        self._stage = ASKING
        self._until = until
        self.due = min(until, time.monotonic() + _STRAYS)
        if until > time.monotonic():
            self.tree.ask(*self._polite_signals())

    def _polite_signals(self) -> list[int]:
        hang_up = [signal.SIGHUP] if self._command.terminal else []
        return [*hang_up, signal.SIGTERM, signal.SIGCONT]

    def _is_hopeless(self, now: float) -> bool:
        if self.tree.deaths > self._deaths:
            self._deaths = self.tree.deaths
            self._patience = now + _NO_DEATH
        return now > self._give_up or (now > self._patience and not self.tree.is_dying())

    def _kill(self) -> None:
        self.tree.kill()
        self.due = time.monotonic() + _REPEAT

    def _kill_for_output(self, limit: int) -> None:
        if self._trouble is None and self._stage == RUNNING:
            self._trouble = limiting.reached(limit)
            self.kill(self._command.grace)

    def _end(self) -> None:
        """Nothing is left, or nothing that we can end."""
        self.done = True
        self.clean = self.tree.empty
        if self._reported:
            self._say(messages.EMPTY, self._leftovers())
        else:
            self.pump.finish()
            self._report()

    def _leftovers(self) -> list[tuple[int, str]]:
        if self.tree.empty or not self.done:
            return []
        return [(process.pid, process.name) for process in self.tree.alive()]

    def _note_end(self) -> None:
        if self.tree.status is not None:
            self._notes.ended(self.tree.status, by_itself=self.tree.by_itself)

    def _report(self) -> None:
        self._note_end()
        self._reported = True
        store, tree = self.pump.store, self.tree
        store.trim()
        ended = messages.Ended(
            status=tree.status,
            by_itself=tree.by_itself,
            size=store.size,
            usage=(tree.user, tree.system, tree.max_rss),
            leftovers=self._leftovers(),
            kept=not self.done,
            clean=self.clean,
            cut=not self.pump.ended,
            output_error=store.error,
            trouble=self._trouble or (_UNENDED if tree.status is None else None),
        )
        fds = [] if self._file.is_in_place(store.size) else [self._file.fd]
        if self.done and not fds:
            self._file.close()  # or deleting the file would not give its space back at once
        self._say(messages.ENDED, tuple(ended), fds)
        self.pump.store.stop()

    def _tell_growth(self) -> None:
        if self.pump.store.size > self._watched:
            self._watched = math.inf
            self._say(messages.GREW, self.pump.store.size)

    def _say(self, kind: int, body: object, fds: Sequence[int] = ()) -> None:
        try:
            self._channel.send(kind, self.number, body, fds)
        except OSError:
            pass  # a host that is gone is noticed by the loop


def _make_store(file: int, null: int, limit: int | None) -> Store:
    return Store(file, null) if limit is None else LimitedStore(file, null, limit)
