"""Kind (e): output. Every byte is there, at its offset for ever, or it is said what is missing."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from trioshell import (
    Follower,
    LineReader,
    OutputLostError,
    Pty,
    Result,
    Shell,
    SpawnError,
    Status,
)

from .hosts import run_host
from .support import GRACE, Case, descriptors, needs, read_all, rounds, until, until_output

PIECES = r"printf '\342'; sleep 0.2; printf '\211'; sleep 0.2; printf '\244\n'"


async def test_a_character_in_pieces_stays_a_character(case: Case) -> None:
    """Case 27: a character written in pieces turns into replacement marks.

    https://github.com/wonderwhy-er/DesktopCommanderMCP/issues/628
    """
    async with case.open():
        shell = await case.start(PIECES)
        pages = []
        cursor = 0
        while True:
            pages.append(page := await shell.output(cursor))
            cursor = page.cursor
            if page.final:
                break
            await trio.sleep(0.05)  # as the case says
        assert b"".join(page.data for page in pages) == b"\xe2\x89\xa4\n"
        assert "".join(page.text for page in pages) == "\u2264\n"
        assert not any("\ufffd" in page.text for page in pages)
        single = [await shell.output(cursor, 1) for cursor in range(4)]
        assert "".join(page.text for page in single) == "\u2264\n"


async def test_a_character_without_end_is_one_mark_at_the_end(case: Case) -> None:
    r"""Case 27, second form: ``printf '\342'; exit 0``.

    https://github.com/wonderwhy-er/DesktopCommanderMCP/issues/628
    """
    async with case.open():
        shell = await case.start(r"printf '\342'; read go", stdin=subprocess.PIPE)
        await until(lambda: shell.info.size == 1)
        early = await shell.output()
        assert early.text == ""
        assert shell.stdin is not None
        await shell.stdin.aclose()
        await shell.wait()
        late = await shell.output(early.cursor)
        assert (early.data + late.data, late.text, late.final) == (b"\xe2", "\ufffd", True)
        assert (await shell.result()).output == "\ufffd"


@rounds(20, 300)
@pytest.mark.parametrize(
    ("command", "pty", "want"),
    [
        ("echo 1; sleep 0.01; echo 2", None, b"1\n2\n"),
        ("echo 1; sleep 0.01; echo 2 >&2", None, b"1\n2\n"),
        pytest.param("echo 1; sleep 0.01; echo 2", Pty(), b"1\r\n2\r\n", marks=needs("pty")),
    ],
)
async def test_the_last_line_is_there_under_load(
    case: Case, command: str, pty: Pty | None, want: bytes, rounds: int
) -> None:
    """Case 28: a line logged just before the end is sometimes missing.

    https://github.com/F1bonacc1/process-compose/issues/237
    """
    seen: list[bytes] = []

    async def run() -> None:
        shell = await case.start(command, pty=pty)
        await shell.wait()
        seen.append(await read_all(shell))
        await shell.remove()

    with load():
        async with case.open(limiter=trio.CapacityLimiter(20)), trio.open_nursery() as nursery:
            for _ in range(rounds):
                nursery.start_soon(run)
    assert seen == [want] * rounds


@contextmanager
def load() -> Iterator[None]:
    """Two processes that only burn time."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


async def test_output_needs_no_newline_at_its_end(case: Case) -> None:
    """Case 29: the last output without a newline is dropped.

    https://github.com/DarthSim/overmind/issues/81
    """
    commands = {
        "printf 'no newline'; exit 3": (b"no newline", 3),
        r"printf 'a\nb'": (b"a\nb", 0),
        "printf ''": (b"", 0),
    }
    async with case.open():
        for command, (output, code) in commands.items():
            shell = await case.start(command)
            async with shell.lines() as reader:
                lines = [line async for line in reader]
            info = await shell.wait()
            page = await shell.output()
            assert (page.data, page.cursor, page.final) == (output, len(output), True)
            assert (info.returncode, info.size) == (code, len(output))
            assert lines == output.decode().splitlines()
            assert (await shell.result()).output == output.decode()


