"""Kind (j): many tasks, many shells, and ends from several sides at once."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from trioshell import (
    Created,
    Deleted,
    Exited,
    Shell,
    ShellInfo,
    ShellNotFoundError,
    ShellRemovedError,
    Shells,
    Status,
    open_shells,
)

from .hosts import run_host
from .support import GRACE, Case, is_alive, rounds, until

# Only against hangs.
LONG = 30.0


@rounds(40, 300)
async def test_a_start_that_is_cancelled_leaves_a_listed_shell_or_none(
    case: Case, rounds: int
) -> None:
    """Case 69: cancelled while starting, the process is on nobody's list (C2).

    https://github.com/omnigent-ai/omnigent/pull/1982
    """
    given: list[str] = []
    async with case.open() as shells:
        for i in range(rounds):
            # From before the start to well after it, on a machine of any speed.
            with trio.move_on_after(i * 0.02 / rounds):
                given.append((await case.start(["sleep", "300"])).id)
        listed = {info.id: info.pid for info in shells.list()}
        await until(lambda: sorted(case.left()) == sorted(listed.values()))
        assert {event.id for event in case.events if isinstance(event, Created)} == set(listed)
        assert set(given) <= set(listed)
        for shell in shells:
            assert shell.status is Status.RUNNING


@rounds(12, 100)
async def test_many_tasks_may_end_one_shell(case: Case, rounds: int) -> None:
    """Case 70: many tasks remove one job, and there is a KeyError and a stuck monitor (C7).

    https://github.com/jackmusick/bifrost/issues/317
    """
    async with case.open(grace=0.2) as shells:
        for i in range(rounds):
            shell = await _start_for_burst(case, i)
            with trio.fail_after(LONG):
                async with trio.open_nursery() as nursery:
                    for _ in range(17):
                        nursery.start_soon(_do, shell.remove)
                        nursery.start_soon(_do, shell.kill)
                        nursery.start_soon(_do, shell.wait)
            assert case.of(shell) == [Created, Exited, Deleted]
            published = len(case.events)
            with pytest.raises(ShellRemovedError):
                await shell.remove()
            assert len(case.events) == published
        for id in (shell.id, "sh_unknown"):
            with pytest.raises(ShellNotFoundError):
                shells[id]


async def _start_for_burst(case: Case, i: int) -> Shell:
    if i % 2:
        return await case.start("sleep 300; :", timeout=0.05)
    return await case.start("sleep 0.05")


async def _do(what: Callable[[], Awaitable[ShellInfo | None]]) -> None:
    """The final info, nothing, or the documented error with the final info."""
    try:
        info = await what()
    except ShellRemovedError as error:
        info = error.info
    assert info is None or not info.running


@rounds(60, 1000)
async def test_sleeping_shells_cost_nothing(case: Case, rounds: int) -> None:
    """Case 71: the cost of collecting children grows with the number alive.

    https://github.com/twisted/twisted/issues/2967
    """
    go = case.path / "go"
    os.mkfifo(go)
    gate = os.open(go, os.O_RDWR)
    try:
        async with case.open(shell="/bin/sh", retain=0):
            command = 'echo up; read line <"$T/go"; exit {}'
            shells = [await case.start(command.format(i % 256)) for i in range(rounds)]
            await until(lambda: all(shell.info.size for shell in shells), 600)
            assert threading.active_count() < 60
            own, helpers = await _cpu_of(_helpers(case), seconds=1)
            assert own < 0.05
            assert helpers < 0.2  # counted in ticks of 10 ms, and there is one for each shell
            os.write(gate, b"\n" * rounds)
            codes = [(await shell.wait()).returncode for shell in shells]
    finally:
        os.close(gate)
    assert codes == [i % 256 for i in range(rounds)]


@pytest.mark.deep
async def test_the_cost_of_an_end_does_not_grow(case: Case) -> None:
    """Case 71: an end costs this process as much CPU with 1,000 alive as with 100."""
    few = [await _cost_of_an_end(case, 100) for _ in range(3)]
    many = [await _cost_of_an_end(case, 1000) for _ in range(2)]
    assert min(many) < 3 * max(few)  # other programs make what is measured larger, never smaller


async def _cost_of_an_end(case: Case, count: int) -> float:
    async with case.open(retain=0):
        shells = [await case.start(["sleep", "300"]) for _ in range(count)]
        before = time.process_time()
        for shell in shells:
            os.kill(shell.pid, 9)  # ours, and not reaped before its end is said
        for shell in shells:
            await shell.wait()
        return (time.process_time() - before) / count


async def test_an_interrupt_from_the_terminal_is_the_hosts_alone(case: Case) -> None:
    """Case 72: Ctrl+C reaches the children before the host can decide (C15).

    https://github.com/aaif-goose/goose/pull/7083
    """
    program = """
    os.setpgid(0, 0)
    noted = []
    signal.signal(signal.SIGINT, lambda *_: noted.append(1))

    async def main():
        async with case.open():
            shell = await case.start("echo up; sleep 0.5; exit 5")
            await until_output(shell, b"up")
            os.killpg(0, signal.SIGINT)
            info = await shell.wait()
        answer([len(noted), str(info.status), info.returncode])

    trio.run(main)
    """
    assert await run_host(case, program) == [1, "exited", 5]


async def test_an_interrupt_that_nobody_handles_ends_everything(case: Case) -> None:
    """Case 72, with the default handler: KeyboardInterrupt leaves, and nothing is left (C9)."""
    program = """
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def main():
        async with case.open():
            shell = await case.start("echo up; sleep 300; :")
            await until_output(shell, b"up")
            os.killpg(0, signal.SIGINT)
            await trio.sleep_forever()

    try:
        trio.run(main)
    except KeyboardInterrupt:
        kinds = [event.type for event in case.events]
        answer([kinds[:2], str(case.events[1].info.status), case.left()])
    """
    told = await run_host(case, program)
    assert told == [["shell.created", "shell.exited"], "killed", []]
    assert case.left() == []


async def test_retention_takes_no_result_from_a_waiter(case: Case) -> None:
    """Case 73: retention throws a result away before anyone took it (C8).

    https://github.com/openai/codex-plugin-cc/issues/395
    """
    codes: dict[int, int | None] = {}

    async def wait(i: int, shell: Shell) -> None:
        codes[i] = (await shell.wait()).returncode

    async with case.open(retain=3) as shells:
        running = await case.start("sleep 300; exit 9")
        async with trio.open_nursery() as nursery:
            handles = []
            for i in range(10):
                handles.append(await case.start(f"exit {i}"))
                nursery.start_soon(wait, i, handles[-1])
        assert codes == {i: i for i in range(10)}
        assert len(shells) == 4
        assert running.id in shells
        dropped = [handle for handle in handles if handle.id not in shells]
        assert len(dropped) == 7
        for handle in dropped:
            assert case.of(handle) == [Created, Exited, Deleted]
            await _assert_dropped(shells, handle)
        assert (await running.kill()).status is Status.KILLED


async def _assert_dropped(shells: Shells, handle: Shell) -> None:
    with pytest.raises(ShellNotFoundError, match="no shell") as unknown:
        shells[handle.id]
    assert not isinstance(unknown.value, ShellRemovedError)
    # Who has the handle still has the end, and is told what became of the output.
    assert await handle.wait() == handle.info
    with pytest.raises(ShellRemovedError) as removed:
        await handle.output()
    assert removed.value.info == handle.info
    assert handle.info.file is not None
    assert not await trio.Path(handle.info.file).exists()


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_leaving_the_scope_ends_what_the_shells_started(case: Case, how: str) -> None:
    """Case 74: cancelling the caller leaves what the shell started (C9, C10).

    https://github.com/python-trio/trio/issues/3237
    """
    error = LookupError("mine")
    with trio.CancelScope() as scope:
        try:
            async with open_shells(
                launcher=case.launcher(), grace=GRACE, observers=[case.events.append]
            ) as shells:
                env = {"CASE": case.tag}
                for command in ("sleep 300; echo x", "(sleep 300; :) | cat"):
                    await shells.create(command, env=env)
                await until(lambda: len(case.left()) >= 5)
                begin = trio.current_time()
                if how == "raised":
                    raise error
                scope.cancel()
                await trio.sleep_forever()
        except LookupError as raised:
            assert raised is error  # noqa: PT017 - and nothing else, if it was raised
            assert how == "raised"
    assert scope.cancelled_caught == (how == "cancelled")
    assert case.left() == []
    assert trio.current_time() - begin < LONG
    ended = [event.info.status for event in case.events if isinstance(event, Exited)]
    assert ended == [Status.KILLED, Status.KILLED]


# Neighbours that nobody has reported.


def test_a_host_that_runs_trio_in_another_thread(case: Case) -> None:
    """Nothing depends on signals, which only the main thread may handle."""
    told: list[tuple[Status, int | None]] = []

    async def main() -> None:
        async with case.open():
            for command in ("exit 3", "sleep 300 & exit 4"):
                info, _ = await case.run(command)
                told.append((info.status, info.returncode))
            info = await (await case.start("sleep 300; :", timeout=0.1)).wait()
            told.append((info.status, info.returncode))

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    thread.join(LONG)
    assert told == [(Status.EXITED, 3), (Status.EXITED, 4), (Status.TIMEOUT, -15)]


async def test_two_scopes_do_not_touch_each_other(case: Case) -> None:
    """One that ends, in the middle of the other, ends its own shells only."""
    async with case.open():
        long = await case.start("sleep 300; :")
        async with open_shells(launcher=case.launcher()) as others:
            theirs = await others.create("sleep 300; :", env={"CASE": case.tag})
            mine = await case.start("sleep 300; :")
        assert theirs.status is Status.KILLED
        assert not is_alive(theirs.pid)
        assert (mine.status, long.status) == (Status.RUNNING, Status.RUNNING)
        assert is_alive(mine.pid)
        assert is_alive(long.pid)
        assert (await mine.kill()).status is Status.KILLED


async def test_the_first_commands_may_come_all_at_once(case: Case) -> None:
    """Whatever a launcher starts for itself at the first command, it starts once."""
    codes: list[int | None] = []

    async def run(i: int) -> None:
        codes.append((await case.run(f"exit {i}"))[0].returncode)

    async with case.open(), trio.open_nursery() as nursery:
        for i in range(20):
            nursery.start_soon(run, i)
    assert sorted(code for code in codes if code is not None) == list(range(20))


async def test_starts_at_the_end_of_the_scope_are_refused_or_ended(case: Case) -> None:
    """Tasks that outlive the scope's body and go on creating get an error, and leave nothing."""
    refused = 0

    async def create_on() -> None:
        nonlocal refused
        while True:
            try:
                await case.start(["sleep", "300"])
            except trio.ClosedResourceError:
                refused += 1
                return

    with trio.fail_after(LONG):
        async with trio.open_nursery() as nursery, case.open():
            for _ in range(4):
                nursery.start_soon(create_on)
            await until(lambda: len(case.events) >= 8)
    assert refused == 4


