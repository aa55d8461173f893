"""The best launcher: supervised where that works, else the direct one, and it says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.direct.rig import SpecOf
from trioshell._records import Pty
from trioshell.launchers import best_launcher


async def test_supervised_launcher_is_in_use_here(spec: SpecOf) -> None:
    async with best_launcher() as launcher:
        process = await launcher.launch(spec("exit 3"))
        assert (await process.wait()).returncode == 3
        process.capture.remove()
        assert (launcher.guarantees.launcher, launcher.guarantees.note) == ("supervised", "")


@pytest.mark.parametrize("why", ["frozen", "embedded", "broken", "missing"])
async def test_direct_launcher_serves_where_helpers_cannot_work(
    spec: SpecOf,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    why: str,
) -> None:
    """Without a word on stderr; the guarantees tell."""
    if why == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    elif why == "embedded":
        monkeypatch.setattr(sys, "executable", "/usr/sbin/server")
    elif why == "missing":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    else:
        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\necho noise >&2; exit 1\n")
        broken.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(broken))
    async with best_launcher() as launcher:
        process = await launcher.launch(spec("exit 3"))
        assert (await process.wait()).returncode == 3
        process.capture.remove()
        assert launcher.guarantees.launcher == "direct"
        assert "supervised launcher is not in use" in launcher.guarantees.note
        process = await launcher.launch(spec("head -c 1000000 /dev/zero", output_limit=1_000))
        assert (await process.wait()).size == 1_000_000
        assert process.capture.gap(500_000) > 0
        process.capture.remove()
        if why == "frozen":
            with pytest.raises(ValueError, match="pty"):
                await launcher.launch(spec("exit 0", pty=Pty()))
    assert capfd.readouterr() == ("", "")
