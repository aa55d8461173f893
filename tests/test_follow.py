"""Live output: followers keep their own place, and lines come whole."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from trioshell import Follower, LineReader, ShellRemovedError, open_shells
from trioshell._follow import MAX_LINE
from trioshell.testing import FakeLauncher, Script

from .memory import Memory

TICKS = Script.exits(after=1.0).prints(b"one\n", b"two\n", b"three", every=1.0)


async def never(size: int) -> None:
    raise AssertionError(f"nothing to wait for at {size}")


def ended(capture: Memory, cursor: int = 0) -> Follower:
    """Follow an output that is final."""
    return Follower(capture, lambda: True, never, cursor)


async def test_follow_gives_output_as_it_comes(autojump_clock: trio.testing.MockClock) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        shell = await shells.create("ticks")
        start = trio.current_time()
        async with shell.follow() as stream:
            got = [(data, trio.current_time() - start) async for data in stream]
    assert got == [(b"one\n", 0.0), (b"two\n", 1.0), (b"three", 2.0)]


async def test_follow_after_the_end_and_from_a_cursor(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        shell = await shells.create("ticks")
        async with shell.follow(4) as stream:
            assert await stream.receive_some(3) == b"two"
            await shell.wait()
            assert await stream.receive_some(3) == b"\nth"
            assert [data async for data in stream] == [b"ree"]
            assert await stream.receive_some() == b""


async def test_follow_many_at_once_at_different_places(
    autojump_clock: trio.testing.MockClock,
) -> None:
    got: dict[int, bytes] = {}

    async def follow(cursor: int) -> None:
        async with shell.follow(cursor) as stream:
            got[cursor] = b"".join([data async for data in stream])

    async with open_shells(launcher=FakeLauncher(TICKS)) as shells, trio.open_nursery() as nursery:
        shell = await shells.create("ticks")
        for cursor in (0, 2, 8, 100):
            nursery.start_soon(follow, cursor)
        await shell.wait()
    whole = b"one\ntwo\nthree"
    assert got == {0: whole, 2: whole[2:], 8: whole[8:], 100: b""}


async def test_follow_cancelled_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        shell = await shells.create("ticks")
        got = b""
        async with shell.follow() as stream:
            while not got.endswith(b"three"):
                with trio.move_on_after(0.3):
                    got += await stream.receive_some()
    assert got == b"one\ntwo\nthree"


async def test_follow_ends_when_the_shell_is_killed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_shells(launcher=FakeLauncher(Script.forever().prints(b"up\n"))) as shells:
        shell = await shells.create("server")
        async with trio.open_nursery() as nursery, shell.follow() as stream:
            assert await stream.receive_some() == b"up\n"
            nursery.start_soon(shell.kill)
            assert await stream.receive_some() == b""


async def test_follow_of_a_deleted_shell_is_refused(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        shell = await shells.create("ticks")
        await shell.remove()
        with pytest.raises(ShellRemovedError):
            shell.follow()


async def test_follower_closed_by_another_task_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        stream = (await shells.create("ticks")).follow()
        await stream.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()


@pytest.mark.parametrize("cursor", [-1, "0"])
async def test_follow_names_a_bad_cursor(
    cursor: int, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_shells(launcher=FakeLauncher(TICKS)) as shells:
        shell = await shells.create("ticks")
        with pytest.raises((ValueError, TypeError), match="cursor"):
            shell.follow(cursor)


async def test_follower_names_a_bad_limit() -> None:
    with pytest.raises(ValueError, match="max_bytes"):
        await ended(Memory(b"x")).receive_some(0)


async def test_follower_counts_what_the_limit_dropped() -> None:
    follower = ended(Memory(b"head......tail", dropped=(4, 10)))
    assert [data async for data in follower] == [b"head", b"tail"]
    assert (follower.gap, follower.cursor) == (6, 14)


async def test_follower_and_lines_are_checkpoints() -> None:
    follower = ended(Memory(b"one\n"))
    with trio.testing.assert_checkpoints():
        await follower.receive_some()
    with trio.testing.assert_checkpoints():
        await follower.receive_some()
    reader = LineReader(ended(Memory(b"one\ntwo\n")), MAX_LINE)
    for _ in range(2):
        with trio.testing.assert_checkpoints():
            await reader.receive()


async def test_lines_come_whole_and_the_last_one_without_a_newline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    script = Script.exits().prints(b"a\r\n\xe2", b"\x89\xa4\n\nz", every=1.0)
    async with open_shells(launcher=FakeLauncher(script)) as shells:
        shell = await shells.create("x")
        async with shell.lines() as lines:
            assert [line async for line in lines] == ["a", "≤", "", "z"]


@given(st.binary(max_size=60), st.integers(1, 9))
def test_lines_join_to_the_text_and_none_is_too_long(data: bytes, longest: int) -> None:
    async def read() -> list[str]:
        return [line async for line in LineReader(ended(Memory(data)), longest)]

    lines = trio.run(read)
    assert all(len(line) <= longest for line in lines)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    assert "".join(lines) == text.replace("\n", "")


@pytest.mark.parametrize("kind", ["follow", "lines"])
async def test_close_frees_who_waits(kind: str, autojump_clock: trio.testing.MockClock) -> None:
    """As `trio.abc.AsyncResource` asks; what was read ahead is not given after it."""

    async def receive() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await (stream.receive_some() if kind == "follow" else stream.receive())

    async with open_shells(launcher=FakeLauncher(Script.forever().prints(b"1\n2\n3"))) as shells:
        shell = await shells.create("serve")
        stream: Any = getattr(shell, kind)()
        assert await (stream.receive_some() if kind == "follow" else stream.receive())
        if kind == "lines":
            await stream.receive()
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            await stream.aclose()
        await receive()
        fresh = shell.lines()
        assert await fresh.receive() == "1"
        await fresh.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await fresh.receive()


@pytest.mark.parametrize("bad", [0, -1, 2.5, "x", True])
async def test_max_bytes_that_makes_no_sense_is_named(bad: Any) -> None:
    """C14."""
    with pytest.raises((TypeError, ValueError), match="max_bytes must be"):
        await ended(Memory(b"x")).receive_some(bad)
