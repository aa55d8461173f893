"""Hosts of their own: for what must not happen to the process that runs the tests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import trio

from .support import Case

_ROOT = Path(__file__).parents[2]

# Only against hangs.
_LONGEST = 40.0

# `answer` writes to a file, because the host may have no standard output.
_PRELUDE = """
import contextlib, errno, fcntl, json, os, resource, signal, subprocess, sys, termios, threading
from functools import partial
from pathlib import Path

import trio

import trioshell
from trioshell import Pty, Status
from tests.cases.support import Case, left, make_launcher, read_all, until, until_output

# Of a thread that was made while a test had them blocked.
signal.pthread_sigmask(signal.SIG_SETMASK, ())

_, launcher, path, tag = sys.argv
case = Case(partial(make_launcher, launcher), Path(path), tag)

def answer(value):
    (case.path / "answer").write_text(json.dumps(value))
"""


async def run_host(
    case: Case,
    program: str,
    *,
    through: Sequence[str] = (),
    env: dict[str, str] | None = None,
    code: int = 0,
    **options: Any,
) -> Any:
    """Run a program as another host, and return what it gave to its function ``answer``.

    Args:
        case: What ``case`` is in that program: the same launcher, directory and tag.
        program: Python, after a prelude with the usual imports.
        through: A command that runs the rest of its arguments.
        env: Its whole environment, but for PYTHONPATH; None: ours.
        code: With which it has to end.
        options: For `subprocess.Popen`.
    """
    arguments = [case.guarantees.launcher, str(case.path), case.tag]
    with trio.fail_after(_LONGEST):
        ended = await trio.run_process(
            [*through, sys.executable, "-c", _PRELUDE + dedent(program), *arguments],
            check=False,
            capture_stdout=True,
            capture_stderr=True,
            env={**(os.environ if env is None else env), "PYTHONPATH": str(_ROOT)},
            **options,
        )
    trouble = (ended.stderr or b"").decode(errors="replace")
    assert ended.returncode == code, trouble
    file = case.path / "answer"
    return json.loads(file.read_text()) if file.exists() else None
