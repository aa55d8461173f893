"""What the library said of processes, against what truly happened to the fake ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from .._events import Deleted, Exited
from .._records import Status
from ._calls import Call, are_all, time_limits
from ._fake import FakeLauncher
from ._log import History
from ._member import Member
from ._process import FakeProcess
from ._rules import Violation, violation


def check_truth(
    history: History, launcher: FakeLauncher, calls: Iterable[Call], *, complete: bool
) -> None:
    """Compare a log with the ground truth.

    Raises:
        Violation: It says something else.
    """
    processes = {process.pid: process for process in launcher.processes}
    for event, time in zip(history.events, history.times, strict=True):
        if isinstance(event, Exited) and (process := processes.get(event.info.pid)):
            for rule, what in _lies(event, process, time):
                raise violation(history, rule, what, event=event, facts=facts(process))
    calls = tuple(calls)
    checks = [
        _wrong_causes(history, processes, calls),
        _wrong_limits(history, processes, calls),
        _long_graces(history, processes, calls),
        _short_graces(history, processes, calls),
        _outlived_kills(history, processes, calls),
        _kept_outputs(history, processes),
        _wrong_pages(history, processes, calls),
    ]
    if complete:
        checks.append(_leaks(history, launcher))
    for broken in chain.from_iterable(checks):
        raise broken


def _lies(event: Exited, process: FakeProcess, time: float | None) -> Iterator[tuple[str, str]]:
    info = event.info
    ended = _ended_by_library(process)
    if info.status is Status.EXITED and ended:
        yield "status-truth", "exited(exited), but a kill had reached it before its end"
    if info.status is not Status.EXITED and not ended:
        yield "status-truth", f"exited({info.status}), but it ended by itself"
    if info.returncode not in (None, process.returncode):
        told, true = info.returncode, process.returncode
        yield "status-truth", f"the returncode is {told}, but it ended with {true}"
    if info.returncode is None and info.reason is None and not info.leftovers:
        yield "status-truth", "the returncode is unknown and nobody says why"
    yield from _wrong_size(event, process)
    if process.spec.background != "keep" and time is not None:
        left = {leftover.pid for leftover in info.leftovers}
        for member in process.members:
            if member.pid not in left and (member.alive or (member.ended_at or 0) > time):
                yield "exited-true", f"exited was said while {member.name!r} was alive"


def _ended_by_library(process: FakeProcess) -> bool:
    """Whether a signal of a kill, or of an output limit, came before the leader's own end."""
    return process.alive or any(sent.by in ("kill", "limit") for sent in process.signals)


def _wrong_size(event: Exited, process: FakeProcess) -> Iterator[tuple[str, str]]:
    info, owed = event.info, len(process.owed)
    if process.script.capacity is not None:
        owed = min(owed, process.script.capacity)
    # What is stuck on its way when the launcher gives up is cut off, and that is said.
    if info.size != owed and not (info.cut and info.size < owed):
        yield "output-complete", f"the size is {info.size}, but {owed} bytes were written"
    if info.output_error is None and owed < len(process.owed):
        yield "output-complete", "output was lost and nobody says so"


def _wrong_causes(
    history: History, processes: Mapping[int, FakeProcess], calls: Sequence[Call]
) -> Iterator[Violation]:
    """Who is said to have been killed was not being ended by something else before."""
    if not are_all(calls):
        return
    for event in history.events:
        if not isinstance(event, Exited) or event.info.status is not Status.KILLED:
            continue
        process = processes[event.info.pid]
        begun = min((sent.at for sent in process.signals if sent.by == "kill"), default=None)
        if begun is not None and not any(_kills(call, event.id, begun) for call in calls):
            what = f"exited(killed), but its end was begun at {begun:g}, before any kill"
            yield violation(history, "status-truth", what, event=event, facts=facts(process))


def _kills(call: Call, id: str, by: float) -> bool:
    """Whether a call was a kill of this shell, made by then."""
    ends = call.op == "leave" or (call.op in ("kill", "remove") and call.id == id)
    return ends and call.at is not None and call.at <= by


def _wrong_limits(
    history: History, processes: Mapping[int, FakeProcess], calls: Sequence[Call]
) -> Iterator[Violation]:
    """Who is said to have timed out had a time limit that had passed."""
    if not are_all(calls):
        return
    begun = dict(zip((event.seq for event in history.events), history.times, strict=True))
    for life in history.lives.values():
        exited = life.exited
        if exited is None or life.created is None or exited.info.status is not Status.TIMEOUT:
            continue
        process, start = processes[exited.info.pid], begun[life.created.seq]
        limits = list(_limits(life.id, calls, start))
        if not limits or not process.kills:
            continue  # nobody knows who created it; or its helper died
        asked, _ = process.kills[0]
        until = [*(at for at, _ in limits[1:]), math.inf]
        ends = zip(limits, until, strict=True)
        if not any(deadline <= min(end, asked) for (_, deadline), end in ends):
            what = f"exited(timeout), but its end was begun at {asked:g}, and no limit had passed"
            yield violation(history, "status-truth", what, event=exited, facts=facts(process))


def _limits(id: str, calls: Iterable[Call], start: float | None) -> Iterator[tuple[float, float]]:
    """When each time limit of a shell was set, and when it passes."""
    for call, seconds in time_limits(id, calls):
        at = start if call.op == "create" else call.at
        if at is None:
            return
        yield at, at + seconds


