"""Who is told of each change, to remember it: here nobody; see ``_durable``."""

from __future__ import annotations

from ._events import Event
from ._records import ShellInfo


class Ledger:
    """Remembers nothing: the ledger of a private directory."""

    def announce(self, info: ShellInfo, output_limit: int | None) -> None:
        """A shell is about to be started. Whatever comes of it, `born` or `forget` follows.

        Raises:
            SpawnError: That cannot be recorded, so it must not be started.
        """

    def born(self, info: ShellInfo, seq: int) -> None:
        """It runs, and `created` with this ``seq`` is about to be said.

        Raises:
            SpawnError: That cannot be recorded, so it must be undone.
        """

    def ended(self, info: ShellInfo, seq: int, *, kept: bool) -> str | None:
        """It has ended, and `exited` with this ``seq`` is about to be said. Never fails.

        Args:
            info: The final info.
            seq: Of the event.
            kept: Something of its tree may live on, in our care.

        Returns:
            Why it could not be recorded, or None.
        """
        del info, seq, kept
        return None

    def released(self, id: str) -> None:
        """Nothing of its tree is in our care any more. Never fails."""

    def forget(self, id: str) -> None:
        """It is deleted. Never fails."""

    def tell(self, event: Event) -> None:
        """An event has been said. Never fails."""

    def keeps(self, id: str) -> bool:
        """The scope is over: whether the next one will know this ended shell. Never fails."""
        del id
        return False
