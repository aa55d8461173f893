from __future__ import annotations

import itertools
import os
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.direct.rig import SpecOf, Start
from trioshell.launchers import Process, Spec
from trioshell.launchers._supervised import SupervisedLauncher


@pytest.fixture
def spec(tmp_path: Path) -> SpecOf:
    """Builds specs: text is run by sh, a tuple is a program with its arguments."""
    numbers = itertools.count()

    def build(command: str | tuple[str, ...], **options: Any) -> Spec:
        # Unique beyond this test: processes are found by it.
        id = f"sh_{os.getpid()}_{tmp_path.name}_{next(numbers)}"
        words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        fields: dict[str, Any] = {
            "id": id,
            "argv": tuple(map(os.fsencode, words)),
            "executable": os.fsencode(words[0]),
            "cwd": str(tmp_path),
            "env": dict(os.environb),
            "capture": str(tmp_path / f"{id}.out"),
            "grace": 5.0,
        }
        return Spec(**fields | options)

    return build


@pytest.fixture
def new_number() -> Callable[[], str]:
    """Numbers of seconds to sleep, by which a process is found among all others."""
    numbers = itertools.count(os.getpid() * 1000 + 10_000_000)
    return lambda: str(next(numbers))


@pytest.fixture
async def launcher() -> AsyncGenerator[SupervisedLauncher]:
    async with SupervisedLauncher() as launcher:
        yield launcher


@pytest.fixture
async def start(launcher: SupervisedLauncher, spec: SpecOf) -> AsyncGenerator[Start]:
    """Starts commands; whatever is left of them at the end of the test is killed."""
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
