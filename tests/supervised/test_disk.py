"""Output beyond what the disk takes (C13)."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.direct.rig import Start, refuse_to_punch
from trioshell._exceptions import SpawnError
from trioshell.launchers._helpers import punching, storing


@pytest.mark.parametrize(("writes", "lost"), [(1, False), (100, True)])
def test_file_system_that_cannot_punch_keeps_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, lost: bool
) -> None:
    """The bound on the disk is kept, and what is missing is said, but only if it is."""
    monkeypatch.setattr(punching, "punch_hole", refuse_to_punch)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    null = os.open(os.devnull, os.O_RDWR)
    reading, writing = os.pipe()
    store = storing.LimitedStore(file, null, 10_000)
    for _ in range(writes):
        os.write(writing, b"x" * 60_000)
        taken = 0
        while taken < 60_000:
            taken += store.take(reading, 60_000)
    os.close(writing)
    assert store.take(reading, 60_000) == 0
    store.trim()
    assert store.size == os.fstat(file).st_size <= 10_000 + (1 << 20)
    if lost:
        assert store.error is not None
        assert f"only the first {store.size} bytes" in store.error
    else:
        assert (store.error, store.size) == (None, 60_000)
    for fd in (file, null, reading):
        os.close(fd)


async def test_full_disk_is_reported_and_the_command_goes_on(start: Start) -> None:
    """Case: no space left. The device that is always full stands in for the file."""
    file = os.open("/dev/full", os.O_RDWR)
    null = os.open(os.devnull, os.O_RDWR)
    reading, writing = os.pipe()
    store = storing.Store(file, null)
    os.write(writing, b"x" * 1_000)
    assert store.take(reading, 1_000) == 1_000
    os.write(writing, b"x" * 1_000)
    assert store.take(reading, 1_000) == 1_000
    assert store.size == 0
    assert store.error is not None
    assert os.strerror(errno.ENOSPC) in store.error
    for fd in (file, null, reading, writing):
        os.close(fd)


FULL = """
import os, subprocess, sys, trio
from trioshell.launchers import Spec
from trioshell.launchers._supervised import SupervisedLauncher

def spec(id, command):
    return Spec(
        id=id, argv=(b"sh", b"-c", command), executable=b"/bin/sh", cwd="/",
        env=dict(os.environb), capture=os.path.join(sys.argv[1], id),
    )

async def main():
    async with SupervisedLauncher() as launcher:
        other = await launcher.launch(spec("sh_other", b"echo one; sleep 0.3; exit 4"))
        full = await launcher.launch(spec("sh_full", b"head -c 5000000 /dev/zero; exit 3"))
        ending = await full.wait()
        kept = full.capture.read(0, 1 << 23)
        print(ending.returncode, ending.size == len(kept) == full.capture.size, ending.output_error)
        assert kept and not kept.strip(b"\\0")
        full.capture.remove()
        print((await other.wait()).returncode, other.capture.read(0, 100))

trio.run(main)
"""


def test_full_disk_harms_nobody_else(tmp_path: Path) -> None:
    """A file system of one megabyte, filled by one command while another one works in it."""
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    program = ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", FULL, str(tmp_path)]
    if shutil.which("unshare") is None or subprocess.call(["unshare", "-rm", "true"]) != 0:
        pytest.skip("a file system of our own cannot be mounted here")
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    full, other = done.stdout.splitlines()
    assert full == "3 True output was lost from here on: No space left on device"
    assert other == "4 b'one\\n'"


LIMITED = f"""
import resource
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
{FULL}
# What else runs in this process, such as a measurement of coverage, may write at its exit.
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
"""


def test_file_size_limit_is_reported(tmp_path: Path) -> None:
    """RLIMIT_FSIZE holds for the capture file, too; its signal ends nobody of ours."""
    program = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(program, check=True, capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "3 True output was lost from here on: File too large"


async def test_directory_that_cannot_be_used_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "x", tmp_path / "a" / "b" / "c"):
        with pytest.raises(SpawnError, match=str(path)):
            await start("exit 0", capture=str(path))


async def test_planted_file_or_link_is_not_followed(start: Start, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "link").symlink_to(victim)
    for name in ("victim", "link"):
        with pytest.raises(SpawnError, match=name):
            await start("echo harm", capture=str(tmp_path / name))
    assert victim.read_text() == "precious"


async def test_capture_is_the_owners_alone(start: Start) -> None:
    old = os.umask(0)
    try:
        process = await start("read x", stdin=True)
    finally:
        os.umask(old)
    path = process.capture.path  # type: ignore[attr-defined]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert process.stdin is not None
    await process.stdin.aclose()
    await process.wait()
