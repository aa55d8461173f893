"""How scripts and programs are drawn. Imported only where Hypothesis is used.

Everything is drawn before a run, never inside, and in one piece: some bytes, each of which chooses
from a table at a fixed place. That is not only much cheaper than a draw for each choice. Where a
strategy is drawn from more than once in an example, Hypothesis goes on with variations of that
example, five for each new one, and near doubles find much less than new programs do. A smaller
byte chooses something plainer, so failures shrink to what is first in each table: byte by byte.

Moments are few and round, so that things meet: what ends a shell at the very moment of its time
limit finds more than any random number.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import attrs
from hypothesis import strategies as st

from ..launchers import Background
from ._program import Do, Life, Program, Reader
from ._script import Script

T = TypeVar("T")

_Change = Callable[[Script], Script]
_Options = dict[str, Any]


@attrs.define(eq=False)
class _Choices:
    """Bytes, each of which makes one choice."""

    _bytes: bytes
    _next: int = 0

    def of(self, table: Sequence[T]) -> T:
        """The next choice: from a table of at most 256 entries, the plain ones first."""
        self._next += 1
        return table[self._bytes[self._next - 1] * len(table) >> 8]

    def parts(self, number: int, size: int) -> Iterator[_Choices]:
        """The next choices, in parts of one size, however many of them each part makes."""
        for _ in range(number):
            self._next += size
            yield _Choices(self._bytes[self._next - size : self._next])


def _same(script: Script) -> Script:
    return script


_PROCESSES: Final = (
    Script.exits(),
    Script.exits(3, after=1.0),
    Script.forever(),
    Script.forever().ignores("TERM"),
    Script.exits(after=1.0),
    Script.dies("SEGV", after=1.0),
    Script.exits(after=1.0).ignores("TERM"),
    Script.forever().exits_on("TERM"),
    Script.forever().ignores("TERM"),
    Script.exits(3, after=2.0).exits_on("TERM", after=1.0),
    Script.forever().ignores("TERM"),
    Script.forever().exits_on("TERM", 3, after=3.0),
    Script.exits(after=2.0),
)

_OUTPUTS: Final[tuple[_Change, ...]] = (
    _same,
    lambda script: script.prints(b"a"),
    lambda script: script.prints("\N{SNOWMAN}".encode(), b"\xff"),
    lambda script: script.prints(b"a", b"bc\n", every=1.0),
)

_ODDITIES: Final[tuple[_Change, ...]] = (
    *[_same] * 6,
    lambda script: script.spawn_takes(1.0),
    *[lambda script: script.spawn_takes(1.0, shielded=True)] * 2,
    lambda script: script.eof_after_exit(0.5),
    lambda script: script.eof_after_exit(1.0),
)

_TROUBLES: Final[tuple[_Change, ...]] = (
    *_ODDITIES,
    lambda script: script.unkillable(0.5),
    lambda script: script.unkillable(3.0),
    lambda script: script.unkillable(),
    lambda script: script.disk_full_after(1),
    lambda script: script.helper_dies(0.0),
    lambda script: script.helper_dies(1.0),
)

_DESCENDANTS: Final = (
    Script.forever(),
    Script.exits(after=1.0).prints(b"late"),
    Script.exits(after=3.0),
    Script.forever().ignores("TERM"),
    Script.forever().escapes(),
    Script.forever().ignores("TERM").escapes(),
)
_STUCK: Final = (*_DESCENDANTS, Script.forever().unkillable(), Script.forever().unkillable(0.5))


_LEFT: Final = (0, 0, 1, 1, 2)


def _script(choices: _Choices, *, trouble: bool) -> Script:
    """A process: how it ends, what it prints, what else is odd about it, and what it leaves."""
    process, output = choices.of(_PROCESSES), choices.of(_OUTPUTS)
    oddity = choices.of(_TROUBLES if trouble else _ODDITIES)
    left, descendants = choices.of(_LEFT), _STUCK if trouble else _DESCENDANTS
    script = oddity(output(process))
    leaves = [choices.of(descendants) for _ in range(_MOST_LEFT)]
    return script.leaves(*leaves[:left]) if left else script


_MOST_LEFT: Final = max(_LEFT)
_SCRIPT: Final = 4 + _MOST_LEFT

_WAITS: Final = (
    Do("wait"),
    Do("result"),
    Do("wait"),
    Do("wait", within=1.0),
    Do("wait", within=0.0),
)
_ENDS: Final = (
    Do("remove"),
    Do("kill"),
    Do("remove"),
    Do("kill", within=0.0),
    Do("remove", within=0.0),
    Do("kill", 0.0),
    Do("kill", 2.0),
    Do("remove", within=1.0),
    *[Do("kill", within=0.5)] * 2,
)
_REMOVES: Final = (Do("remove"), Do("remove"), Do("remove", within=0.0))
_KILLS: Final = tuple(step for step in _ENDS if step.op == "kill")
_SLEEPS: Final = (Do("sleep", 1.0), Do("sleep", 0.0), Do("sleep", 2.0))
_MEETS: Final = ()  # stands for `_meetings`
_LOOKS: Final = (Do("look"), Do("output"), Do("output", 1))
_LIMITS: Final = (Do("set_timeout", 1.0), Do("set_timeout"), Do("set_timeout", 2.0))
_RARELY: Final = (Do("wait_all"), Do("send_signal", float(signal.SIGINT)))
_ANYTHING: Final = _WAITS + _ENDS + _SLEEPS + _LOOKS + _LIMITS + _RARELY

# What people do with a shell, whole: loose operations mostly find it gone already.
_STORIES: Final = (
    (_WAITS,),
    (_ENDS,),
    (_WAITS, _REMOVES),
    *[(_MEETS, _WAITS), (_MEETS, _REMOVES), (_MEETS, _KILLS)] * 2,
    (_MEETS, _REMOVES),
    (_KILLS, _REMOVES),
    (_KILLS, _WAITS),
    (_LIMITS, _WAITS, _LOOKS),
    (_LIMITS, _WAITS),
    (_SLEEPS, _LIMITS, _WAITS),
    (_WAITS, _LOOKS, _ENDS),
    (_MEETS, _LOOKS, _ENDS, _WAITS),
    (_RARELY, _WAITS),
    (_ANYTHING, _ANYTHING, _ANYTHING),
)
# What is kept goes with the shell, or with a kill of it.
_STORIES_OF_KEPT: Final = (
    (_WAITS, _REMOVES),
    (_MEETS, _REMOVES),
    (_WAITS, _KILLS),
    (_MEETS, _ENDS),
    (_MEETS, _REMOVES),
    (_WAITS, _ENDS),
    (_ANYTHING, _ANYTHING, _REMOVES),
)
_STORY: Final = 1 + max(map(len, _STORIES))


def _story(
    choices: _Choices, stories: Sequence[Sequence[Sequence[Do]]], meetings: Sequence[Do]
) -> tuple[Do, ...]:
    return tuple(choices.of(steps or meetings) for steps in choices.of(stories))


def _meetings(script: Script, timeout: float | None) -> list[Do]:
    """Coming at the very moment of the end, of the limit, or in the grace that follows it."""
    moments = [] if script.returncode is None else [_duration(script)] * 2
    if timeout is not None:
        moments += [timeout, timeout + 0.5]
    return [Do("sleep", moment) for moment in (*(moments or [1.0]), 0.0)]


def _duration(script: Script) -> float:
    """When a process ends by itself."""
    pauses = (each.after + each.every * (len(each.chunks) - 1) for each in script.output)
    return sum(pauses) + script.after


_CREATIONS: Final[tuple[_Options, ...]] = (
    {},
    {"timeout": 1.0},
    {"timeout": 2.0},
    {},
    {"timeout": 1.0, "grace": 0.0},
    {"grace": 0.0},
    {"timeout": 1.0, "grace": 2.0},
    {"within": 0.0},
    {"within": 0.5},
    {"within": 0.5},
    {"timeout": 2.0, "within": 1.0},
    *({}, {"timeout": 2.0}) * 2,
)
# Who waits for what never ends plays no further life: mostly there is a limit to it.
_LIMITED: Final[tuple[_Options, ...]] = tuple(
    limit | options for options in _CREATIONS for limit in ({"timeout": 2.0}, {"timeout": 1.0}, {})
)
_BACKGROUNDS: Final[tuple[Background, ...]] = ("kill", "keep", "wait", "keep", "keep")
_RIVALS: Final = (0, 1, 1, 2)
_FAILS: Final = (*[False] * 11, True)
_MOST_RIVALS: Final = max(_RIVALS)
_LIFE: Final = 4 + _SCRIPT + (1 + _MOST_RIVALS) * _STORY


def _life(choices: _Choices, *, trouble: bool) -> Life:
    script, fails = _script(choices, trouble=trouble), choices.of(_FAILS)
    options: _Options = choices.of(_LIMITED if script.returncode is None else _CREATIONS)
    background, rivals = choices.of(_BACKGROUNDS), choices.of(_RIVALS)
    if fails:
        return Life(Script.fails_to_start(), (), **options)
    if not script.descendants:
        background = "kill"  # it says something only of a process that leaves others
    stories = _STORIES_OF_KEPT if background == "keep" else _STORIES
    meetings = _meetings(script, options.get("timeout"))
    parts = choices.parts(1 + rivals, _STORY)
    steps, *others = (_story(part, stories, meetings) for part in parts)
    return Life(script, steps, rivals=tuple(others), background=background, **options)


_READERS: Final = (
    Reader(),
    Reader(after=1.0),
    Reader(after=2.0, since=0),
    Reader(max_buffer=1, pace=1.0),
    Reader(max_buffer=2, pace=0.5),
    Reader(reads=1),
    Reader(reads=3, pace=1.0),
    Reader(since=0, max_buffer=1, pace=1.0),
)
_LEAVING: Final[tuple[_Options, ...]] = (
    *[{}] * 8,  # only what has come to rest shows what never will
    {"leave": "raise"},
    {"leave": "cancel"},
    *({"leave": how, "leave_after": s} for s in (0.0, 1.0, 2.0) for how in ("return", "cancel")),
    *({"leave": "raise", "leave_after": s} for s in (1.0, 2.0)),
)
_NUMBERS_OF_READERS: Final = (0, 0, 1, 2)
_MOST_READERS: Final = max(_NUMBERS_OF_READERS)
_RETAIN: Final = (25, 0, 1, 2)
_LIMIT: Final = (None, None, None, 1, 2)
_GRACE: Final = (1.0, 0.0, 2.0, 1.0)

# Which actor lives a life, or nobody. The first one is always lived, by the first actor.
_WHO: Final = (0, 0, 0, 1, 2, 3)
_LIVES: Final = 6


def _lives(choices: _Choices, *, trouble: bool) -> tuple[tuple[Life, ...], ...]:
    """The lives of each actor who has some."""
    first, *others = choices.parts(_LIVES, 1 + _LIFE)
    first.of(_WHO)
    actors: dict[int, list[Life]] = {1: [_life(first, trouble=trouble)], 2: [], 3: []}
    for part in others:
        if who := part.of(_WHO):
            actors[who].append(_life(part, trouble=trouble))
    return tuple(tuple(lives) for lives in actors.values() if lives)


def _program(choices: _Choices, *, trouble: bool) -> Program:
    retain, limit, grace = choices.of(_RETAIN), choices.of(_LIMIT), choices.of(_GRACE)
    leaving, number = choices.of(_LEAVING), choices.of(_NUMBERS_OF_READERS)
    readers = tuple(choices.of(_READERS) for _ in range(_MOST_READERS))
    actors = _lives(choices, trouble=trouble)
    if not trouble:
        return Program(actors, retain=retain, limit=limit, grace=grace)
    return Program(actors, readers[:number], retain=retain, limit=limit, grace=grace, **leaving)


_PROGRAM: Final = 5 + _MOST_READERS + _LIVES * (1 + _LIFE)


@st.composite
def scripts(draw: st.DrawFn, *, trouble: bool) -> Script:
    """A process."""
    return _script(_Choices(draw(_some(_SCRIPT))), trouble=trouble)


@st.composite
def programs(draw: st.DrawFn, *, trouble: bool) -> Program:
    """A scope with its actors; with trouble also subscribers, and ways to leave it."""
    return _program(_Choices(draw(_some(_PROGRAM))), trouble=trouble)


def _some(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)
