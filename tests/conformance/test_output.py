"""Output and input: every byte, in order, and its end (C4, C13)."""

from __future__ import annotations

import subprocess

import pytest
import trio

from trioshell import Pty, Shell

from . import commands
from .conftest import Stage, up


async def read_all(shell: Shell, limit: int) -> tuple[bytes, str]:
    """All pages of an ended shell."""
    data, text, cursor = b"", "", 0
    while True:
        page = await shell.output(cursor, limit)
        data, text, cursor = data + page.data, text + page.text, page.cursor
        if page.final:
            return data, text


async def test_bytes_are_kept_exactly(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.BINARY)
        info = await shell.wait()
        data, _ = await read_all(shell, 65536)
    assert data == b"\x00\x01\xff\x80a\nb"
    assert info.size == len(data)


async def test_streams_are_interleaved_as_written(stage: Stage) -> None:
    async with stage.open() as shells:
        result = await (await shells.create(commands.BOTH_STREAMS)).result()
    assert result.output == "1\n2\n3\n4\n"


async def test_large_output_is_complete_at_the_end(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LARGE)
        assert (await shell.wait()).size == 300_000
        data, text = await read_all(shell, 4096)
    assert data == b"x" * 300_000
    assert text == data.decode()


async def test_pages_of_any_size_join(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.SLOW_BYTES)
        await shell.wait()
        for limit in (1, 2, 65536):
            assert await read_all(shell, limit) == ("é!".encode(), "é!")


async def test_page_of_a_running_shell_is_not_final(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        await up(shell)
        page = await shell.output()
        assert (page.data, page.cursor, page.size, page.final) == (b"up\n", 3, 3, False)
        beyond = await shell.output(cursor=1000)
        assert (beyond.data, beyond.cursor) == (b"", 3)
        await shell.kill()
        assert (await shell.output(cursor=3)).final


async def test_follower_sees_everything_and_the_end(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.SLOW_BYTES)
        async with shell.follow() as stream:
            data = b"".join([chunk async for chunk in stream])
        assert data == "é!".encode()


async def test_follower_of_a_killed_shell_ends(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.STUBBORN)
        async with trio.open_nursery() as nursery, shell.follow() as stream:
            assert await stream.receive_some() == b"up\n"
            nursery.start_soon(shell.kill)
            assert await stream.receive_some() == b""


async def test_output_of_a_killed_shell_stays(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER)
        await up(shell)
        await shell.kill()
        result = await shell.result()
    assert result.output == "up\n"


async def test_stdin_is_empty_unless_asked(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.CAT)
        assert shell.stdin is None
        assert (await shell.result()).output == ""


async def test_stdin_bytes_are_fed_and_closed(stage: Stage) -> None:
    text = "line\n" * 20_000
    async with stage.open() as shells:
        shell = await shells.create(commands.CAT, stdin=text.encode())
        info = await shell.wait()
        data, _ = await read_all(shell, 65536)
    assert (data.decode(), info.returncode) == (text, 0)


async def test_stdin_that_is_not_read_is_no_trouble(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.READS_NOTHING, stdin=b"x" * 200_000)
        assert (await shell.wait()).returncode == 0


async def test_stdin_stream_is_read_while_it_is_written(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.CAT, stdin=subprocess.PIPE)
        assert shell.stdin is not None
        async with shell.follow() as stream, shell.stdin:
            for word in (b"one", b"two"):
                await shell.stdin.send_all(word)
                assert await stream.receive_some() == word
        assert (await shell.wait()).returncode == 0


async def test_stdin_of_an_ended_shell_is_broken(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.EXIT_0, stdin=subprocess.PIPE)
        await shell.wait()
        assert shell.stdin is not None
        with pytest.raises(trio.BrokenResourceError):
            await shell.stdin.send_all(b"x")
        await shell.stdin.aclose()
        with pytest.raises(trio.ClosedResourceError):
            await shell.stdin.send_all(b"x")


async def test_stdin_that_nobody_reads_makes_the_writer_wait(stage: Stage) -> None:
    """And the end of the shell frees it."""
    async with stage.open() as shells:
        shell = await shells.create(commands.FOREVER, stdin=subprocess.PIPE)
        assert shell.stdin is not None
        with trio.move_on_after(0.05) as scope:
            await shell.stdin.send_all(b"x" * 1_000_000)
        assert scope.cancelled_caught
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shell.kill)
            with pytest.raises(trio.BrokenResourceError):
                await shell.stdin.send_all(b"x" * 1_000_000)


async def test_output_limit_keeps_head_and_tail(stage: Stage) -> None:
    """The gap is explicit: data and gaps add up to the size (C13)."""
    async with stage.open() as shells:
        shell = await shells.create(commands.LARGE, output_limit=20_000)
        info = await shell.wait()
        head = await shell.output(0, 10_000)
        assert head.data == b"x" * 10_000
        total, gaps, cursor = 0, 0, 0
        while cursor < info.size:
            page = await shell.output(cursor)
            total, gaps, cursor = total + len(page.data), gaps + page.gap, page.cursor
    assert info.size == total + gaps == 300_000
    # A file keeps whole blocks, so somewhat more than the limit.
    assert 20_000 <= total < 60_000


async def test_output_limit_can_kill(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.LARGE, output_limit=20_000, on_output_limit="kill")
        info = await shell.wait()
    assert info.reason is not None
    assert "output limit" in info.reason


async def test_terminal_takes_a_size_and_input(stage: Stage) -> None:
    stage.require("pty")
    async with stage.open() as shells:
        shell = await shells.create(commands.CAT, pty=Pty(30, 90))
        assert shell.stdin is not None
        shell.resize(40, 100)
        async with shell.lines() as lines:
            await shell.stdin.send_all(b"typed\n")
            assert await lines.receive() == "typed"
            await shell.stdin.aclose()  # on a terminal: the end-of-file character
        assert (await shell.wait()).returncode == 0


async def test_resize_without_a_terminal_is_refused(stage: Stage) -> None:
    async with stage.open() as shells:
        shell = await shells.create(commands.HELLO)
        with pytest.raises(ValueError, match="no pty"):
            shell.resize(40, 100)
