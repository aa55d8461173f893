"""What real code leaves is named, and ended."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading

import pytest
import trio

from trioshell import open_shells
from trioshell.testing import assert_nothing_left

NOT_LINUX = sys.platform != "linux"
needs_proc = pytest.mark.skipif(NOT_LINUX, reason="only /proc shows processes and descriptors")


def test_clean_block_passes() -> None:
    async def main() -> None:
        async with open_shells() as shells:
            await shells.create("sleep 60")
            await trio.to_thread.run_sync(threading.get_ident)

    with assert_nothing_left():
        trio.run(main)


@needs_proc
def test_processes_are_named_and_ended() -> None:
    """Also those that left their session and their parents (C10)."""
    named = r"process (\d+) \(child of \d+\): sleep 61"
    with pytest.raises(AssertionError, match=named) as caught, assert_nothing_left(settle=0.1):
        script = "setsid sh -c 'sleep 61 & echo' | read line"
        subprocess.run(["sh", "-c", script], check=True)
    (pid,) = re.findall(named, str(caught.value))
    with pytest.raises((ProcessLookupError, FileNotFoundError)):
        while True:  # the signal is on its way
            os.readlink(f"/proc/{pid}/exe")


@needs_proc
def test_what_is_on_its_way_out_is_waited_for() -> None:
    with assert_nothing_left():
        process = subprocess.Popen(["sleep", "0.1"])
        threading.Thread(target=process.wait).start()


@needs_proc
def test_descriptors_are_compared_by_what_they_are() -> None:
    older = os.open("/dev/null", os.O_RDONLY)
    with (
        pytest.raises(AssertionError, match=r"descriptor \d+: pipe:"),
        assert_nothing_left(settle=0.1),
    ):
        os.close(older)
        reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)


@needs_proc
def test_only_the_new_one_of_many_alike_is_named() -> None:
    old = os.open(os.devnull, os.O_RDONLY)
    with (
        pytest.raises(AssertionError) as error,
        assert_nothing_left(settle=0),
    ):
        new = os.open(os.devnull, os.O_RDONLY)
    os.close(old)
    os.close(new)
    assert re.findall(r"descriptor (\d+)", str(error.value)) == [str(new)]


def test_threads_are_named() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="the thread")
    with (
        pytest.raises(AssertionError, match="thread 'the thread'"),
        assert_nothing_left(settle=0.1),
    ):
        thread.start()
    end.set()
    thread.join()


def test_exception_of_the_block_is_kept_and_gets_a_note() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="the thread")
    with pytest.raises(LookupError) as caught, assert_nothing_left(settle=0.1):
        thread.start()
        raise LookupError("of the block")
    assert ["the thread" in note for note in caught.value.__notes__] == [True]
    end.set()
    thread.join()


@needs_proc
def test_blocks_may_be_nested() -> None:
    """What the inner one left, and ended, is nothing to the outer one."""
    with assert_nothing_left():
        with pytest.raises(AssertionError, match="sleep 62"), assert_nothing_left(settle=0.1):
            process = subprocess.Popen(["sleep", "62"])
        process.wait()
