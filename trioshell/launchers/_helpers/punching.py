"""Punching holes: giving the blocks within a file back to the file system."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import sys

_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2
_F_PUNCHHOLE = 99  # <sys/fcntl.h> of macOS, with a struct fpunchhole
_FPUNCHHOLE = struct.Struct("IIqq")


def punch_hole(fd: int, start: int, length: int) -> None:
    """Give whole blocks back. What was in them reads as zeros; the file keeps its size.

    Raises:
        OSError: EOPNOTSUPP where the file system, or the system, cannot.
    """
    if sys.platform == "linux":
        _fallocate(fd, start, length)
    elif sys.platform == "darwin":
        fcntl.fcntl(fd, _F_PUNCHHOLE, _FPUNCHHOLE.pack(0, 0, start, length))
    else:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def _fallocate(fd: int, start: int, length: int) -> None:
    # Python has the call without its flags only. Not every C library has it by its first name,
    # but where there are two, the second one may take offsets of 32 bits.
    fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
    mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
    if fallocate(fd, mode, ctypes.c_int64(start), ctypes.c_int64(length)) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


_libc = ctypes.CDLL(None, use_errno=True)
