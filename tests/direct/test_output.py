"""Capturing: the file, who waits for it, and what can go wrong with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import trio

from tests.direct.rig import (
    SpecOf,
    Start,
    attended,
    everything,
    linux_only,
    refuse_to_punch,
    run,
    said,
)
from trioshell._exceptions import SpawnError
from trioshell.launchers import Process
from trioshell.launchers._direct import DirectLauncher
from trioshell.launchers._files import FileCapture
from trioshell.launchers._helpers import punching

ROOT = Path(__file__).parents[2]


async def test_output_is_interleaved_as_written(start: Start) -> None:
    """C13: one pipe for both streams."""
    _, output = await run(start, "for i in 1 2 3; do echo o$i; echo e$i >&2; done")
    assert output == b"o1\ne1\no2\ne2\no3\ne3\n"


async def test_output_opened_by_name_wipes_nothing(start: Start) -> None:
    _, output = await run(start, "echo one; echo two > /dev/stderr; : > /dev/stdout; echo three")
    assert output == b"one\ntwo\nthree\n"


async def test_output_bytes_are_exact(start: Start) -> None:
    _, output = await run(start, r"printf 'a\0b\377\r\n'; printf 'no newline'")
    assert output == b"a\0b\xff\r\nno newline"


async def test_large_output_is_exact(start: Start) -> None:
    """More than the pipe and the buffer hold, also after the pipe was made larger."""
    ending, output = await run(start, "seq 1 400000")
    assert output == b"".join(b"%d\n" % number for number in range(1, 400_001))
    assert ending.size == len(output)


async def test_noisy_command_leaves_the_loop_to_others(start: Start) -> None:
    process = await start("exec yes")
    async with attended(process):
        await process.wait_output(1 << 20)
        ending, output = await run(start, "echo quiet")
        process.kill(1)
    assert (ending.returncode, output) == (0, b"quiet\n")


async def test_wait_output_wakes_each_at_its_size(start: Start) -> None:
    process = await start("read x; printf a; read x; printf b; read x", stdin=True)
    woken: list[int] = []

    async def wait(size: int) -> None:
        await process.wait_output(size)
        woken.append(size)

    assert process.stdin is not None
    async with attended(process), trio.open_nursery() as nursery:
        for size in (0, 0, 1, 5):
            nursery.start_soon(wait, size)
        await process.stdin.send_all(b"\n")
        await said(process, b"a")
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [0, 0]
        await process.stdin.send_all(b"\n")
        await said(process, b"b")
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [0, 0, 1]
        await process.stdin.send_all(b"\n")  # the end makes the output final
    assert woken == [0, 0, 1, 5]
    await process.wait_output(100)


async def test_wait_output_returns_what_is_there(start: Start) -> None:
    """A checkpoint, and no wait, when there is more already."""
    process = await start("echo abc; exec sleep 300")
    async with attended(process):
        await said(process, b"abc")
        with trio.testing.assert_checkpoints():
            await process.wait_output(2)
        process.kill(0)


@pytest.mark.slow
async def test_lost_directory_is_told_and_the_output_kept(start: Start, tmp_path: Path) -> None:
    """C13: a deleted file can be read as long as the shell is there; the command goes on."""
    folder = tmp_path / "captures"
    folder.mkdir()
    command = "echo one; read x; echo two; exit 6"
    process = await start(command, capture=str(folder / "out"), stdin=True)
    assert process.stdin is not None
    async with attended(process):
        await said(process, b"one")
        shutil.rmtree(folder)
        assert everything(process) == b"one\n"
        await process.stdin.send_all(b"\n")
    ending = await process.wait()
    assert (ending.returncode, everything(process)) == (6, b"one\ntwo\n")
    assert ending.output_error is not None
    assert "was deleted" in ending.output_error


async def test_capture_file_that_is_there_is_never_written_to(spec: SpecOf, tmp_path: Path) -> None:
    """C2, C13: also not through a symlink that somebody put there. Nothing is started."""
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("target", "link"):
        with pytest.raises(SpawnError, match=name):
            await DirectLauncher().launch(spec("echo x", capture=str(tmp_path / name)))
    assert (tmp_path / "target").read_text() == "precious"


async def test_capture_is_private(start: Start) -> None:
    process = await start("exit 0")
    assert os.stat(path_of(process)).st_mode & 0o777 == 0o600
    await process.wait()


async def test_launcher_finds_a_place_when_none_is_given(start: Start) -> None:
    process = await start("echo hi", capture=None)
    await process.wait()
    assert everything(process) == b"hi\n"
    process.capture.remove()
    with pytest.raises(FileNotFoundError):
        os.stat(path_of(process))


def path_of(process: Process) -> str:
    assert isinstance(process.capture, FileCapture)
    return process.capture.path


SMALL_DISK = """
import os, sys, trio
from trioshell.launchers import Spec
from trioshell.launchers._direct import DirectLauncher

