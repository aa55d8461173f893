"""Who has a directory, and what becomes of one whose owner is dead."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.cases.support import LAUNCHERS, descriptors, left
from trioshell import DirectoryInUseError, ShellError, Status, open_shells

from .support import Host, check_lives, files, reopened, said, until_none_left, wait_until
from .test_crash import one

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(sys.platform != "linux", reason="what runs cannot be identified")


async def test_directory_in_use_names_the_owner(directory: Path) -> None:
    """Also within one process."""
    async with reopened(directory):
        with pytest.raises(DirectoryInUseError) as caught:
            async with reopened(directory):
                pytest.fail("two scopes have it")
    assert caught.value.pid == os.getpid()
    assert f"in use by process {os.getpid()}" in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ShellError)
    assert caught.value.filename == str(directory)
    async with reopened(directory):
        pass  # it is free again


@linux
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
async def test_directory_of_a_live_host_is_not_touched(
    directory: Path, tag: str, stopped: bool
) -> None:
    """Also that of a host which cannot answer. When it is dead, its shells are ended."""
    host = Host.start(one("sleep 600 & exec sleep 600"), directory, tag=tag)
    wait_until(lambda: len(left(tag)) == 2)
    before = files(directory)
    if stopped:
        os.kill(host.pid, signal.SIGSTOP)
    for _ in range(3):
        with pytest.raises(DirectoryInUseError, match=f"process {host.pid}:"):
            async with reopened(directory):
                pytest.fail("two scopes have it")
    assert files(directory) == before
    assert len(left(tag)) == 2
    host.crash_totally()
    async with reopened(directory) as (shells, events):
        await until_none_left(tag, 0)
        assert [shell.status for shell in shells] == [Status.KILLED]
    check_lives(host.said(), said(events))


@linux
@pytest.mark.parametrize("launcher", LAUNCHERS)
async def test_lock_ends_with_the_host_alone(directory: Path, launcher: str, tag: str) -> None:
    """Not with its helpers, its commands, or a worker that it has forked."""
    program = """
    import time
    async def main():
        async with scope() as shells:
            await shells.create("sleep 600", env=env)
            worker = os.fork()
            if worker == 0:
                time.sleep(600)
            ready(worker)
            await trio.sleep_forever()

    trio.run(main)
    """
    host = Host.start(program, directory, launcher=launcher, tag=tag)
    host.process.kill()
    host.process.wait()
    try:
        async with reopened(directory, launcher=launcher) as (shells, _):
            assert len(shells) == 1
        os.kill(host.answer, 0)  # the worker lives
    finally:
        os.kill(host.answer, signal.SIGKILL)
    host.close()


@linux
async def test_directory_leaves_no_descriptor(directory: Path) -> None:
    before = descriptors()
    async with reopened(directory) as (shells, _):
        shell = await shells.create("echo out; sleep 0.1; echo more")
        (directory / "output" / f"{shell.id}.out").unlink()
        assert (await shell.result()).output == "out\nmore\n"  # kept open: its path is gone
    assert descriptors() == before


async def test_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(FileExistsError, match="file"):
        async with reopened(file):
            pytest.fail("a file is no directory")
    open_to_all = tmp_path / "state" / "records"
    open_to_all.mkdir(parents=True)
    open_to_all.chmod(0o777)
    with pytest.raises(PermissionError, match="nobody else may write to it"):
        async with reopened(tmp_path / "state"):
            pytest.fail("others could write records")
    link = tmp_path / "other"
    link.mkdir()
    (link / "records").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError, match="records"):
        async with reopened(link):
            pytest.fail("it leads elsewhere")


async def test_directory_may_be_reached_by_a_link(tmp_path: Path, directory: Path) -> None:
    directory.mkdir()
    link = tmp_path / "link"
    link.symlink_to(directory)
    async with reopened(link):
        with pytest.raises(DirectoryInUseError):
            async with reopened(directory):
                pytest.fail("it is the same one")


async def test_directory_is_private_to_its_user(directory: Path) -> None:
    async with reopened(directory) as (shells, _):
        await (await shells.create("exit 0")).wait()
    assert directory.stat().st_mode & 0o777 == 0o700
    for path in directory.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private directories go."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


_PRIVATE = """
import sys, trio, trioshell

async def main():
    async with trioshell.open_shells(launcher=trioshell.launchers.DirectLauncher()) as shells:
        shell = await shells.create("echo out; exec 1>&- 2>&-; read line", stdin=-1)
        print(shell.info.file, flush=True)
        await trio.sleep_forever()

import trioshell.launchers
trio.run(main)
"""


async def test_private_directory_is_deleted(temporary: Path) -> None:
    async with open_shells() as shells:
        await (await shells.create("echo out")).wait()
        (private,) = temporary.iterdir()
        assert private.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


async def test_private_directory_needs_no_locks(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may have none; then it is not known what is stale."""

    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (temporary / "trioshell-private-12345678").mkdir()
    async with open_shells() as shells:
        await (await shells.create("exit 0")).wait()
    assert [path.name for path in temporary.iterdir()] == ["trioshell-private-12345678"]
    with pytest.raises(OSError, match="lock"):
        async with reopened(temporary / "state"):
            pytest.fail("two scopes could have it")


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
async def test_private_directory_that_is_taken_for_stale_is_made_again(
    moment: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another scope may find it in the moment before it is locked."""
    made: list[str] = []
    make, lock = tempfile.mkdtemp, fcntl.flock

    def clean_up(when: str) -> None:
        if moment == when and len(made) == 1:
            os.rmdir(made[0])

    def make_noting(prefix: str) -> str:
        made.append(make(prefix=prefix))
        clean_up("before it is opened")
        return made[-1]

    def lock_late(fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            clean_up("before it is locked")
        lock(fd, operation)

    monkeypatch.setattr(tempfile, "mkdtemp", make_noting)
    monkeypatch.setattr(fcntl, "flock", lock_late)
    async with open_shells() as shells:
        shell = await shells.create("exit 0")
        assert len(made) == 2
        assert os.path.dirname(shell.info.file or "") == made[1]


async def test_stale_private_directory_is_deleted_by_the_next_scope(temporary: Path) -> None:
    """Only if its owner is dead: a stopped one is not."""
    owner = subprocess.Popen([sys.executable, "-c", _PRIVATE], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner.stdout, owner:
        file = Path(owner.stdout.readline().strip())
        assert file.parent.parent == temporary
        os.kill(owner.pid, signal.SIGSTOP)
        async with open_shells():
            assert file.exists()
        owner.kill()
    async with open_shells():
        assert not file.parent.exists()


async def test_what_only_looks_stale_is_left_alone(temporary: Path) -> None:
    """A directory that somebody named so, one with other things in it, a link, a file."""
    mine = temporary / "trioshell-private-notes"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (temporary / "trioshell-private-link").symlink_to(elsewhere)
    (temporary / "trioshell-private-file").touch()
    (temporary / "trioshell-demo").mkdir()
    before = files(temporary)
    async with open_shells():
        pass
    assert files(temporary) == before
    assert elsewhere.is_dir()
    assert (temporary / "trioshell-demo").is_dir()
