"""From what the caller gave to what is started: checked and resolved, before anything exists."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import attrs

from . import _checks
from ._durable.record_format import metadata_copy
from ._environment import HostEnvironment
from ._exceptions import spawn_error
from ._interpreter import Interpreter
from ._records import Argument, Command, Pty
from .launchers import Background, Guarantees, OnOutputLimit

# MAX_ARG_STRLEN: Linux takes no argument and no variable of this many bytes, its final NUL
# included, whatever the limit on all of them together. Others take more; it costs little.
MAX_ARGUMENT: Final = 131_072

BACKGROUNDS: Final[tuple[Background, ...]] = get_args(Background)
_ON_OUTPUT_LIMIT: Final[tuple[OnOutputLimit, ...]] = get_args(OnOutputLimit)

Stdin = bytes | int | None


@attrs.frozen(kw_only=True)
class Request:
    """What one call of `create` asks for."""

    command: Command
    shell: str | None
    argv: tuple[bytes, ...]
    executable: bytes
    cwd: str | None
    env: Mapping[bytes, bytes]
    timeout: float
    grace: float
    background: Background
    output_limit: int | None
    on_output_limit: OnOutputLimit
    stdin: bytes | bool | None
    pty: Pty | None
    metadata: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Requests:
    """What a scope was opened with, and so how its requests are checked and resolved.

    Attributes:
        interpreter: Runs a command given as text.
        guarantees: What the launcher cannot do is refused.
        real: Look whether directory and program exist; a fake launcher has neither.
        durable: The metadata have to come back from a file.
        grace: For a request that does not say.
        background: The same.
        output_limit: The same.
    """

    interpreter: Interpreter
    guarantees: Guarantees
    real: bool
    durable: bool
    grace: float
    background: Background
    output_limit: int | None
    _host: HostEnvironment = attrs.field(factory=HostEnvironment)

    def new(
        self,
        command: str | Sequence[Argument],
        *,
        cwd: str | os.PathLike[str] | None,
        env: Mapping[str, str | None] | None,
        timeout: float | None,
        grace: float | None,
        background: Background | None,
        output_limit: int | None,
        on_output_limit: OnOutputLimit,
        stdin: Stdin,
        pty: Pty | None,
        metadata: Mapping[str, Any] | None,
    ) -> Request:
        """Check everything, resolve everything.

        Raises:
            TypeError, ValueError: An argument makes no sense; the message says which and why.
            SpawnError: It cannot be started as things are on this machine.
        """
        checked = _checks.command(command)
        if background is not None:
            _checks.choice("background", background, BACKGROUNDS)
        limit = self._limit(output_limit, on_output_limit)
        _check_stdin(stdin, pty, self.guarantees)
        text = isinstance(checked, str)
        directory = _directory(cwd, real=self.real)
        argv = _argv(checked, self.interpreter)
        environment = _checks.environment(self._host.now(), env)
        if self.real:
            _check_sizes(argv, environment)
        return Request(
            command=checked,
            shell=self.interpreter.path if text else None,
            argv=argv,
            executable=self._executable(argv[0], directory, environment, text=text),
            cwd=directory,
            env=environment,
            timeout=_checks.timeout(timeout),
            grace=self.grace if grace is None else _checks.grace(grace),
            background=background or self.background,
            output_limit=limit,
            on_output_limit=on_output_limit,
            stdin=_stdin(stdin),
            pty=pty,
            metadata=_metadata(metadata, durable=self.durable),
        )

    def _limit(self, limit: int | None, action: OnOutputLimit) -> int | None:
        _checks.choice("on_output_limit", action, _ON_OUTPUT_LIMIT)
        if limit is None:
            limit = self.output_limit
        else:
            check_output_limit(limit, self.guarantees)
        if limit is None and action == "kill":
            raise ValueError("on_output_limit='kill' needs an output_limit, here or of the scope")
        return limit

    def _executable(
        self, name: bytes, cwd: str | None, environment: Mapping[bytes, bytes], *, text: bool
    ) -> bytes:
        # The interpreter's path is absolute, and was looked at when the scope was opened.
        if text or not self.real:
            return name
        return _program(name, cwd, environment)


def check_output_limit(limit: int, guarantees: Guarantees) -> None:
    """A limit that the launcher in use would not honour is refused."""
    _checks.count("output_limit", limit, least=1)
    if not guarantees.output_limit:
        raise ValueError(f"output_limit is not possible with the {guarantees.launcher} launcher")


def _check_stdin(stdin: Stdin, pty: Pty | None, guarantees: Guarantees) -> None:
    if stdin is not None and not isinstance(stdin, bytes) and stdin != subprocess.PIPE:
        raise TypeError(f"stdin must be None, bytes or subprocess.PIPE, not {stdin!r}")
    if pty is None:
        return
    if not isinstance(pty, Pty):
        raise TypeError(f"pty must be None or a trioshell.Pty, not {pty!r}")
    if isinstance(stdin, bytes):
        raise ValueError(  # noqa: TRY004 - each alone is right
            "stdin=bytes and pty= exclude each other: send the bytes to shell.stdin"
        )
    if not guarantees.pty:
        raise ValueError(f"pty is not possible with the {guarantees.launcher} launcher")


def _stdin(stdin: Stdin) -> bytes | bool | None:
    return stdin if stdin is None or isinstance(stdin, bytes) else True


def _metadata(metadata: Mapping[str, Any] | None, *, durable: bool) -> Mapping[str, Any]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping, not {metadata!r}")
    return metadata_copy(dict(metadata or {})) if durable else metadata or {}


def _argv(command: Command, interpreter: Interpreter) -> tuple[bytes, ...]:
    words = interpreter.argv(command) if isinstance(command, str) else command
    return tuple([_checks.kernel_bytes("command", word) for word in words])


def _directory(cwd: str | os.PathLike[str] | None, *, real: bool) -> str | None:
    if cwd is None:
        try:
            return os.getcwd()
        except FileNotFoundError:  # the host stands in a deleted directory: it is inherited
            return None
    path = _checks.path("cwd", cwd)
    number = _no_directory(path) if real else None
    if number is not None:
        raise spawn_error(number, f"cwd is not a directory that exists: {path!r}", path)
    if real and not _checks.may_execute(path):
        raise spawn_error(errno.EACCES, f"cwd cannot be entered: {path!r}", path)
    return _checks.absolute("cwd", path)


def _no_directory(path: str) -> int | None:
    """Why it cannot be the directory of a command, as an errno."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return error.errno
    return None if stat.S_ISDIR(mode) else errno.ENOTDIR


