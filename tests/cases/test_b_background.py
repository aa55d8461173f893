"""Kind (b): background jobs, and streams that they inherit."""

from __future__ import annotations

import pytest
import trio

from trioshell import Created, Deleted, Exited, Pty, Status

from .support import Case, is_alive, needs, read_all, rounds, until, until_output


@pytest.mark.parametrize("background", ["kill", "keep"])
async def test_a_process_substitution_does_not_hold_up_the_end(case: Case, background: str) -> None:
    """Case 11: a process substitution keeps the stream open, and the run never ends.

    https://github.com/openai/codex/issues/7846
    """
    async with case.open(background=background):
        with trio.fail_after(10):
            first, _ = await case.run(
                ["bash", "-c", 'exec > >(tee -a "$T/copy") 2>&1; echo hello; exit 4']
            )
            shell = await case.start(["bash", "-c", "exec > >(sleep 300); exit 4"])
            second = await shell.wait()
        await shell.remove()
        await until(lambda: case.left() == [])  # the tee, under "keep", ends by itself
    for info in (first, second):
        assert (info.status, info.returncode) == (Status.EXITED, 4)


async def test_what_a_substitution_writes_is_there_with_wait(case: Case) -> None:
    """Case 11: the same, for who wants all of the output: ``background="wait"``.

    https://github.com/openai/codex/issues/7846
    """
    async with case.open(background="wait"):
        info, written = await case.run(
            ["bash", "-c", 'exec > >(tee -a "$T/copy") 2>&1; echo hello; exit 4']
        )
        assert case.left() == []
    assert (info.status, info.returncode, written) == (Status.EXITED, 4, b"hello\n")
    assert (case.path / "copy").read_bytes() == b"hello\n"


async def test_a_background_job_does_not_make_a_timeout_of_an_end(case: Case) -> None:
    """Case 12: ``cmd &`` holds the pipe, and the finished command runs into the timeout.

    https://github.com/cline/cline/pull/13817
    """
    commands = {
        "sleep 300 & echo hi; exit 3": (3, b"hi\n"),
        "(sleep 300 2>&1) & exec 1>&- ; exit 0": (0, b""),
        "nohup sleep 300 & exit 0": (0, None),
    }
    async with case.open():
        begin = trio.current_time()
        shells = {
            await case.start(command, timeout=2, background=background): expected
            for command, expected in commands.items()
            for background in ("kill", "keep")
        }
        for shell, (code, output) in shells.items():
            info = await shell.wait()
            assert (info.status, info.returncode) == (Status.EXITED, code)
            assert output is None or await read_all(shell) == output
        # About time: no timeout may come later.
        await trio.sleep_until(begin + 2.2)
        for shell in shells:
            assert case.of(shell) == [Created, Exited]
            assert shell.status is Status.EXITED


@rounds(5, 50)
async def test_a_background_job_is_gone_at_the_end_of_its_leader(case: Case, rounds: int) -> None:
    """Case 13: a background job is killed as soon as the shell returns. The default says so.

    https://github.com/google-gemini/gemini-cli/issues/13225
    """
    jobs: list[int] = []
    seen: list[bool] = []

    def look(event: object) -> None:
        if isinstance(event, Exited):
            seen.extend(pid in case.left() for pid in jobs)

    async with case.open(observers=[look]):
        for _ in range(rounds):
            shell = await case.start("sleep 60 & echo $!; read go", stdin=-1)
            await until_output(shell, b"\n")
            jobs = [int(await read_all(shell))]
            assert is_alive(jobs[0])
            assert shell.stdin is not None
            await shell.stdin.aclose()
            assert (await shell.wait()).returncode == 1
            await shell.remove()
    assert seen == [False] * rounds


@rounds(5, 50)
async def test_a_kept_job_lives_until_its_shell_is_removed(case: Case, rounds: int) -> None:
    """Case 13: the other policy, ``background="keep"``.

    https://github.com/google-gemini/gemini-cli/issues/13225
    """
    async with case.open(background="keep", retain=rounds):
        shells = [await case.start("sleep 60 & echo $!") for _ in range(rounds)]
        for shell in shells:
            assert (await shell.wait()).status is Status.EXITED
        jobs = [int(await read_all(shell)) for shell in shells]
        # About time: nothing may end them a moment later.
        await trio.sleep(0.5)
        assert sorted(case.left()) == sorted(jobs)
        for shell, job in zip(shells, jobs, strict=True):
            await shell.remove()
            assert not is_alive(job)


