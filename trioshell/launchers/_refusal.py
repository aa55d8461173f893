"""Why a command could not be started, in words that name the culprit (C14)."""

from __future__ import annotations

import errno
import os
import resource

from .._exceptions import SpawnError, spawn_error
from ._seam import Spec


def refusal(error: OSError, spec: Spec) -> SpawnError:
    """Explain a failed start.

    Args:
        error: From opening pipes, from fork, or from exec. As in `subprocess`, its ``filename``
            is the working directory if that could not be entered.
        spec: What was to be started.
    """
    number = error.errno or 0
    if spec.cwd is not None and error.filename in (spec.cwd, os.fsencode(spec.cwd)):
        return spawn_error(number, f"the working directory {spec.cwd!r} cannot be used", spec.cwd)
    program = os.fsdecode(spec.executable)
    return spawn_error(number, _sentence(number, program, spec), program)


def shortage(number: int) -> str | None:
    """What to do when there is no more of something now; None: that is not the trouble."""
    match number:
        case errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"no descriptor is left of {limit}: close some, or raise RLIMIT_NOFILE"
        case errno.ENFILE:
            return "the whole system has no descriptor left: close some, in any program"
        case errno.EAGAIN:
            limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
            return f"no process can be added: run fewer, or raise RLIMIT_NPROC ({limit})"
        case errno.ENOMEM:
            return "no memory is left: run fewer commands, or smaller ones"
        case _:
            return None


def _sentence(number: int, program: str, spec: Spec) -> str:
    if (short := shortage(number)) is not None:
        return short
    match number:
        case errno.E2BIG:
            return _too_big(spec)
        case errno.ENOEXEC:
            return f"{program!r} is no program: a script needs a first line such as #!/bin/sh"
        case errno.ENOENT if os.path.exists(os.path.join(spec.cwd or "", program)):
            return f"{program!r} is there, but the interpreter it names (#!) is not"
        case _:
            return f"{program!r} cannot be started"


def _too_big(spec: Spec) -> str:
    strings = [*spec.argv, *(b"%b=%b" % item for item in spec.whole_env.items())]
    # Each string also takes its final zero and a pointer.
    total = sum(len(string) + 1 + 8 for string in strings)
    longest = max(map(len, strings)) + 1
    return (
        f"the arguments and the environment take {total} bytes, the longest string {longest}; "
        f"the system takes {os.sysconf('SC_ARG_MAX')} in all, and Linux 131072 for one string: "
        "pass the data by stdin or in a file"
    )