def _long_graces(
    history: History, processes: Mapping[int, FakeProcess], calls: Iterable[Call]
) -> Iterator[Violation]:
    """A kill that came before the end was passed on with its grace, or a shorter one was."""
    for call in calls:
        life = history.lives.get(call.id or "")
        if call.op not in ("kill", "remove") or life is None or life.exited is None:
            continue
        late = call.began >= life.exited.seq or call.outcome == "raised"
        if late or life.exited.info.status is Status.EXITED:
            continue
        process = processes[life.exited.info.pid]
        given = call.args.get("grace")
        most = process.spec.grace if given is None else given
        passed_on = [grace for _, grace in process.kills]
        if min(passed_on, default=math.inf) > most:
            told = [f"the call:  {call}", *facts(process)]
            what = f"a kill with a grace of {most:g} was passed on with {passed_on}"
            yield violation(history, "kill-grace", what, id=call.id, facts=told)


def _short_graces(
    history: History, processes: Mapping[int, FakeProcess], calls: Sequence[Call]
) -> Iterator[Violation]:
    """Nobody was given less grace than somebody asked for."""
    if not are_all(calls):
        return
    for life in history.lives.values():
        process = processes.get(life.events[0].info.pid)
        if process is None:
            continue
        given = [call.args.get("grace") for call in calls if _is_kill(call, life.id)]
        least = min([process.spec.grace, *(grace for grace in given if grace is not None)])
        passed_on = [grace for _, grace in process.kills]
        if min(passed_on, default=math.inf) < least:
            what = f"ended with a grace of {min(passed_on):g}, where nobody asked for so little"
            yield violation(history, "kill-grace", what, id=life.id, facts=facts(process))


def _is_kill(call: Call, id: str) -> bool:
    return call.op == "kill" and call.id == id


def _outlived_kills(
    history: History, processes: Mapping[int, FakeProcess], calls: Sequence[Call]
) -> Iterator[Violation]:
    """Nobody lives on who was to be ended, also not if the shell had ended before (C10)."""
    for number, call in enumerate(calls):
        life = history.lives.get(call.id or "")
        if call.op not in ("kill", "remove") or call.outcome == "raised" or life is None:
            continue
        process, over = processes[life.events[0].info.pid], _over_at(call, calls[number:])
        if over is not None and any(_is_spared(member, over) for member in process.members):
            told = [f"the call:  {call}", *facts(process)]
            what = "not all of its tree was ended"
            yield violation(history, "kill-completes", what, id=call.id, facts=told)


def _over_at(kill: Call, later: Iterable[Call]) -> float | None:
    """When a kill was over at the latest, if that is known."""
    if kill.outcome == "returned":
        return kill.done
    # Its caller gave up. But when nothing could happen any more, it was over.
    return next((call.at for call in later if call.op == "quiet"), None)


def _is_spared(member: Member, at: float) -> bool:
    """Whether it lives and nobody has tried to kill it."""
    alive = member.ended_at is None or member.ended_at > at
    return alive and not any(sent.signal == "KILL" and sent.at <= at for sent in member.signals)


def _kept_outputs(history: History, processes: Mapping[int, FakeProcess]) -> Iterator[Violation]:
    for event in history.events:
        process = processes.get(event.info.pid)
        if isinstance(event, Deleted) and process is not None and not process.capture.removed:
            what = "deleted, but its output is still stored"
            yield violation(history, "output-deleted", what, event=event, facts=facts(process))


def _wrong_pages(
    history: History, processes: Mapping[int, FakeProcess], calls: Iterable[Call]
) -> Iterator[Violation]:
    for call in calls:
        life = history.lives.get(call.id or "")
        if call.op == "output" and call.outcome == "returned" and life is not None:
            process = processes[life.events[0].info.pid]
            page = call.answer
            true = process.owed[page.cursor - len(page.data) : page.cursor]
            if page.data != true:
                told = [f"the call:  {call}", *facts(process)]
                what = f"a page gave {page.data!r}, where {bytes(true)!r} was written"
                yield violation(history, "output-exact", what, id=call.id, facts=told)


def _leaks(history: History, launcher: FakeLauncher) -> Iterator[Violation]:
    for process in launcher.processes:
        for member in process.living:
            # What cannot be killed cannot be ended; that it was tried is what counts.
            if not any(sent.signal == "KILL" for sent in member.signals):
                id = _id_of(history, process)
                what = f"process {member.pid} ({member.name}) is alive and was not sent KILL"
                yield violation(history, "no-leak", what, id=id, facts=facts(process))


def _id_of(history: History, process: FakeProcess) -> str | None:
    pids = {life.events[0].info.pid: life.id for life in history.lives.values()}
    return pids.get(process.pid)


def facts(process: FakeProcess) -> list[str]:
    """What was true of a tree, for people to read."""
    return [_fact(member) for member in process.members] + [f"its script: {process.script!r}"]


def _fact(member: Member) -> str:
    sent = ", ".join(f"{sent.signal} at {sent.at:g} ({sent.by})" for sent in member.signals)
    told = f"was sent {sent}" if sent else "was sent nothing"
    if member.ended_at is None:
        return f"process {member.pid} ({member.name}) {told} and is alive"
    how = f"ended at {member.ended_at:g} with {member.returncode}"
    return f"process {member.pid} ({member.name}) {told} and {how}"
