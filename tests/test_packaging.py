"""What the package promises from outside: its names, what importing it does, its commands."""

from __future__ import annotations

import enum
import importlib.metadata
import importlib.resources
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import trioshell
import trioshell.launchers
import trioshell.testing

ROOT = Path(__file__).parents[1]
MODULES = [trioshell, trioshell.launchers, trioshell.testing]

EXPORTS = {
    "Created",
    "Deleted",
    "DirectoryInUseError",
    "Event",
    "Exited",
    "Follower",
    "Guarantees",
    "Leftover",
    "LineReader",
    "OutputLostError",
    "Page",
    "Pty",
    "Result",
    "Shell",
    "ShellError",
    "ShellInfo",
    "ShellNotFoundError",
    "ShellRemovedError",
    "Shells",
    "SpawnError",
    "Statistics",
    "Status",
    "Subscription",
    "SubscriptionLaggedError",
    "Usage",
    "open_shells",
    "strip_ansi",
}

# What is imported while `sys.platform` names another system. What is not ours looks at the
# platform, too, so it is imported before.
ELSEWHERE = """
import importlib, os, pkgutil, select, signal, sys
import multiprocessing.connection, subprocess, sysconfig
import attrs, hypothesis.strategies, pytest, rich, trio

sys.platform = {platform!r}
for module, names in {{
    os: ("eventfd", "memfd_create", "P_PIDFD", "pidfd_open", "pipe2", "splice", "unshare"),
    select: ("epoll",),
    signal: ("pidfd_send_signal", "SIGSTKFLT", "SIGPWR", "sigtimedwait", "sigwaitinfo"),
}}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""

# The supervised launcher and its helpers are for Linux only.
LINUX_ONLY = re.compile(r"trioshell\.launchers\.(_supervised|_helpers)\b")


def public(module: ModuleType) -> dict[str, object]:
    """The public names of a module, without its submodules."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name != "annotations"
    }


CLASSES: list[type] = sorted(
    {value for module in MODULES for value in public(module).values() if inspect.isclass(value)},
    key=lambda cls: cls.__name__,
)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_exports_are_these() -> None:
    """A name that appears or vanishes does so on purpose."""
    assert set(public(trioshell)) == EXPORTS


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_objects_name_their_public_module(module: ModuleType) -> None:
    """Tracebacks, pickles and documentation show the path that a user imports."""
    for name, value in public(module).items():
        if inspect.isclass(value) or inspect.isfunction(value):
            homes = {"trioshell", module.__name__}
            assert value.__module__ in homes, name
            assert getattr(sys.modules[value.__module__], name) is value


@pytest.mark.parametrize("cls", CLASSES)
def test_public_class_is_final_or_abstract(cls: type) -> None:
    """What is not made to be derived from cannot be: it stays free to change inside."""
    if issubclass(cls, BaseException | enum.Enum):
        return  # errors are a hierarchy; an enum with members is final by itself
    assert inspect.isabstract(cls) or getattr(cls, "__final__", False)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_public_object_has_a_docstring(module: ModuleType) -> None:
    for name, value in public(module).items():
        if inspect.isfunction(value) or inspect.isclass(value):
            assert value.__doc__, name


@pytest.mark.parametrize("cls", CLASSES)
def test_public_method_has_a_docstring(cls: type) -> None:
    for name, value in vars(cls).items():
        documented = inspect.isfunction(value) or isinstance(value, property | classmethod)
        if documented and not name.startswith("_"):
            assert inspect.getdoc(getattr(cls, name)), f"{cls.__name__}.{name}"


def test_version_is_that_of_the_package() -> None:
    assert trioshell.__version__ == importlib.metadata.version("trioshell")


def test_unknown_attribute_is_an_error() -> None:
    """The lazy `__version__` does not swallow misspelt names."""
    name = "no_such_name"
    with pytest.raises(AttributeError, match=name):
        getattr(trioshell, name)


def test_package_says_that_it_is_typed() -> None:
    assert importlib.resources.files("trioshell").joinpath("py.typed").is_file()


def test_import_loads_nothing_optional() -> None:
    """The extras are loaded only by those who use them."""
    optional = {"rich", "hypothesis", "pytest", "pytest_trio"}
    done = run(f"import sys, trioshell; print({optional} & set(sys.modules))")
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_import_on_windows_is_refused() -> None:
    """Not an AttributeError from somewhere inside, but what is needed instead."""
    done = run(ELSEWHERE.format(platform="win32") + "import trioshell")
    assert done.returncode == 1
    assert re.search(r"^ImportError: trioshell needs a POSIX system.*$", done.stderr, re.MULTILINE)


def test_import_elsewhere_needs_nothing_of_linux() -> None:
    """Every module but those for Linux can be imported where Linux's own names are missing."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted((ROOT / "trioshell").rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]
    portable = [name for name in modules if not LINUX_ONLY.search(name)]
    assert "trioshell._shells" in portable
    code = ELSEWHERE.format(platform="darwin")
    done = run(code + f"for name in {portable}: importlib.import_module(name)")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("group", "name"), [("console_scripts", "trioshell"), ("pytest11", "trioshell")]
)
def test_entry_point_loads(group: str, name: str) -> None:
    (found,) = importlib.metadata.entry_points(group=group, name=name)
    assert found.load()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_reference_has_every_public_name(module: ModuleType) -> None:
    pages = "\n".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    documented = set(re.findall(r"^\.\. (?:auto|py:)\w+:: (\w+)$", pages, re.MULTILINE))
    assert set(public(module)) <= documented


def test_reference_has_every_option() -> None:
    page = (ROOT / "docs/reference/command-line.md").read_text()
    documented = re.findall(r"^\| `(--[a-z-]+)", page, re.MULTILINE)
    shown = subprocess.run(
        [sys.executable, "-m", "trioshell", "run", "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    offered = re.findall(r"^  (?:-h, )?(--[a-z-]+)", shown.stdout, re.MULTILINE)
    assert ["--help", *documented] == offered


def test_readme_commands_are_those_that_are_checked() -> None:
    """CI runs the README's own test command, and the other one installs the package as it is."""
    readme = (ROOT / "README.md").read_text()
    run_command, test_command = re.findall(r"^```sh\n(.*)\n```$", readme, re.MULTILINE)
    assert "'.[cli]'" in run_command
    assert "trioshell run " in run_command
    assert f"\n{test_command} || failed=1\n" in (ROOT / ".ci/run").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the supervised launcher is for Linux only")
def test_readme_promises_what_launchers_promise() -> None:
    """The table says yes where `Guarantees` does."""
    from trioshell.launchers import DirectLauncher, SupervisedLauncher
    from trioshell.testing import FakeLauncher

    readme = (ROOT / "README.md").read_text()
    for promise, words in {
        "escapees": "nothing is left",
        "host_crash": "the host is SIGKILLed",
        "tree_usage": "the resource usage",
        "output_limit": "`output_limit`",
        "pty": "`pty`",
    }.items():
        (row,) = re.findall(rf"^\| {words}[^|]*\|(.*)\|$", readme, re.MULTILINE)
        told = [cell.strip().startswith("yes") for cell in row.split("|")]
        launchers = (SupervisedLauncher(), DirectLauncher(), FakeLauncher())
        assert told == [getattr(each.guarantees, promise) for each in launchers], promise
