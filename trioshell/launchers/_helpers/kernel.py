"""The few calls that Python's `os` does not have, or not as we need them: through ctypes.

Loaded once, in the fork server; supervisors share it by being forked.
"""

from __future__ import annotations

import ctypes
import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_CHILD_SUBREAPER = 36
SIGNAL_SIZE = 128  # of what is read from a signalfd
_SPAWN_FLAGS = 0x04 | 0x08 | 0x80  # SETSIGDEF, SETSIGMASK, SETSID

# Larger than the structures of any C library; their true sizes are nobody's contract.
_OPAQUE = 1024

_libc = ctypes.CDLL(None, use_errno=True)
_posix_spawn = _libc.posix_spawn
_posix_spawn.argtypes = [
    ctypes.POINTER(ctypes.c_int),
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
]


def become_subreaper() -> None:
    _check_errno(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def set_name(name: str) -> None:
    """How ``ps`` and ``pkill`` see this process: at most 15 characters count."""
    with open("/proc/self/comm", "w") as file:
        file.write(name)


def signal_descriptor(number: int) -> int:
    """A signalfd, non-blocking, for a signal that is blocked."""
    mask = ctypes.create_string_buffer(_OPAQUE)
    _check_errno(_libc.sigaddset(mask, number))
    fd: int = _libc.signalfd(-1, mask, os.O_NONBLOCK | os.O_CLOEXEC)
    _check_errno(fd)
    return fd


class Environment:
    """The environment of commands. It stays what it is until it is replaced, but for the mark."""

    def __init__(self) -> None:
        self._strings = _strings([b""])

    def replace(self, env: Sequence[bytes]) -> None:
        """Have another environment: ``NAME=value`` strings, without the mark."""
        self._strings = _strings([b"", *env])

    def of(self, id: bytes) -> ctypes.Array[ctypes.c_char_p]:
        """The environment with the mark of one shell, until this is called again."""
        self._strings[0] = b"TRIOSHELL_ID=" + id
        return self._strings


def spawn(
    executable: bytes,
    argv: Sequence[bytes],
    env: ctypes.Array[ctypes.c_char_p],
    *,
    stdin: int | None,
    output: int,
    terminal: bytes | None,
) -> int:
    """Start a session leader with default signals, an empty mask and descriptors 0 to 2 alone.

    `os.posix_spawn` is not used because it cannot be told to reset signals 32 and 33, which the C
    library otherwise leaves *ignored* in the child. This still is the vfork path, whose cost does
    not depend on our size.

    Args:
        executable: Absolute, or relative to the working directory.
        argv: The arguments.
        env: From `Environment`.
        stdin: Becomes descriptor 0; not used with a terminal.
        output: Becomes descriptors 1 and 2; not used with a terminal.
        terminal: Path of a terminal to be all three. A session leader that opens one gets it as
            its controlling terminal.

    Raises:
        OSError: It could not be started.
    """
    if terminal is not None:
        actions = _use_terminal(terminal)
    else:
        assert stdin is not None
        actions = _use_descriptors(stdin, output)
    number = _posix_spawn(_pid_address, executable, actions, _attributes, _strings(argv), env)
    if number != 0:
        raise OSError(number, os.strerror(number))
    return _pid.value


def _strings(strings: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    # Every size is a type of its own, so only a few sizes are used. The rest is NULL.
    size = 8
    while size <= len(strings):
        size *= 2
    return (ctypes.c_char_p * size)(*strings)


class _Actions:
    """What happens to descriptors between fork and exec."""

    def __init__(self) -> None:
        self._as_parameter_ = ctypes.create_string_buffer(_OPAQUE)
        _check(_actions_init(self))

    def __del__(self) -> None:
        _actions_destroy(self)

    def open(self, fd: int, path: bytes) -> None:
        _check(_actions_open(self, fd, path, os.O_RDWR, 0))

    def dup2(self, source: int, target: int) -> None:
        _check(_actions_dup2(self, source, target))


def _use_terminal(path: bytes) -> _Actions:
    actions = _Actions()
    actions.open(0, path)
    actions.dup2(0, 1)
    actions.dup2(0, 2)
    return actions


# A supervisor opens and closes the same few descriptors again and again.
@functools.lru_cache(maxsize=16)
def _use_descriptors(stdin: int, output: int) -> _Actions:
    actions = _Actions()
    actions.dup2(stdin, 0)
    actions.dup2(output, 1)
    actions.dup2(output, 2)
    return actions


_actions_init = _libc.posix_spawn_file_actions_init
_actions_init.argtypes = [ctypes.c_void_p]
_actions_open = _libc.posix_spawn_file_actions_addopen
_actions_open.argtypes = [
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_uint,
]
_actions_dup2 = _libc.posix_spawn_file_actions_adddup2
_actions_dup2.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
_actions_destroy = _libc.posix_spawn_file_actions_destroy
_actions_destroy.argtypes = [ctypes.c_void_p]


def _make_attributes() -> ctypes.Array[ctypes.c_char]:
    attributes = ctypes.create_string_buffer(_OPAQUE)
    every_signal = ctypes.create_string_buffer(b"\xff" * _OPAQUE, _OPAQUE)
    no_signal = ctypes.create_string_buffer(_OPAQUE)
    pointer = ctypes.c_void_p(ctypes.addressof(attributes))
    _check(_libc.posix_spawnattr_init(pointer))
    _check(_libc.posix_spawnattr_setsigdefault(pointer, every_signal))
    _check(_libc.posix_spawnattr_setsigmask(pointer, no_signal))
    _check(_libc.posix_spawnattr_setflags(pointer, ctypes.c_short(_SPAWN_FLAGS)))
    return attributes


def _check(number: int) -> None:
    if number != 0:
        raise OSError(number, os.strerror(number))


def _check_errno(result: int) -> None:
    if result == -1:
        _check(ctypes.get_errno())


_attributes = _make_attributes()
_pid = ctypes.c_int()
_pid_address = ctypes.byref(_pid)
