"""Telling of a trouble from where nothing may fail."""

from __future__ import annotations

import logging
import warnings

_logger = logging.getLogger("trioshell")


def report(message: str) -> None:
    """Give a `RuntimeWarning`, or log it where warnings are errors. Never raises.

    Publication is one step with the change it tells of (C5), so no warning may break out of it.
    """
    try:
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        _logger.exception(message)
