"""What outlives a scope in a durable directory, when nothing has crashed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
import trio

from tests.cases.support import LAUNCHERS, read_all
from trioshell import (
    Deleted,
    OutputLostError,
    ShellInfo,
    ShellNotFoundError,
    Status,
    open_shells,
)
from trioshell.launchers import Launcher
from trioshell.testing import FakeLauncher

from .support import edit, files, record_of, reopened

pytestmark = pytest.mark.slow

every_launcher = pytest.mark.parametrize("launcher", LAUNCHERS)


async def run(directory: Path, *commands: Any, **options: Any) -> list[ShellInfo]:
    """Run commands in a scope of their own, one after the other."""
    async with reopened(directory, **options) as (shells, _):
        return [await (await shells.create(command)).wait() for command in commands]


@every_launcher
async def test_reopen_ended_shells_are_retained_again(launcher: str, directory: Path) -> None:
    """The same ids, infos and pages; an end by the end of the scope, too."""
    infos: dict[str, ShellInfo] = {}
    async with reopened(directory, launcher=launcher) as (shells, events):
        create = shells.create
        await (await create("printf 'a\\0b\\377\\n'")).wait()
        await (await create(["echo", b"\xff", Path("x y")], metadata={"k": "\udcff"})).wait()
        await (await create("kill -9 $$", cwd="/")).wait()
        await (await create("sleep 600", timeout=0.05)).wait()
        await create("echo before; exec sleep 600")
    infos = {event.id: event.info for event in events if event.type == "shell.exited"}
    for _ in range(2):
        async with reopened(directory, launcher=launcher) as (shells, events):
            assert {shell.id: shell.info for shell in shells} == infos
            assert [shell.id for shell in shells] == list(infos)
            assert events == []
            first, second, *_ = shells
            assert (await first.output()).data == b"a\0b\xff\n"
            assert (await second.output()).data == b"\xff x y\n"
            assert await second.wait() == await second.kill() == second.info
            assert (await second.result()).output == "\ufffd x y\n"
            async with second.follow() as stream:
                assert b"".join([data async for data in stream]) == b"\xff x y\n"
            assert (shells.statistics().running, shells.statistics().retained) == (0, 5)
            with pytest.raises(ValueError, match="pty"):
                second.resize(10, 10)
            second.send_signal(15)
            second.set_timeout(1)
    assert {info.status for info in infos.values()} == {*Status} - {Status.RUNNING}


async def test_reopen_continues_the_ids(directory: Path) -> None:
    """Also when the clock was set back meanwhile: ids sort by creation."""
    (info,) = await run(directory, "exit 1")
    far = f"sh_{int(info.id[3:19], 16) + 2**40:016x}{info.id[19:]}"
    path = record_of(directory, info.id)
    edit(path, lambda raw: raw["info"].update(id=far))
    path.rename(path.with_name(path.name.replace(info.id, far)))
    async with reopened(directory) as (shells, _):
        shell = await shells.create("exit 0")
        assert shell.id > far
        await shell.wait()
        assert [each.id for each in shells] == [far, shell.id]


async def test_reopen_removes_for_good(directory: Path) -> None:
    info, other = await run(directory, "echo one", "echo two")
    async with reopened(directory) as (shells, events):
        await shells[info.id].remove()
        assert info.id not in shells
        assert [(event.type, event.id) for event in events] == [("shell.deleted", info.id)]
    async with reopened(directory) as (shells, _):
        with pytest.raises(ShellNotFoundError):
            shells[info.id]
        assert [shell.id for shell in shells] == [other.id]
    assert not [name for name in files(directory) if info.id in name]


async def test_reopen_applies_the_retention_rule(directory: Path) -> None:
    """The one that ended first goes first, whatever the order of creation (C8)."""
    async with reopened(directory) as (shells, _):
        late = await shells.create("read line", stdin=PIPE)
        early = [await (await shells.create(f"exit {n}")).wait() for n in range(3)]
        assert late.stdin is not None
        await late.stdin.aclose()
        await late.wait()
    async with reopened(directory, retain=2) as (shells, events):
        assert [shell.id for shell in shells] == [late.id, early[2].id]
        gone = [(event.id, event.reason) for event in events if isinstance(event, Deleted)]
        assert gone == [(early[0].id, "evicted"), (early[1].id, "evicted")]
    assert len(files(directory)) == 1 + 2 * 2


async def test_retain_bytes_bounds_the_output_of_ended_shells(directory: Path) -> None:
    """Oldest first, as many as it takes; what runs does not count."""
    async with reopened(directory, retain_bytes=1000) as (shells, events):
        running = await shells.create("head -c 5000 /dev/zero; exec sleep 600")
        for size in (300, 300, 300, 300, 0, 900, 2000):
            await (await shells.create(f"head -c {size} /dev/zero")).wait()
            retained = [shell.info.size for shell in shells if shell.id != running.id]
            assert sum(retained) <= 1000
        assert retained == []  # alone it is too much
    deleted = [event.info.size for event in events if isinstance(event, Deleted)]
    # The running one ended with its scope, and was too much, too.
    assert deleted == [300, 300, 300, 300, 0, 900, 2000, 5000]


async def test_retain_bytes_counts_what_is_on_disk(directory: Path) -> None:
    """The gap of an output limit is not."""
    options: dict[str, Any] = {"retain_bytes": 300_000, "output_limit": 100_000}
    infos = await run(directory, *["head -c 5000000 /dev/zero"] * 3, **options)
    async with reopened(directory, **options) as (shells, _):
        assert [shell.info for shell in shells] == infos
        page = await shells[infos[0].id].output(2_000_000, 10)
        assert page.gap > 2_000_000  # still known to be one, and no zeros
    async with reopened(directory, retain_bytes=299_999) as (shells, _):
        assert len(shells) == 2


async def test_retain_bytes_must_make_sense() -> None:
    for bad in (-1, 1.5, "1", True):
        with pytest.raises((ValueError, TypeError), match="retain_bytes"):
            async with open_shells(retain_bytes=bad):  # type: ignore[arg-type]
                pytest.fail("it makes no sense")


async def test_reopen_says_that_output_is_lost(directory: Path) -> None:
    (info,) = await run(directory, "echo out")
    (directory / "output" / f"{info.id}.out").unlink()
    async with reopened(directory) as (shells, _):
        assert shells[info.id].info == info
        with pytest.raises(OutputLostError):
            await shells[info.id].output()
        assert (await shells[info.id].result()).output is None


async def test_output_may_be_deleted_under_a_scope(directory: Path) -> None:
    """By a cleaner: the folder comes back with the next shell (C13)."""
    async with reopened(directory) as (shells, _):
        for folder in ("output", "records"):
            shell = await shells.create("echo before; read line; echo after", stdin=PIPE)
            shutil.rmtree(directory / folder)
            assert shell.stdin is not None
            await shell.stdin.aclose()
            info = await shell.wait()
            assert info.returncode == 0
            assert await read_all(shell) == b"before\nafter\n"
        info = await (await shells.create("echo new")).wait()
    async with reopened(directory) as (shells, _):
        assert shells[info.id].info == info
        assert await read_all(shells[info.id]) == b"new\n"


async def test_metadata_must_come_back_from_a_durable_directory(directory: Path) -> None:
    """C14; elsewhere they may be anything, for they are never interpreted."""
    anything = {"k": (1, 2), 3: 4}
    async with reopened(directory) as (shells, events):
        with pytest.raises(ValueError, match="would not come back equal"):
            await shells.create("true", metadata=anything)  # type: ignore[arg-type]
        assert (len(shells), events) == (0, [])
    assert files(directory) == ["owner.json"]
    async with open_shells() as shells:
        shell = await shells.create("true", metadata=anything)  # type: ignore[arg-type]
        assert shell.info.metadata == anything


async def test_metadata_are_a_copy(directory: Path) -> None:
    """What the caller changes later is not what was recorded."""
    inner = [1]
    async with reopened(directory) as (shells, _):
        shell = await shells.create("exit 0", metadata={"k": inner})
        inner.append(2)
        await shell.wait()
    async with reopened(directory) as (shells, _):
        assert shells[shell.id].info.metadata == {"k": [1]}


async def test_environment_is_not_recorded(directory: Path) -> None:
    """There are secrets in it, and bytes that no text has."""
    os.environb[b"BAD"] = b"\xff\xfe"
    try:
        async with reopened(directory) as (shells, _):
            given = {"SECRET": "hunter2", "K\udcfe": "\udcfd"}
            shell = await shells.create('printf %s "$BAD" | od -An -tx1', env=given)
            await shell.wait()
            assert (await shell.output()).data.split() == [b"ff", b"fe"]
            assert "hunter2" not in record_of(directory, shell.id).read_text()
    finally:
        del os.environb[b"BAD"]
    async with reopened(directory) as (shells, _):
        assert shell.id in shells


async def test_failed_start_leaves_nothing(directory: Path) -> None:
    """C2, in all its forms: refused, failed and cancelled."""
    async with reopened(directory) as (shells, events):
        with pytest.raises(FileNotFoundError):
            await shells.create(["no-such-program"])
        with pytest.raises(OSError, match="too long"):
            await shells.create(["true", *["x" * 100_000] * 100])
        with trio.move_on_after(0):
            await shells.create("sleep 600")
        for step in range(20):
            with trio.move_on_after(step * 0.0005):
                await shells.create("exec sleep 600")
        for shell in shells:
            await shell.remove()
        created = {event.id for event in events if event.type == "shell.created"}
        assert {event.id for event in events} == created
        assert files(directory) == ["owner.json"]


async def test_directory_is_not_for_launchers_without_files(directory: Path) -> None:
    launcher: Launcher = FakeLauncher()
    async with open_shells(directory=directory, launcher=launcher):
        assert not directory.exists()
