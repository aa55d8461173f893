"""A command starts in a clean context (C15)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import trio

from tests.direct import rig
from tests.direct.rig import SpecOf, Start, run
from tests.supervised.rig import parent
from trioshell.launchers._supervised import SupervisedLauncher

LOOK = """
import fcntl, json, os, signal
fds = {}
for name in os.listdir('/proc/self/fd'):
    try:
        flags = fcntl.fcntl(int(name), fcntl.F_GETFL)
        fds[int(name)] = [os.readlink(f'/proc/self/fd/{name}'), flags]
    except OSError:
        pass
try:
    os.open('/dev/tty', os.O_RDWR)
    terminal = True
except OSError:
    terminal = False
status = dict(line.split(':', 1) for line in open('/proc/self/status'))
print(json.dumps({
    'fds': fds, 'terminal': terminal, 'sid': os.getsid(0), 'pgid': os.getpgid(0),
    'cwd': os.getcwd(), 'umask': status['Umask'].strip(), 'env': dict(os.environ),
}))
"""


async def look(start: Start, **options: object) -> dict[str, object]:
    process = await start((sys.executable, "-I", "-S", "-c", LOOK), **options)
    ending = await process.wait()
    output = process.capture.read(0, 1 << 20)
    assert ending.returncode == 0, output
    seen: dict[str, object] = json.loads(output)
    return seen | {"pid": process.pid}


async def test_context_is_clean(start: Start, tmp_path: Path) -> None:
    # Not close-on-exec, and without use: what a careless program has.
    leaked = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(leaked, True)
    ours = {
        number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGUSR1)
    }
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGRTMIN})
    try:
        _, signals = await run(start, ("/bin/grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"))
        seen = await look(start)
        again = await look(start)  # a reused supervisor gives the same
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in ours.items():
            signal.signal(number, handler)
        os.close(leaked)
    assert signals.split() == [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16]
    for each in (seen, again):
        fds = each["fds"]
        assert isinstance(fds, dict)
        assert sorted(fds) == ["0", "1", "2"]
        assert fds["0"][0] == os.devnull
        assert fds["1"][0] == fds["2"][0]
        assert fds["1"][0].startswith("pipe:")
        assert not any(flags & os.O_NONBLOCK for _, flags in fds.values())
        assert each["sid"] == each["pgid"] == each["pid"]
        assert each["terminal"] is False
        assert each["cwd"] == str(tmp_path)


async def test_environment_is_exactly_the_specs(start: Start) -> None:
    """C15: whatever the host's own is, and with the mark of this shell instead of another's."""
    for env in ({b"ONLY": b"\xff\xfe"}, {b"TRIOSHELL_ID": b"other", b"ONLY": b"\xff\xfe"}):
        process = await start(("/usr/bin/env", "-0"), env=env)
        await process.wait()
        assert sorted(process.capture.read(0, 4096).split(b"\0")) == [
            b"",
            b"ONLY=\xff\xfe",
            b"TRIOSHELL_ID=" + spec_id(process).encode(),
        ]


async def test_environment_is_never_another_commands(start: Start) -> None:
    """It is sent only when it changes, also to a supervisor that could not start the last one."""
    small, large = {b"A": b"1"}, {b"A": b"2", b"B": b"3"}
    many = {b"N%d" % number: b"x" * 100 for number in range(1000)}
    for env in (small, small, dict(small), large, small, many, many, large):
        assert await variables(start, env) == env
        with pytest.raises(FileNotFoundError):
            await start(("/nowhere/program",), env=small)
        assert await variables(start, small) == small
        assert await variables(start, env) == env


async def variables(start: Start, env: dict[bytes, bytes]) -> dict[bytes, bytes]:
    _, output = await run(start, ("/usr/bin/env", "-0"), env=env)
    strings = output.split(b"\0")[:-1]
    found = {name: value for name, _, value in (string.partition(b"=") for string in strings)}
    del found[b"TRIOSHELL_ID"]
    return found


def spec_id(process: object) -> str:
    return str(process._spec.id)  # type: ignore[attr-defined]


@pytest.mark.parametrize("length", [0, 7, 8, 63, 64, 65, 1000])
async def test_any_number_of_arguments_arrives(start: Start, length: int) -> None:
    arguments = [str(number) for number in range(length)]
    ending, output = await run(
        start, ("/bin/sh", "-c", 'printf "%s\\n" "$#" "$@"', "sh", *arguments)
    )
    assert output.split() == [str(length).encode(), *(word.encode() for word in arguments)]
    assert ending.returncode == 0


async def test_largest_arguments_arrive(start: Start) -> None:
    """A megabyte, in several messages' worth of socket buffer."""
    words = [str(number) * 20_000 for number in range(1, 10)] * 5
    ending, output = await run(start, ("/bin/sh", "-c", 'printf %s "$@"', "sh", *words))
    assert (ending.returncode, output) == (0, "".join(words).encode())


async def test_command_that_opens_its_output_by_name_loses_nothing(start: Start) -> None:
    command = "echo one; echo two >&2; echo three > /dev/stderr; echo four > /dev/stdout; echo five"
    _, output = await run(start, command)
    assert output == b"one\ntwo\nthree\nfour\nfive\n"


async def test_deleted_directory_of_the_host_is_inherited(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    process = await start("cd -P . ; echo still; [ -e here ] || echo nothing", cwd=None)
    ending = await process.wait()
    assert ending.returncode == 0
    assert b"nothing" in process.capture.read(0, 4096)


async def test_helpers_hold_nothing_of_the_host(start: Start, tmp_path: Path) -> None:
    """No descriptor, directory, session or terminal of it; and they can be told by their names."""
    busy = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(busy, True)
    process = await start("read x", stdin=True)
    supervisor = parent(process.pid)
    for helper, name in ((supervisor, "trioshell-super"), (parent(supervisor), "trioshell-forks")):
        assert str(tmp_path) not in links(helper)
        assert os.readlink(f"/proc/{helper}/cwd") == "/"
        assert os.getsid(helper) != os.getsid(0)
        assert rig.name(helper) == name
    os.close(busy)
    assert process.stdin is not None
    await process.stdin.aclose()
    await process.wait()


def links(pid: int) -> list[str]:
    """What a process has open; it may just be closing one."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


async def test_host_that_ignores_its_children_changes_nothing(start: Start) -> None:
    """Case: SIGCHLD ignored, so that the kernel reaps the host's children itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        ending, _ = await run(start, "sh -c 'exit 7'; exit $?")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert ending.returncode == 7


async def test_host_that_waits_for_any_child_changes_nothing(start: Start) -> None:
    stop = threading.Event()

    def steal() -> None:
        while not stop.is_set():
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                stop.wait(0.001)

    thread = threading.Thread(target=steal)
    thread.start()
    try:
        for code in range(5):
            assert (await run(start, f"exit {code}"))[0].returncode == code
    finally:
        stop.set()
        thread.join()


def test_scopes_in_several_threads_do_not_meet(spec: SpecOf) -> None:
    """Each thread has its own trio and its own helpers."""
    codes: list[int | None] = []
    specs = [spec(f"exit {code}") for code in range(12)]

    async def use(own: list[object]) -> None:
        async with SupervisedLauncher() as one, SupervisedLauncher() as other:
            for each in own:
                for launcher in (one, other):
                    process = await launcher.launch(each)  # type: ignore[arg-type]
                    codes.append((await process.wait()).returncode)
                    process.capture.remove()

    threads = [threading.Thread(target=trio.run, args=(use, specs[n::3])) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(filter(None, codes)) == sorted([*range(1, 12), *range(1, 12)])
