"""Making a capture file: the same in a host and in a supervisor."""

from __future__ import annotations

import os

# O_EXCL and O_NOFOLLOW: a file or a symlink planted in the directory is never written to.
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create(path: str | bytes) -> int:
    """Make it, empty, readable by its owner only; its directory too if a cleaner took it.

    Args:
        path: Absolute.

    Returns:
        A descriptor to write with.

    Raises:
        OSError: It cannot be made, or is there already.
    """
    try:
        return os.open(path, _NEW, 0o600)
    except FileNotFoundError:
        os.mkdir(os.path.dirname(path), 0o700)
        return os.open(path, _NEW, 0o600)
