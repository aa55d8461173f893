"""Standard streams that are missing, full, narrow or read by nobody: a sentence, no traceback."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = shlex.join([sys.executable, "-m", "trioshell"])

NARROW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def sh(script: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script in which ``$t`` is the program."""
    return subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "t": PROGRAM, **env},
        capture_output=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("style", ["--plain", "--json", "--prefix"])
def test_reader_that_goes_away_ends_it_in_silence(style: str, tmp_path: Path) -> None:
    """As SIGPIPE would, at the next word; what runs is killed (C9)."""
    script = f"""
        {{ $t run {style} 'echo $$ >pid; seq 1 20000; sleep 60' 'sleep 0.5'
           echo $? >status; }} | head -n 1
        cat status; if kill -0 "$(cat pid)"; then echo alive; fi
    """
    done = sh(f"cd {shlex.quote(str(tmp_path))}; {script}")
    assert done.stdout.splitlines()[1:] == [b"141"]
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run 'echo one' 'sleep 60'", "list state"])
def test_full_disk_is_one_sentence(command: str, tmp_path: Path) -> None:
    done = sh(
        f"""cd {shlex.quote(str(tmp_path))}
        $t run --directory state true >&2
        $t {command} >/dev/full"""
    )
    assert done.returncode == 2
    *_, last = done.stderr.decode().splitlines()
    assert last.startswith("trioshell: ")
    assert "No space left" in last
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_missing_streams_change_nothing(closed: str, tmp_path: Path) -> None:
    """Nothing of what is said to one of them comes out of another."""
    done = sh(
        f"""cd {shlex.quote(str(tmp_path))}
        $t run --json 'cat; echo ran >ran' {closed} >got || exit 1
        $t run --file - --cwd /no/such 'echo hello' {closed} || exit 3"""
    )
    assert done.returncode == 3
    assert (tmp_path / "ran").read_text() == "ran\n"
    said = (done.stdout, done.stderr)
    assert b"Traceback" not in b"".join(said)
    assert done.stdout == b""


@pytest.mark.parametrize("env", [NARROW, {**NARROW, "PYTHONIOENCODING": "ascii"}])
def test_text_is_utf_8_where_the_locale_knows_no_other(env: dict[str, str]) -> None:
    done = sh("$t run 'echo \N{SNOWMAN}; exit 1'", **env)
    assert done.returncode == 1
    assert "    \N{SNOWMAN}\n".encode() in done.stdout
    assert "created  echo \N{SNOWMAN}; exit 1\n".encode() in done.stdout


def test_character_that_an_encoding_lacks_does_no_harm() -> None:
    done = sh("$t run --prefix 'printf \"\\342\\230\\203\\n\"'", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0
    assert b"| ?\n" in done.stdout


def test_event_is_one_line_whatever_the_command() -> None:
    """Text of the command cannot look like an event, or speak to the terminal."""
    done = sh('$t run --plain "$c"', c="cat <<E\nsh_0 exited\x1b[31m\nE\n: \x9b2J")
    lines = done.stdout.decode().splitlines()
    assert [line.split()[1] for line in lines] == ["created", "exited", "deleted"]
    assert "created  cat <<E sh_0 exited E : " in lines[0]
    assert "\x1b" not in lines[0]


@pytest.mark.parametrize("source", ["list", "- <list"])
def test_list_is_divided_at_newlines_only(source: str, tmp_path: Path) -> None:
    """A form feed or a U+2028 is text; a byte that is no UTF-8 is passed on."""
    list_ = tmp_path / "list"
    list_.write_bytes(b"echo 'a\x0cb\xe2\x80\xa8c\x85d' | od -An -tx1\r\n# remark\n\nexit 0\n")
    done = sh(f"cd {shlex.quote(str(tmp_path))}; $t run --tail 9 --file {source}")
    assert done.returncode == 0
    assert done.stdout.count(b"created") == 2
    assert b"61 0c 62 e2 80 a8 63 85 64 0a" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    """As `nohup` means it, and a shell that starts it in the background."""
    process = subprocess.Popen(
        ["sh", "-c", f"trap '' {number.name[3:]}; exec {PROGRAM} run 'sleep 1'"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(number)
    assert b"killed" not in process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("option", "says"),
    [("--jobs x", "a whole number, not 'x'"), ("--timeout 5m", "a number of seconds, not '5m'")],
)
def test_option_that_is_no_number_is_named(option: str, says: str) -> None:
    """C14."""
    done = sh(f"$t run {option} true")
    assert done.returncode == 2
    assert says in done.stderr.decode()
