"""The format of a record: JSON that people can read, checked when it is read back.

A record may be read by another version, after a crash, after somebody edited it. Whatever is not
exactly as this version writes it is refused as a whole: a half-understood record could get a
stranger signalled.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Final, NoReturn

import attrs

from .._records import Argument, Command, Leftover, ShellInfo, Status, Usage
from .identity import Identity

VERSION: Final = 1

# In the order in which a shell goes through them.
STATES: Final = ("starting", "running", "kept", "ended")

# A command has a few megabytes at most (the kernel's limit on arguments) and metadata one.
MAX_SIZE: Final = 16 << 20
MAX_METADATA: Final = 1 << 20

# Which scope on the directory, and the `seq` of the event in that scope's log.
Place = tuple[int, int]


class RecordError(Exception):
    """A record that cannot be used; says why."""


@attrs.frozen(kw_only=True)
class Record:
    """What is remembered of one shell.

    Attributes:
        info: Its newest info.
        place: Of its newest event. None: there is nothing to be said of it, only something to be
            ended: it was about to be started, or it is deleted and left processes in our care.
        owner: The host that wrote this, where the system can tell.
        process: Its leader, if it was there to be looked at.
        keeper: The leader's parent: the helper that looks after it.
        kept: It has ended, and left processes in our care.
        output_limit: Bytes of output that are kept, or None.
    """

    info: ShellInfo
    place: Place | None = None
    owner: Identity | None = None
    process: Identity | None = None
    keeper: Identity | None = None
    output_limit: int | None = None
    kept: bool = False

    @property
    def state(self) -> str:
        """How far it has come, one of `STATES`."""
        if self.info.running:
            return "starting" if self.place is None else "running"
        return "kept" if self.kept else "ended"

    @property
    def unfinished(self) -> bool:
        """Whether something of its tree may be alive when its host is not."""
        return self.state != "ended"


def encode(record: Record) -> bytes:
    """The contents of the record's file."""
    fields = {
        "version": VERSION,
        "place": record.place,
        "owner": _identity_as_json(record.owner),
        "process": _identity_as_json(record.process),
        "keeper": _identity_as_json(record.keeper),
        "output_limit": record.output_limit,
        "kept": record.kept,
        "info": record.info.as_dict() | {"command": _command_as_json(record.info.command)},
    }
    # A field a line, for people; `indent` would cost five times as much as all the rest.
    lines = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in fields.items())
    return f"{{\n{lines}\n}}\n".encode()


def decode(data: bytes, *, id: str, state: str, file: str) -> Record:
    """Read a record.

    Args:
        data: The contents of its file.
        id: The id that the name of the file has; the record must be that shell's.
        state: The state that the name has.
        file: Where the shell's capture file is. It is not taken from the record: what stands
            there could be any file, and is deleted with the shell.

    Raises:
        RecordError: It is damaged, or of another version.
    """
    try:
        raw = json.loads(data, parse_constant=_refuse)
        version = _take(raw, "version", int)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordError("it is damaged, or no record at all") from error
    if version != VERSION:
        raise RecordError(f"it has version {version}, and this trioshell knows version {VERSION}")
    try:
        record = _record(raw, id, file)
    except (ValueError, TypeError, LookupError) as error:
        raise RecordError(f"it is damaged: {error!r}") from error
    if record.state != state:
        raise RecordError(f"by its name it is {state}, by its contents {record.state}")
    return record


