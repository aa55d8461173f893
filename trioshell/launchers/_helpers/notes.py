"""What is known of a leader, written down for a host that may never hear of it.

The next scope on a durable directory reads it there: who the leader is, before the host can have
recorded that, and how it ended.
"""

from __future__ import annotations

import os

from . import procfs

_NEW = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class Notes:
    """A file with a line of JSON for the start of a leader, and one for its end.

    Each line is one short write, so that a crash leaves it whole or not at all. Where it cannot
    be written (a full disk), the host alone knows: as if there were no file.
    """

    def __init__(self, path: bytes | None) -> None:
        self._fd = -1
        self._ended = False
        if path is not None:
            try:
                self._fd = os.open(path, _NEW, 0o600)
            except OSError:
                pass

    def began(self, leader: int) -> None:
        """It was started, and is not collected yet."""
        process = procfs.look(leader) if self._fd != -1 else None
        if process is not None:
            self._write(b'{"pid": %d, "start": %d}\n' % process.identity)

    def ended(self, status: int, *, by_itself: bool) -> None:
        """It ended with this raw wait status; `by_itself` as in `tree.Tree`."""
        if not self._ended:
            self._ended = True
            truth = b"true" if by_itself else b"false"
            self._write(b'{"status": %d, "by_itself": %b}\n' % (status, truth))

    def close(self) -> None:
        if self._fd != -1:
            os.close(self._fd)
            self._fd = -1

    def _write(self, line: bytes) -> None:
        try:
            if self._fd != -1:
                os.write(self._fd, line)
        except OSError:
            pass
