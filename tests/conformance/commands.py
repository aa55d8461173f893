"""The commands of the suite: as text for a real shell, and as a script for the fake launcher.

A test uses the text; whoever starts real processes runs it, and the fake launcher looks it up.
"""

from __future__ import annotations

from typing import Final

from trioshell.testing import FakeLauncher, Script

EXIT_0 = "exit 0"
EXIT_3 = "exit 3"
CRASH = "kill -SEGV $$"
HELLO = "echo hello"
FOREVER = "echo up; exec sleep 100"
# What is ignored stays ignored across exec.
STUBBORN = "trap '' TERM; echo up; exec sleep 100"
POLITE = "trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done"
STOPS_ITSELF = "echo up; kill -STOP $$; exit 1"
SHORTLY = "sleep 0.05; exit 5"
CAT = "cat"
NO_INPUT = "cat; echo end"
READS_NOTHING = "exec sleep 0.05"
BINARY = r"printf '\000\001\377\200a\nb'"
SLOW_BYTES = r"printf '\303'; sleep 0.05; printf '\251'; sleep 0.05; printf '!'"
LARGE = "head -c 300000 /dev/zero | tr '\\0' x"
BOTH_STREAMS = "echo 1; echo 2 >&2; echo 3; echo 4 >&2"
LEAVES_ONE = "sleep 100 & echo up; exit 3"
LEAVES_STUBBORN = "(trap '' TERM; exec sleep 100) & sleep 0.05; echo up; exit 0"
LEAVES_SHORT = "(sleep 0.05; echo late) & echo early"
LEAVES_LATE = "(sleep 5; echo late) & echo early"
LEAVES_ESCAPEE = "setsid sleep 100 & sleep 0.05; echo up"
TREE = "sleep 100 & sleep 100 & echo up; wait"
TERMINAL_SIZE = "stty size; read line; stty size"
TERMINAL = "test -t 0 && test -t 1 && test -t 2 && echo terminal"
READS_LINE = 'read line; echo "<$line>"'

_NO_PROGRAM: Final = "/nonexistent/program"
NO_PROGRAM: Final = (_NO_PROGRAM, "argument")

_TABLE: Final = {
    EXIT_0: Script.exits(0),
    EXIT_3: Script.exits(3),
    CRASH: Script.dies("SEGV"),
    HELLO: Script.exits().prints(b"hello\n"),
    FOREVER: Script.forever().prints(b"up\n"),
    STUBBORN: Script.forever().prints(b"up\n").ignores("TERM"),
    POLITE: Script.forever().prints(b"up\n").exits_on("TERM", 7, after=0.02),
    STOPS_ITSELF: Script.forever().prints(b"up\n"),
    SHORTLY: Script.exits(5, after=0.05),
    CAT: Script.echoes(),
    READS_NOTHING: Script.exits(after=0.05),
    BINARY: Script.exits().prints(b"\x00\x01\xff\x80a\nb"),
    SLOW_BYTES: Script.exits().prints(b"\xc3", b"\xa9", b"!", every=0.05),
    LARGE: Script.exits().prints(*[b"x" * 50_000] * 6),
    BOTH_STREAMS: Script.exits().prints(b"1\n", b"2\n", b"3\n", b"4\n"),
    LEAVES_ONE: Script.exits(3).prints(b"up\n").leaves(Script.forever()),
    LEAVES_STUBBORN: Script.exits(after=0.05)
    .prints(b"up\n", after=0.05)
    .leaves(Script.forever().ignores("TERM")),
    LEAVES_SHORT: Script.exits()
    .prints(b"early\n")
    .leaves(Script.exits().prints(b"late\n", after=0.05)),
    LEAVES_LATE: Script.exits()
    .prints(b"early\n")
    .leaves(Script.exits().prints(b"late\n", after=5.0)),
    LEAVES_ESCAPEE: Script.exits().prints(b"up\n", after=0.05).leaves(Script.forever().escapes()),
    TREE: Script.forever().prints(b"up\n").leaves(Script.forever(), Script.forever()),
}


def fake_launcher() -> FakeLauncher:
    """A fake launcher that knows the commands above, and no others."""
    launcher = FakeLauncher(Script.fails_to_start(LookupError("the suite has no script for it")))
    launcher.on(NO_PROGRAM, Script.fails_to_start())
    for command, script in _TABLE.items():
        launcher.on(command, script)
    return launcher
