"""The process zoo: misbehaving programs, one per name, for tests with real processes.

Run as ``python -I -S <this file> NAME [ARGUMENT ...]``; `zoo` gives that command. The standard
library only, so that it starts fast and anywhere. Nothing here lives longer than a minute.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

# Seconds. Whoever is not ended ends by itself: a test that fails must not leave a menagerie.
LIFE = 60.0


def hopper() -> None:
    """Fork into a new session and exit, again and again: each generation has another pid."""
    until = time.monotonic() + LIFE
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        os.setsid()


def daemon() -> None:
    """Leave a double-forked daemon, with its streams closed and its environment empty."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
    os.execve("/bin/sleep", ["sleep", str(int(LIFE))], {})


def stubborn() -> None:
    """Ignore SIGTERM, SIGINT and SIGHUP; print ``ready`` when it does."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    say(b"ready\n")
    time.sleep(LIFE)


def stopper() -> None:
    """Stop itself. Continued by somebody it exits with 6."""
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(6)


def holder(seconds: str = "60") -> None:
    """Exit at once and leave a silent child that holds the output open."""
    if os.fork() == 0:
        time.sleep(float(seconds))
    os._exit(0)


def chatty(seconds: str = "60") -> None:
    """Exit at once and leave a child that goes on writing to the output."""
    if os.fork() == 0:
        until = time.monotonic() + float(seconds)
        while time.monotonic() < until:
            say(b"chatter\n")
            time.sleep(0.01)
    os._exit(0)


def flooder(size: str = str(1 << 62)) -> None:
    r"""Write numbered records as fast as it can: ``%015d\n`` from 0 on, up to ``size`` bytes."""
    rest, number = int(size), 0
    while rest > 0:
        block = b"".join(b"%015d\n" % (number + record) for record in range(4096))[:rest]
        say(block)
        rest -= len(block)
        number += 4096


def bytewise(text: str = "≤ \N{SNOWMAN} \N{GRINNING FACE}\n") -> None:
    """Write a text one byte at a time, with a moment between."""
    for byte in text.encode():
        say(bytes([byte]))
        time.sleep(0.01)


def truncator() -> None:
    """Open its own output by name, with truncation, between two lines."""
    say(b"one\n")
    with open("/dev/stdout", "wb", buffering=0) as again:
        again.write(b"two\n")
    say(b"three\n")


def closer(seconds: str = "1") -> None:
    """Close all its streams, work on, and exit with 5."""
    for fd in range(3):
        os.close(fd)
    time.sleep(float(seconds))
    os._exit(5)


def zombies(count: str = "20") -> None:
    """Make children that end at once, and never collect them; print ``ready``."""
    for _ in range(int(count)):
        if os.fork() == 0:
            os._exit(0)
    say(b"ready\n")
    time.sleep(LIFE)


def storm(count: str = "100") -> None:
    """Fork until there are so many processes, each in a session of its own; print ``ready``."""
    for _ in range(int(count) - 1):
        if os.fork() == 0:
            os.setsid()
            time.sleep(LIFE)
            os._exit(0)
    say(b"ready\n")
    time.sleep(LIFE)


def racer(seconds: str = "0.05", code: str = "7") -> None:
    """Write ``last`` and exit with a code after a moment: to race with a kill or a limit."""
    time.sleep(float(seconds))
    say(b"last\n")
    os._exit(int(code))


def say(data: bytes) -> None:
    """Write all of it, unbuffered."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


ANIMALS: dict[str, Callable[..., None]] = {
    animal.__name__: animal
    for animal in (
        *(hopper, daemon, stubborn, stopper, holder, chatty, flooder),
        *(bytewise, truncator, closer, zombies, storm, racer),
    )
}


if __name__ == "__main__":
    ANIMALS[sys.argv[1]](*sys.argv[2:])
