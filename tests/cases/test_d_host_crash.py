"""Kind (d): a host that dies without a word, what it leaves, and who is no part of that."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.durable.support import (
    Host,
    Said,
    bystander,
    check_lives,
    edit,
    files,
    join,
    no_host_survives,
    record_of,
    reopened,
    said,
)
from trioshell import DirectoryInUseError, Status, open_shells

from .support import GRACE, Case, is_alive, needs, read_all, rounds, until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="what runs cannot be identified after a crash"
)


@pytest.fixture(autouse=True)
def hosts_end(no_leaks: None) -> Iterator[None]:
    with no_host_survives():
        yield


@pytest.fixture
def state(case: Case) -> Path:
    """The state directory of a case."""
    return case.path / "state"


def start_host(case: Case, program: str) -> Host:
    launcher = case.guarantees.launcher
    return Host.start(program, case.path / "state", launcher=launcher, tag=case.tag)


FIVE = """
async def main():
    async with scope(grace=1) as shells:
        for _ in range(5):
            await shells.create("sleep 600 & exec sleep 600", env=env)
        ready([info.id for info in shells.list()])
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
async def test_the_shells_of_a_dead_host_end(case: Case, state: Path, damaged: bool) -> None:
    """Case 23: the host is killed outright, and its shells run on for months.

    The next scope reports the five as killed, and never invents a code. With the supervised
    launcher they are gone before that.

    https://github.com/stevehuang0115/crewly/pull/716
    """
    host = start_host(case, FIVE)
    await until(lambda: len(case.left()) == 10)
    host.crash()
    if case.guarantees.host_crash:
        await until(lambda: case.left() == [], seconds=5)
    launcher = case.guarantees.launcher
    if damaged:
        damage(state)
        with pytest.warns(RuntimeWarning, match="is ignored"):
            await takes_over(case, host, launcher, state)
    else:
        await takes_over(case, host, launcher, state)
    async with reopened(state, launcher=launcher) as (_, events):
        assert events == []


