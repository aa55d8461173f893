"""Record files: their names, their order, and how they are read and replaced."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from .._report import report
from .record_format import MAX_SIZE, STATES, Record, RecordError, decode

RECORD: Final = re.compile(rf"(sh_[0-9a-f]{{28}})\.({'|'.join(STATES)})\.json")
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def read_records(folder: str, captures: str) -> Iterator[Record]:
    """The records in a folder, in creation order; a warning for each that cannot be used.

    Args:
        folder: Where they are.
        captures: Where the capture files are.
    """
    for name in _latest(os.listdir(folder)):
        path = os.path.join(folder, name)
        try:
            match = RECORD.fullmatch(name)
            if match is None:
                raise RecordError("its name is not that of a record")
            id, state = match.groups()
            capture = os.path.join(captures, f"{id}.out")
            yield decode(_read(path), id=id, state=state, file=capture)
        except RecordError as error:
            report(f"the record {path!r} is ignored, and its shell left alone: {error}")


def replace(folder: str, name: str, data: bytes) -> None:
    """Make the file have these contents, at one stroke.

    The new file always has the same name until then: there is one writer, and a crash leaves no
    more than this one.

    Raises:
        OSError: It still has its old contents.
    """
    new = os.path.join(folder, "new")
    try:
        fd = os.open(new, _WRITE, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)
        os.replace(new, os.path.join(folder, name))
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise


def record_name(record: Record) -> str:
    return f"{record.info.id}.{record.state}.json"


def _latest(names: Iterable[str]) -> Iterable[str]:
    """The record of the latest state of each shell, in the order of the ids."""
    latest: dict[str, str] = {}
    for name in sorted(names, key=_order):
        if name.endswith(".json"):
            latest[_order(name)[0]] = name
    return latest.values()


def _order(name: str) -> tuple[str, int]:
    match = RECORD.fullmatch(name)
    return (name, -1) if match is None else (match[1], STATES.index(match[2]))


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        raise RecordError(f"it cannot be read ({error.strerror})") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise RecordError("it is no regular file")
        if status.st_size > MAX_SIZE:
            raise RecordError(f"it has {status.st_size} bytes, more than {MAX_SIZE}")
        with open(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)
