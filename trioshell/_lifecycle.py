"""The life of one shell as a pure state machine: no trio, no I/O, no clock.

Every rule about *what may happen to a shell, and what is said about it* is decided here and
nowhere else. The rest of the library asks.

The theory
----------
A shell is created, ends once, and is deleted at most once (C1):

    created -> exactly one exited(exited | timeout | killed) -> deleted

Two things race for the end: the leader of the shell may end by itself, and somebody (the time
limit, `kill`, `remove`, the end of the scope) may decide to end it. Deciding is instant; ending
takes time: a grace, a tree to bring down, output to drain. So there are two steps:

*   A **claim** says why the shell is being ended. The first claim stands, later ones are no
    claims (C3). A claim makes the shell ENDING: it is still `running` for everyone outside,
    because `exited` must be true when it is said (C4).
*   **Settling** is the one guarded finaliser. It is asked once the tree is down, with what the
    launcher found out. If the leader had ended *by itself* before any signal of ours reached it,
    the claim came too late, however early it was made: the status is `exited`. Otherwise the
    claim stands. The second call to settle is refused, whoever makes it, so a natural end and a
    kill can never both be reported.

`by_itself` is a fact observed next to the process (an unreaped leader that is already dead), and
not a comparison of clocks: a host that slept past the deadline never calls a finished command a
timeout.

The table
---------
======== ================= ======== ===================================================
state    input             next     what follows
======== ================= ======== ===================================================
STARTING born              RUNNING  `created` is published
STARTING stillborn         VOID     nothing was ever said about it (C2)
RUNNING  claim             ENDING   the claimant ends the tree
RUNNING  settle            ENDED    `exited(exited)`, or `killed` by the launcher's own limit
ENDING   claim             ENDING   nothing; a removal is remembered
ENDING   settle            ENDED    `exited(claim)`, or `exited(exited)` if by itself
ENDED    delete            DELETED  `deleted` is published
======== ================= ======== ===================================================

Everything else is refused: a claim on an ended shell and a second delete answer False; a second
`settle` and a birth after the end are bugs of the caller and raise.

Removal
-------
A removal is a claim that also wants the record gone. If it was the *first* claim and it stands,
tasks in `wait` are told that the shell was removed (C7). If the end came first, or another claim
did, they are told that end. Either way `deleted` follows `exited` in the same step, so a removed
shell never takes a place among the retained ones (C7, C8).
"""

from __future__ import annotations

import enum

import attrs

from ._records import Status


class State(enum.Enum):
    """Where a shell is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    DELETED = "deleted"
    VOID = "void"


@attrs.frozen
class Verdict:
    """What is to be said about the end of a shell.

    Attributes:
        status: The cause, for the info and the event.
        removed: Tasks in `wait` get `ShellRemovedError` instead of the info.
        delete: `deleted` follows at once; the shell takes no place among the retained.
    """

    status: Status
    removed: bool
    delete: bool


@attrs.define(eq=False)
class Lifecycle:
    """One shell's life. All transitions are methods; none of them waits."""

    state: State = State.STARTING
    _claim: Status | None = None
    _removal: bool = False
    _removal_was_first: bool = False

    @property
    def live(self) -> bool:
        """Whether the shell counts as running: born, and its end not yet said."""
        return self.state in (State.RUNNING, State.ENDING)

    @property
    def ended(self) -> bool:
        """Whether its one `exited` has been said."""
        return self.state in (State.ENDED, State.DELETED)

    @property
    def deleted(self) -> bool:
        """Whether its `deleted` has been said."""
        return self.state is State.DELETED

    def born(self) -> None:
        """The process exists: from here on the shell will have its one `exited`."""
        self._expect(State.STARTING)
        self.state = State.RUNNING

    def stillborn(self) -> None:
        """There is no process, and there never will be one: nothing is said (C2)."""
        self._expect(State.STARTING)
        self.state = State.VOID

    def claim(self, cause: Status, *, removal: bool = False) -> bool:
        """Claim the end of the shell for a cause.

        Args:
            cause: `Status.TIMEOUT` or `Status.KILLED`.
            removal: The claimant also wants the record gone.

        Returns:
            Whether this is the first claim, so that the claimant has to end the tree.
        """
        first = self.state is State.RUNNING
        if first:
            self.state = State.ENDING
            self._claim = cause
        if removal and self.live:
            self._removal = True
            self._removal_was_first = self._removal_was_first or first
        return first

    def settle(self, *, by_itself: bool) -> Verdict:
        """The one guarded finaliser: decide what is said about the end.

        Args:
            by_itself: The leader ended before any signal of a kill reached it.

        Raises:
            RuntimeError: The shell has been settled before, or was never born.
        """
        self._expect(State.RUNNING, State.ENDING)
        self.state = State.ENDED
        status = Status.EXITED if by_itself else self._claim or Status.KILLED
        removed = self._removal_was_first and status is Status.KILLED
        return Verdict(status=status, removed=removed, delete=self._removal)

    def delete(self) -> bool:
        """Forget an ended shell.

        Returns:
            Whether `deleted` is to be published: False if that was done before.
        """
        if self.state is State.DELETED:
            return False
        self._expect(State.ENDED)
        self.state = State.DELETED
        return True

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            raise RuntimeError(f"a shell that is {self.state.value} cannot do this")
