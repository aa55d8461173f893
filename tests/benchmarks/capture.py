"""Capture much output: wall time against ``cmd > file``, and CPU in the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import trio

import trioshell
from trioshell.launchers import DirectLauncher, Launcher, SupervisedLauncher

from .rounds import in_turns, median, ratio, table

COMMANDS = {
    "1 GiB in 64 KiB writes": "head -c 1073741824 /dev/zero",
    "10 million short lines": "yes 'a line of some thirty characters' | head -n 10000000",
}
CONTENDERS = ["file", "trioshell", "direct", "trio"]


async def run_trioshell(command: str, launcher: Launcher) -> None:
    async with trioshell.open_shells(launcher=launcher, shell="sh") as shells:
        shell = await shells.create("true")  # the helpers are up, as in use
        await shell.wait()
        cpu, start = time.process_time(), time.perf_counter()
        shell = await shells.create(command)
        info = await shell.wait()
        report(time.perf_counter() - start, time.process_time() - cpu, info.size)


async def run_trio(command: str) -> None:
    cpu, start = time.process_time(), time.perf_counter()
    done = await trio.run_process(["sh", "-c", command], capture_stdout=True)
    report(time.perf_counter() - start, time.process_time() - cpu, len(done.stdout))


def run_file(command: str) -> None:
    with tempfile.NamedTemporaryFile() as file:
        start = time.perf_counter()
        subprocess.run(["sh", "-c", f"{{ {command}; }} > {file.name}"], check=True)
        report(time.perf_counter() - start, 0.0, os.path.getsize(file.name))


def report(wall: float, cpu: float, size: int) -> None:
    print(json.dumps({"wall": wall, "rate": size / wall / 1e9, "cpu": cpu, "size": size}))


def worker(contender: str, command: str) -> None:
    match contender:
        case "file":
            run_file(command)
        case "trioshell":
            trio.run(run_trioshell, command, SupervisedLauncher())
        case "direct":
            trio.run(run_trioshell, command, DirectLauncher())
        case "trio":
            trio.run(run_trio, command)


def rates(rounds: int) -> None:
    """Each command, against the shell's own redirection."""
    for title, command in COMMANDS.items():
        figures = in_turns("capture", CONTENDERS, rounds, command)
        rows = [
            (
                name,
                median(figures[name], "rate"),
                ratio(figures, name, "file", "rate"),
                median(figures[name], "cpu"),
            )
            for name in CONTENDERS
        ]
        table(f"Capture of {title}", ["", "GB/s", "rate / file", "host CPU s"], rows)


if __name__ == "__main__":
    worker(sys.argv[1], sys.argv[2])
