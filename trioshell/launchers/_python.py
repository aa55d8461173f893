"""With which Python, if any, a launcher can run programs of its own."""

from __future__ import annotations

import os
import sys


def python() -> str | None:
    """Path of the interpreter, or None.

    In a frozen or embedding program `sys.executable` is that program: starting it would start
    another one of it.
    """
    path = sys.executable or ""
    name = os.path.basename(path).lower()
    if getattr(sys, "frozen", False) or not ("python" in name or "pypy" in name):
        return None
    return path if os.path.isfile(path) else None
