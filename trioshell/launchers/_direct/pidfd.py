"""What Linux tells about a process through its pidfd, after nobody else can."""

from __future__ import annotations

import fcntl
import struct

# struct pidfd_info as of Linux 6.13, its first form: mask, cgroup, eleven ids, exit_code.
_INFO = struct.Struct("=QQ11Ii")
_INFO_EXIT = 1 << 3
# _IOWR(0xFF, 11, struct pidfd_info)
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11


def exit_status(pidfd: int | None) -> int | None:
    """The wait status of a process that was reaped by somebody else.

    Linux 6.15 and later keep it for those who hold a pidfd. It is the kernel's own word, not a
    guess; None where it is not to be had.
    """
    if pidfd is None:
        return None
    buffer = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _GET_INFO, buffer)
    except OSError:
        return None
    mask, *_, status = _INFO.unpack(buffer)
    return status if mask & _INFO_EXIT else None
