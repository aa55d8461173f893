"""Starting a process with trio, in a context as clean as it gets without code after the fork.

What `trio.lowlevel.open_process` (a `subprocess.Popen` in a worker thread) does by itself: a
session of its own, only descriptors 0, 1 and 2, the directory, the environment, SIGPIPE and
SIGXFSZ by default. What it cannot: other signals that this process ignores (`nohup`, or a start
in the background of a script), a signal mask, a controlling terminal. `posix_spawn` could set
the signals, but knows no working directory, and would hand down every inheritable descriptor;
a ``preexec_fn`` runs Python after a fork in a process with threads, which may deadlock.

So when one of these is needed, a small Python program is started first, sets them and becomes
the command. That takes about 15 ms more, but most hosts ignore no signals. A frozen program has no
Python to run: there a command inherits ignored and blocked signals, and has no terminal.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from typing import Any

import trio

from .._helpers import procfs
from .._python import python
from .._seam import Spec
from .wiring import Wiring

# Seconds between the attempts while the system has no process to spare: 1.3 s in all.
_RETRIES = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64)

_RESET_BY_POPEN = {
    getattr(signal, name) for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ") if hasattr(signal, name)
}
_STARTER = os.path.join(os.path.dirname(__file__), "starter.py")


def has_starter() -> bool:
    """Whether there is a Python to prepare commands with."""
    return python() is not None and os.path.isfile(_STARTER)


async def spawn(spec: Spec, wiring: Wiring) -> trio.Process:
    """Start the command.

    It takes one of the 40 threads that trio's default limiter allows; a host that fills them
    all with work of its own makes commands wait for their start.

    Raises:
        OSError: It could not be started.

    Cancellation: a process or nothing.
    """
    if has_starter() and (wiring.terminal or _signals_are_inherited()):
        return await _spawn_prepared(spec, wiring)
    return await _open(spec, wiring, list(spec.argv), executable=_path(spec))


async def _spawn_prepared(spec: Spec, wiring: Wiring) -> trio.Process:
    report, theirs = os.pipe()
    try:
        try:
            arguments = _starter_arguments(spec, wiring, theirs)
            process = await _open(spec, wiring, arguments, pass_fds=(theirs,))
        finally:
            os.close(theirs)
        os.set_blocking(report, False)
        try:
            await _heed(report)
        except BaseException:
            await end(process)
            raise
    finally:
        os.close(report)
    return process


def _starter_arguments(spec: Spec, wiring: Wiring, report: int) -> list[bytes]:
    locale = spec.env.get(b"LC_CTYPE")
    return [
        *(os.fsencode(word) for word in (sys.executable, "-I", "-S", "-X", "utf8", _STARTER)),
        b"%d" % report,
        b"terminal" if wiring.terminal else b"pipe",
        b"-" if locale is None else b"=" + locale,
        _path(spec),
        *spec.argv,
    ]


async def _heed(report: int) -> None:
    """Wait until the starter has become the command; raise why it could not."""
    said = b""
    while True:
        await trio.lowlevel.wait_readable(report)
        more = os.read(report, 64)
        said += more
        if not more:
            break
    if said == b"+":
        return
    number = int(said.lstrip(b"+") or errno.ECHILD)
    raise OSError(number, os.strerror(number))


async def _open(spec: Spec, wiring: Wiring, arguments: list[bytes], **options: Any) -> trio.Process:
    for pause in _RETRIES:
        try:
            return await _open_once(spec, wiring, arguments, options)
        except BlockingIOError:
            await trio.sleep(pause)
    return await _open_once(spec, wiring, arguments, options)


async def _open_once(
    spec: Spec, wiring: Wiring, arguments: list[bytes], options: dict[str, Any]
) -> trio.Process:
    environment: Any = spec.whole_env  # bytes, which trio hands on, though it does not say so
    return await trio.lowlevel.open_process(
        arguments,
        stdin=wiring.child_stdin,
        stdout=wiring.child_output,
        stderr=subprocess.STDOUT,
        cwd=spec.cwd,
        env=environment,
        start_new_session=True,
        **options,
    )


async def end(process: trio.Process) -> None:
    """Undo a start: the process has not run anything of the command's."""
    process.kill()
    # It was killed, so this takes no longer than its exit; the bound is for the unforeseen.
    with trio.move_on_after(1, shield=True):
        await process.wait()


def _path(spec: Spec) -> bytes:
    # A bare name would be looked up on PATH; the spec means the file in the directory.
    return spec.executable if b"/" in spec.executable else b"./" + spec.executable


def _signals_are_inherited() -> bool:
    if signal.pthread_sigmask(signal.SIG_BLOCK, ()) or _is_a_worker_deaf():
        return True
    candidates = signal.valid_signals() - _RESET_BY_POPEN
    return any(signal.getsignal(number) is signal.SIG_IGN for number in candidates)


def _is_a_worker_deaf() -> bool:
    """Whether a thread of Python's blocks signals, as far as the system tells.

    The process is started in a worker thread. Trio keeps these for a while, and one that was made
    while signals were blocked goes on to block them.
    """
    others = set(threading.enumerate()) - {threading.current_thread()}
    numbers = (thread.native_id for thread in others)
    return any(number is not None and procfs.blocks_signals(number) for number in numbers)
