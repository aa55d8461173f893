"""What may not be signalled is told within the bound, and harms nobody else (C4)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOST = """
import json, os, sys, trio
from trioshell.launchers import Spec
from trioshell.launchers._supervised import HelperError
from trioshell.launchers._supervised import SupervisedLauncher

directory, sys.executable = sys.argv[1:]
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
ROOT = f"{directory}/setpriv --reuid 0 --regid 0 --clear-groups sleep 3"

def spec(id, command):
    return Spec(
        id=id, argv=(b"sh", b"-c", command.encode()), executable=b"/bin/sh", cwd="/", grace=0.1,
        env={b"PATH": b"/bin:/usr/bin"}, capture=f"{directory}/output/{id}",
    )

def name(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().strip()

async def run(launcher, id, command, *, kill):
    process = await launcher.launch(spec(id, command))
    if kill:
        while name(process.pid) != "sleep":
            await trio.sleep(0.01)
        process.kill(0.1)
    ending = await process.wait()
    process.capture.remove()
    return ending.returncode, ending.by_itself, ending.trouble, [x.name for x in ending.leftovers]

async def main():
    async with SupervisedLauncher() as launcher:
        try:
            await launcher.prepare()
        except HelperError:
            return print("null")
        ends = [await run(launcher, "job", f"{ROOT} & sleep 0.2; exit 3", kill=False)]
        ends.append(await run(launcher, "leader", f"exec {ROOT}", kill=True))
        ends.append(await run(launcher, "other", "exit 4", kill=False))
    print(json.dumps(ends))

trio.run(main)
"""


@pytest.mark.slow
def test_process_of_another_user_is_a_leftover(tmp_path: Path) -> None:
    """Case: a descendant became root, and we are nobody."""
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        pytest.skip("only root can make a process that its starter may not signal")
    # Nobody must be able to come here.
    directory = Path("/tmp") / f"trioshell-leftovers-{os.getpid()}"
    directory.mkdir(mode=0o755)
    try:
        shutil.copy(setpriv, directory / "setpriv")
        (directory / "setpriv").chmod(0o4755)
        (directory / "output").mkdir()
        (directory / "output").chmod(0o777)
        python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
        done = subprocess.run(
            [sys.executable, "-c", HOST, str(directory), python],
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
    finally:
        shutil.rmtree(directory)
    ends = json.loads(done.stdout)
    if ends is None:
        pytest.skip("nobody may not run the helpers here")
    job, leader, other = ends
    assert job == [3, True, None, ["sleep"]]
    assert leader[:2] == [None, False]
    assert "another user" in leader[2]
    assert leader[3] == ["sleep"]
    assert other == [4, True, None, []]
