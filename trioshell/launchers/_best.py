"""The best launcher of the platform."""

from __future__ import annotations

from ._seam import Launcher


def best_launcher() -> Launcher:
    """A new launcher of the best kind that this platform has."""
    from ._direct import DirectLauncher

    return DirectLauncher()
