"""The file that output is kept in: made, looked after, and not yet filled here."""

from __future__ import annotations

import os

from .creating import create
from .starting import StartError


class CaptureFile:
    """A capture file of ours.

    Attributes:
        fd: To write with, or -1 once it is closed.
        identity: Its device and number.
    """

    def __init__(self, path: bytes | None) -> None:
        """Make it, empty, readable by its owner only; its directory too if a cleaner took it.

        Args:
            path: Absolute; None: nothing is kept.

        Raises:
            StartError: It cannot be made, or is there already.
        """
        self._path = path
        try:
            self.fd = os.open(os.devnull, os.O_RDWR) if path is None else create(path)
        except OSError as error:
            raise StartError(error.errno or 0, "capture") from error
        status = os.fstat(self.fd)
        self.identity = status.st_dev, status.st_ino

    def is_in_place(self, size: int) -> bool:
        """Whether it is at its path, and not shorter than it was made."""
        if self._path is None:
            return True
        try:
            status = os.lstat(self._path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.identity and status.st_size >= size

    def close(self) -> None:
        if self.fd != -1:
            os.close(self.fd)
            self.fd = -1

    def remove(self) -> None:
        """There will be no output."""
        self.close()
        if self._path is not None:
            try:
                os.unlink(self._path)
            except OSError:
                pass  # it is gone already