def damage(state: Path) -> None:
    """What a crash of the machine, or a person, may make of the state directory."""
    records = state / "records"
    whole = next(iter(records.glob("*.running.json"))).read_bytes()
    for number, content in enumerate([b"", whole[: len(whole) // 2], b"\0\xff garbage", b"[]"]):
        (records / f"sh_{number:028x}.running.json").write_bytes(content)
    (records / "notes.txt").write_text("not ours")
    (state / "owner.json").write_bytes(b"{")


async def takes_over(case: Case, host: Host, launcher: str, state: Path) -> None:
    with trio.fail_after(GRACE + 10):
        async with reopened(state, launcher=launcher) as (shells, events):
            assert case.left() == []
            assert [shell.id for shell in shells] == host.answer
            for shell in shells:
                assert shell.status is Status.KILLED
                # A supervisor has recorded the true end; nobody could for the direct launcher.
                known = case.guarantees.host_crash
                assert shell.info.returncode == (-signal.SIGKILL if known else None)
                assert shell.info.reason is not None
    check_lives(host.said(), said(events))


MANY = """
async def main():
    async with scope() as shells:
        made = [await shells.create("exec sleep 60", env=env) for _ in range({count})]
        ready([[shell.id, shell.pid] for shell in made])
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_number_is_no_identity(case: Case, state: Path) -> None:
    """Case 24: clean-up kills a stranger that was given the old process id.

    Each record of the dead host gets another number that is not its own.

    https://github.com/wazuh/wazuh/pull/38733
    """
    with bystander() as stranger:
        numbers = [stranger, os.getpid(), os.getppid(), 1, 0, -1, -stranger, -os.getpid()]
        host = start_host(case, MANY.format(count=len(numbers)))
        host.crash()
        for _, pid in host.answer:
            if not case.guarantees.host_crash:
                os.kill(pid, signal.SIGKILL)  # nobody reaped it: it is the one that was started
        await until(lambda: case.left() == [])
        for (id, _), number in zip(host.answer, numbers, strict=True):
            notes = state / "records" / f"{id}.notes"
            if case.guarantees.host_crash:
                await until(lambda notes=notes: "status" in notes.read_text())  # type: ignore[misc]
                notes.unlink()
            edit(record_of(state, id), partial(_becomes, number))
        launcher = case.guarantees.launcher
        async with reopened(state, launcher=launcher) as (shells, events):
            assert {shell.status for shell in shells} == {Status.KILLED}
            assert {shell.info.returncode for shell in shells} == {None}
            assert {shell.info.leftovers for shell in shells} == {()}
        check_lives(host.said(), said(events))
        assert list((state / "records").glob("*.running.json")) == []
        assert is_alive(stranger)


def _becomes(number: int, raw: dict[str, Any]) -> None:
    raw["info"]["pid"] = raw["process"]["pid"] = raw["process"]["session"] = number


ALIVE = """
async def main():
    async with scope() as shells:
        shell = await shells.create(
            "trap 'touch signalled' TERM HUP INT CONT; "
            "while ! [ -e go ]; do sleep 0.02; done; exit 5",
            env=env, cwd=os.path.dirname(directory),
        )
        ready()
        info = await shell.wait()
        await shells.create("exec sleep 600", env=env)
        with open(directory + ".code", "w") as file:
            file.write(str(info.returncode))
        await trio.sleep_forever()

trio.run(main)
"""

VISITOR = """
async def main():
    try:
        async with scope():
            ready("in")
            await trio.sleep_forever()
    except trioshell.DirectoryInUseError:
        ready("refused")

trio.run(main)
"""


@pytest.mark.parametrize("variant", ["opens", "is killed", "owner stopped"])
async def test_a_live_host_keeps_its_directory(case: Case, state: Path, variant: str) -> None:
    """Case 25: two live hosts on one state directory, and one cleans up the other.

    The second one is refused at once, with an error that says who has the directory.

    https://github.com/yzhao062/anywhere-agents/issues/29
    """
    launcher = case.guarantees.launcher
    owner = start_host(case, ALIVE)
    if variant == "owner stopped":
        os.kill(owner.pid, signal.SIGSTOP)
    if variant == "is killed":
        visitor = start_host_without_log(case)
        visitor.crash()
    else:
        with pytest.raises(DirectoryInUseError, match=f"in use by process {owner.pid}"):
            async with reopened(state, launcher=launcher):
                pytest.fail("two scopes have it")
    if variant == "owner stopped":
        os.kill(owner.pid, signal.SIGCONT)
    (case.path / "go").touch()
    code = Path(f"{state}.code")
    await until(lambda: code.exists() and code.read_text())
    assert code.read_text() == "5"
    assert not (case.path / "signalled").exists()
    await until(lambda: len(case.left()) == 1)
    owner.crash()
    async with reopened(state, launcher=launcher) as (shells, _):
        assert case.left() == []
        assert [shell.status for shell in shells] == [Status.EXITED, Status.KILLED]


def start_host_without_log(case: Case) -> Host:
    """A second host on the directory, which leaves the log of the first one alone."""
    log = case.path / "state.log"
    before = log.read_text()
    visitor = start_host(case, VISITOR)
    assert visitor.answer == "refused"
    log.write_text(before)
    return visitor


CHURN = """
async def main():
    async with scope(grace=0.1) as shells:
        ready()
        while True:
            await (await shells.create("sleep 600 & echo $$; sleep 600", env=env)).remove()
            await (await shells.create("exit 0", env=env)).wait()

trio.run(main)
"""


@rounds(2, 200)
async def test_a_crash_at_any_moment_blocks_no_later_start(
    case: Case, state: Path, rounds: int
) -> None:
    """Case 26: a crash inside the lock blocks every later start.

    https://github.com/fujibee/agmsg/issues/68
    """
    draw = random.Random()
    launcher = case.guarantees.launcher
    counts: list[int] = []
    heard: list[Said] = []
    for _ in range(rounds):
        host = start_host(case, CHURN)
        time.sleep(draw.uniform(0, 0.03))  # the moment of the crash
        host.crash()
        heard = join(heard, host.said())
        with trio.fail_after(GRACE + 10):
            async with reopened(state, launcher=launcher, retain=3) as (shells, events):
                assert case.left() == []
                shell = await shells.create("exit 0")
                assert (await shell.wait()).returncode == 0
        heard = join(heard, said(events))
        counts.append(len(files(state)))
    check_lives(heard, [])
    # The lock, the owner, and a record and an output for each of the three that are retained.
    assert max(counts) <= 2 + 2 * 3


async def test_a_lock_outlives_its_owner_for_a_moment(case: Case, state: Path) -> None:
    """Case 26: what the host was just starting, between fork and exec, has a copy of the lock.

    https://github.com/fujibee/agmsg/issues/68
    """
    program = """
from trioshell import _lock

async def main():
    async with scope():
        (lock,) = _lock._held
        copier = subprocess.Popen(["sleep", "0.3"], pass_fds=[lock._fd])
        ready(copier.pid)
        await trio.sleep_forever()

trio.run(main)
"""
    host = start_host(case, program)
    host.process.kill()
    host.process.wait()
    async with reopened(state, launcher=case.guarantees.launcher) as (shells, _):
        assert len(shells) == 0
        assert not is_alive(host.answer)
    host.close()


# Neighbours: nobody has reported these yet.

# Ways to leave that no `finally` notices. The process goes on in the first one.
LEAVING = {
    "exec": "os.execv('/bin/sleep', ['sleep', '600'])",
    "_exit": "os._exit(3)",
    "abort": "os.abort()",
}


@needs("host_crash")
@pytest.mark.parametrize("how", LEAVING)
async def test_neighbour_a_host_may_become_another_program(
    case: Case, state: Path, how: str
) -> None:
    """A host that reloads itself with exec keeps its number: its pidfd never tells an end."""
    program = f"""
async def main():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    async with scope(grace=1) as shells:
        await shells.create("setsid sleep 600 & exec sleep 600", env=env)
        while True:
            if os.path.exists(directory + ".go"):
                {LEAVING[how]}
            if shells.list():
                ready() if not os.path.exists(directory + ".ready") else None
                open(directory + ".ready", "w").close()
            await trio.sleep(0.01)

trio.run(main)
"""
    host = start_host(case, program)
    await until(lambda: len(case.left()) == 2)
    Path(f"{state}.go").touch()
    await until(lambda: case.left() == [], seconds=5)
    if how == "exec":
        assert host.process.poll() is None
    else:
        await until(lambda: host.process.poll() is not None)
    host.crash()


async def test_neighbour_a_reloaded_host_takes_its_directory_over(case: Case, state: Path) -> None:
    """The owner of the records is the very process that opens the directory again."""
    program = """
async def main():
    if not os.path.exists(directory + ".again"):
        async with scope(grace=1) as shells:
            await shells.create("sleep 600 & exec sleep 600", env=env)
            open(directory + ".again", "w").close()
            os.execv(sys.executable, sys.orig_argv)
    async with scope(grace=1) as shells:
        ready([str(shell.status) for shell in shells])
        await trio.sleep_forever()

trio.run(main)
"""
    host = start_host(case, program)
    assert host.answer == ["killed"]
    assert case.left() == []
    host.crash()
    async with reopened(state, launcher=case.guarantees.launcher) as (shells, events):
        assert len(shells) == 1
        assert events == []


@needs("host_crash")
async def test_neighbour_a_forked_worker_does_not_keep_the_trees_alive(
    case: Case, state: Path
) -> None:
    """A worker forked by the host has a copy of each socket, so none of them tells of an end."""
    program = """
async def main():
    import time
    async with scope(grace=1) as shells:
        await shells.create("setsid sleep 600 & exec sleep 600", env=env)
        worker = os.fork()
        if worker == 0:
            time.sleep(600)
        ready(worker)
        await trio.sleep_forever()

trio.run(main)
"""
    host = start_host(case, program)
    try:
        await until(lambda: len(case.left()) == 2)
        host.process.kill()
        await until(lambda: case.left() == [], seconds=5)
        assert is_alive(host.answer)
    finally:
        os.kill(host.answer, signal.SIGKILL)
    host.close()


@needs("host_crash")
async def test_neighbour_no_disguise_survives_the_host(case: Case, state: Path) -> None:
    """Session, parents and environment are not those of the shell, and yet it ends."""
    program = """
async def main():
    async with scope(grace=1) as shells:
        shell = await shells.create(
            "(setsid env -i sh -c 'exec sleep 600' </dev/null >/dev/null 2>&1 & echo $!) & wait; "
            "exec sleep 600", env=env)
        with trio.fail_after(10):
            while not (page := await shell.output()).data.endswith(b"\\n"):
                await trio.sleep(0.01)
        ready(int(page.data))
        await trio.sleep_forever()

trio.run(main)
"""
    host = start_host(case, program)
    assert is_alive(host.answer)
    host.process.kill()
    await until(lambda: not is_alive(host.answer) and case.left() == [], seconds=5)
    host.close()


async def test_neighbour_a_directory_may_move_between_two_scopes(case: Case) -> None:
    """To another mount point, say: what is in it is found by where it is now (C11)."""
    first, second = case.path / "a b\n\udcff", case.path / "moved"
    async with case.open(directory=first):
        await case.run("echo one; exit 3", metadata={"job": 1})
    first.rename(second)
    case.events.clear()
    async with open_shells(directory=second, launcher=case.launcher()) as shells:
        (shell,) = shells
        assert (shell.info.returncode, shell.info.metadata) == (3, {"job": 1})
        assert await read_all(shell) == b"one\n"
        await shell.remove()
    assert sorted(path.name for path in second.rglob("*")) == ["output", "owner.json", "records"]
