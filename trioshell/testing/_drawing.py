"""How scripts and programs are drawn. Imported only where Hypothesis is used.

Everything is drawn before a run, never inside. Moments are few and round, so that things meet:
what ends a shell at the very moment of its time limit finds more than any random number. A draw
costs more than a step of a run, so values are made beforehand and drawn whole, the plain ones
first, to which failures shrink, and often.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from ..launchers import Background
from ._program import Do, Life, Program, Reader
from ._script import Script

_Change = Callable[[Script], Script]
_Options = dict[str, Any]


def _same(script: Script) -> Script:
    return script


_PROCESSES: Final = (
    Script.exits(),
    Script.forever(),
    Script.exits(3, after=1.0),
    Script.exits(after=2.0),
    Script.dies("SEGV", after=1.0),
    Script.exits(after=1.0).ignores("TERM"),
    Script.forever().ignores("TERM"),
    Script.forever().exits_on("TERM"),
    Script.exits(3, after=2.0).exits_on("TERM", after=1.0),
    Script.forever().exits_on("TERM", 3, after=3.0),
)

_OUTPUTS: Final[tuple[_Change, ...]] = (
    _same,
    lambda script: script.prints(b"a"),
    lambda script: script.prints(b"a", b"bc\n", every=1.0),
    lambda script: script.prints("\N{SNOWMAN}".encode(), b"\xff", every=0.5),
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


_PROCESS: Final = st.sampled_from(_PROCESSES)
_OUTPUT: Final = st.sampled_from(_OUTPUTS)
_DESCENDANT: Final = {False: st.sampled_from(_DESCENDANTS), True: st.sampled_from(_STUCK)}
_ODDITY: Final = {False: st.sampled_from(_ODDITIES), True: st.sampled_from(_TROUBLES)}
_LEFT: Final = st.sampled_from((0, 0, 0, 1, 1, 2))


@st.composite
def scripts(draw: st.DrawFn, *, trouble: bool) -> Script:
    """A process: how it ends, what it prints, what it leaves, and what else is odd about it."""
    script = draw(_OUTPUT)(draw(_PROCESS))
    if left := draw(_LEFT):
        script = script.leaves(*(draw(_DESCENDANT[trouble]) for _ in range(left)))
    return draw(_ODDITY[trouble])(script)


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
    Do("kill", 0.0),
    Do("remove", within=0.0),
    Do("kill", within=0.0),
    Do("kill", 2.0),
    Do("remove", within=1.0),
    Do("kill", within=0.5),
)
_REMOVES: Final = (Do("remove"), Do("remove"), Do("remove", within=0.0))
_KILLS: Final = tuple(step for step in _ENDS if step.op == "kill")
_SLEEPS: Final = (Do("sleep", 1.0), Do("sleep", 0.0), Do("sleep", 2.0), Do("sleep", 3.0))
_LOOKS: Final = (Do("look"), Do("output"), Do("output", 1))
_LIMITS: Final = (Do("set_timeout", 1.0), Do("set_timeout"), Do("set_timeout", 2.0))
_RARELY: Final = (Do("wait_all"), Do("send_signal", float(signal.SIGINT)))
_ANYTHING: Final = _WAITS + _ENDS + _SLEEPS + _LOOKS + _LIMITS + _RARELY

# What people do with a shell, whole: loose operations mostly find it gone already.
_STORIES: Final = (
    (_WAITS,),
    (_REMOVES,),
    (_WAITS, _REMOVES),
    (_SLEEPS, _ENDS),
    (_KILLS, _REMOVES),
    (_KILLS,),
    *[(_SLEEPS, _WAITS), (_SLEEPS, _REMOVES)] * 2,  # coming at the very moment of the end
    (_LIMITS, _WAITS, _LOOKS),
    (_WAITS, _LOOKS, _ENDS),
    (_SLEEPS, _LOOKS, _ENDS, _WAITS),
    (_ANYTHING, _ANYTHING, _ANYTHING),
)


_TELLINGS: Final = st.sampled_from(
    [st.sampled_from(tuple(itertools.product(*story))) for story in _STORIES]
).flatmap(lambda telling: telling)

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
_CREATION: Final = st.sampled_from(_CREATIONS)
_END: Final = st.sampled_from(({"timeout": 3.0}, {"timeout": 2.0}, {}))
_BACKGROUNDS: Final[tuple[Background, ...]] = ("kill", "keep", "kill", "wait", "keep")
_BACKGROUND: Final = st.sampled_from(_BACKGROUNDS)
_RIVALS: Final = st.sampled_from((0, 1, 0, 1, 2))
_FAILURE: Final = st.sampled_from((*[False] * 11, True))


@st.composite
def _lives(draw: st.DrawFn, *, trouble: bool) -> Life:
    options = draw(_CREATION)
    if draw(_FAILURE):
        return attrs.evolve(Life(Script.fails_to_start(), ()), **options)
    script = draw(_SCRIPTS[trouble])
    if script.returncode is None and "timeout" not in options:
        # Who waits for what never ends plays no further life.
        options = options | draw(_END)
    return Life(
        script,
        draw(_TELLINGS),
        rivals=tuple(draw(_TELLINGS) for _ in range(draw(_RIVALS))),
        # It says something only of a process that leaves others.
        background=draw(_BACKGROUND) if script.descendants else "kill",
        **options,
    )


# Made once: making a strategy costs more than drawing from it.
_SCRIPTS: Final = {trouble: scripts(trouble=trouble) for trouble in (False, True)}
_LIVES: Final = {trouble: _lives(trouble=trouble) for trouble in (False, True)}

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
    *[{}] * 5,  # only what has come to rest shows what never will
    {"leave": "raise"},
    {"leave": "cancel"},
    *({"leave": how, "leave_after": s} for s in (0.0, 1.0, 2.0) for how in ("return", "cancel")),
    *({"leave": "raise", "leave_after": s} for s in (1.0, 2.0)),
)


_READER: Final = st.sampled_from(_READERS)
_NUMBER_OF_READERS: Final = st.sampled_from((0, 0, 1, 2))
_LEAVE: Final = st.sampled_from(_LEAVING)
_ACTORS: Final = st.sampled_from((1, 2, 2, 3))
_NUMBER_OF_LIVES: Final = st.sampled_from((1, 1, 2, 3))
_SCOPES: Final = st.sampled_from(
    [
        {"retain": retain, "limit": limit, "grace": grace}
        for grace in (1.0, 0.0, 2.0)
        for limit in (None, None, None, 1, 2)
        for retain in (25, 0, 1, 2)
    ]
)


@st.composite
def programs(draw: st.DrawFn, *, trouble: bool) -> Program:
    """A scope with its actors; with trouble also subscribers, and ways to leave it."""
    options: _Options = dict(draw(_SCOPES))
    if trouble:
        options |= draw(_LEAVE)
        options["readers"] = tuple(draw(_READER) for _ in range(draw(_NUMBER_OF_READERS)))
    actors = draw(_ACTORS)
    return Program(tuple(_actor(draw, _LIVES[trouble]) for _ in range(actors)), **options)


def _actor(draw: st.DrawFn, lives: st.SearchStrategy[Life]) -> tuple[Life, ...]:
    return tuple(draw(lives) for _ in range(draw(_NUMBER_OF_LIVES)))
