"""``trioshell run``: the commands, their scope, and the exit status."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from typing import Final

import attrs
import trio

from .._exceptions import ShellError
from .._records import Pty
from .._shell import Shell
from .._shells import Shells, open_shells
from .report import JsonReporter, LineReporter, PrefixReporter, Reporter, succeeded
from .streams import complain

# Shells of earlier runs that stay in a durable directory, as many as `open_shells` retains.
_EARLIER: Final = 25

_STOP: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@attrs.define(eq=False)
class Outcome:
    """What the exit status will say.

    Attributes:
        shells: What was started. A durable directory has shells of earlier runs, too.
        failed: A command could not be started.
        signal: The signal that stopped it all, or None.
    """

    shells: list[Shell] = attrs.field(factory=list)
    failed: bool = False
    signal: int | None = None

    @property
    def status(self) -> int:
        """0 if all ended with 0; 128 + n after signal n; else 1."""
        if self.signal is not None:
            return 128 + self.signal
        good = all(succeeded(shell.info) for shell in self.shells)
        return 0 if good and not self.failed else 1


def run(arguments: argparse.Namespace) -> int:
    """Run the commands; returns the exit status."""
    commands = [*arguments.commands, *_listed(arguments.file)]
    if not commands:
        raise ValueError("no command was given; for example: trioshell run 'echo hello'")
    return trio.run(_run, arguments, commands)


def _listed(path: str | None) -> list[str]:
    """The commands of a list: one a line, without blank lines and ``#`` comments."""
    if path is None:
        return []
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(path, "rb") as file:
            data = file.read()
    # Not `splitlines`: it divides a command at a form feed or a U+2028, and the parts would run.
    lines = [os.fsdecode(line.removesuffix(b"\r")) for line in data.split(b"\n")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


async def _run(arguments: argparse.Namespace, commands: list[str]) -> int:
    outcome = Outcome()
    reporter = _choose_reporter(arguments)
    async with open_shells(
        directory=arguments.directory,
        shell=arguments.shell,
        retain=len(commands) + _EARLIER,
        grace=arguments.grace,
        background=arguments.background,
        output_limit=arguments.output_limit,
        limiter=None if arguments.jobs is None else trio.CapacityLimiter(arguments.jobs),
    ) as shells:
        events = shells.subscribe(max_buffer=3 * (len(commands) + _EARLIER))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reporter.run, shells, events)
            with trio.CancelScope() as working:
                nursery.start_soon(_stop_on_signal, shells, working, outcome)
                await _create_all(arguments, commands, shells, outcome)
                await shells.wait_all()
            await _kill_all(shells)
            await reporter.caught_up(shells.statistics().last_seq)
            nursery.cancel_scope.cancel()
    await reporter.finish(shells, events)
    return outcome.status


def _choose_reporter(arguments: argparse.Namespace) -> Reporter:
    """The style that was asked for; by default a table on a terminal, else lines."""
    if arguments.json:
        return JsonReporter(arguments.tail)
    if arguments.prefix:
        return PrefixReporter(arguments.tail)
    if sys.stdout.isatty() and not arguments.plain:
        try:
            from .table import TableReporter
        except ImportError:  # without the cli extra there is no rich
            return LineReporter(arguments.tail)
        return TableReporter(arguments.tail)
    return LineReporter(arguments.tail)


async def _create_all(
    arguments: argparse.Namespace, commands: list[str], shells: Shells, outcome: Outcome
) -> None:
    for command in commands:
        try:
            shell = await shells.create(
                command,
                cwd=arguments.cwd,
                env=dict(arguments.env),
                timeout=arguments.timeout,
                pty=Pty() if arguments.pty else None,
            )
            outcome.shells.append(shell)
        except (ShellError, OSError, ValueError) as error:
            outcome.failed = True
            complain(f"{command!r}: {error}")


async def _kill_all(shells: Shells, *, grace: float | None = None) -> None:
    """End what still runs while its output can still be read and shown."""
    async with trio.open_nursery() as nursery:
        for info in shells.list():
            nursery.start_soon(partial(shells[info.id].kill, grace=grace))


async def _stop_on_signal(shells: Shells, working: trio.CancelScope, outcome: Outcome) -> None:
    # What is ignored, by nohup or by a shell that starts a job in the background, stays ignored.
    heeded = [number for number in _STOP if signal.getsignal(number) is not signal.SIG_IGN]
    if not heeded:
        return
    with trio.open_signal_receiver(*heeded) as signals:
        async for number in signals:
            if outcome.signal is None:
                outcome.signal = number
                working.cancel()
            else:  # asked twice: no more grace
                await _kill_all(shells, grace=0)