def metadata_copy(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata as they will come back from a record.

    Raises:
        ValueError: They would not come back equal.
    """
    try:
        text = json.dumps(metadata, allow_nan=False)
        copy: dict[str, Any] = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"metadata cannot be kept in a durable directory: {error}") from error
    if copy != metadata:
        raise ValueError(
            "metadata would not come back equal from a durable directory: use what JSON has "
            f"(dicts with str keys, lists, str, numbers, bool, None), not {metadata!r}"
        )
    if len(text) > MAX_METADATA:
        raise ValueError(f"metadata take {len(text)} bytes as JSON, the limit is {MAX_METADATA}")
    return copy


def _record(raw: dict[str, Any], id: str, file: str) -> Record:
    return Record(
        info=_info(_take(raw, "info", dict), id, file),
        place=place_from_json(raw["place"]),
        owner=identity_from_json(raw["owner"]),
        process=identity_from_json(raw["process"]),
        keeper=identity_from_json(raw["keeper"]),
        output_limit=_take(raw, "output_limit", int, None),
        kept=_take(raw, "kept", bool),
    )


def _info(raw: dict[str, Any], id: str, file: str) -> ShellInfo:
    if _take(raw, "id", str) != id:
        raise ValueError(f"the file is named for another shell than {raw['id']!r}")
    return ShellInfo(
        id=id,
        file=file,
        status=Status(_take(raw, "status", str)),
        command=_command(raw["command"]),
        cwd=_take(raw, "cwd", str, None),
        shell=_take(raw, "shell", str, None),
        pid=_take(raw, "pid", int),
        returncode=_take(raw, "returncode", int, None),
        size=_take(raw, "size", int),
        metadata=_take(raw, "metadata", dict),
        started=float(_take(raw, "started", float, int)),
        ended=_ended(raw),
        usage=_usage(_take(raw, "usage", dict, None)),
        leftovers=tuple(_leftover(each) for each in _take(raw, "leftovers", list)),
        output_error=_take(raw, "output_error", str, None),
        cut=_take(raw, "cut", bool),
        reason=_take(raw, "reason", str, None),
    )


def _ended(raw: dict[str, Any]) -> float | None:
    ended = _take(raw, "ended", float, int, None)
    if (ended is None) != (raw["status"] == Status.RUNNING):
        raise ValueError(f"status {raw['status']!r} with ended {ended!r}")
    return None if ended is None else float(ended)


def _usage(raw: dict[str, Any] | None) -> Usage | None:
    if raw is None:
        return None
    return Usage(
        user=float(_take(raw, "user", float, int)),
        system=float(_take(raw, "system", float, int)),
        max_rss=_take(raw, "max_rss", int),
    )


def _leftover(raw: dict[str, Any]) -> Leftover:
    return Leftover(_take(raw, "pid", int), _take(raw, "name", str))


def place_from_json(raw: Any) -> Place | None:
    """Read a place back.

    Raises:
        TypeError, ValueError: It is damaged.
    """
    if raw is None:
        return None
    life, seq = raw
    if type(life) is not int or type(seq) is not int:
        raise TypeError(f"place {raw!r}")
    return life, seq


def _identity_as_json(identity: Identity | None) -> dict[str, Any] | None:
    return None if identity is None else identity.as_dict()


def identity_from_json(raw: dict[str, Any] | None) -> Identity | None:
    """Read an identity back.

    Raises:
        TypeError, LookupError: It is damaged.
    """
    if raw is None:
        return None
    numbers = (_take(raw, name, int) for name in ("namespace", "pid", "start", "session"))
    return Identity(_take(raw, "boot", str), *numbers)


def _command_as_json(command: Command) -> str | list[str | dict[str, str]]:
    if isinstance(command, str):
        return command
    return [_argument_as_json(argument) for argument in command]


def _argument_as_json(argument: Argument) -> str | dict[str, str]:
    if isinstance(argument, str):
        return argument
    if isinstance(argument, bytes):
        # Every bytes value has exactly one such text, whatever the locale of either life.
        return {"bytes": argument.decode("utf-8", "surrogateescape")}
    return {"path": os.fsdecode(argument)}


def _command(raw: Any) -> Command:
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, list) or not raw:
        raise TypeError(f"command {raw!r}")
    return tuple(_argument(each) for each in raw)


def _argument(raw: Any) -> Argument:
    match raw:
        case str():
            return raw
        case {"bytes": str(text)} if len(raw) == 1:
            return text.encode("utf-8", "surrogateescape")
        case {"path": str(text)} if len(raw) == 1:
            return pathlib.Path(text)
        case _:
            raise ValueError(f"argument {raw!r}")


def _take(raw: dict[str, Any], name: str, *kinds: type | None) -> Any:
    """A field of one of these kinds exactly: a bool is no int here."""
    value = raw[name]
    if (None if value is None else type(value)) not in kinds:
        raise TypeError(f"{name} {value!r}")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
