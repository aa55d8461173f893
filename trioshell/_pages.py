"""Pages: pieces of what a shell wrote, by absolute byte offset, and their text.

Bytes and text have to agree at any page border. The rule that makes them: the *text* of a page
holds the characters that **start** in it. A character that began on the page before is not
repeated; one that begins here and ends on the next page is given here, whole, from a few bytes
read ahead. So for every way to cut a stream into pages, the joined texts are the decoded stream.

Only a character whose last bytes have not been written yet cannot be completed. A page of a
running shell ends before it; if it never is completed, the last page gives it as U+FFFD.
"""

from __future__ import annotations

import codecs
from typing import final

import attrs

from .launchers import Capture

# A UTF-8 character has at most four bytes, so at most three of it lie across a border.
_BORDER = 3


@final
@attrs.frozen
class Page:
    """Some output of a shell.

    Attributes:
        data: The bytes, exactly as written. May be empty.
        cursor: Where the next page starts.
        size: Bytes written by the shell so far.
        gap: How many bytes at the cursor asked for were dropped by the output limit; ``data``
            begins after them. The lengths of all data and gaps add up to ``size``.
        final: Nothing will ever follow this page.
    """

    data: bytes
    cursor: int
    size: int
    gap: int = 0
    final: bool = False
    _before: bytes = attrs.field(default=b"", repr=False, eq=False)
    _after: bytes = attrs.field(default=b"", repr=False, eq=False)

    @property
    def text(self) -> str:
        """The characters that start in this page, as UTF-8 with U+FFFD for what is not.

        The texts of consecutive pages join to the text of the whole, whatever their limits.
        """
        begun = incomplete(self._before)
        whole = begun + self.data
        tail = incomplete(whole)
        decoded = whole[: len(whole) - len(tail)].decode("utf-8", "replace")
        if begun:
            decoded = decoded[1:]  # the character that the page before has given
        if not tail or len(tail) > len(self.data):
            return decoded  # the last character is complete, or it is not ours
        return decoded + (tail + self._after).decode("utf-8", "replace")[:1]


def incomplete(data: bytes) -> bytes:
    """The last bytes of ``data`` that begin a character without completing it."""
    tail = data[-_BORDER:]
    _, used = codecs.utf_8_decode(tail, "replace", False)
    tail = tail[used:]
    # The codec also waits for the third byte of a surrogate, which no third byte can make valid.
    return b"" if tail[:1] == b"\xed" and tail[1:] >= b"\xa0" else tail


def page(capture: Capture, cursor: int, limit: int, *, ended: bool) -> Page:
    """Read one page.

    Args:
        capture: What was written.
        cursor: Byte offset to start at; beyond the end it gives an empty page there.
        limit: Most bytes to give.
        ended: The output is final.

    Raises:
        OutputLostError: The output is gone.
    """
    size = capture.size
    cursor = min(cursor, size)
    gap = capture.gap(cursor)
    start = cursor + gap
    data = capture.read(start, limit)
    size = max(size, start + len(data))
    end = start + len(data)
    after = capture.read(end, _BORDER) if data and end < size else b""
    if not ended and end + len(after) >= size:
        held = _unfinished(data, after)
        data, after = data[: len(data) - len(held)], held + after
        end = start + len(data)
    before = capture.read(max(0, start - _BORDER), min(start, _BORDER)) if not gap else b""
    final = ended and end >= size
    return Page(data, end, size, gap, final, before, after)


def _unfinished(data: bytes, after: bytes) -> bytes:
    """A last character that is still being written: it is left to a later page."""
    tail = incomplete(data)
    return tail if tail and incomplete(tail + after) else b""
