"""A host that crashes: what the next scope on its directory finds, ends and says (C11)."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import pytest
import trio

from tests.cases.support import LAUNCHERS, left, read_all, rounds
from trioshell import Status

from .support import (
    Host,
    Said,
    bystander,
    check_lives,
    files,
    join,
    reopened,
    said,
    until_none_left,
    wait_until,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="what runs cannot be identified"),
]

every_launcher = pytest.mark.parametrize("launcher", LAUNCHERS)

FIVE = """
async def main():
    async with scope() as shells:
        ended = await shells.create("echo done; exit 4", metadata={"number": 0})
        await ended.wait()
        for number in range(1, 6):
            await shells.create(
                "echo started; sleep 600 & exec sleep 600", env=env, metadata={"number": number}
            )
        ready(os.getpid())
        await trio.sleep_forever()

trio.run(main)
"""

ONE = """
async def main():
    async with scope(**{options}) as shells:
        shell = await shells.create({command!r}, env=env)
        ready(shell.info.as_dict())
        await trio.sleep_forever()

trio.run(main)
"""


def one(command: str, **options: object) -> str:
    """A host that starts one command."""
    return ONE.format(command=command, options=options)


@every_launcher
@pytest.mark.parametrize("total", [True, False], ids=["total", "host"])
async def test_crash_everything_is_ended_and_told_once(
    launcher: str, total: bool, directory: Path, tag: str
) -> None:
    host = Host.start(FIVE, directory, launcher=launcher, tag=tag)
    wait_until(lambda: len(left(tag)) == 10)
    with bystander():
        host.crash_totally() if total else host.crash()
        async with reopened(directory, launcher=launcher) as (shells, events):
            await until_none_left(tag, 0)
            infos = {shell.info.metadata["number"]: shell.info for shell in shells}
            outputs = {number: await read_all(shells[infos[number].id]) for number in infos}
            async with shells.subscribe(since=0) as subscription:
                assert [await subscription.receive() for _ in events] == events
    assert set(check_lives(host.said(), said(events))) == {info.id for info in infos.values()}
    assert sorted(infos) == list(range(6))
    assert outputs == {0: b"done\n"} | dict.fromkeys(range(1, 6), b"started\n")
    assert (infos[0].status, infos[0].returncode) == (Status.EXITED, 4)
    for number in range(1, 6):
        assert infos[number].status is Status.KILLED
        assert "its host crashed" in (infos[number].reason or "")
        assert infos[number].leftovers == ()
        if total:
            assert infos[number].returncode is None  # never invented
    async with reopened(directory, launcher=launcher) as (shells, events):
        assert events == []
        assert {shell.info.metadata["number"]: shell.info for shell in shells} == infos


@every_launcher
@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("setsid sleep 600 & exec sleep 600", 2),
        ("(setsid sh -c 'sleep 600 & exec sleep 600' &); exec sleep 600", 3),
        ("nohup sleep 600 & trap '' TERM HUP; sleep 600; exit", 3),
        ("sleep 600 & exec env -i CASE=$CASE sleep 600", 2),
        ("env -i CASE=$CASE setsid sleep 600 & exec sleep 600", 2),
        ("env -i CASE=$CASE sleep 600 & exec env -i CASE=$CASE sleep 600", 2),
        ("(sleep 600 & exec sleep 600) & kill -STOP $$", 3),
    ],
)
async def test_crash_whole_tree_is_found(
    command: str, count: int, launcher: str, directory: Path, tag: str
) -> None:
    """By its leader, also without the mark; by the mark, also outside of the session."""
    host = Host.start(one(command), directory, launcher=launcher, tag=tag)
    wait_until(lambda: len(left(tag)) == count)
    host.crash_totally()
    assert left(tag)
    async with reopened(directory, launcher=launcher) as (_, events):
        await until_none_left(tag, 0)
    check_lives(host.said(), said(events))


async def test_crash_after_the_end_keeps_the_true_code(directory: Path, tag: str) -> None:
    """The supervisor records the end, so it is known although the host never heard of it."""
    program = one("echo out; while [ -d . ] && [ ! -e $CASE ]; do sleep 0.01; done; exit 7")
    host = Host.start(program, directory, tag=str(directory.parent / "go"))
    os.kill(host.pid, signal.SIGSTOP)
    (directory.parent / "go").touch()
    (notes,) = (directory / "records").glob("*.notes")
    wait_until(lambda: "status" in notes.read_text())
    host.crash_totally()
    async with reopened(directory) as (shells, events):
        (shell,) = shells
        info = await shell.wait()
        assert (info.status, info.returncode, info.output_error) == (Status.EXITED, 7, None)
        assert info.ended is not None
        assert info.ended >= info.started
        assert await read_all(shell) == b"out\n"
    check_lives(host.said(), said(events))
    assert not notes.exists()


STUCK = """
class Stuck(type(make_launcher(launcher))):
    async def launch(self, spec):
        process = await super().launch(spec)
        ready()
        await trio.sleep_forever()

