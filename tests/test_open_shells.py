"""C14 for the scope: what it cannot use is named, before anything exists."""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from trioshell import open_shells
from trioshell.launchers import DirectLauncher
from trioshell.testing import FakeLauncher


async def watch(event: object) -> None:
    del event


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no observers": ({"observers": None}, TypeError, "observers must be a sequence"),
    "one observer": ({"observers": print}, TypeError, "observers must be a sequence"),
    "observer 1": ({"observers": [1]}, TypeError, "an observer must be a function, not 1"),
    "async": ({"observers": [watch]}, TypeError, "must not be async"),
    "async partial": ({"observers": [partial(watch, 1)]}, TypeError, "must not be async"),
    "limiter 5": ({"limiter": 5}, TypeError, "limiter must be a trio.CapacityLimiter"),
    "launcher name": ({"launcher": "direct"}, TypeError, "launcher must be a launcher object"),
    "launcher class": ({"launcher": DirectLauncher}, TypeError, "must be a launcher object"),
    "shell 5": ({"shell": 5}, TypeError, "shell must be a path, not 5"),
    "shell empty": ({"shell": ""}, ValueError, "shell must not be empty"),
    "shell NUL": ({"shell": "s\0h"}, ValueError, "shell must not contain a NUL"),
    "directory 5": ({"directory": 5}, TypeError, "directory must be a path, not 5"),
    "directory empty": ({"directory": ""}, ValueError, "directory must not be empty"),
    "directory NUL": ({"directory": "a\0b"}, ValueError, "directory must not contain a NUL"),
    "directory file": ({"directory": "/dev/null"}, FileExistsError, "/dev/null"),
    "retain": ({"retain": 2.5}, TypeError, "retain must be an int"),
    "grace": ({"grace": float("nan")}, ValueError, "grace must be 0 seconds or more"),
}


@pytest.mark.parametrize(("given", "error", "says"), BAD.values(), ids=BAD)
async def test_scope_names_what_it_cannot_use(
    given: dict[str, Any],
    error: type[Exception],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An async observer would never run; an empty directory would be the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(error, match=says):
        async with open_shells(**given):
            pytest.fail("it was opened")
    assert os.listdir(tmp_path) == []


def test_scope_says_that_it_needs_trio() -> None:
    async def main() -> None:
        async with open_shells():
            pytest.fail("it was opened")

    with pytest.raises(RuntimeError, match=r"use trio\.run"):
        asyncio.run(main())


async def test_shell_may_be_given_as_bytes() -> None:
    async with open_shells(shell=b"/bin/sh", launcher=DirectLauncher()) as shells:  # type: ignore[arg-type]
        assert (await (await shells.create("exit 3")).wait()).returncode == 3


@pytest.mark.parametrize(
    ("signal", "error", "says"),
    [
        (0, ValueError, "between 1 and"),
        (65, ValueError, "not 65"),
        (10**30, ValueError, "between 1 and"),
        ("TERM", TypeError, "such as signal.SIGINT, not 'TERM'"),
        (9.7, TypeError, "not 9.7"),
        (True, TypeError, "not True"),
        (None, TypeError, "not None"),
    ],
)
async def test_signal_that_does_not_exist_is_named(
    signal: Any, error: type[Exception], says: str
) -> None:
    async with open_shells(launcher=FakeLauncher()) as shells:
        shell = await shells.create("serve")
        with pytest.raises(error, match=says):
            shell.send_signal(signal)
        assert shell.info.running
        with trio.move_on_after(0):
            await shell.remove()
