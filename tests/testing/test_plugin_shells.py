"""The fixtures for tests of what is built on shells."""

from __future__ import annotations

import pytest

from .test_plugin_schedules import Suite

TESTS = """
import subprocess
import pytest
from trioshell import open_shells
from trioshell.testing import Script

async def test_right(fake_launcher, shell_log, autojump_clock):
    fake_launcher.on("server", Script.forever().ignores("TERM").prints(b"up"))
    async with open_shells(launcher=fake_launcher, observers=[shell_log]) as shells:
        shell = await shells.create("server")
        await shells.get(shell.id).remove()
    assert shell_log.of(shell.id) == ["created", "exited(killed)", "deleted"]
    assert fake_launcher.processes[0].ended_by == "KILL"

async def test_without_the_launcher(shell_log):
    pass

async def test_wrong_log(fake_launcher, shell_log, autojump_clock):
    async with open_shells(launcher=fake_launcher, observers=[shell_log]) as shells:
        await shells.create("server")
    del shell_log.events[1]

async def test_wrong_truth(fake_launcher, shell_log, autojump_clock):
    async with open_shells(launcher=fake_launcher, observers=[shell_log]) as shells:
        await shells.create("server")
    fake_launcher.processes[0].owed.append(0)

def test_clean(assert_nothing_left):
    subprocess.run(["true"], check=True)

def test_leaky(assert_nothing_left):
    kept.append(open(__file__))

def test_that_follows():
    kept.pop().close()

kept = []
"""


def test_fixtures_check_themselves(pytester: pytest.Pytester) -> None:
    suite = Suite(pytester)
    suite.pytester.makepyfile(TESTS)
    result = suite.run()
    result.assert_outcomes(passed=7, errors=3)
    for told in (
        r"*ERROR at teardown of test_wrong_log*",
        r"*gapless-seq*",
        r"*ERROR at teardown of test_wrong_truth*",
        r"*output-complete*",
        r"*ERROR at teardown of test_leaky*",
        r"*this was left behind:*",
        r"*descriptor *test_fixtures_check_themselves.py*",
    ):
        result.stdout.fnmatch_lines([told])
