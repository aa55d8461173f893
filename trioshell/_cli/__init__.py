"""The command line: ``trioshell run``, and a look at durable directories."""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Final, get_args

from .._exceptions import ShellError
from ..launchers import Background
from .directory import add_subcommands
from .run import run
from .streams import READER_GONE, complain, drop_unwritten, prepare

_INTERRUPTED: Final = 128 + signal.SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program's name; None: ``sys.argv[1:]``.

    Returns:
        The exit status.
    """
    prepare()
    arguments = _parser().parse_args(argv)
    status = 2
    # Groups: it may have happened in a task.
    try:
        status = arguments.handler(arguments)
    except* BrokenPipeError:
        status = READER_GONE
    except* (ShellError, OSError, ValueError) as group:
        for error in _single(group):
            complain(str(error))
    except* KeyboardInterrupt:
        status = _INTERRUPTED
    drop_unwritten()
    return status


def _single(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _single(each)
    else:
        yield error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trioshell",
        description="Run shell commands and see exactly how each of them ended.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(subparsers)
    add_subcommands(subparsers)
    return parser


class _Version(argparse.Action):
    """Looks the version up only when it is asked for: that takes longer than a short command."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        del namespace, values, option_string
        print(f"trioshell {version('trioshell')}")
        parser.exit()


def _add_run(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    run_parser = subparsers.add_parser(
        "run",
        help="run commands side by side",
        description="Run commands side by side. Exit status: 0 if all ended with 0, 1 if not, "
        "130 after Ctrl+C (every command is killed and reported).",
    )
    add = run_parser.add_argument
    add("commands", nargs="*", metavar="COMMAND", help="shell text, one argument per command")
    add("--file", metavar="LIST", help="more commands, one a line; - reads standard input")
    add("--jobs", type=_positive, metavar="N", help="how many may run at once (default: all)")
    add("--timeout", type=_seconds, metavar="S", help="seconds until a command is ended")
    add("--grace", type=_grace, default=3.0, metavar="S", help="seconds from SIGTERM to SIGKILL")
    add(
        "--background",
        choices=get_args(Background),
        default="kill",
        help="what happens to processes that outlive their command (default: kill)",
    )
    add("--shell", metavar="X", help="path or name of the interpreter")
    add("--cwd", metavar="D", help="working directory")
    add("--env", action="append", default=[], type=_variable, metavar="K=V", help="repeatable")
    add("--directory", metavar="DIR", help="keep records and output in a durable directory")
    add("--output-limit", type=_positive, metavar="BYTES", help="output to keep per command")
    add("--pty", action="store_true", help="give each command a terminal")
    add("--tail", type=_count, metavar="N", help="lines of output to show at each end")
    style = run_parser.add_mutually_exclusive_group()
    style.add_argument("--json", action="store_true", help="one event a line, as JSON")
    style.add_argument("--prefix", action="store_true", help="all output, each line with its id")
    style.add_argument(
        "--plain", action="store_true", help="one line per event, also on a terminal"
    )
    run_parser.set_defaults(handler=run)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number of seconds, not {text!r}") from None


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, not {text}")
    return value


def _count(text: str) -> int:
    value = _whole(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be 0 or more, not {text}")
    return value


def _seconds(text: str) -> float:
    value = _number(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be more than 0 seconds, not {text}")
    return value


def _grace(text: str) -> float:
    value = _number(text)
    if not value >= 0 or math.isnan(value):
        raise argparse.ArgumentTypeError(f"must be 0 seconds or more, not {text}")
    return value


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must look like NAME=VALUE, not {text!r}")
    return name, value