def _check_sizes(argv: Sequence[bytes], environ: Mapping[bytes, bytes]) -> None:
    for word in argv:
        _check_size(len(word) + 1, "the command (or one argument of it)", "send it by stdin")
    if sum(map(len, environ)) + sum(map(len, environ.values())) < MAX_ARGUMENT // 2:
        return  # one look at all of them, at each create, is cheaper than one at each
    for name, value in environ.items():
        variable = f"the environment variable {os.fsdecode(name)!r}"
        _check_size(len(name) + len(value) + 2, variable, "pass it in a file")


def _check_size(size: int, what: str, instead: str) -> None:
    if size > MAX_ARGUMENT:
        hint = f"{what} takes {size} bytes, the limit is {MAX_ARGUMENT}: {instead}"
        raise spawn_error(errno.E2BIG, hint)


def _program(name: bytes, directory: str | None, environ: Mapping[bytes, bytes]) -> bytes:
    """Find the program as the child would: PATH of its environment, relative to its directory."""
    found = None
    paths = _candidates(name, directory, environ)
    for path in paths:
        if os.path.isfile(path):
            found = path
            if _checks.may_execute(path):
                return path
    shown = os.fsdecode(name)
    if found is not None or os.path.isdir(paths[0]):
        what = f"the program {shown!r} is not an executable file"
        raise spawn_error(errno.EACCES, what, os.fsdecode(found or name))
    if b"/" in name:
        number = _no_directory(os.fsdecode(paths[0])) or errno.ENOENT
        raise spawn_error(number, f"the program {shown!r} was not found", shown)
    raise spawn_error(errno.ENOENT, f"the program {shown!r} was not found on PATH", shown)


def _candidates(
    name: bytes, directory: str | None, environ: Mapping[bytes, bytes]
) -> Sequence[bytes]:
    if name.startswith(b"/"):
        return (name,)
    here = os.fsencode(directory or "")
    if b"/" in name:
        return (os.path.join(here, name),)
    folders = environ.get(b"PATH", os.defpath.encode()).split(b":")
    return [os.path.join(here, folder, name) for folder in folders]