async def test_waiters_that_give_up_take_nothing_from_the_others(case: Case) -> None:
    """Of 50 tasks that wait, half are cancelled at different moments around the end."""
    got: list[ShellInfo] = []

    async def wait(shell: Shell, limit: float) -> None:
        with trio.move_on_after(limit):
            got.append(await shell.wait())

    async with case.open():
        shell = await case.start("sleep 0.2; exit 3")
        async with trio.open_nursery() as nursery:
            for i in range(25):
                nursery.start_soon(wait, shell, 0.15 + i * 0.004)
                nursery.start_soon(wait, shell, LONG)
    assert len(got) >= 25
    assert {id(info) for info in got} == {id(got[0])}


def _helpers(case: Case) -> list[int]:
    """Our descendants without the case's tag."""
    tagged = set(case.left())
    parents = {int(name): _stat(name)[0] for name in os.listdir("/proc") if name.isdigit()}
    return [pid for pid in parents if pid not in tagged and _descends(pid, os.getpid(), parents)]


async def _cpu_of(helpers: list[int], *, seconds: float) -> tuple[float, float]:
    """CPU seconds that this process, and its helpers, use in the seconds to come."""
    ticks, own = _ticks(helpers), time.process_time()
    await trio.sleep(seconds)
    own = time.process_time() - own
    return own, (_ticks(helpers) - ticks) / os.sysconf("SC_CLK_TCK")


