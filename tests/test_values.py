"""What is handed out can be kept, copied, compared and sent to another process."""

from __future__ import annotations

import copy
import json
import math
import pickle
from pathlib import Path
from typing import Any

import attrs
import pytest

import trioshell
from trioshell import Exited, Leftover, Page, Pty, Result, ShellInfo, Status, Usage
from trioshell._exceptions import spawn_error
from trioshell.testing import FakeLauncher

INFO = ShellInfo(
    id="sh_1",
    status=Status.EXITED,
    command=("make", b"\xff", Path("x")),
    cwd="/",
    shell=None,
    pid=7,
    file=None,
    metadata={"job": [1, {"a": 2}]},
    started=1.0,
    ended=2.0,
    returncode=-9,
    usage=Usage(0.1, 0.2, 3),
    leftovers=(Leftover(8, "x"),),
)

VALUES: list[Any] = [
    INFO,
    attrs.evolve(INFO, metadata={}),
    Exited(seq=1, time=2.0, id="sh_1", info=INFO),
    Result(INFO, "out", 3),
    Page(b"\xe2\x89", 2, 3, final=True),
    Pty(1, 2),
]

ERRORS: list[Any] = [
    trioshell.ShellNotFoundError("sh_1"),
    trioshell.ShellNotFoundError("sh_1", "two shells have this"),
    trioshell.ShellRemovedError(INFO),
    trioshell.OutputLostError("it is gone"),
    trioshell.DirectoryInUseError("/state", 7),
    trioshell.DirectoryInUseError("/state", None),
    trioshell.SubscriptionLaggedError(3, 4),
    spawn_error(2, "what", "x"),
    spawn_error(7, "what"),
]


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_survives_a_copy(value: Any, copier: Any) -> None:
    again = copier(value)
    assert again == value
    assert type(again) is type(value)
    assert hash(again) == hash(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_survives_a_pickle(error: Any, protocol: int) -> None:
    """A pool of processes breaks when it cannot build the exception of a worker again."""
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert getattr(again, "errno", None) == getattr(error, "errno", None)


def test_copied_metadata_are_read_only_and_its_own() -> None:
    again = copy.deepcopy(INFO)
    with pytest.raises(TypeError):
        again.metadata["job"] = 2  # type: ignore[index]
    again.metadata["job"].append(3)
    assert INFO.metadata == {"job": [1, {"a": 2}]}


def test_info_is_json() -> None:
    told = json.loads(json.dumps(INFO.as_dict()))
    assert (told["status"], told["signal"], told["metadata"]) == ("exited", 9, INFO.metadata)
    metadata: dict[Any, object] = {"x": [math.nan, -math.inf, {1}, b"\xff"], 2: None}
    odd = attrs.evolve(INFO, metadata=metadata)
    assert json.loads(json.dumps(odd.as_dict(), allow_nan=False))["metadata"] == {
        "x": ["nan", "-inf", [1], "\udcff"],
        "2": None,
    }


async def test_handles_of_one_shell_are_equal() -> None:
    """Each look-up makes one; they serve as keys, and are found in lists."""
    async with trioshell.open_shells(launcher=FakeLauncher()) as shells:
        one, other = [await shells.create("serve") for _ in range(2)]
        assert shells[one.id] == one != other
        assert list(shells) == [one, other]
        assert {one: 1}[shells.get(one.id)] == 1
        with pytest.raises(AttributeError):
            one.note = "x"  # type: ignore[attr-defined]
