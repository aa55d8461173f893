"""Faults planted in the library, to see that the harness finds them.

Each is a small patch of the real code: a file, a piece of it that must be there exactly once, and
what stands there instead. A patch that no longer fits fails loudly, so the table follows the code.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import attrs

import trioshell

PACKAGE: Final = Path(trioshell.__file__).parent


@attrs.frozen
class Patch:
    """One replacement in one file of the package."""

    file: str
    old: str
    new: str


@attrs.frozen
class Mutant:
    """A fault: what it does to a user, and how it is planted."""

    name: str
    fault: str
    patches: tuple[Patch, ...]


def mutant(name: str, fault: str, *patches: tuple[str, str, str]) -> Mutant:
    return Mutant(name, fault, tuple(Patch(*patch) for patch in patches))


def plant(mutant: Mutant, where: Path) -> None:
    """Make a copy of the package with the fault in it.

    Args:
        mutant: The fault.
        where: An empty directory to put on the import path.
    """
    copy = where / "trioshell"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for patch in mutant.patches:
        file = copy / patch.file
        text = file.read_text()
        assert text.count(patch.old) == 1, f"{mutant.name}: {patch.file} has changed"
        file.write_text(text.replace(patch.old, patch.new))


MUTANTS: Final = [
    mutant(
        "double-exited",
        "remove and the shell's task both report the end",
        (
            "_shell.py",
            "            entry.removal = True\n",
            "            entry.removal = True\n"
            "            if entry.life.live:\n"
            "                self._registry.log.exited(entry.info, time=0.0)\n",
        ),
    ),
    mutant(
        "seed",
        "remove publishes deleted at once; the killed process reports its end later (the seed)",
        (
            "_shell.py",
            "            entry.removal = True\n            entry.request_end(removal=True)\n",
            "            self._registry.log.deleted(entry.info, time=0.0, reason='removed')\n"
            "            entry.request_end()\n",
        ),
    ),
    mutant(
        "exited-after-deleted",
        "a removal's deleted is published before its exited",
        (
            "_registry.py",
            "        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)\n"
            "        if verdict.delete:\n"
            '            self.delete(entry, "removed")\n'
            "            return\n",
            "        if verdict.delete:\n"
            '            self.delete(entry, "removed")\n'
            "        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)\n"
            "        if verdict.delete:\n"
            "            return\n",
        ),
    ),
    mutant(
        "exited-missing-on-removal",
        "a removed shell has no exited",
        (
            "_registry.py",
            "        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)\n"
            "        if verdict",
            "        if not verdict.delete:\n"
            "            self.log.exited(entry.info, time=entry.info.ended or 0.0)\n"
            "        if verdict",
        ),
    ),
    mutant(
        "timeout-as-exited",
        "a process that exits with 0 on SIGTERM counts as exited, also after a timeout",
        (
            "_registry.py",
            "settle(by_itself=ending.by_itself)",
            "settle(by_itself=ending.by_itself or ending.returncode == 0)",
        ),
    ),
    mutant(
        "exit-as-timeout",
        "the status is read from the clock: what ended late timed out",
        (
            "_registry.py",
            "        entry.info = self._recorded(entry, entry.final_info(ending, verdict.status))\n",
            "        from ._records import Status\n"
            "        late = trio.current_time() >= entry.scope.deadline\n"
            "        status = Status.TIMEOUT if late else verdict.status\n"
            "        entry.info = self._recorded(entry, entry.final_info(ending, status))\n",
        ),
    ),
    mutant(
        "frozen-host-verdict",
        "a limit that fired is acted on without a look at the end that came first",
        (
            "_lifecycle.py",
            "Status.EXITED if by_itself else self._claim or Status.KILLED",
            "self._claim or (Status.EXITED if by_itself else Status.KILLED)",
        ),
        (
            "_task.py",
            "    if reported is not None:\n        return reported\n",
            "",
        ),
    ),
    mutant(
        "later-cause-wins",
        "a kill that comes during the grace of a timeout takes the timeout's place",
        (
            "_lifecycle.py",
            "        if first:\n            self.state = State.ENDING\n            self._claim = cause\n",
            "        if self.live:\n            self.state = State.ENDING\n            self._claim = cause\n",
        ),
    ),
    mutant(
        "lost-waiter",
        "wait looks, pauses, and then begins to wait for what has happened meanwhile",
        (
            "_shell.py",
            "        if not entry.life.ended:\n            await entry.end.wait()\n",
            "        if not entry.life.ended:\n"
            "            await trio.lowlevel.checkpoint()\n"
            "            if entry.life.ended:\n"
            "                await trio.Event().wait()\n"
            "            await entry.end.wait()\n",
        ),
    ),
    mutant(
        "waiter-disagrees",
        "waiters are told another end than subscribers",
        (
            "_shell.py",
            "                raise ShellRemovedError(entry.info)\n            return entry.info\n",
            "                raise ShellRemovedError(entry.info)\n"
            "            if trio.current_time() >= entry.scope.deadline:\n"
            "                return attrs.evolve(entry.info, status=Status.TIMEOUT)\n"
            "            return attrs.evolve(entry.info, status=Status.EXITED)\n",
        ),
    ),
    mutant(
        "removed-takes-a-slot",
        "a shell removed while it ran takes a place among the retained",
        (
            "_registry.py",
            "        if verdict.delete:\n"
            '            self.delete(entry, "removed")\n'
            "            return\n"
            "        self._retain(entry)\n",
            "        self._retain(entry)\n"
            "        if verdict.delete:\n"
            '            self.delete(entry, "removed")\n',
        ),
    ),
    mutant(
        "eviction-races-remove",
        "remove looks, pauses, and deletes what an eviction has deleted meanwhile",
        (
            "_registry.py",
            "        if not entry.life.delete():\n            return\n        entry.deleted = reason\n"
            "        del self._entries[entry.id]\n",
            "        entry.life.state = type(entry.life.state).DELETED\n"
            "        entry.deleted = reason\n"
            "        self._entries.pop(entry.id, None)\n",
        ),
    ),
    mutant(
        "size-before-the-end",
        "exited tells the size of the output before it was complete",
        ("_entry.py", "            size=ending.size,\n", "            size=ending.size // 2,\n"),
    ),
    mutant(
        "cancelled-start-leaks",
        "a create that is cancelled while the process comes up forgets the process",
        (
            "_task.py",
            "        process = await launcher.launch(entry.spec)\n",
            "        with trio.CancelScope(shield=True):\n"
            "            process = await launcher.launch(entry.spec)\n",
        ),
        (
            "_task.py",
            "        await _undo(process)\n",
            "",
        ),
    ),
    mutant(
        "late-cancelled-start-leaks",
        "the same, only if the process was up already and its creator not yet told",
        (
            "_task.py",
            "        await _undo(process)\n",
            "",
        ),
    ),
    mutant(
        "cancelled-start-appears",
        "a create that is cancelled while the process comes up leaves a shell without an owner",
        ("_task.py", "if not entry.scope.cancel_called:", "if process:"),
        (
            "_shells.py",
            "        if entry.failure is None:\n            return entry\n",
            "        if entry.failure is None and raise_cancel is None:\n            return entry\n",
        ),
    ),
    mutant(
        "orders-differ",
        "the newest subscriber gets events in another order",
        (
            "_events.py",
            "        self._buffer.append(event)\n        self._waiting.unpark()\n",
            "        if self._buffer and self._capacity % 2:\n"
            "            self._buffer.appendleft(event)\n"
            "        else:\n"
            "            self._buffer.append(event)\n"
            "        self._waiting.unpark()\n",
        ),
    ),
    mutant(
        "teardown-loses-exited",
        "a scope that is cancelled forgets to report what it kills",
        (
            "_task.py",
            "    except* trio.Cancelled:\n        pass\n    return None\n",
            "    except* KeyError:\n        pass\n    return None\n",
        ),
    ),
    mutant(
        "event-one-step-late",
        "info and waiters say that it ended, and the event follows a step later",
        (
            "_registry.py",
            "        self.log.exited(entry.info, time=entry.info.ended or entry.info.started)\n"
            "        if verdict",
            "        if verdict",
        ),
        (
            "_task.py",
            "    registry.settle(entry, ending)\n",
            "    registry.settle(entry, ending)\n"
            "    await trio.lowlevel.cancel_shielded_checkpoint()\n"
            "    registry.log.exited(entry.info, time=0.0)\n",
        ),
    ),
    mutant(
        "created-one-step-late",
        "a shell can be seen before its created is published",
        (
            "_registry.py",
            "        self.log.created(entry.info, time=entry.info.started)\n        return None\n",
            "        return None\n",
        ),
        (
            "_task.py",
            "                return await process.wait()\n    except*",
            "                await trio.lowlevel.cancel_shielded_checkpoint()\n"
            "                registry.log.created(entry.info, time=entry.info.started)\n"
            "                return await process.wait()\n    except*",
        ),
    ),
    mutant(
        "remove-claims-late",
        "remove kills, waits, and only then says that it was a removal",
        ("_shell.py", "entry.request_end(removal=True)", "entry.request_end()"),
    ),
    mutant(
        "stubborn-process-hangs-removal",
        "remove never goes on to SIGKILL",
        (
            "_shell.py",
            "entry.request_end(removal=True)",
            'entry.request_end(removal=True, grace=float("inf"))',
        ),
    ),
    mutant(
        "kill-lost-with-its-caller",
        "the SIGKILL after the grace is sent by the caller of kill, who may be cancelled",
        (
            "_shell.py",
            "        self._entry.request_end(grace=seconds)\n",
            '        self._entry.request_end(grace=float("inf"))\n'
            "        with trio.move_on_after(self._entry.grace if seconds is None else seconds):\n"
            "            await self._entry.gone.wait()\n"
            "        self._entry.request_end(grace=0.0)\n",
        ),
    ),
    mutant(
        "leaving-subscriber-hides-an-event",
        "a subscriber that overflows makes the next one miss the event",
        (
            "_events.py",
            "        for subscription in tuple(self._subscriptions):\n"
            "            subscription._push(event)\n",
            "        for subscription in self._subscriptions:\n"
            "            subscription._push(event)\n",
        ),
    ),
    mutant(
        "output-of-a-removed-shell-stays",
        "remove leaves the capture behind",
        (
            "_registry.py",
            "        if entry.capture is not None:\n            entry.capture.remove()\n",
            '        if entry.capture is not None and reason != "removed":\n'
            "            entry.capture.remove()\n",
        ),
    ),
    mutant(
        "evicts-the-newest",
        "the retention limit takes the shell that ended last",
        (
            "_registry.py",
            "next(iter(self._retained.values()))",
            "list(self._retained.values())[-1]",
        ),
    ),
    mutant(
        "failed-start-keeps-its-place",
        "a start that fails never gives its place at the limiter back",
        (
            "_task.py",
            "            registry.reject(entry)\n            entry.leave()\n",
            "            registry.reject(entry)\n",
        ),
    ),
    mutant(
        "list-shows-the-ended",
        "list gives ended shells too",
        (
            "_registry.py",
            "[entry for entry in self._entries.values() if entry.life.live]",
            "list(self._entries.values())",
        ),
    ),
    mutant(
        "kept-process-survives-remove",
        "what a shell with background='keep' has kept is forgotten by remove",
        (
            "_task.py",
            "    if entry.keeps:\n        try:\n",
            "    if entry.keeps and not entry.removal:\n        try:\n",
        ),
    ),
    mutant(
        "waiter-not-told-of-removal",
        "who waits for a shell that is removed is told of its end alone",
        (
            "_registry.py",
            "        entry.removed = verdict.removed\n",
            "        entry.removed = False\n",
        ),
    ),
    mutant(
        "evicted-waiter-loses",
        "wait on an evicted shell raises as if it had been removed",
        (
            "_shell.py",
            '        removed = entry.deleted == "removed"\n',
            "        removed = entry.deleted is not None\n",
        ),
    ),
    mutant(
        "removed-shell-has-output",
        "the result of a shell that was removed while it ran has output",
        (
            "_shell.py",
            "            if capture is not None and not entry.removed:\n",
            "            if capture is not None:\n",
        ),
    ),
    mutant(
        "eviction-told-as-removal",
        "deleted gives the wrong reason",
        ("_registry.py", '.values())), "evicted")\n', '.values())), "removed")\n'),
    ),
    mutant(
        "place-never-given-back",
        "an end does not give back its place at the limiter",
        ("_registry.py", "        entry.leave()\n", ""),
    ),
    mutant(
        "place-given-back-at-the-start",
        "more shells run than the limiter has places",
        (
            "_task.py",
            "            entry.begin()\n",
            "            entry.begin()\n"
            "            entry.leave()\n"
            "            entry.leave = lambda: None\n",
        ),
    ),
    mutant(
        "cancelled-start-keeps-its-place",
        "a create that is cancelled never gives its place at the limiter back",
        (
            "_task.py",
            "            registry.reject(entry)\n            entry.leave()\n",
            "            registry.reject(entry)\n"
            "            if not entry.scope.cancel_called:\n"
            "                entry.leave()\n",
        ),
    ),
    mutant(
        "limit-ignored",
        "a time limit that was given to create is without effect",
        ("_task.py", "            entry.begin()\n", ""),
    ),
    mutant(
        "limit-from-the-request",
        "the time limit counts from the request, so that a slow start takes some of it",
        (
            "_entry.py",
            "            self.scope.deadline = trio.current_time() + self.timeout\n",
            "            self.scope.deadline = self.started_at + self.timeout\n",
        ),
    ),
    mutant(
        "new-limit-ignored",
        "set_timeout is without effect",
        (
            "_entry.py",
            "            self.scope.deadline = trio.current_time() + seconds\n",
            "            pass\n",
        ),
    ),
    mutant(
        "limit-not-cleared",
        "set_timeout(None) is without effect",
        (
            "_entry.py",
            "        if not self.life.ended:\n            self.scope.deadline",
            "        if not self.life.ended and seconds < math.inf:\n            self.scope.deadline",
        ),
    ),
    mutant(
        "grace-ignored",
        "kill leaves the grace of the shell, whatever it was called with",
        (
            "_entry.py",
            "            self.kill_grace = grace\n        elif",
            "            self.kill_grace = self.grace\n        elif",
        ),
    ),
    mutant(
        "no-grace",
        "whatever ends a shell sends SIGKILL at once",
        (
            "_task.py",
            "Status.KILLED)\n    process.kill(entry.kill_grace)\n",
            "Status.KILLED)\n    process.kill(0)\n",
        ),
    ),
    mutant(
        "sooner-kill-ignored",
        "a kill with less grace does not hasten the one that is on its way",
        ("_entry.py", "            self.process.kill(self.kill_grace)\n", ""),
    ),
    mutant(
        "kill-spares-the-kept",
        "kill of an ended shell leaves what background='keep' has kept",
        (
            "_shell.py",
            "        self._entry.request_end(grace=seconds)\n",
            "        if self._entry.life.ended:\n"
            "            await trio.lowlevel.checkpoint()\n"
            "            return self._entry.info\n"
            "        self._entry.request_end(grace=seconds)\n",
        ),
    ),
    mutant(
        "wait-all-looks-once",
        "wait_all waits for one shell and not for all",
        (
            "_shells.py",
            "        while running := self._registry.running:\n",
            "        if running := self._registry.running:\n",
        ),
    ),
]
