"""Writing down how a leader ended, for a host that may never hear of it."""

from __future__ import annotations

import os

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def note(path: bytes, status: int, by_itself: bool) -> None:
    """Make the file at one stroke: a crash leaves it whole, or not at all.

    Where that fails (a full disk) the end is known to the host alone, as if there were no file.

    Args:
        path: Where. The file does not exist.
        status: The leader's raw wait status.
        by_itself: It ended without us.
    """
    text = b'{"status": %d, "by_itself": %s}\n' % (status, b"true" if by_itself else b"false")
    try:
        fd = os.open(path + b"~", _NEW, 0o600)
        try:
            os.write(fd, text)
        finally:
            os.close(fd)
        os.rename(path + b"~", path)
    except OSError:
        pass
