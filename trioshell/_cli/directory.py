"""``trioshell list``, ``show`` and ``reap``: a durable directory seen from the command line."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import wraps
from typing import Final

import trio

from .. import _checks
from .._ansi import strip_ansi
from .._durable.directory import open_durable, output_folder, records_folder
from .._durable.files import read_records
from .._durable.record_format import Record
from .._durable.recovery import capture_of, recover
from .._events import Event, Exited, Log
from .._exceptions import ShellError, ShellNotFoundError
from .._excerpt import excerpt
from .._ids import Ids
from .._records import command_line
from .._registry import Registry
from ..launchers._files import FileCapture
from .report import describe, one_line, output_lines
from .streams import complain, say

_TAIL: Final = 10
_TAIL_BYTES: Final = 1 << 20
_COPY: Final = 1 << 20

Handler = Callable[[argparse.Namespace], int]


def add_subcommands(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``list``, ``show`` and ``reap``."""
    _add(subparsers, "list", _list, "list the shells of a durable directory")
    show = _add(subparsers, "show", _show, "show one shell of a durable directory")
    show.add_argument("id", metavar="ID", help="its id, or a part of it that no other one has")
    what = show.add_mutually_exclusive_group()
    what.add_argument("--tail", type=int, default=_TAIL, metavar="N", help="lines of output")
    what.add_argument("--output", action="store_true", help="all output, and nothing else")
    reap = _add(subparsers, "reap", _reap, "end what a crashed host left in a durable directory")
    reap.add_argument(
        "--delete", action="store_true", help="then delete all its shells and their output"
    )


def _add(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    handler: Handler,
    description: str,
) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(name, help=description, description=f"{description}.")
    parser.add_argument("directory", metavar="DIR", help="the directory")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.set_defaults(handler=_explaining(handler))
    return parser


def _explaining(handler: Handler) -> Handler:
    """A warning becomes a sentence."""

    @wraps(handler)
    def handle(arguments: argparse.Namespace) -> int:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                return handler(arguments)
            finally:
                for warning in caught:
                    complain(str(warning.message))

    return handle


def _list(arguments: argparse.Namespace) -> int:
    for record in _records(arguments.directory):
        if arguments.json:
            say(_as_json(record))
        else:
            line = one_line(record.info.command)
            started = _date(record.info.started)
            say(f"{record.info.id}  {started}  {_state(record):<8}  {line}")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    lines = _checks.count("--tail", arguments.tail, least=0)
    record = _find(arguments.directory, arguments.id)
    capture = capture_of(record)
    if arguments.output:
        _copy(capture)
    elif arguments.json:
        say(_as_json(record))
    else:
        for name, value in _facts(record):
            say(strip_ansi(f"{name:<10} {value}"))
        tail = excerpt(capture, part="tail", lines=lines, limit=_TAIL_BYTES)
        for line in output_lines(tail.text):
            say(f"    {line}")
    return 0


def _reap(arguments: argparse.Namespace) -> int:
    _records(arguments.directory)  # a slip of the pen must not make a new directory

    def tell(event: Event) -> None:
        if arguments.json:
            say(json.dumps(event.as_dict()))
        elif isinstance(event, Exited):
            say(f"{event.id}  {event.info.status:<8}  {describe(event.info)}")

    with closing(open_durable(arguments.directory)) as home:
        log = Log((tell, home.ledger.tell))
        registry = Registry(sys.maxsize, log, home.ledger)
        trio.run(recover, home.ledger, registry, Ids())
        if arguments.delete:
            for entry in registry:
                registry.delete(entry, "removed")
        registry.close()
    leftovers = [entry.info.leftovers for entry in registry]
    return 1 if any(leftovers) else 0


def _records(directory: str) -> list[Record]:
    try:
        return list(read_records(records_folder(directory), output_folder(directory)))
    except (FileNotFoundError, NotADirectoryError):
        raise ShellError(f"{directory!r} is no durable directory of trioshell") from None


def _find(directory: str, id: str) -> Record:
    found = [record for record in _records(directory) if id in record.info.id]
    if len(found) != 1:
        what = f"{len(found)} shells in {directory!r} have {id!r} in their ids"
        raise ShellNotFoundError(id, what if found else f"no shell in {directory!r} has id {id!r}")
    return found[0]


def _state(record: Record) -> str:
    """The status; of a shell that is said to run, whether its host is there to know."""
    if record.info.running and record.owner is not None and not record.owner.alive:
        return "lost"
    return str(record.info.status)


def _facts(record: Record) -> Iterator[tuple[str, object]]:
    info = record.info
    yield "id", info.id
    yield "state", _state(record)
    if not info.running:
        yield "end", describe(info)
    yield "command", command_line(info.command)
    yield "cwd", info.cwd
    yield "pid", info.pid
    yield "started", _date(info.started)
    if info.ended is not None:
        yield "ended", _date(info.ended)
    if info.metadata:
        yield "metadata", json.dumps(dict(info.metadata))
    yield "file", info.file


def _as_json(record: Record) -> str:
    return json.dumps(record.info.as_dict() | {"state": _state(record)})


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _copy(capture: FileCapture) -> None:
    """All that is kept, as it was written; what an output limit dropped is left out."""
    cursor = 0
    while cursor < capture.size:
        cursor += capture.gap(cursor)
        data = capture.read(cursor, _COPY)
        sys.stdout.buffer.write(data)
        cursor += len(data)
    sys.stdout.buffer.flush()