async def test_the_tail_is_kept_and_everything_counted(case: Case) -> None:
    """Case 30: truncation keeps the head, drops the error at the end, and does not count.

    https://github.com/openai/codex/issues/6415
    """
    numbers = b"".join(b"%d\n" % i for i in range(1, 400_001))
    async with case.open():
        shell = await case.start("seq 1 400000; echo LAST >&2; exit 2")
        result = await shell.result(limit=100)
        assert (result.info.returncode, result.info.size) == (2, 2_688_900)
        assert await read_all(shell) == numbers + b"LAST\n"
        assert result.output is not None
        assert result.output.endswith("\nLAST\n")
        assert len(result.output) + result.truncated == 2_688_900
        assert (await shell.output(2_688_800, 100)).data.endswith(b"LAST\n")
        long = await case.start(
            [sys.executable, "-uc", "print('y' * 3000000); import sys; sys.exit('boom')"]
        )
        result = await long.result()
        assert (result.info.returncode, result.info.size) == (1, 3_000_006)
        assert result.output is not None
        assert result.output.endswith("boom\n")
        assert len(result.output) + result.truncated == 3_000_006


@pytest.mark.parametrize("limit", [1, 4096, 100_000, 2_000_000])
async def test_a_cap_counts_what_it_drops(case: Case, limit: int) -> None:
    """Case 30, with a cap: the head and the tail stay, what is between is an exact gap.

    https://github.com/openai/codex/issues/6415
    """
    whole = b"".join(b"%d\n" % i for i in range(1, 400_001)) + b"LAST\n"
    async with case.open():
        shell = await case.start("seq 1 400000; echo LAST >&2; exit 2", output_limit=limit)
        info = await shell.wait()
        assert (info.status, info.returncode, info.size) == (Status.EXITED, 2, 2_688_900)
        cursor = kept = dropped = 0
        while not (page := await shell.output(cursor)).final or page.data:
            begin = cursor + page.gap
            assert page.data == whole[begin : begin + len(page.data)]
            assert page.cursor == begin + len(page.data)
            kept, dropped, cursor = kept + len(page.data), dropped + page.gap, page.cursor
        assert kept + dropped == len(whole)
        assert dropped > 0
        assert kept >= min(limit, 5)
        tail = (await shell.result()).output
        assert tail is not None
        assert tail.endswith("LAST\n" if limit >= 4096 else "\n")


async def test_a_very_long_line_is_nothing_special(case: Case) -> None:
    """Case 31: a line longer than the stream limit breaks the reader.

    https://github.com/ipython/ipython/issues/14005
    """
    python = f"{sys.executable} -c \"import sys; sys.stdout.write('x' * 50000000)\""
    async with case.open():
        await case.run("echo warm")
        before = resident()
        most = before
        shell = await case.start(f"{python}; echo; echo end")
        size = cursor = 0
        last = b""
        while not (page := await shell.output(cursor, 65536)).final:
            assert len(page.data) <= 65536
            size, cursor = size + len(page.data), page.cursor
            last = page.data or last
            most = max(most, resident())
            if not page.data:
                await trio.sleep(0.01)
        size += len(page.data)
        info = await shell.wait()
        assert (info.status, info.returncode, info.size) == (Status.EXITED, 0, 50_000_005)
        assert size == 50_000_005
        assert (last + page.data).endswith(b"x\nend\n")
        assert most - before < 20_000_000


