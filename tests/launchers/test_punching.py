"""Holes in files: what output limits rest on."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from trioshell.launchers._helpers.punching import punch_hole

BLOCK = 1 << 16


@pytest.fixture
def file(tmp_path: Path) -> Generator[int]:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 3 * BLOCK)
    yield fd
    os.close(fd)


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="nothing punches holes here")
def test_hole_is_where_it_was_punched(file: int) -> None:
    """The file keeps its size, readers can tell the hole, and the disk has its blocks back."""
    before = os.fstat(file).st_blocks
    punch_hole(file, BLOCK, BLOCK)
    assert os.pread(file, 4 * BLOCK, 0) == b"x" * BLOCK + bytes(BLOCK) + b"x" * BLOCK
    assert os.lseek(file, 0, os.SEEK_HOLE) == BLOCK
    assert os.lseek(file, BLOCK, os.SEEK_DATA) == 2 * BLOCK
    assert os.fstat(file).st_blocks < before


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="nothing punches holes here")
def test_hole_that_is_refused_is_an_error(file: int, tmp_path: Path) -> None:
    reading = os.open(tmp_path / "file", os.O_RDONLY)
    with pytest.raises(OSError, match=r"Bad file descriptor|not permitted"):
        punch_hole(reading, BLOCK, BLOCK)
    os.close(reading)


def test_hole_on_macos_is_asked_for_in_its_way(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """``struct fpunchhole { unsigned flags, reserved; off_t offset, length; }``."""
    asked: list[tuple[int, int, tuple[int, ...]]] = []

    def call(fd: int, command: int, argument: bytes) -> bytes:
        asked.append((fd, command, struct.unpack("@IIqq", argument)))
        return argument

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "fcntl", call)
    punch_hole(file, BLOCK, 2 * BLOCK)
    assert asked == [(file, 99, (0, 0, BLOCK, 2 * BLOCK))]


def test_hole_on_other_systems_is_refused(file: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "freebsd14")
    with pytest.raises(OSError, match=os.strerror(errno.EOPNOTSUPP)):
        punch_hole(file, BLOCK, BLOCK)
