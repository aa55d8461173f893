from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.direct.rig import SpecOf, Start
from trioshell.launchers import Process, Spec
from trioshell.launchers._direct import DirectLauncher


@pytest.fixture
def spec(tmp_path: Path) -> SpecOf:
    """Builds specs: text is run by sh, a tuple is a program with its arguments."""
    numbers = itertools.count()

    def build(command: str | tuple[str, ...], **options: Any) -> Spec:
        number = next(numbers)
        words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        fields: dict[str, Any] = {
            "id": f"sh_{number}",
            "argv": tuple(map(os.fsencode, words)),
            "executable": os.fsencode(words[0]),
            "cwd": None,
            "env": dict(os.environb),
            "capture": str(tmp_path / f"output-{number}"),
            "grace": 5.0,
        }
        return Spec(**fields | options)

    return build


@pytest.fixture
async def start(spec: SpecOf) -> AsyncGenerator[Start]:
    """Starts commands; whatever is left of them at the end of the test is killed."""
    launcher = DirectLauncher()
    started: list[Process] = []

    async def launch(command: str | tuple[str, ...], **options: Any) -> Process:
        process = await launcher.launch(spec(command, **options))
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill(0)
        with trio.move_on_after(5, shield=True):
            await process.wait()
            await process.wait_empty()
        process.capture.remove()
