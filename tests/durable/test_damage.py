"""Damaged records, a full disk, a wrong clock: a clear word, no exception, no signal."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from tests.cases.support import left, rounds
from trioshell import OutputLostError, SpawnError, Status
from trioshell._durable.files import replace
from trioshell._durable.record_format import MAX_SIZE

from .support import (
    Host,
    bystander,
    check_lives,
    edit,
    files,
    record_of,
    reopened,
    said,
    until_none_left,
    wait_until,
)
from .test_crash import one

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(sys.platform != "linux", reason="what runs cannot be identified")


def _huge(path: Path) -> None:
    os.truncate(path, MAX_SIZE + 1)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _newer(path: Path) -> None:
    edit(path, lambda raw: raw.update(version=2, news=True))


def _other_shell(path: Path) -> None:
    edit(path, lambda raw: raw["info"].update(id="sh_" + "0" * 28))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "damaged"),
    "truncated": (lambda path: os.truncate(path, path.stat().st_size // 2), "damaged"),
    "zeros": (lambda path: path.write_bytes(bytes(path.stat().st_size)), "damaged"),
    "garbage": (lambda path: path.write_bytes(b"\xff\xfe\x00{}" * 100), "damaged"),
    "deep": (lambda path: path.write_bytes(b"[" * 1_000_000), "damaged"),
    "huge": (_huge, "more than"),
    "newer": (_newer, "version 2"),
    "other shell": (_other_shell, "another shell"),
    "folder": (_folder, "no regular file"),
    "link": (_link, "cannot be read"),
    "fifo": (_fifo, "no regular file"),
}


@linux
@pytest.mark.parametrize("damage", DAMAGE)
async def test_damaged_record_is_ignored_with_a_warning(
    damage: str, directory: Path, tag: str
) -> None:
    """Of a shell that still runs: it is not signalled, and nothing of it is deleted."""
    spoil, reason = DAMAGE[damage]
    host = Host.start(one("echo out; exec sleep 600"), directory, tag=tag)
    wait_until(lambda: left(tag))
    host.crash_totally()
    record = record_of(directory, host.answer["id"])
    good = record.read_bytes()
    spoil(record)
    before = files(directory)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=f"{record}.* is ignored.*{reason}") as caught:
            async with reopened(directory) as (shells, events):
                assert (len(shells), events) == (0, [])
                info = await (await shells.create("exit 3")).wait()
                assert info.returncode == 3
                await shells[info.id].remove()
        assert len(caught) == 1
        assert len(left(tag)) == 1
        assert files(directory) == before
    if record.is_dir():
        record.rmdir()
    record.unlink(missing_ok=True)
    record.write_bytes(good)
    async with reopened(directory) as (shells, events):
        await until_none_left(tag, 0)
    check_lives(host.said(), said(events))


async def test_files_of_others_are_left_alone(directory: Path) -> None:
    (directory / "records").mkdir(parents=True, mode=0o700)
    (directory / "output").mkdir(mode=0o700)
    (directory / "notes.txt").write_text("mine")
    (directory / "output" / "sh_000000000000000000000000000a.out").write_text("whose?")
    (directory / "records" / "README").write_text("read me")
    (directory / "records" / "sh_000000000000000000000000000a.notes").write_text("{}")
    (directory / "records" / "settings.json").write_text("{}")
    before = files(directory)
    with pytest.warns(RuntimeWarning, match=r"settings\.json.*its name is not that of a record"):
        async with reopened(directory, retain=0) as (shells, _):
            await (await shells.create("exit 0")).wait()
    assert files(directory) == sorted([*before, "owner.json"])


async def test_damage_is_no_exception_where_warnings_are_errors(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "records").mkdir(parents=True, mode=0o700)
    (directory / "records" / f"sh_{0:028}.ended.json").write_text("{}")
    with warnings.catch_warnings(), caplog.at_level(logging.ERROR, "trioshell"):
        warnings.simplefilter("error")
        async with reopened(directory):
            pass
    assert "is ignored" in caplog.text


@linux
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b"\xff" * 600, b'{"pid": "x"}'])
async def test_owner_file_may_be_damaged(content: bytes | None, directory: Path, tag: str) -> None:
    """Then nothing is said again, and what ran is ended as ever."""
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    wait_until(lambda: left(tag))
    host.crash_totally()
    if content is None:
        (directory / "owner.json").unlink()
    else:
        (directory / "owner.json").write_bytes(content)
    async with reopened(directory) as (_, events):
        await until_none_left(tag, 0)
    check_lives(host.said(), said(events))
    async with reopened(directory) as (_, events):
        assert events == []


@linux
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"\xff" * 1000,
        b'{"status": 0, "by_itself": true}',
        b'{"pid": 1, "start": 1}\n{"status": "0", "by_itself": true}\n',
        b'{"pid": 1, "start": 1}\n{"status": 4991, "by_itself": true}\n',
        b'{"pid": 1, "start": 1}\n{"status": 0, "by_it',
    ],
)
async def test_notes_of_a_supervisor_may_be_damaged(
    content: bytes, directory: Path, tag: str
) -> None:
    """A returncode is never invented."""
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    wait_until(lambda: left(tag))
    host.crash_totally()
    (directory / "records" / f"{host.answer['id']}.notes").write_bytes(content)
    async with reopened(directory) as (shells, events):
        (shell,) = shells
        assert (shell.status, shell.info.returncode) == (Status.KILLED, None)
        assert "may be missing" in (shell.info.output_error or "")
    check_lives(host.said(), said(events))
    assert len(files(directory)) == 3


@linux
async def test_output_of_a_crashed_host_may_be_lost(directory: Path, tag: str) -> None:
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    host.crash_totally()
    (directory / "output" / f"{host.answer['id']}.out").unlink()
    async with reopened(directory) as (shells, _):
        (shell,) = shells
        assert "deleted" in (shell.info.output_error or "")
        with pytest.raises(OutputLostError):
            await shell.output()


@linux
async def test_clock_may_be_set_back(directory: Path, tag: str) -> None:
    """A shell from the future did not end before it started."""
    host = Host.start(one("exec sleep 600"), directory, tag=tag)
    host.crash_totally()
    future = time.time() + 10**6
    record = record_of(directory, host.answer["id"])
    edit(record, lambda raw: raw["info"].update(started=future))
    async with reopened(directory) as (shells, _):
        await until_none_left(tag, 0)
        (shell,) = shells
        assert shell.info.ended is not None
        assert shell.info.ended >= shell.info.started == future


@contextlib.contextmanager
def disk_full_at(size: int) -> Iterator[None]:
    """No file may grow beyond this: what a full disk does, in the middle of a record, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_full_disk_refuses_a_shell(directory: Path) -> None:
    """What cannot be recorded is not started (C2), and says so."""
    async with reopened(directory) as (shells, events):
        await (await shells.create("exit 0")).wait()  # the helpers run, without that limit
        before = files(directory)
        with disk_full_at(600), pytest.raises(SpawnError, match="cannot be recorded") as caught:
            await shells.create("sleep 600")
        assert caught.value.errno == errno.EFBIG
        assert caught.value.filename == str(directory / "records")
        assert files(directory) == before
        assert len(events) == 2
        assert (await (await shells.create("exit 5")).wait()).returncode == 5