@needs("pty")
@pytest.mark.parametrize("background", ["kill", "keep"])
async def test_a_terminal_is_hung_up_when_its_shell_ends(case: Case, background: str) -> None:
    """Case 13: with a pty the job ends with its shell, unless it ignores the hang-up.

    https://github.com/google-gemini/gemini-cli/issues/13225
    """
    async with case.open(background=background):
        shell = await case.start("sleep 60 & exit 0", pty=Pty())
        assert (await shell.wait()).status is Status.EXITED
        await until(lambda: case.left() == [])
        deaf = await case.start("trap '' HUP; sleep 60 & exit 0", pty=Pty())
        assert (await deaf.wait()).status is Status.EXITED
        await until(lambda: len(case.left()) == (background == "keep"))
        await deaf.remove()
        assert case.left() == []


@pytest.mark.parametrize(
    "job", ["sleep 300", pytest.param("yes >/dev/null", marks=pytest.mark.deep)]
)
async def test_no_job_outlives_the_records_of_its_shell(case: Case, job: str) -> None:
    """Case 14: jobs started with ``&`` outlive the tool call, the task list and the session.

    https://github.com/anthropics/claude-code/issues/93794
    """
    async with case.open(background="keep"):
        shells = [await case.start(f"{job} & {job} & exit 0") for _ in range(10)]
        for shell in shells:
            await shell.wait()
        await until(lambda: len(case.left()) == 20)
        for shell in shells[:5]:
            await shell.remove()
        assert len(case.left()) == 10
    assert case.left() == []


# Neighbours: nobody has reported these yet.


async def test_neighbour_an_eviction_leaves_what_the_shell_kept(case: Case) -> None:
    """A kept server lives until it is killed or the scope ends, not until others have ended."""
    async with case.open(background="keep", retain=1) as shells:
        first = await case.start("sleep 300 & exit 0")
        await first.wait()
        await until(lambda: len(case.left()) == 1)
        second = await case.start("exit 0")
        await second.wait()
        assert case.of(first) == [Created, Exited, Deleted]
        assert first.id not in shells
        await until(lambda: len(case.left()) == 1)
        await first.kill()  # the handle still reaches it
        assert case.left() == []


async def test_neighbour_a_kept_job_may_write_on(case: Case) -> None:
    """When nobody reads the pipe any more, a writer would block, or die of it."""
    command = """
        (while ! [ -e "$T/go" ]; do sleep 0.01; done
         head -c 3000000 /dev/zero; echo $? > "$T/code"; exec sleep 300) &
        echo said; exit 0"""
    async with case.open(background="keep"):
        shell = await case.start(command)
        info = await shell.wait()
        (case.path / "go").touch()
        await until(lambda: (case.path / "code").exists() and (case.path / "code").read_text())
        assert (case.path / "code").read_text() == "0\n"
        assert await read_all(shell) == b"said\n"
        assert shell.info == info
        assert info.size == 5


@needs("escapees")
@pytest.mark.parametrize("background", ["kill", "wait"])
async def test_neighbour_a_daemon_belongs_to_the_policy(case: Case, background: str) -> None:
    """A job that left session, parent and streams is still a job of this shell."""
    wait = 'while ! [ -e "$T/go" ]; do sleep 0.01; done; echo done > "$T/done"'
    command = f"(setsid sh -c '{wait}' </dev/null >/dev/null 2>&1 &) & wait; exit 6"
    async with case.open(background=background):
        shell = await case.start(command)
        if background == "wait":
            with trio.move_on_after(0.5):  # about time: it must not end now
                await shell.wait()
            assert shell.status is Status.RUNNING
            (case.path / "go").touch()
        info = await shell.wait()
        assert case.left() == []
    assert (info.status, info.returncode) == (Status.EXITED, 6)
    assert (case.path / "done").exists() == (background == "wait")


async def test_neighbour_a_stopped_job_can_be_ended_politely(case: Case) -> None:
    """A stopped process hears SIGTERM only when it is continued."""
    (case.path / "job").write_text(
        """trap 'echo bye > "$T/bye"; exit' TERM; kill -STOP $$; while :; do :; done"""
    )
    command = """sh job &
        while ! grep -q '^State:.T' /proc/$!/status; do sleep 0.01; done; exit 0"""
    async with case.open(grace=30):
        with trio.fail_after(20):
            info, _ = await case.run(command)
        assert case.left() == []
    assert (info.status, info.returncode) == (Status.EXITED, 0)
    assert (case.path / "bye").read_text() == "bye\n"