def _ticks(pids: list[int]) -> int:
    return sum(_stat(str(pid))[1] for pid in pids)


def _stat(pid: str) -> tuple[int, int]:
    """Parent, and clock ticks used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[1]), int(fields[11]) + int(fields[12])


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == ancestor:
            return True
    return False


COMMANDS = (
    "true",
    "exit 3",
    "sleep 0.05",
    "sleep 300 & sleep 0.1",
    "trap '' TERM; sleep 300",
    "seq 10000",
    "cat; kill -STOP $$",
)


async def test_any_mixture_of_everything_keeps_the_contract(case: Case) -> None:
    """Many tasks, each with a command, a policy, a limit and an end of its own (C1 to C10).

    What is to hold of the events and of what is left is checked at the end of each case.
    """
    chance = random.Random(7)

    async def one() -> None:
        try:
            with trio.move_on_after(chance.choice([0.01, 0.05, 1])):
                shell = await case.start(
                    chance.choice(COMMANDS),
                    timeout=chance.choice([None, 0.05, 0.2, 1]),
                    background=chance.choice(["kill", "wait", "keep"]),
                    stdin=chance.choice([None, b"x" * 100_000, subprocess.PIPE]),
                )
                await trio.sleep(chance.random() * 0.1)
                ends: list[Callable[[], Awaitable[object]]]
                ends = [shell.kill, shell.remove, shell.wait, shell.result]
                await chance.choice(ends)()
                shell.set_timeout(chance.choice([0.01, None, 1]))
        except ShellNotFoundError:
            pass  # another way to say that it is removed

    async with case.open(grace=0.1, retain=3, limiter=trio.CapacityLimiter(8)) as shells:
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(one)
        counts = shells.statistics()
        assert counts.retained <= 3
        assert counts.created == counts.ended + counts.running
        assert counts.last_seq == len(case.events)
