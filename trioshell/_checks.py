"""Bad input is named before anything exists (C14): one function for each kind of argument."""

from __future__ import annotations

import errno
import inspect
import math
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ._exceptions import spawn_error
from ._records import Argument, Command


def timeout(value: float | None) -> float:
    """A time limit in seconds; None becomes infinity."""
    if value is None:
        return math.inf
    seconds = _number("timeout", value)
    if not seconds > 0:
        raise ValueError(
            f"timeout must be more than 0 seconds, or None for no limit, not {value!r}"
        )
    return seconds


def grace(value: float) -> float:
    """Seconds between SIGTERM and SIGKILL."""
    seconds = _number("grace", value)
    if not seconds >= 0:
        raise ValueError(f"grace must be 0 seconds or more, not {value!r}")
    return seconds


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    try:
        return float(value)
    except OverflowError:  # an int beyond every float: as good as for ever
        return math.inf if value > 0 else -math.inf


def count(name: str, value: int, *, least: int) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {value!r}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value!r}")
    return value


def signal_number(value: int) -> int:
    """A signal that the system has."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"the signal must be a number such as signal.SIGINT, not {value!r}")
    if not 1 <= value < signal.NSIG:
        raise ValueError(f"the signal must be between 1 and {signal.NSIG - 1}, not {value!r}")
    return int(value)


def path(name: str, value: Any) -> str:
    """A path, not empty."""
    if not isinstance(value, str | bytes | os.PathLike):
        raise TypeError(f"{name} must be a path, not {value!r}")
    text = os.fsdecode(kernel_bytes(name, value))
    if not text:
        raise ValueError(f"{name} must not be empty")
    return text


def instance(name: str, value: object, kind: type, hint: str) -> None:
    """An object of one class, or of one derived from it."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {hint}, not {value!r}")


def observers(value: Any) -> tuple[Callable[..., object], ...]:
    """Functions that can be called in a step that must not wait."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"observers must be a sequence of functions, not {value!r}")
    functions = tuple(value)
    for function in functions:
        if not callable(function):
            raise TypeError(f"an observer must be a function, not {function!r}")
        if inspect.iscoroutinefunction(function):
            what = "an observer is called where nothing may wait, so it must not be async"
            raise TypeError(f"{what}: {function!r}; a task can subscribe")
    return functions


def choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """One of a few words."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def command(value: str | Sequence[Argument]) -> Command:
    """A command as text, or as a non-empty sequence of arguments."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError(f"the command is empty: {value!r}")
        return value
    if isinstance(value, bytes | bytearray | os.PathLike) or not isinstance(value, Sequence):
        raise TypeError(
            f"a command is a str (run by the shell) or a sequence of arguments, not {value!r}"
        )
    arguments = tuple(value)
    for argument in arguments:
        if not isinstance(argument, str | bytes | os.PathLike):
            raise TypeError(f"arguments of a command are str, bytes or paths, not {argument!r}")
    if not arguments or not os.fspath(arguments[0]):
        raise ValueError(f"the command is empty: {value!r}")
    return arguments


def kernel_bytes(name: str, value: Argument) -> bytes:
    """A string as the kernel gets it. Its strings end at a NUL: a different command would run."""
    encoded = _encode(name, os.fspath(value))
    if b"\0" in encoded:
        raise ValueError(f"{name} must not contain a NUL: {value!r}")
    return encoded


def _encode(name: str, text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        pass
    try:  # in a locale that has no bytes for it, such as the C locale, text is UTF-8 all the same
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        what = f"{name} has half of a surrogate pair, which is no text: {text!r}"
        raise ValueError(what) from None


def may_execute(path: str | bytes) -> bool:
    """Whether this process may execute a file, or enter a directory.

    Not `os.access` as it is: that answers for the real user, without capabilities.
    """
    return os.access(path, os.X_OK, effective_ids=os.access in os.supports_effective_ids)


def absolute(name: str, path: str) -> str:
    """A path that stays right when the host changes its directory."""
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        what = f"{name} {path!r} is relative to the current directory, which is gone"
        raise spawn_error(errno.ENOENT, what, path) from None


def environment(
    inherited: Mapping[bytes, bytes], given: Mapping[str, str | None] | None
) -> Mapping[bytes, bytes]:
    """The environment of the moment with the given entries over it; None drops a variable."""
    if given is None:
        return inherited
    if not isinstance(given, Mapping):
        raise TypeError(f"env must be a mapping of names to values, not {given!r}")
    result = dict(inherited)
    for name, value in given.items():
        key = _variable(name)
        result.pop(key, None)
        if value is not None:
            result[key] = _env_bytes(f"the value of env[{name!r}]", value)
    return result


def _variable(name: Any) -> bytes:
    key = _env_bytes("an env name", name)
    if not key or b"=" in key:
        raise ValueError(f"an env name must not be empty or contain '=': {name!r}")
    return key


def _env_bytes(what: str, value: Any) -> bytes:
    if not isinstance(value, str | bytes):
        raise TypeError(f"{what} must be a str or bytes, not {value!r}")
    return kernel_bytes(what, value)