def spec(number, command):
    return Spec(id=f"sh_{number}", argv=(b"sh", b"-c", command), executable=b"/bin/sh", cwd=None,
                env=dict(os.environb), capture=f"{sys.argv[1]}/out{number}")

async def main():
    launcher = DirectLauncher()
    full = await launcher.launch(spec(1, b"head -c 1000000 /dev/zero; exit 3"))
    other = await launcher.launch(spec(2, b"sleep 0.2; exit 5"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(full.wait)
        nursery.start_soon(other.wait)
    ending = await full.wait()
    assert ending.returncode == 3, ending
    assert "No space left" in ending.output_error, ending
    assert 0 < ending.size <= 262144, ending
    assert full.capture.size == ending.size
    assert full.capture.read(0, 1 << 20) == bytes(ending.size)
    assert (await other.wait()).returncode == 5
    assert (await other.wait()).output_error is None
    full.capture.remove()
    again = await launcher.launch(spec(3, b"echo ok"))
    assert (await again.wait()).output_error is None
    assert again.capture.read(0, 100) == b"ok\\n"
    print("done")

trio.run(main)
"""

MOUNT = 'mount -t tmpfs -o size=256k none "$1" && exec "$2" -W error "$3" "$1"'


def can_mount() -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    script = 'd=$(mktemp -d) && mount -t tmpfs none "$d" && umount "$d"; s=$?; rmdir "$d"; exit $s'
    command = ["unshare", "-rm", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="mounting in a namespace is not possible here")
def test_full_disk_is_told_and_stops_nobody(tmp_path: Path) -> None:
    """C13: the command goes on, others too, and what was kept can be read."""
    disk = tmp_path / "disk"
    disk.mkdir()
    host = tmp_path / "host.py"
    host.write_text(SMALL_DISK)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", MOUNT, "-", disk, sys.executable, host],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


async def test_file_system_that_cannot_punch_keeps_the_head(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C13: the bound on the disk is kept, what is missing is said, and the command goes on."""
    monkeypatch.setattr(punching, "punch_hole", refuse_to_punch)
    ending, output = await run(start, "head -c 5000000 /dev/zero; exit 3", output_limit=10_000)
    assert ending.returncode == 3
    assert ending.output_error is not None
    assert f"only the first {ending.size} bytes" in ending.output_error
    assert 10_000 < ending.size == len(output) < 10_000 + (1 << 20)
    ending, output = await run(start, "head -c 60000 /dev/zero; exit 3", output_limit=10_000)
    assert (ending.size, ending.output_error, output) == (60_000, None, bytes(60_000))


FILE_SIZE = """
import os, resource, sys, trio
from trioshell.launchers import Spec
from trioshell.launchers._direct import DirectLauncher

async def main():
    process = await DirectLauncher().launch(Spec(
        id="sh_1", argv=(b"sh", b"-c", b"head -c 1000000 /dev/zero; exit 3"), executable=b"/bin/sh",
        cwd=None, env=dict(os.environb), capture=sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, resource.RLIM_INFINITY))
    ending = await process.wait()
    assert (ending.returncode, ending.size) == (3, 100000), ending
    assert "File too large" in ending.output_error, ending
    print("done")

trio.run(main)
# What else runs in this process, such as a measurement of coverage, may write at its exit.
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


@pytest.mark.slow
@linux_only
def test_file_size_limit_is_told(tmp_path: Path) -> None:
    host = tmp_path / "host.py"
    host.write_text(textwrap.dedent(FILE_SIZE))
    done = subprocess.run(
        [sys.executable, "-W", "error", host, tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
