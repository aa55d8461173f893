"""The values that trioshell hands out: frozen, comparable, JSON-safe through ``as_dict()``."""

from __future__ import annotations

import enum
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, final

import attrs

Argument = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Command = str | tuple[Argument, ...]


class Status(enum.StrEnum):
    """Why a shell ended: the cause, not how its process died."""

    RUNNING = "running"
    EXITED = "exited"  # the leader ended by itself: any code, also an outside signal
    TIMEOUT = "timeout"  # the time limit came first
    KILLED = "killed"  # kill, remove or the end of the scope came first


@final
@attrs.frozen
class Usage:
    """What a shell consumed.

    Attributes:
        user: CPU seconds in user mode.
        system: CPU seconds in the kernel.
        max_rss: The largest resident set of any one process, in bytes.
    """

    user: float
    system: float
    max_rss: int

    def as_dict(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes as it is."""
        return attrs.asdict(self)


@final
@attrs.frozen
class Leftover:
    """A process of the tree that could not be ended.

    Attributes:
        pid: Its process id at the time.
        name: Its name as the kernel gives it, or ``""``.
    """

    pid: int
    name: str = ""

    def as_dict(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes as it is."""
        return attrs.asdict(self)


def _terminal_size(_: object, attribute: attrs.Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"Pty {attribute.name} must be an int, not {value!r}")
    if not 1 <= value <= 65535:
        raise ValueError(f"Pty {attribute.name} must be between 1 and 65535, not {value!r}")


@final
@attrs.frozen
class Pty:
    """A terminal of this size (in characters) as stdin, stdout and stderr of a shell."""

    rows: int = attrs.field(default=24, validator=_terminal_size)
    columns: int = attrs.field(default=80, validator=_terminal_size)


@final
@attrs.frozen
class Ending:
    """How a process under a launcher's care ended: what a launcher reports, once.

    Attributes:
        returncode: As in `subprocess`: ``>= 0`` exit code, ``-n`` signal n, None unknown.
        by_itself: The leader ended before any signal of a kill reached it.
        size: Bytes captured; final.
        usage: Of the whole tree where the launcher can, else of the leader, else None.
        leftovers: Processes of the tree that could not be ended.
        cut: Somebody still held the output open when it was closed.
        output_error: Why output is missing (a full disk, a lost file), or None.
        trouble: Why ``returncode`` is unknown, or None.
    """

    returncode: int | None
    by_itself: bool
    size: int = 0
    usage: Usage | None = None
    leftovers: tuple[Leftover, ...] = ()
    cut: bool = False
    output_error: str | None = None
    trouble: str | None = None


_NO_METADATA: Final[Mapping[str, Any]] = MappingProxyType({})


def _freeze_metadata(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return MappingProxyType(dict(value)) if value else _NO_METADATA


@final
@attrs.frozen(kw_only=True)
class ShellInfo:
    """What is known of a shell at one moment; it never changes afterwards.

    Attributes:
        id: ``sh_...``; ids sort by creation time.
        status: `Status.RUNNING`, or why it ended.
        command: As given to `Shells.create`: a string, or a tuple of arguments.
        cwd: Working directory, absolute, or None when the host's own was gone.
        shell: Path of the interpreter, or None for a command given as a sequence.
        pid: Process id of the leader.
        returncode: As in `subprocess`; None while running and when it is unknown.
        file: Path of the capture file, or None when the launcher keeps output elsewhere.
        size: Bytes of output so far.
        metadata: As given, never interpreted.
        started: Epoch seconds.
        ended: Epoch seconds; ``ended - started`` is measured on a monotonic clock.
        usage: What it consumed, where the launcher can tell.
        leftovers: Processes that could not be ended.
        output_error: Why output is missing, or None.
        cut: Somebody still held the output open at the end; what they wrote later is not kept.
        reason: In words, what is special about the end (a lost exit status, an output limit).
    """

    id: str
    status: Status
    command: Command
    cwd: str | None
    shell: str | None
    pid: int
    file: str | None
    metadata: Mapping[str, Any] = attrs.field(
        factory=dict, converter=_freeze_metadata, hash=False, repr=False
    )
    started: float
    returncode: int | None = None
    size: int = 0
    ended: float | None = None
    usage: Usage | None = None
    leftovers: tuple[Leftover, ...] = ()
    output_error: str | None = None
    cut: bool = False
    reason: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # For pickles and copies, which know no read-only mapping: made anew, it gets one again.
        names = (field.name for field in attrs.fields(ShellInfo))
        fields = {name: getattr(self, name) for name in names}
        return _made_anew, (fields | {"metadata": dict(self.metadata)},)

    @property
    def signal(self) -> int | None:
        """The signal number that ended the leader, or None."""
        if self.returncode is None or self.returncode >= 0:
            return None
        return -self.returncode

    @property
    def running(self) -> bool:
        """Whether the shell has not ended."""
        return self.status is Status.RUNNING

    def as_dict(self) -> dict[str, Any]:
        r"""A dict that `json.dumps` takes as it is.

        Bytes and paths become text; bytes that are not UTF-8 become ``\udcXX`` escapes as in
        `os.fsdecode`. Metadata values that JSON does not know become their ``str()``.
        """
        return {
            "id": self.id,
            "status": str(self.status),
            "command": command_as_json(self.command),
            "cwd": self.cwd,
            "shell": self.shell,
            "pid": self.pid,
            "returncode": self.returncode,
            "signal": self.signal,
            "file": self.file,
            "size": self.size,
            "metadata": _json_safe(self.metadata),
            "started": self.started,
            "ended": self.ended,
            "usage": None if self.usage is None else self.usage.as_dict(),
            "leftovers": [leftover.as_dict() for leftover in self.leftovers],
            "output_error": self.output_error,
            "cut": self.cut,
            "reason": self.reason,
        }


def _made_anew(fields: dict[str, Any]) -> ShellInfo:
    return ShellInfo(**fields)


@final
@attrs.frozen
class Result:
    """The end of a shell together with the tail of its output.

    Attributes:
        info: How it ended.
        output: The tail as text, or None when the output is gone with the removed shell.
        truncated: How many bytes of output are not in ``output`` (0: it is whole).
    """

    info: ShellInfo
    output: str | None
    truncated: int = 0


def command_line(command: Command) -> str:
    """The command as one line of shell text, for people to read."""
    if isinstance(command, str):
        return command
    return shlex.join(os.fsdecode(argument) for argument in command)


def command_as_json(command: Command) -> str | list[str]:
    if isinstance(command, str):
        return command
    return [os.fsdecode(argument) for argument in command]


def _json_safe(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)  # Python would write NaN, which is no JSON
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): _json_safe(item) for key, item in value.items()}
        case bytes() | os.PathLike():
            return os.fsdecode(value)
        case Sequence() | set() | frozenset():
            return [_json_safe(item) for item in value]
        case _:
            return str(value)
