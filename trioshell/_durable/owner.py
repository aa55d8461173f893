"""Who has a durable directory, and which event was said last: one small file."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Final, Self

import attrs

from .identity import Identity
from .record_format import Place, identity_from_json, place_from_json

NAME: Final = "owner.json"

# Overwritten in place, with one write of always the same length: it needs no room on a full disk,
# and a crash cannot come between two parts of it.
_WIDTH: Final = 512
_OPEN: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@attrs.frozen
class Owner:
    """What the file says.

    Attributes:
        pid: The process that has the directory, or had it.
        identity: The same, where the system can tell.
        told: The place of the last event that was said.
    """

    pid: int
    identity: Identity | None
    told: Place | None


@attrs.define(eq=False)
class OwnerFile:
    """The file, held by the owner.

    Attributes:
        identity: This process, where the system can tell.
        told: The place of the last event that earlier scopes said.
    """

    identity: Identity | None
    told: Place | None
    _fd: int
    _head: bytes

    @classmethod
    def take_over(cls, folder: str) -> Self:
        """Say that the directory is ours now, which the lock has decided.

        Raises:
            OSError: The file cannot be written.
        """
        former = read_owner(folder)
        told = None if former is None else former.told
        us = Identity.of(os.getpid())
        identity = json.dumps(None if us is None else us.as_dict())
        head = f'{{"pid": {os.getpid()}, "identity": {identity}, "told": '
        fd = os.open(os.path.join(folder, NAME), _OPEN, 0o600)
        file = cls(us, told, fd, head.encode())
        try:
            file._write(json.dumps(told).encode())
        except BaseException:
            file.close()
            raise
        return file

    def tell(self, place: Place) -> None:
        """The event at this place has been said. As fast as can be: see `ledger`."""
        with contextlib.suppress(OSError):  # the worst that follows: it is said again
            self._write(b"[%d, %d]" % place)

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, told: bytes) -> None:
        os.pwrite(self._fd, (self._head + told + b"}").ljust(_WIDTH - 1) + b"\n", 0)


def read_owner(folder: str) -> Owner | None:
    """The owner, or the last one; None if nothing readable says so."""
    try:
        with open(os.path.join(folder, NAME), "rb") as file:
            raw: dict[str, Any] = json.loads(file.read(_WIDTH))
        identity = identity_from_json(raw["identity"])
        return Owner(int(raw["pid"]), identity, place_from_json(raw["told"]))
    except (OSError, ValueError, TypeError, LookupError):
        return None