def make_launcher(name):
    return Stuck()

async def main():
    async with scope() as shells:
        await shells.create("sleep 600 & {command}", env=env)

trio.run(main)
"""


@pytest.mark.parametrize(
    ("launcher", "command"),
    [
        ("direct", "exec sleep 600"),
        ("supervised", "exec sleep 600"),
        ("supervised", "exec env -i CASE=$CASE sleep 600"),  # known by the supervisor's note
    ],
)
async def test_crash_while_a_shell_starts_leaves_nothing_of_it(
    launcher: str, command: str, directory: Path, tag: str
) -> None:
    """Its process runs and nothing was said of it: it is ended without a word (C2)."""
    host = Host.start(STUCK.format(command=command), directory, launcher=launcher, tag=tag)
    wait_until(lambda: len(left(tag)) == 2)
    host.crash_totally()
    async with reopened(directory) as (shells, events):
        await until_none_left(tag, 0)
        assert len(shells) == 0
    assert host.said() == said(events) == []
    assert files(directory) == ["owner.json"]


KEEPER = """
async def main():
    async with scope(retain={retain}) as shells:
        shell = await shells.create("sleep 600 & exit 3", env=env, background="keep")
        await shell.wait()
        ready()
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.parametrize("retain", [5, 0], ids=["retained", "evicted"])
@every_launcher
async def test_crash_ends_what_was_kept(
    retain: int, launcher: str, directory: Path, tag: str
) -> None:
    """The shell's end was said long ago, and its record may be gone; its job is not (C11)."""
    program = KEEPER.format(retain=retain)
    host = Host.start(program, directory, launcher=launcher, tag=tag)
    wait_until(lambda: len(left(tag)) == 1)
    host.crash_totally()
    wait_until(lambda: len(left(tag)) == 1)
    async with reopened(directory, launcher=launcher) as (shells, events):
        await until_none_left(tag, 0)
        assert events == []
        assert [shell.info.returncode for shell in shells] == [3] * (retain > 0)
    check_lives(host.said(), [])
    assert len(files(directory)) == (3 if retain else 1)


async def test_keep_record_ends_with_the_job(directory: Path) -> None:
    """What was kept and has ended by itself is not looked for again."""
    async with reopened(directory) as (shells, _):
        shell = await shells.create("sleep 0.1 & exit 0", background="keep")
        await shell.wait()
        assert list((directory / "records").glob("*.kept.json"))
        await shell._entry.gone.wait()
        assert [path.name for path in (directory / "records").iterdir()] == [
            f"{shell.id}.ended.json"
        ]


