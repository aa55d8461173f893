from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import leaks

ROOT = Path(__file__).parents[1]

# What is left for good need not be waited for.
IMPATIENT = """
from tests import leaks
leaks.SETTLE = 0.1
"""

LEAKY = """
import os, subprocess, threading
import trio

def test_child():
    kept.append(subprocess.Popen(["sleep", "61"]))

def test_grandchild():
    # The shell in between is reaped only after it has told that its child runs.
    shell = subprocess.Popen(["sh", "-c", "sleep 62 & echo; wait"], stdout=subprocess.PIPE)
    shell.stdout.readline()
    shell.stdout.close()
    kept.append(shell)

def test_escapee():
    subprocess.run(["sh", "-c", "setsid sh -c 'sleep 63 & echo' | read line"], check=True)

def test_zombie():
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    kept.append(process)

def test_descriptor():
    os.open("leaked", os.O_CREAT)

def test_reused_number():
    os.close(first)
    assert os.open("another", os.O_CREAT) == first

def test_pipe():
    os.close(os.pipe()[0])

def test_thread():
    threading.Thread(target=forever.wait, name="the thread", daemon=True).start()

def test_trio_worker():
    async def main():
        with trio.move_on_after(0.01):
            await trio.to_thread.run_sync(
                forever.wait, abandon_on_cancel=True, thread_name="the worker"
            )
    trio.run(main)

def test_guest_task():
    ticks = []
    trio.lowlevel.start_guest_run(
        trio.sleep_forever, run_sync_soon_threadsafe=ticks.append, done_callback=print
    )
    kept.append(ticks)
    while ticks:
        ticks.pop(0)()

def test_failing():
    os.open("leaked too", os.O_CREAT)
    assert False

kept = []
forever = threading.Event()
first = os.open("first", os.O_CREAT)
"""

# What the report must name, by test.
NAMED = {
    "test_child": r"process (\d+) \(child of \d+\): sleep 61",
    "test_grandchild": r"process (\d+) \(child of \d+\): sleep 62",
    "test_escapee": r"process (\d+) \(child of \d+\): sleep 63",
    "test_zombie": r"zombie \d+ \(child of \d+\): \[true\]",
    "test_descriptor": r"descriptor \d+: .*/leaked$",
    "test_reused_number": r"descriptor \d+: .*/another$",
    "test_pipe": r"descriptor \d+: pipe:\[\d+\]",
    "test_thread": r"thread 'the thread'",
    "test_trio_worker": r"thread 'the worker'",
    "test_guest_task": r"trio task 'trio.sleep_forever'",
    "test_failing": r"descriptor \d+: .*/leaked too$",
}

CLEAN = """
import os, subprocess, threading, time
from subprocess import PIPE
import pytest, trio
from hypothesis import given, settings, strategies as st
from tests import leaks

@pytest.fixture(scope="module")
def older():
    # A shell that leaves a zombie of its own when it is told to.
    script = "read line; true & exec sleep 60"
    process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()

def test_older_process_and_its_zombie(older):
    older.stdin.write(b"go\\n")
    older.stdin.flush()
    while not has_zombie(older.pid):
        time.sleep(0.01)

def has_zombie(pid):
    numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
    processes = filter(None, map(leaks.Process.read, numbers))
    return any(process.parent == pid and process.is_zombie for process in processes)

def test_mark_extends_the_mark_of_the_test_around():
    mark = os.environ[leaks.MARK]
    outer = mark.rpartition(":")[0]
    me = leaks.Process.read(os.getpid())
    assert outer and me.carries(outer) and not me.carries(mark)
    child = subprocess.Popen(["sh", "-c", "echo; read line"], stdin=PIPE, stdout=PIPE)
    child.stdout.readline()  # now it has its environment: exec sets that up after Popen returned
    assert leaks.Process.read(child.pid).carries(mark)
    assert leaks.Process.read(child.pid).carries(outer)
    child.communicate()

def test_orphan_that_soon_ends():
    subprocess.run(["sh", "-c", "sleep 0.3 &"], check=True)

def test_thread_that_soon_ends():
    threading.Timer(0.2, print).start()

def test_same_target_under_another_number():
    fd = os.open(os.devnull, os.O_RDONLY)
    other = os.dup(fd)
    os.close(fd)
    os.close(other)

async def test_trio_with_a_thread_and_a_process():
    await trio.run_process(["true"])
    await trio.to_thread.run_sync(print)

async def test_nursery_of_pytest_trio(nursery):
    nursery.start_soon(trio.sleep_forever)

@given(st.text())
@settings(max_examples=10)
async def test_hypothesis(text):
    await trio.lowlevel.checkpoint()

@given(st.binary())
@settings(max_examples=10)
def test_hypothesis_without_trio(data):
    with open("/dev/null", "rb"):
        pass

def test_guest_run_that_ended():
    ticks, done = [], []
    trio.lowlevel.start_guest_run(
        trio.sleep, 0, run_sync_soon_threadsafe=ticks.append, done_callback=done.append
    )
    while not done:
        if ticks:
            ticks.pop(0)()

def test_crashed_run():
    def boom():
        raise ValueError
    async def main():
        trio.lowlevel.current_trio_token().run_sync_soon(boom)
        await trio.sleep_forever()
    with pytest.raises(trio.TrioInternalError):
        trio.run(main)

def test_environment_is_cleared(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A place for a test run of its own, in a process of its own, with the fixture on."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    return pytester


@pytest.mark.slow
def test_fixture_names_and_ends_what_is_left(inner: pytest.Pytester) -> None:
    """Each kind of leak is an error that names it (C10); processes do not outlive the report."""
    inner.makepyfile(LEAKY)
    inner.makeconftest(IMPATIENT)
    result = inner.runpytest_subprocess("-p", "tests.leaks")
    result.assert_outcomes(passed=len(NAMED) - 1, failed=1, errors=len(NAMED))
    reports = re.split(r"_+ ERROR at teardown of (\w+) _+", result.stdout.str())[1:]
    for name, report in zip(reports[::2], reports[1::2], strict=True):
        assert re.search(NAMED[name], report, re.MULTILINE), (name, report)
    numbers = set(re.findall(r"process (\d+) \(child of \d+\): sleep", result.stdout.str()))
    assert len(numbers) == 3
    left = [leaks.Process.read(int(number)) for number in numbers]
    assert all(process is None or process.is_zombie for process in left)


@pytest.mark.slow
def test_fixture_accepts_clean_tests(inner: pytest.Pytester) -> None:
    """No false alarm: what was there before, others' zombies, trio's caches, what soon ends."""
    inner.makepyfile(CLEAN)
    result = inner.runpytest_subprocess("-p", "tests.leaks")
    result.assert_outcomes(passed=CLEAN.count("def test_"))
