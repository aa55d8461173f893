"""The part of an output that a person or a model wants to see first: its tail, its head, or both.

Whole lines are kept where that is possible. A single line that is longer than the limit is cut,
at a character and not inside one.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from ._pages import incomplete
from .launchers import Capture

Part = Literal["tail", "head", "both"]

# What `Shell.result` gives by default: enough to see why a build failed, small enough to show.
LINES: Final = 2000
LIMIT: Final = 50 * 1024


@attrs.frozen
class Excerpt:
    """Some of an output as text, and how many bytes of the output are not in it."""

    text: str
    missing: int


def excerpt(capture: Capture, *, part: Part, lines: int, limit: int) -> Excerpt:
    """Take the part of an output that is asked for.

    Args:
        capture: The output.
        part: Which end; ``"both"`` takes half of the limits from each and says so between them.
        lines: Most lines to keep.
        limit: Most bytes to keep.

    Raises:
        OutputLostError: The output is gone.
    """
    size = capture.size
    if part == "tail":
        kept = _tail(capture, 0, size, lines, limit)
        return Excerpt(_decode(kept), size - len(kept))
    if part == "head":
        kept = _head(capture, size, lines, limit)
        return Excerpt(_decode(kept), size - len(kept))
    return _both(capture, size, lines, limit)


def _both(capture: Capture, size: int, lines: int, limit: int) -> Excerpt:
    whole = _tail(capture, 0, size, lines, limit)
    if len(whole) == size:
        return Excerpt(_decode(whole), 0)
    head = _head(capture, size, (lines + 1) // 2, (limit + 1) // 2)
    tail = _tail(capture, len(head), size, lines // 2, limit // 2)
    missing = size - len(head) - len(tail)
    between = f"[... {missing} bytes not shown ...]\n" if missing else ""
    if between and not head.endswith(b"\n"):
        between = "\n" + between
    return Excerpt(_decode(head) + between + _decode(tail), missing)


def _tail(capture: Capture, least: int, size: int, lines: int, limit: int) -> bytes:
    start = max(least, size - limit)
    data = _read(capture, start, size)
    if size - len(data) > least and not _follows_newline(capture, size - len(data)):
        data = _from_next_line(data)
    return _last_lines(data, lines)


def _head(capture: Capture, size: int, lines: int, limit: int) -> bytes:
    data = capture.read(0, min(limit, size))
    if len(data) < size:
        end = data.rfind(b"\n") + 1
        data = data[:end] if end else data[: len(data) - len(incomplete(data))]
    return _first_lines(data, lines)


def _read(capture: Capture, start: int, size: int) -> bytes:
    """The bytes up to the end, without a gap inside: from after the last one."""
    data = b""
    while start < size:
        gap = capture.gap(start)
        if gap:
            data, start = b"", start + gap
        piece = capture.read(start, size - start)
        if not piece and not gap:
            break
        data, start = data + piece, start + len(piece)
    return data


def _follows_newline(capture: Capture, start: int) -> bool:
    return capture.read(start - 1, 1) == b"\n"


def _from_next_line(data: bytes) -> bytes:
    """Drop the rest of a line that began before, unless there is no other line."""
    newline = data.find(b"\n")
    if 0 <= newline < len(data) - 1:
        return data[newline + 1 :]
    skip = 0  # one line only: cut it at a character
    while skip < min(3, len(data)) and data[skip] & 0xC0 == 0x80:
        skip += 1
    return data[skip:]


def _first_lines(data: bytes, lines: int) -> bytes:
    end = 0
    for _ in range(lines):
        end = data.find(b"\n", end) + 1
        if not end:
            return data
    return data[:end]


def _last_lines(data: bytes, lines: int) -> bytes:
    if not lines:
        return b""
    end = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        end = data.rfind(b"\n", 0, max(end, 0))
        if end < 0:
            return data
    return data[end + 1 :]


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
