from __future__ import annotations

import pytest

from trioshell import Status

from .support import Case


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("bash -c 'A=(); false'", 1, b""),
        ("false || ( exit 3 )", 3, b""),
        ("echo '((('; exit 7", 7, b"(((\n"),
    ],
)
async def test_the_code_is_the_wait_status(
    case: Case, command: str, code: int, output: bytes
) -> None:
    """Case 1: a failing command reported as success when the command text cannot be parsed.

    https://github.com/SWE-agent/SWE-ReX/issues/54
    """
    async with case.open():
        info, written = await case.run(command)
    assert (info.status, info.returncode, written) == (Status.EXITED, code, output)
