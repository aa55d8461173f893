"""Where the capture files of a scope live."""

from __future__ import annotations

import os
import shutil
import tempfile

import attrs


@attrs.frozen
class Directory:
    """A directory of capture files.

    Attributes:
        path: Absolute, or None: the launcher keeps output elsewhere.
        private: It is deleted with the scope.
    """

    path: str | None
    private: bool

    def capture(self, id: str) -> str | None:
        """Where the capture file of a shell goes."""
        return None if self.path is None else os.path.join(self.path, f"{id}.out")

    def close(self) -> None:
        """Delete it, if it is the scope's own."""
        if self.private and self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


NOWHERE = Directory(None, False)


def open_directory(path: str | os.PathLike[str] | None) -> Directory:
    """Make or open the directory; None: a private one.

    Raises:
        OSError: It cannot be used.
    """
    if path is None:
        return Directory(tempfile.mkdtemp(prefix="trioshell-"), True)
    output = os.path.join(os.path.abspath(path), "output")
    os.makedirs(output, mode=0o700, exist_ok=True)
    return Directory(output, False)
