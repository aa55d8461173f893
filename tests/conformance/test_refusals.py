"""Bad input is named, before anything exists (C14, C2)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from trioshell import SpawnError

from . import commands
from .conftest import LAUNCHERS, Stage

REAL = sorted(set(LAUNCHERS) - {"fake"})


async def refused(stage: Stage, command: Any, **options: Any) -> str:
    """What is said; and that it was all."""
    async with stage.open() as shells:
        with pytest.raises((TypeError, ValueError, SpawnError)) as caught:
            await shells.create(command, **options)
        assert (len(shells), shells.statistics().last_seq) == (0, 0)
        # The scope is as good as new.
        assert (await (await shells.create(commands.EXIT_3)).wait()).returncode == 3
    return str(caught.value)


@pytest.mark.parametrize("command", ["", "  \n", (), ("",)])
async def test_empty_command(stage: Stage, command: Any) -> None:
    assert "the command is empty" in await refused(stage, command)


@pytest.mark.parametrize("command", ["echo a\0b", ("echo", "a\0b"), (b"a\0b",)])
async def test_nul(stage: Stage, command: Any) -> None:
    assert "NUL" in await refused(stage, command)


@pytest.mark.parametrize("timeout", [0, -1, math.nan])
async def test_timeout(stage: Stage, timeout: float) -> None:
    assert repr(timeout) in await refused(stage, commands.EXIT_0, timeout=timeout)


@pytest.mark.parametrize("kind", REAL, indirect=True)
async def test_directory(stage: Stage, tmp_path: Path) -> None:
    nowhere, file = tmp_path / "nowhere", tmp_path / "file"
    file.write_bytes(b"")
    for path in (nowhere, file):
        assert repr(str(path)) in await refused(stage, commands.EXIT_0, cwd=path)


@pytest.mark.parametrize("kind", REAL, indirect=True)
async def test_too_long(stage: Stage) -> None:
    assert "limit" in await refused(stage, "echo " + "x" * 200_000)


@pytest.mark.parametrize("kind", REAL, indirect=True)
async def test_program_that_cannot_be_executed(stage: Stage, tmp_path: Path) -> None:
    """Only the kernel knows that the interpreter on its first line does not exist."""
    script = tmp_path / "script"
    script.write_text("#!/nonexistent/interpreter\n")
    assert str(script) in await refused(stage, (script,))
    script.chmod(0o755)
    assert str(script) in await refused(stage, (script,))
