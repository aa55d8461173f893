"""C15: a command inherits the host's environment of the moment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from trioshell._environment import HostEnvironment


def test_host_environment_is_seen_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = HostEnvironment()
    monkeypatch.setenv("MINE", "first")
    assert host.now()[b"MINE"] == b"first"
    monkeypatch.setitem(os.environb, b"MINE", b"\xff")
    assert host.now()[b"MINE"] == b"\xff"
    monkeypatch.delenv("MINE")
    assert b"MINE" not in host.now()


def test_host_environment_of_an_earlier_moment_does_not_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = HostEnvironment()
    monkeypatch.setenv("MINE", "first")
    first = host.now()
    monkeypatch.setenv("MINE", "second")
    host.now()
    assert first[b"MINE"] == b"first"


def test_host_environment_is_one_object_while_nothing_changes() -> None:
    host = HostEnvironment()
    assert host.now() is host.now()


def test_host_environment_drops_start_up_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited they would run before every command."""
    monkeypatch.setenv("BASH_ENV", "/host")
    monkeypatch.setenv("ENV", "/host")
    assert dict(HostEnvironment().now()) == _without(os.environb, b"BASH_ENV", b"ENV")


def test_host_environment_does_not_depend_on_how_python_keeps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain: dict[bytes, bytes] = dict(os.environb)
    monkeypatch.setattr(os, "environb", plain)
    host = HostEnvironment()
    assert dict(host.now()) == _without(plain, b"BASH_ENV", b"ENV")
    plain[b"MINE"] = b"later"
    assert host.now()[b"MINE"] == b"later"


def _without(variables: Mapping[bytes, bytes], *names: bytes) -> dict[Any, Any]:
    return {name: value for name, value in variables.items() if name not in names}
