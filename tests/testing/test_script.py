from __future__ import annotations

import errno
import math
from typing import Any, cast

import pytest
from hypothesis import given

from trioshell import SpawnError
from trioshell.testing import Script, scripts

CHILD = Script.forever().ignores("TERM").escapes()
EVERYTHING = (
    Script.exits(3, after=1.5)
    .prints(b"a", b"b", after=0.5, every=0.1)
    .prints(b"\xff")
    .ignores("TERM", "HUP")
    .exits_on("INT", 4, after=2)
    .unkillable(5)
    .leaves(CHILD, Script.exits())
    .eof_after_exit(0.5)
    .disk_full_after(0)
    .spawn_takes(1, shielded=True)
    .helper_dies(0)
)


@pytest.mark.parametrize(
    "script",
    [
        EVERYTHING,
        Script.dies("SEGV", after=1),
        Script.echoes(),
        Script.echoes(2),
        Script.forever().unkillable(),
        Script.forever().holds_output_open(),
        Script.fails_to_start(),
        Script.fails_to_start(PermissionError(errno.EACCES, "no")),
    ],
    ids=repr,
)
def test_repr_is_a_literal(script: Script) -> None:
    assert eval(repr(script), {"Script": Script}) == script


@given(script=scripts())
def test_repr_of_what_is_drawn_is_a_literal(script: Script) -> None:
    assert eval(repr(script), {"Script": Script}) == script


def test_methods_leave_the_script_as_it_was() -> None:
    script = Script.exits()
    script.prints(b"x").ignores("TERM").leaves(CHILD)
    assert script == Script.exits()


def test_signals_have_one_name() -> None:
    assert (
        Script.forever().ignores("SIGTERM")
        == Script.forever().ignores(15)
        == Script.forever().ignores("term")
    )


def test_last_word_about_a_signal_counts() -> None:
    script = Script.forever().ignores("TERM").exits_on("TERM", 3)
    reaction = script.reaction("TERM")
    assert reaction is not None
    assert reaction.code == 3


@pytest.mark.parametrize(
    ("wrong", "culprit"),
    [
        (lambda: Script.exits(256), "256"),
        (lambda: Script.exits(-1), "-1"),
        (lambda: Script.exits(after=-1), "after"),
        (lambda: Script.exits(after=math.nan), "nan"),
        (lambda: Script.exits(after=cast("Any", "1")), "'1'"),
        (lambda: Script.exits().prints(cast("Any", "text")), "'text'"),
        (lambda: Script.forever().ignores("KILL"), "KILL"),
        (lambda: Script.forever().exits_on("STOP"), "STOP"),
        (lambda: Script.forever().ignores("TREM"), "'TREM'"),
        (lambda: Script.dies(0), "0"),
        (lambda: Script.forever().disk_full_after(-1), "-1"),
        (lambda: Script.forever().prints(b"x").exits(), r"Script\.exits"),
    ],
)
def test_nonsense_is_named(wrong: Any, culprit: str) -> None:
    with pytest.raises((TypeError, ValueError), match=culprit):
        wrong()


def test_failed_starts_are_spawn_errors_made_anew() -> None:
    """One exception object raised twice would collect tracebacks and contexts."""
    script = Script.fails_to_start(FileNotFoundError(errno.ENOENT, "gone", "/the/program"))
    first, second = script.error("cmd"), script.error("cmd")
    assert isinstance(first, SpawnError)
    assert isinstance(first, FileNotFoundError)
    assert first.filename == "/the/program"
    assert first is not second
    other = Script.fails_to_start(LookupError("as it is")).error("cmd")
    assert type(other) is LookupError
    assert Script.exits().error("cmd") is None