def resident() -> int:
    """The resident memory of this process, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize("action", ["cut", "kill"])
async def test_a_runaway_command_cannot_fill_the_disk(case: Case, action: str) -> None:
    """Case 32: one runaway command fills the disk and takes the service down.

    https://github.com/holon-run/holon/issues/2984
    """
    limit = 1_000_000
    async with case.open():
        shell = await case.start("yes", output_limit=limit, on_output_limit=action)
        most = 0
        with trio.move_on_after(1.5):
            while shell.status is Status.RUNNING:
                most = max(most, on_disk(shell))
                await trio.sleep(0.01)
        info = await shell.kill()
        assert info.size > limit
        assert most <= limit + (1 << 16)
        assert on_disk(shell) <= limit + (1 << 16)
        assert info.status is Status.KILLED
        assert (info.reason is not None) == (action == "kill")
        if action == "kill":
            assert "output limit" in (info.reason or "")
        else:
            page = await shell.output(limit // 2 + 4096)
            assert page.gap > 0


def on_disk(shell: Shell) -> int:
    """What the capture file of a shell takes on the disk, in bytes."""
    assert shell.info.file is not None
    return os.stat(shell.info.file).st_blocks * 512


async def test_a_flood_without_a_cap_can_be_ended_and_removed(case: Case) -> None:
    """Case 32, second part: without a cap the space comes back when the shell is removed.

    https://github.com/holon-run/holon/issues/2984
    """
    async with case.open():
        shell = await case.start("yes")
        await until(lambda: shell.info.size > 20_000_000)
        with trio.fail_after(GRACE + 10):
            info = await shell.kill()
        assert info.status is Status.KILLED
        assert info.file is not None
        assert os.stat(info.file).st_size == info.size
        await shell.remove()
        with pytest.raises(FileNotFoundError):
            os.stat(info.file)


SMALL_DISK_HOST = """
small = case.path / "small"

async def main():
    async with case.open(directory=small / "state") as shells:
        beside = await case.start("sleep 1; exit 5")
        # A command that fills the disk at once may keep its own birth from being recorded; then
        # it is refused. So it waits until it is born.
        flood = await case.start("read go; exec yes", stdin=subprocess.PIPE)
        await flood.stdin.send_all(b"go\\n")
        with trio.fail_after(20):
            await until(lambda: flood.info.size > 200_000)
            info = await beside.wait()
            assert (info.status, info.returncode) == (Status.EXITED, 5), info
            lost = await flood.kill()
        assert lost.output_error is not None, lost
        assert "No space left" in lost.output_error, lost
        page = await flood.output(0, 4096)
        assert page.data == b"y\\n" * 2048
        await flood.remove()
        after, written = await case.run("echo ok")
        assert (after.output_error, written) == (None, b"ok\\n"), after
    answer(len(case.events))

