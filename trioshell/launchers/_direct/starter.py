"""Run between the start of a process and its exec, in place of a ``preexec_fn``.

Called as ``python -I -S starter.py REPORT TERMINAL LC_CTYPE EXECUTABLE ARGV...``: makes the
signals what they are by default, makes the terminal on descriptor 0 the controlling one, and
becomes the command. It says on the descriptor REPORT how that went: ``+`` when it is about to,
and then an errno if it could not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys


def main() -> None:
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    try:
        _reset_signals()
        if sys.argv[2] == "terminal":
            _take_terminal()
        environment = _environment(sys.argv[3])
        os.write(report, b"+")
        os.execve(sys.argv[4], sys.argv[5:], environment)
    except OSError as error:
        os.write(report, b"%d" % (error.errno or 0))
    os._exit(127)


def _reset_signals() -> None:
    for number in signal.valid_signals():
        # KILL and STOP cannot be set. What Python itself ignores (SIGPIPE) is among the rest.
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _environment(lc_ctype: str) -> dict[bytes, bytes]:
    # In the C locale Python sets this variable at its start, and nothing but -E with a variable
    # that -E ignores could keep it from that. So it is told what was there: "-" or "=value".
    environment = dict(os.environb)
    environment.pop(b"LC_CTYPE", None)
    if lc_ctype.startswith("="):
        environment[b"LC_CTYPE"] = os.fsencode(lc_ctype[1:])
    return environment


if __name__ == "__main__":
    main()