DYING = """
def observe(event):
    dying = event.type == "shell.{event}"
    if dying and {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    os.write(_log, f"{{event.type}} {{event.id}}\\n".encode())
    if dying:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with scope(observers=[observe]) as shells:
        for _ in range(3):
            shell = await shells.create("sleep 600", env=env)
            await shell.kill()
        ready()
        await shell.remove()

trio.run(main)
"""


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("event", ["created", "exited", "deleted"])
async def test_crash_between_record_and_event(
    event: str, before: bool, directory: Path, tag: str
) -> None:
    """What was recorded and not said is said by the next scope; at most one is said twice (C1)."""
    program = DYING.format(event=event, before=before)
    if event != "deleted":
        program = program.replace("for _", "ready()\n        for _")
    host = Host.start(program, directory, tag=tag)
    host.close()
    assert host.process.returncode == -signal.SIGKILL
    async with reopened(directory) as (_, events):
        await until_none_left(tag, 0)
    lives = check_lives(host.said(), said(events))
    assert len(lives) == (3 if event == "deleted" else 1)
    async with reopened(directory) as (_, events):
        assert events == []


AGAIN = """
def observe(event):
    os.write(_log, f"{event.type} {event.id}\\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    ready()
    async with scope(observers=[observe]):
        pass

trio.run(main)
"""


async def test_crash_while_taking_over_is_taken_over(directory: Path, tag: str) -> None:
    """A scope that crashes while it says what the one before left: over all lives, once each."""
    first = Host.start(FIVE, directory, tag=tag)
    heard = first.said()
    first.crash_totally()
    for _ in range(4):
        host = Host.start(AGAIN, directory, tag=tag)
        host.close()
        heard = join(heard, host.said())
    async with reopened(directory) as (_, events):
        await until_none_left(tag, 0)
    assert len(check_lives(heard, said(events))) == 6


CHURN = """
COMMANDS = [
    "exit 0", "echo $$; exit 5", "sleep 600", "sleep 600 & exit 1", "sleep 0.02; exit 9",
    "trap '' TERM; sleep 600 & sleep 600",
]
# The direct launcher cannot end what leaves its session, crash or no crash. And what wipes its
# environment before its host came to record who it is, is nobody's.
if launcher == "supervised":
    COMMANDS += [
        "exec env -i CASE=$CASE sleep 600",
        "setsid sleep 600 & sleep 600", "(setsid sh -c 'sleep 600 & sleep 600' &); sleep 0.01",
    ]

async def live(shells):
    while True:
        shell = await shells.create(
            draw.choice(COMMANDS), env=env, background=draw.choice(["kill", "kill", "keep"])
        )
        with trio.move_on_after(draw.uniform(0, 0.05)):
            await shell.wait()
        with contextlib.suppress(trioshell.ShellNotFoundError):
            await draw.choice([shell.wait, shell.kill, shell.remove, trio.lowlevel.checkpoint])()

async def main():
    async with scope(retain=3, grace=0.02) as shells, trio.open_nursery() as nursery:
        ready()
        for _ in range(4):
            nursery.start_soon(live, shells)

trio.run(main)
"""


@rounds(ci=4, full=100)
@every_launcher
async def test_crash_at_any_moment(launcher: str, rounds: int, directory: Path, tag: str) -> None:
    """Host and helpers at one stroke, again and again on one directory."""
    draw = random.Random()
    seed = draw.randrange(10**6)
    print("seed", seed)  # to see it when this fails
    draw.seed(seed)
    heard: list[Said] = []
    stranger = directory / "output" / "sh_of_somebody_else.out"
    with bystander():
        for number in range(rounds):
            host = Host.start(CHURN, directory, launcher=launcher, tag=tag, seed=seed + number)
            await trio.sleep(draw.uniform(0, 0.3))
            host.crash_totally()
            heard = join(heard, host.said())
            async with reopened(directory, launcher=launcher, retain=3) as (shells, events):
                await until_none_left(tag, 0)
                assert all(not shell.info.running for shell in shells)
                assert len(shells) <= 3
                info = await (await shells.create("exit 0")).wait()
                assert info.returncode == 0
                assert info.id > max((id for _, id in heard), default="")
            heard = join(heard, said(events))
            # One record and one output for each that is retained, and nothing that grows.
            assert len(files(directory)) <= 1 + 2 * 3 + stranger.exists()
            stranger.touch()
    check_lives(heard, [])
    assert stranger.exists()
