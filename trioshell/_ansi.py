"""Terminal control sequences in text."""

from __future__ import annotations

import re
from typing import Final

# ECMA-48: CSI sequences (colours, cursor), strings such as OSC (titles, links) with their
# terminator or cut off at the end, and the two- and three-character escapes. Each introducer also
# exists as one character between U+0080 and U+009F, which terminals obey, too.
_SEQUENCE: Final = re.compile(
    r"""(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]
      | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)
      | \x1b[ -/]*[0-~]
      | [\x00-\x08\x0b-\x1f\x7f-\x9f]
    """,
    re.VERBOSE | re.DOTALL,
)


def strip_ansi(text: str) -> str:
    """Take terminal control sequences and control characters out of a text.

    Newlines and tabs stay. The output that trioshell stores is never changed; this is for
    showing it.

    Args:
        text: For example ``page.text``.
    """
    return _SEQUENCE.sub("", text)
