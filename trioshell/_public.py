"""How names get from the modules where they are written to where users import them."""

from __future__ import annotations

from typing import Any


def publish(namespace: dict[str, Any], module: str) -> None:
    """Make the names in a public namespace say that they live there.

    Tracebacks, reprs, pickles and the documentation then show the path that a user imports.
    """
    for value in namespace.values():
        if getattr(value, "__module__", "").startswith("trioshell."):
            value.__module__ = module