async def test_full_disk_between_start_and_record(
    directory: Path, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process runs already, and is undone (C2)."""
    async with reopened(directory) as (shells, events):

        def full(folder: str, name: str, data: bytes) -> None:
            if "running" in name:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            replace(folder, name, data)

        monkeypatch.setattr("trioshell._durable.ledger.replace", full)
        with pytest.raises(SpawnError, match="No space left") as caught:
            await shells.create("sleep 600 & exec sleep 600", env={"CASE": tag})
        assert caught.value.errno == errno.ENOSPC
        assert left(tag) == []
        assert (len(shells), events) == (0, [])
        assert files(directory) == ["owner.json"]


@pytest.mark.parametrize("still_full", [False, True])
async def test_full_disk_at_an_end(directory: Path, still_full: bool) -> None:
    """The end is said all the same (C5), once, and the info tells of the trouble.

    A shell that never could be recorded does not outlive its scope.
    """
    with contextlib.ExitStack() as disk:
        disk.enter_context(pytest.warns(RuntimeWarning, match="its record could not be written"))
        async with reopened(directory) as (shells, events):
            shell = await shells.create("read line; echo out", stdin=subprocess.PIPE)
            other = await shells.create("exit 0")
            await other.wait()
            assert shell.stdin is not None
            with disk_full_at(600):
                await shell.stdin.aclose()
                info = await shell.wait()
            if still_full:
                disk.enter_context(disk_full_at(600))
            assert (info.status, info.returncode) == (Status.EXITED, 0)
            assert "its record could not be written: File too large" in (info.reason or "")
            assert (await shell.result()).output == "out\n"
    expected = ["shell.created"] * 2 + ["shell.exited"] * 2
    assert [event.type for event in events] == expected + ["shell.deleted"] * still_full
    async with reopened(directory) as (shells, events):
        assert events == []
        late = attrs.evolve(info, reason=None)  # it could be written in the end
        assert [each.info for each in shells] == ([] if still_full else [late]) + [other.info]
    assert len(files(directory)) == 1 + 2 * len(shells)


async def test_full_disk_lets_the_scope_open(directory: Path) -> None:
    """Once there is an owner file, opening needs no room."""
    async with reopened(directory):
        pass
    with disk_full_at(600):
        async with reopened(directory) as (shells, _):
            with pytest.raises(SpawnError):
                await shells.create("true")


async def test_disk_that_refuses_deletion_does_not_stop_anything(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only remount, say."""
    async with reopened(directory) as (shells, _):
        shell = await shells.create("exit 0")
        await shell.wait()

        def refuse(path: object) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", refuse)
            await shell.remove()
        assert shell.id not in shells


@pytest.mark.parametrize("at", range(0, 1000, 97))
def test_record_is_old_or_new_after_a_failure_at_any_byte(at: int, tmp_path: Path) -> None:
    old, new = b"old" * 100, b"new" * 333
    replace(str(tmp_path), "record", old)
    with disk_full_at(at), contextlib.suppress(OSError):
        replace(str(tmp_path), "record", new)
    assert (tmp_path / "record").read_bytes() == (new if at >= len(new) else old)
    assert files(tmp_path) == ["record"]


_WRITER = """
import os, sys
from trioshell._durable.files import replace

print(flush=True)
turn = 0
while True:
    turn += 1
    replace(sys.argv[1], "record", f"{turn} ".encode() * 40_000)
"""


@rounds(ci=3, full=50)
def test_record_is_whole_after_a_sigkill_at_any_moment(rounds: int, tmp_path: Path) -> None:
    """Of many pages: the kernel may stop a write between two of them."""
    for turn in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, tmp_path], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            wait_until((tmp_path / "record").exists)
            time.sleep(turn % 20 * 0.0013)
            writer.kill()
        words = set((tmp_path / "record").read_text().split())
        assert len(words) == 1
        assert {*files(tmp_path)} <= {"record", "new"}


@linux
async def test_crash_that_left_the_old_record_beside_the_new_one(directory: Path) -> None:
    """The later state counts, and the other one goes."""
    with bystander() as pid:
        async with reopened(directory) as (shells, _):
            shell = await shells.create("read x; exit 4", stdin=subprocess.PIPE)
            running = record_of(directory, shell.id)
            old = json.loads(running.read_text())
            assert shell.stdin is not None
            await shell.stdin.aclose()  # not before: the record is that of a running shell
            await shell.wait()
        old["info"]["pid"] = pid
        running.write_text(json.dumps(old))
        async with reopened(directory) as (shells, events):
            assert [each.info for each in shells] == [shell.info]
            assert events == []
        assert not running.exists()
