"""The fake launcher: what happens when, and what is known of it afterwards.

That it behaves as the real launchers do is for tests/conformance.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from trioshell import Pty, ShellInfo, SpawnError, Status, open_shells
from trioshell.testing import FakeLauncher, FakeProcess, Hang, Script, Sent, quiet, run


async def end_of(script: Script, **options: Any) -> tuple[FakeProcess, ShellInfo]:
    """Run one process to the end of its shell."""
    launcher = FakeLauncher().on("it", script)
    async with open_shells(launcher=launcher, grace=1.0) as shells:
        info = await (await shells.create("it", **options)).wait()
    return launcher.processes[0], info


def sent(process: FakeProcess) -> list[tuple[str, float, str]]:
    return [(s.signal, s.at, s.by) for s in process.signals]


async def test_fake_follows_its_script_in_time(autojump_clock: MockClock) -> None:
    script = Script.exits(3, after=2).prints(b"a", b"b", after=0.5, every=1).spawn_takes(1)
    process, info = await end_of(script)
    assert (process.started_at, process.ended_at) == (1, 1 + 0.5 + 1 + 2)
    assert (process.returncode, process.ended_by, bytes(process.emitted)) == (3, None, b"ab")
    assert (process.signals, process.living, info.size) == ([], [], 2)


async def test_fake_dies_of_an_outside_signal(autojump_clock: MockClock) -> None:
    process, info = await end_of(Script.dies("SEGV", after=1))
    assert (process.ended_by, process.signals, process.returncode) == ("SEGV", [], -11)
    assert info.status is Status.EXITED


async def test_fake_is_ended_by_sigterm_at_once(autojump_clock: MockClock) -> None:
    process, _ = await end_of(Script.forever(), timeout=2)
    assert (process.ended_by, process.ended_at, process.returncode) == ("TERM", 2, -15)
    assert process.signals == [Sent("TERM", 2, "kill")]


async def test_stubborn_fake_is_killed_after_the_grace(
    autojump_clock: MockClock,
) -> None:
    process, _ = await end_of(Script.forever().ignores("TERM"), timeout=2)
    assert (process.ended_by, process.ended_at, process.returncode) == ("KILL", 3, -9)
    assert sent(process) == [("TERM", 2, "kill"), ("CONT", 2, "kill"), ("KILL", 3, "kill")]


async def test_fake_exits_on_a_signal_in_its_own_time(autojump_clock: MockClock) -> None:
    process, info = await end_of(Script.forever().exits_on("TERM", 7, after=0.5), timeout=2)
    assert (process.ended_by, process.ended_at, process.returncode) == ("TERM", 2.5, 7)
    assert info.status is Status.TIMEOUT


async def test_fake_without_grace_is_killed_outright(autojump_clock: MockClock) -> None:
    process, _ = await end_of(Script.forever(), timeout=2, grace=0)
    assert sent(process) == [("KILL", 2, "kill")]


async def test_unkillable_fake_is_given_up_after_a_second(
    autojump_clock: MockClock,
) -> None:
    process, info = await end_of(Script.forever().ignores("TERM").unkillable(), timeout=2)
    assert [leftover.pid for leftover in info.leftovers] == [process.pid]
    assert (info.status, info.returncode, info.cut) == (Status.TIMEOUT, None, True)
    assert process.alive


async def test_fake_that_is_unkillable_for_a_while_is_waited_for(autojump_clock: MockClock) -> None:
    process, info = await end_of(Script.forever().unkillable(0.5), timeout=2, grace=0)
    assert (process.ended_at, info.leftovers, info.returncode) == (2.5, (), -9)


async def test_leftovers_get_a_moment_and_then_signals(autojump_clock: MockClock) -> None:
    """What is about to end by itself is not signalled; the leader's code stands (C3, C4)."""
    quick, stubborn = Script.exits(after=1.02), Script.forever().ignores("TERM")
    process, info = await end_of(Script.exits(3, after=1).leaves(quick, stubborn))
    first, second = process.members[1:]
    assert (first.signals, first.ended_at) == ([], 1.02)
    assert [(s.signal, s.by) for s in second.signals] == [
        ("TERM", "background"),
        ("CONT", "background"),
        ("KILL", "background"),
    ]
    assert second.ended_at == pytest.approx(1 + 0.05 + 1)
    assert (info.status, info.returncode) == (Status.EXITED, 3)