trio.run(main)
"""


async def test_a_full_disk_is_told_and_hurts_nobody_else(case: Case) -> None:
    """Case 33: no space left, the wrapper crashes and takes all services along.

    https://github.com/coreybutler/node-linux/issues/17
    """
    (small := case.path / "small").mkdir()
    mount = f'mount -t tmpfs -o size=256k none {small} && exec "$@"'
    through = ["unshare", "-rm", "sh", "-c", mount, "-"]
    if shutil.which("unshare") is None or not _works([*through, "/bin/true"]):
        pytest.skip("it takes a mount namespace of one's own")
    assert await run_host(case, SMALL_DISK_HOST, through=through) >= 6


def _works(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


async def test_output_whose_file_is_deleted_is_not_lost_in_silence(case: Case) -> None:
    """Case 34: the output file is removed under a running task.

    https://github.com/anthropics/claude-code/issues/31716
    """
    lines = b"1\n2\n3\n4\n5\n6\n"
    async with case.open(directory=case.path / "state"):
        shell = await case.start("for i in 1 2 3 4 5 6; do echo $i; sleep 0.1; done; exit 6")
        await until_output(shell, b"2\n")
        assert shell.info.file is not None
        shutil.rmtree(os.path.dirname(shell.info.file))  # what a cleaner does
        info = await shell.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 6)
        try:
            assert await read_all(shell) == lines
        except OutputLostError:
            assert info.output_error is not None
        await shell.remove()
        _, written = await case.run("echo works")
        assert written == b"works\n"


async def test_an_unusable_output_directory_is_named(case: Case) -> None:
    """Case 35: the output directory is not writable, and every command fails with a bare error.

    https://github.com/anthropics/claude-code/issues/86222
    """
    async with case.open(directory=case.path / "state") as shells:
        _, _ = await case.run("echo first")
        output = Path(next(iter(shells)).info.file or "").parent
        shutil.rmtree(output)
        output.write_text("")
        before = len(case.events)
        with pytest.raises(SpawnError) as raised:
            await case.start("echo hi")
        assert isinstance(raised.value, OSError)
        assert str(output) in str(raised.value)
        assert case.left() == []
        assert (len(shells), len(case.events)) == (1, before)
        output.unlink()
        info, written = await case.run("echo hi")
        assert (info.status, written) == (Status.EXITED, b"hi\n")


async def test_a_stream_opened_by_name_wipes_nothing(case: Case) -> None:
    """Case 36: ``> /dev/stderr`` wipes the captured file. Here it is a pipe: all lines are there.

    https://github.com/sosy-lab/benchexec/issues/535
    """
    commands = {
        "echo two > /dev/stderr; echo three": b"one\ntwo\nthree\n",
        ": > /dev/stdout; echo three": b"one\nthree\n",
        "echo two > /proc/self/fd/1; echo three >> /dev/stderr": b"one\ntwo\nthree\n",
    }
    async with case.open():
        for command, output in commands.items():
            shell = await case.start(f"echo one; read go; {command}", stdin=subprocess.PIPE)
            await until_output(shell, b"one\n")
            first = await shell.output(0)
            assert shell.stdin is not None
            await shell.stdin.send_all(b"go\n")
            info = await shell.wait()
            rest = await shell.output(first.cursor)
            assert (info.returncode, first.data + rest.data) == (0, output)
            assert await read_all(shell) == output
            plain, written = await case.run(f"echo one; {command}")
            assert (plain.returncode, written) == (0, output)


async def test_output_is_bytes_and_not_text(case: Case) -> None:
    """Case 37: NUL and undecodable bytes in output break the result.

    https://github.com/code-golf/code-golf/issues/25
    """
    state = case.path / "state"
    async with case.open(directory=state) as shells:
        first, written = await case.run(r"printf 'a\0b\377\n'")
        assert written == b"a\0b\xff\n"
        assert (await shells[first.id].result()).output == "a\0b\ufffd\n"
        second, written = await case.run('head -c 1000000 /dev/urandom | tee "$T/copy"')
        assert written == (case.path / "copy").read_bytes()
        assert len(written) == second.size == 1_000_000
    async with case.open(directory=state) as shells:
        assert [shell.info for shell in shells] == [first, second]
        assert await read_all(shells[first.id]) == b"a\0b\xff\n"
        assert await read_all(shells[second.id]) == written


@needs("pty")
@rounds(5, 100)
async def test_a_fast_program_on_a_terminal_loses_nothing(case: Case, rounds: int) -> None:
    """Case 38: a fast program on a pty loses everything past 4 KiB.

    https://github.com/microsoft/node-pty/issues/726
    """
    want = b"".join(b"%d\r\n" % i for i in range(1, 20_001)) + b"END\r\n"
    async with case.open():
        for _ in range(rounds):
            info, written = await case.run("seq 1 20000; echo END", pty=Pty())
            assert written[-12:] == b"20000\r\nEND\r\n"
            assert written == want
            assert (info.status, info.returncode) == (Status.EXITED, 0)
            assert info.output_error is None


@pytest.mark.parametrize("pty", [None, pytest.param(Pty(), marks=needs("pty"))])
async def test_nothing_is_done_to_carriage_returns(case: Case, pty: Pty | None) -> None:
    """Case 39: carriage returns appear or vanish in the log.

    With a pty the bytes are those that the terminal gives: it turns each newline into two.

    https://github.com/lxc/lxc/pull/2430
    """
    plain = b"x\ny\n10%\r20%\r30%\ndos\r\n"
    want = plain if pty is None else plain.replace(b"\n", b"\r\n")
    async with case.open():
        shell = await case.start(
            r"printf 'x\ny\n'; printf '10%%\r20%%\r30%%\n'; printf 'dos\r\n'", pty=pty
        )
        info = await shell.wait()
        assert await read_all(shell) == want
        assert (await shell.output(3)).data == want[3:]
        assert info.size == len(want)


async def test_a_cursor_is_a_place_in_what_was_written(case: Case) -> None:
    """Case 40: cursor pages drop lines after a cursor-up sequence.

    https://github.com/stablyai/orca/issues/8745
    """
    whole = b"A\nB\nC\n\033[2AB2\n"
    async with case.open():
        shell = await case.start(
            r"printf 'A\nB\nC\n'; read go; printf '\033[2AB2\n'", stdin=subprocess.PIPE
        )
        await until_output(shell, b"C\n")
        early = [await shell.output(0, 4)]
        assert early[0].data == whole[:4]
        assert shell.stdin is not None
        await shell.stdin.send_all(b"go\n")
        await shell.wait()
        while not early[-1].final:
            early.append(await shell.output(early[-1].cursor, 4))
        assert b"".join(page.data for page in early) == whole
        assert [page.cursor for page in early] == sorted(page.cursor for page in early)
        assert await read_all(shell) == whole
        for cursor in range(len(whole) + 1):
            for limit in (1, 3, 100):
                pages = [await shell.output(cursor, limit) for _ in range(2)]
                assert pages[0] == pages[1]
                assert pages[0].data == whole[cursor : cursor + limit]


async def test_no_output_yet_is_an_empty_page(case: Case) -> None:
    """Case 41: reading before the first byte is an error.

    https://github.com/scitix/siclaw/pull/311
    """
    async with case.open():
        shell = await case.start("read go; echo hi", stdin=subprocess.PIPE)
        page = await shell.output(0, 100)
        assert (page.data, page.cursor, page.final) == (b"", 0, False)
        assert shell.status is Status.RUNNING
        far = await shell.output(10**9)
        assert (far.data, far.cursor, far.final) == (b"", 0, False)
        bad: list[dict[str, Any]] = [{"cursor": -1}, {"limit": 0}, {"limit": -5}]
        for arguments in bad:
            with pytest.raises(ValueError):
                await shell.output(**arguments)
        assert shell.stdin is not None
        await shell.stdin.send_all(b"go\n")
        await shell.wait()
        assert (await shell.output(0, 100)).data == b"hi\n"
        far = await shell.output(10**9)
        assert (far.data, far.cursor, far.final) == (b"", 3, True)


# Neighbours: nobody has reported these yet.


async def test_neighbour_a_log_cleaner_may_truncate_the_file(case: Case) -> None:
    """Some cleaners cut a log to nothing in place. Zeros where output was would be a lie."""
    async with case.open(directory=case.path / "state"):
        shell = await case.start("echo one; read go; echo two", stdin=subprocess.PIPE)
        await until_output(shell, b"one\n")
        assert shell.info.file is not None
        os.truncate(shell.info.file, 0)
        assert shell.stdin is not None
        await shell.stdin.send_all(b"go\n")
        info = await shell.wait()
        assert (info.status, info.returncode) == (Status.EXITED, 0)
        assert "cut short" in (info.output_error or "")
        with pytest.raises(OutputLostError):
            await shell.output()
        assert (await shell.result()).output is None


async def test_neighbour_another_file_in_its_place_is_not_read(case: Case) -> None:
    """Who can write to the directory could make us show any file as output of the command."""
    (case.path / "secret").write_text("secret\n")
    async with case.open(directory=case.path / "state"):
        shell = await case.start("echo one; read go; echo two", stdin=subprocess.PIPE)
        await until_output(shell, b"one\n")
        for replace in (os.symlink, os.link):
            os.unlink(shell.info.file or "")
            replace(case.path / "secret", shell.info.file or "")
            assert await read_all(shell) == b"one\n"
        assert shell.stdin is not None
        await shell.stdin.send_all(b"go\n")
        info = await shell.wait()
        assert info.output_error is not None
        assert await read_all(shell) == b"one\ntwo\n"
        await shell.remove()
    assert (case.path / "secret").read_text() == "secret\n"


FILE_SIZE_HOST = """
async def main():
    async with case.open() as shells:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        info, written = await case.run("ulimit -S -f unlimited; head -c 300000 /dev/zero; exit 6")
        assert (info.status, info.returncode) == (Status.EXITED, 6), info
        assert "too large" in (info.output_error or ""), info
        assert written == bytes(100_000), len(written)
        info, written = await case.run("echo fine")
        assert (info.output_error, written) == (None, b"fine\\n"), info
    answer(True)

