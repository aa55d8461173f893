"""The standard streams of the program: missing, narrow, or with nobody at the other end."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
from typing import Final

# As if SIGPIPE had ended it, which Python ignores.
READER_GONE: Final = 128 + signal.SIGPIPE


def prepare() -> None:
    """Make all three usable, whatever the program was started with."""
    # Python has None for a descriptor that is closed. In this order each of them gets its number.
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115 - to the end of the program
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            _widen(stream)


def _widen(stream: io.TextIOWrapper) -> None:
    """No character may end the program. Where there are no others than ASCII, text is UTF-8."""
    narrow = codecs.lookup(stream.encoding).name == "ascii"
    stream.reconfigure(encoding="utf-8" if narrow else None, errors="replace")


def say(line: str) -> None:
    """Print a line at once.

    Raises:
        OSError: It cannot be written; a `BrokenPipeError` if nobody reads any more.
    """
    # Names that came as bytes are put together again: a locale may have taken them for no text.
    print(line.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), flush=True)


def complain(message: str) -> None:
    """Tell on stderr."""
    print(f"trioshell: {message}", file=sys.stderr)


def drop_unwritten() -> None:
    """Drop what stdout does not take. Python would try it again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