async def test_kept_fakes_end_when_they_are_asked_to(autojump_clock: MockClock) -> None:
    """And not only when they are given up."""
    launcher = FakeLauncher().on("it", Script.exits().holds_output_open())
    async with open_shells(launcher=launcher, grace=1.0) as shells:
        shell = await shells.create("it", background="keep")
        assert (await shell.wait()).cut
        await quiet()
        (kept,) = launcher.alive()
        began = trio.current_time()
        await shell.kill()
        assert trio.current_time() == began
        assert (kept.ended_by, launcher.alive()) == ("TERM", [])


async def test_what_kept_fakes_write_is_nobodys(autojump_clock: MockClock) -> None:
    script = Script.exits().prints(b"early").leaves(Script.exits().prints(b"late", after=1))
    launcher = FakeLauncher().on("it", script)
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it", background="keep")
        await quiet()
        assert (await shell.output()).data == b"early"
    process = launcher.processes[0]
    assert (bytes(process.emitted), bytes(process.owed)) == (b"earlylate", b"early")


async def test_output_may_arrive_later_than_it_is_written(autojump_clock: MockClock) -> None:
    process, info = await end_of(Script.exits().prints(b"x").eof_after_exit(2))
    assert process.ended_at == 0
    assert (info.size, info.ended) == (1, info.started + 2)


async def test_full_disk_is_told_and_the_command_goes_on(autojump_clock: MockClock) -> None:
    script = Script.exits(3).prints(b"abc", b"def", every=1).disk_full_after(4)
    process, info = await end_of(script)
    assert (process.returncode, info.returncode, info.size) == (3, 3, 4)
    assert info.output_error is not None
    assert "disk is full" in info.output_error


async def test_lost_helper_takes_the_tree_and_the_code(autojump_clock: MockClock) -> None:
    """Exactly one exited, and no code is invented (C11)."""
    process, info = await end_of(Script.forever().holds_output_open().helper_dies(1))
    assert (info.status, info.returncode) == (Status.EXITED, None)
    assert info.reason is not None
    assert "helper" in info.reason
    assert [member.ended_by for member in process.members] == ["KILL", "KILL"]


