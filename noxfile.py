"""Everything that is checked, each as one session: ``nox -l`` lists them."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "docs", "package", "tests"]

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)

# The seconds one test of `deep` may take; elsewhere pyproject.toml has the limit.
DEEP_TIMEOUT = 3600


def group(name: str) -> tuple[str, ...]:
    return nox.project.dependency_groups(PROJECT, name)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the test suite on every supported Python that is installed."""
    session.install("-e", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and spelling."""
    session.install(*group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy and pyright, and that every public name has one."""
    session.install("-e", ".[dev]", *group("types"), *group("bench"), "nox")
    session.run("mypy")
    session.run("pyright")
    session.run("pyright", "--verifytypes", "trioshell", "--ignoreexternal")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    session.install("-e", ".[docs,testing]")
    session.run("sphinx-build", "-EnW", "--keep-going", "docs", "docs/_build/html")


@nox.session(reuse_venv=False)
def package(session: nox.Session) -> None:
    """Install the package as a user does, without extras, and use it away from the checkout."""
    session.install(".")
    session.chdir(session.create_tmp())
    session.run("trioshell", "--version")
    session.run("trioshell", "run", "echo hello")
    session.run("python", "-W", "error", "-c", "import trioshell, trioshell.launchers")


@nox.session(python=PYTHONS[0])
def minimal(session: nox.Session) -> None:
    """Run the test suite with the lowest supported versions of everything we import."""
    lowest = [bound.replace(">=", "==") for bound in PROJECT["project"]["dependencies"]]
    session.install("-e", ".[dev]", *lowest)
    session.run("pytest", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure branch coverage and demand what pyproject.toml and CONTRIBUTING.md promise."""
    session.install("-e", ".[dev]")
    session.run("coverage", "erase")
    # Not pytest-cov: the entry point makes pytest import trioshell before any plugin of its own.
    session.run("coverage", "run", "-m", "pytest", *session.posargs)
    session.run("coverage", "combine", "-q")
    session.run("coverage", "report", "--fail-under=95")
    core = "--include=*/trioshell/_lifecycle.py,*/trioshell/_events.py"
    session.run("coverage", "report", core, "--fail-under=100")


@nox.session
def deep(session: nox.Session) -> None:
    """Run what is too long for CI: long interleavings, many rounds against real processes."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-m", "deep", f"--timeout={DEEP_TIMEOUT}", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Plant faults in the library and print how fast the harness finds each."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "tests.mutants", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Print the benchmark table."""
    session.install("-e", ".[dev]", *group("bench"))
    session.run("python", "-m", "tests.benchmarks", *session.posargs)