trio.run(main)
"""


async def test_neighbour_a_file_size_limit_of_the_host_is_like_a_full_disk(case: Case) -> None:
    """With ``ulimit -f`` a write beyond the limit sends SIGXFSZ, which kills by default."""
    assert await run_host(case, FILE_SIZE_HOST)


async def test_neighbour_no_border_eats_a_byte(case: Case) -> None:
    """The sizes of a page, a pipe and a large pipe, written at once, just before the end."""
    program = "import os, sys; os._exit(not os.write(1, b'x' * int(sys.argv[1]) + b'E'))"
    async with case.open():
        for size in (4095, 4096, 4097, 65535, 65536, 65537, 1048576, 1048577):
            command = [sys.executable, "-I", "-S", "-c", program, str(size - 1)]
            info, written = await case.run(command)
            assert (info.returncode, info.size) == (0, size)
            assert written == b"x" * (size - 1) + b"E"


@pytest.mark.parametrize("how", ["evicted", "removed", "closed"])
async def test_neighbour_who_reads_on_gets_the_rest_of_a_deleted_shell(
    case: Case, how: str
) -> None:
    """An open follower has every byte and then the end, whatever becomes of the shell (C13).

    That is also a log task that outlives the scope. Nothing of it is left when it has the end.
    """
    before = descriptors()
    got: dict[str, object] = {}

    async def follow(stream: Follower) -> None:
        got["follow"] = b"".join([data async for data in stream])
        assert await stream.receive_some() == b""

    async def read(lines: LineReader) -> None:
        got["lines"] = [line async for line in lines]

    async with trio.open_nursery() as nursery:
        async with case.open(retain=0) as shells:
            command = "trap 'echo bye; exit 0' TERM; echo up; read x; seq 3"
            shell = await case.start(command, stdin=subprocess.PIPE)
            nursery.start_soon(follow, shell.follow())
            nursery.start_soon(read, shell.lines())
            await until_output(shell, b"up\n")
            if how == "evicted":
                assert shell.stdin is not None
                await shell.stdin.send_all(b"\n")
                await shell.wait()
                assert shell.id not in shells
            elif how == "removed":
                await shell.remove()
            file = shell.info.file
        assert file is not None
        assert not os.path.lexists(file)
    end = "1\n2\n3\n" if how == "evicted" else "bye\n"
    assert got == {"follow": f"up\n{end}".encode(), "lines": ["up", *end.split()]}
    assert descriptors() == before


async def test_neighbour_an_eviction_takes_no_output_from_who_waits_for_it(case: Case) -> None:
    """`result` that was waiting has the output, as `wait` has the end (C8)."""
    results: list[Result] = []

    async def wait(shell: Shell) -> None:
        results.append(await shell.result())

    async with case.open(retain=0), trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(wait, await case.start("sleep 0.1; echo out; exit 3"))
    assert [(result.output, result.info.returncode) for result in results] == [("out\n", 3)] * 5


async def test_neighbour_any_number_is_a_cursor_or_a_limit(case: Case) -> None:
    """All there is, from anywhere: no number is too large, and none costs memory (C13)."""
    async with case.open():
        shell = await case.start("echo out")
        await shell.wait()
        for huge in (sys.maxsize, 10**30):
            assert (await shell.output(0, huge)).data == b"out\n"
            assert (await shell.output(huge)).cursor == 4
            assert (await shell.result(lines=huge, limit=huge)).output == "out\n"
            async with shell.follow(huge) as stream:
                assert await stream.receive_some() == b""
            async with shell.follow() as stream:
                assert await stream.receive_some(huge) == b"out\n"


async def test_neighbour_a_host_without_descriptors_is_not_told_that_output_is_gone(
    case: Case,
) -> None:
    """Nobody deleted the file: it cannot be opened just now, and the error says why."""
    async with case.open():
        shell = await case.start("echo out")
        await shell.wait()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            with pytest.raises(OutputLostError, match="no descriptor is left of 0"):
                await shell.output()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert (await shell.output()).data == b"out\n"


async def test_neighbour_a_relative_temporary_directory(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TMPDIR may be ``.``, which is another place for a helper, and after a change of directory."""
    monkeypatch.chdir(case.path)
    monkeypatch.setattr(tempfile, "tempdir", ".")
    async with case.open():
        os.chdir("/")
        info, output = await case.run("echo out; exit 3")
        assert (info.returncode, output) == (3, b"out\n")
        assert info.file is not None
        assert Path(info.file).is_relative_to(case.path)
    assert os.listdir(case.path) == []