async def test_signals_reach_the_leaders_group_only(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher()
    launcher.on("it", Script.forever().leaves(Script.forever(), Script.forever().escapes()))
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it")
        shell.send_signal(signal.SIGWINCH)
        shell.send_signal(signal.SIGSTOP)
        await quiet()
        process = launcher.processes[0]
        assert len(process.living) == 3
        shell.send_signal(signal.SIGUSR1)
        await shell.wait()
        assert [(s.signal, s.by) for s in process.signals] == [
            ("WINCH", "send_signal"),
            ("STOP", "send_signal"),
            ("USR1", "send_signal"),
        ]
        escaped = process.members[2]
        assert [s.by for s in escaped.signals] == ["background"]


async def test_fake_is_driven_by_hand(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher()
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("server --port 1")
        process = await launcher.next()
        assert process.argv[-2:] == ("-c", "server --port 1")
        process.prints(b"listening")
        assert (await shell.output()).data == b"listening"
        process.exits(3)
        assert (await shell.wait()).returncode == 3
        with pytest.raises(RuntimeError, match="has ended"):
            process.prints(b"x")
        with pytest.raises(RuntimeError, match="has ended"):
            process.exits()
        with pytest.raises(RuntimeError, match="has ended"):
            process.dies("TERM")


async def test_next_gives_each_process_once(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher()
    given: list[str] = []

    async def take() -> None:
        given.append((await launcher.next()).command)

    async with open_shells(launcher=launcher) as shells, trio.open_nursery() as nursery:
        nursery.start_soon(take)
        nursery.start_soon(take)
        with trio.move_on_after(1):
            await trio.sleep_forever()
        await shells.create("one")
        await shells.create("two")
    assert sorted(given) == ["one", "two"]


async def test_newest_word_about_a_command_counts(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.exits(1))
    launcher.on(re.compile("^git "), Script.exits(2)).on("git status", Script.exits(3))
    launcher.on(("git", "status"), Script.exits(4))
    async with open_shells(launcher=launcher) as shells:
        codes = [
            (await (await shells.create(command)).wait()).returncode
            for command in ("ls", "git log", "git status", ("git", "status"))
        ]
    assert codes == [1, 2, 3, 4]


async def test_start_that_fails_leaves_no_process(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.fails_to_start().spawn_takes(1))
    async with open_shells(launcher=launcher) as shells:
        with pytest.raises(SpawnError, match="'it' cannot be started"):
            await shells.create("it")
        assert trio.current_time() == 1
    assert launcher.processes == []


async def test_start_that_is_given_up_leaves_no_process(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.forever().spawn_takes(2))
    async with open_shells(launcher=launcher) as shells:
        with trio.move_on_after(1):
            await shells.create("it")
        assert trio.current_time() == 1
    assert launcher.processes == []


async def test_shielded_start_that_is_given_up_is_undone(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.forever().ignores("TERM").spawn_takes(2, shielded=True))
    async with open_shells(launcher=launcher) as shells:
        with trio.move_on_after(1):
            await shells.create("it")
        assert shells.statistics().created == 0
    assert [p.ended_by for p in launcher.processes] == ["KILL"]


async def test_terminal_remembers_its_sizes(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher()
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it", pty=Pty(30, 90))
        shell.resize(40, 100)
    assert launcher.processes[0].sizes == [Pty(30, 90), Pty(40, 100)]


async def test_input_is_known(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.echoes(3))
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it", stdin=subprocess.PIPE)
        assert shell.stdin is not None
        await shell.stdin.send_all(b"a" * 200_000)
        await shell.stdin.aclose()
        assert (await shell.wait()).returncode == 3
    process = launcher.processes[0]
    assert process.received == process.owed == b"a" * 200_000


async def test_two_writers_are_told_apart(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher()
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it", stdin=subprocess.PIPE)
        stdin = shell.stdin
        assert stdin is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stdin.send_all, b"x" * 100_000)
            await quiet()
            with pytest.raises(trio.BusyResourceError):
                await stdin.send_all(b"y")
            nursery.cancel_scope.cancel()


async def test_output_limit_drops_the_middle(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.exits().prints(b"0123456789"))
    async with open_shells(launcher=launcher) as shells:
        shell = await shells.create("it", output_limit=4)
        await shell.wait()
        head = await shell.output()
        tail = await shell.output(head.cursor)
    assert (head.data, head.gap) == (b"01", 0)
    assert (tail.data, tail.gap, tail.size) == (b"89", 6, 10)


async def test_pids_are_nobodys(autojump_clock: MockClock) -> None:
    """A test that signals a fake process by mistake must reach no real one."""
    process, _ = await end_of(Script.exits())
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


async def test_launcher_serves_one_scope_at_a_time(autojump_clock: MockClock) -> None:
    launcher = FakeLauncher(Script.exits())
    async with open_shells(launcher=launcher):
        with pytest.raises(RuntimeError, match="one scope at a time"):
            async with open_shells(launcher=launcher):
                pass
    async with open_shells(launcher=launcher) as shells:
        await (await shells.create("it")).wait()
    assert len(launcher.processes) == 1


def test_command_that_nobody_ends_is_a_hang_with_its_name() -> None:
    async def main() -> None:
        async with open_shells(launcher=FakeLauncher()) as shells:
            await (await shells.create("make tea")).wait()

    with pytest.raises(Hang, match="process 10000001 make tea"):
        run(main)


def test_what_is_no_script_is_refused_where_it_is_given() -> None:
    """C14: not in the scope that comes to it."""
    with pytest.raises(TypeError, match=r"such as Script\.exits\(3\), not 0"):
        FakeLauncher().on("make", 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a Script"):
        FakeLauncher(b"output")  # type: ignore[arg-type]
