"""The process zoo: each animal does what its name says, and none is left behind (C10)."""

from __future__ import annotations

import signal
import sys

import pytest

from trioshell import Status, open_shells
from trioshell.testing import zoo
from trioshell.testing._animals import ANIMALS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the supervised launcher is for Linux"),
]


@pytest.mark.parametrize("animal", ANIMALS)
async def test_zoo_is_ended_whatever_it_does(animal: str) -> None:
    """The fixture that looks for leftovers is the judge."""
    async with open_shells(grace=0.2) as shells:
        shell = await shells.create(zoo(animal))
        async with shell.follow() as stream:
            if animal in ("stubborn", "zombies", "storm", "flooder", "chatty"):
                assert await stream.receive_some()
            info = await shell.kill()
    assert info.leftovers == ()


@pytest.mark.parametrize(
    ("animal", "arguments", "code", "output"),
    [
        ("daemon", (), 0, ""),
        ("holder", (), 0, ""),
        ("flooder", (32,), 0, "000000000000000\n000000000000001\n"),
        ("bytewise", ("≤\n",), 0, "≤\n"),
        ("truncator", (), 0, "one\ntwo\nthree\n"),
        ("closer", (0,), 5, ""),
        ("racer", (0, 3), 3, "last\n"),
    ],
)
async def test_zoo_does_as_it_says(
    animal: str, arguments: tuple[object, ...], code: int, output: str
) -> None:
    async with open_shells(grace=0.2) as shells:
        result = await (await shells.create(zoo(animal, *arguments))).result()
    assert (result.info.returncode, result.output) == (code, output)


async def test_zoo_stubborn_needs_sigkill() -> None:
    async with open_shells(grace=0.1) as shells:
        shell = await shells.create(zoo("stubborn"))
        async with shell.lines() as lines:
            assert await lines.receive() == "ready"
        info = await shell.kill()
    assert (info.status, info.signal) == (Status.KILLED, signal.SIGKILL)


async def test_zoo_stopper_is_no_end_until_its_limit() -> None:
    async with open_shells(grace=0.1) as shells:
        info = await (await shells.create(zoo("stopper"), timeout=0.5)).wait()
    assert info.status is Status.TIMEOUT


def test_zoo_names_its_animals() -> None:
    with pytest.raises(ValueError, match="hopper"):
        zoo("unicorn")
