"""Races as programs, each with the statuses that one deviation from the simplest schedule brings.

Small, and over before the scope is left, unless leaving is the race: else it would be cut off.
"""

from __future__ import annotations

from typing import Final

from trioshell.testing import Do, Life, Program, Reader, Script

_EXITS_AT_1: Final = Script.exits(after=1.0)
_STUBBORN: Final = Script.forever().ignores("TERM")
_SLEEP: Final = Do("sleep", 1.0)

SCENARIOS: Final[dict[str, tuple[Program, set[str]]]] = {
    "remove against exit": (
        Program(((Life(_EXITS_AT_1, (_SLEEP, Do("remove"))),),)),
        {"exited", "killed"},
    ),
    "kill against exit": (
        Program(((Life(_EXITS_AT_1, (Do("wait"),), rivals=((_SLEEP, Do("kill")),)),),)),
        {"exited", "killed"},
    ),
    "limit against exit": (
        Program(((Life(_EXITS_AT_1, (Do("wait"), Do("look")), timeout=1.0),),)),
        {"exited", "timeout"},
    ),
    "limit against exit against remove": (
        Program(((Life(_EXITS_AT_1, (_SLEEP, Do("remove")), timeout=1.0),),)),
        {"exited", "killed"},
    ),
    "limit against kill": (
        Program(((Life(Script.forever(), (_SLEEP, Do("kill")), timeout=1.0),),)),
        {"timeout", "killed"},
    ),
    "limit moved against limit": (
        Program(
            ((Life(Script.forever(), (_SLEEP, Do("set_timeout", 1.0), Do("wait")), timeout=1.0),),)
        ),
        {"timeout"},
    ),
    "limit cleared against limit": (
        Program(((Life(_EXITS_AT_1, (_SLEEP, Do("set_timeout")), timeout=1.0),),)),
        {"exited", "timeout"},
    ),
    "waiters against remove against exit": (
        Program(
            (
                (
                    Life(
                        _EXITS_AT_1,
                        (Do("wait"),),
                        rivals=((_SLEEP, Do("remove")), (Do("result"), Do("wait"))),
                    ),
                ),
            )
        ),
        {"exited", "killed"},
    ),
    "two removes": (
        Program(((Life(Script.forever(), (Do("remove"),), rivals=((Do("remove"),),)),),)),
        {"killed"},
    ),
    "two removes after the end": (
        Program(
            (
                (
                    Life(
                        Script.exits(),
                        (Do("wait"), Do("remove")),
                        rivals=((Do("wait"), Do("remove")),),
                    ),
                ),
            )
        ),
        {"exited"},
    ),
    "kill against remove": (
        Program(((Life(_STUBBORN, (Do("kill"),), rivals=((Do("remove"),), (Do("wait"),))),),)),
        {"killed"},
    ),
    "a kill that its caller gives up": (
        Program(((Life(_STUBBORN, (Do("kill", within=0.0), Do("wait"))),),)),
        {"killed"},
    ),
    "create given up": (
        Program(
            (
                (
                    Life(Script.exits().spawn_takes(1.0), (Do("wait"),), within=1.0),
                    Life(Script.exits(), (Do("wait"),)),
                ),
            )
        ),
        {"exited"},
    ),
    "eviction against remove": (
        Program(
            (
                (Life(Script.exits(), (Do("wait"), Do("remove"))),),
                (Life(Script.exits(), (Do("wait"), Do("look"))),),
            ),
            retain=1,
        ),
        {"exited"},
    ),
    "removal against places": (
        Program(
            (
                (Life(Script.exits(), (Do("wait"),)),),
                (Life(Script.forever(), (Do("remove"),)),),
            ),
            retain=0,
        ),
        {"exited", "killed"},
    ),
    "one place for two": (
        Program(
            (
                (Life(_EXITS_AT_1, (Do("wait"),)),),
                (Life(Script.forever(), (_SLEEP, Do("kill"))),),
            ),
            limit=1,
        ),
        {"exited", "killed"},
    ),
    "what is kept against remove": (
        Program(
            (
                (
                    Life(
                        Script.exits().leaves(_EXITS_AT_1),
                        (Do("wait"), _SLEEP, Do("remove")),
                        background="keep",
                    ),
                ),
            )
        ),
        {"exited"},
    ),
    "limit of a polite one": (
        Program(
            ((Life(Script.forever().prints(b"ab").exits_on("TERM"), (Do("wait"),), timeout=1.0),),)
        ),
        {"timeout"},
    ),
    "create given up in the middle": (
        Program(
            ((Life(Script.forever().spawn_takes(1.0, shielded=True), (Do("wait"),), within=0.5),),)
        ),
        set(),
    ),
    "removal beside the retained": (
        Program(
            (
                (Life(Script.exits(), (Do("wait"), _SLEEP, Do("look"))),),
                (Life(Script.forever(), (_SLEEP, Do("remove"))),),
            ),
            retain=1,
        ),
        {"exited", "killed"},
    ),
    "subscribers, one behind, one late": (
        Program(
            ((Life(Script.forever(), (Do("sleep", 2.0), Do("remove"))),),),
            readers=(Reader(max_buffer=1, pace=1.0), Reader(after=1.0, since=0), Reader()),
        ),
        {"killed"},
    ),
    "remove of a stubborn one": (
        Program(((Life(_STUBBORN, (Do("remove"),)),),)),
        {"killed"},
    ),
    "a start that fails in the only place": (
        Program(
            ((Life(Script.fails_to_start(), ()), Life(Script.exits(), (Do("wait"),))),),
            limit=1,
        ),
        {"exited"},
    ),
    "what is kept against remove against exit": (
        Program(
            (
                (
                    Life(
                        _EXITS_AT_1.leaves(Script.forever()),
                        (_SLEEP, Do("remove")),
                        background="keep",
                    ),
                ),
            )
        ),
        {"exited", "killed"},
    ),
    "kill in the grace of a limit": (
        Program(
            ((Life(_STUBBORN, (Do("sleep", 1.5), Do("kill")), timeout=1.0),),),
        ),
        {"timeout", "killed"},
    ),
    "leaving against exit": (
        Program(((Life(_EXITS_AT_1, (Do("wait"),)),),), leave_after=1.0),
        {"exited", "killed"},
    ),
    "leaving by cancellation against create": (
        Program(
            ((_LIFE_AT_1 := Life(Script.exits().spawn_takes(1.0), (Do("wait"),)), _LIFE_AT_1),),
            leave="cancel",
            leave_after=1.0,
        ),
        {"exited"},
    ),
    "leaving against remove": (
        Program(((Life(_STUBBORN, (_SLEEP, Do("remove"))),),), leave="raise", leave_after=1.0),
        {"killed"},
    ),
    "limit set while it runs": (
        Program(((Life(Script.forever(), (Do("set_timeout", 1.0), Do("wait"))),),)),
        {"timeout"},
    ),
    "limit cleared before it": (
        Program(
            ((Life(Script.exits(after=2.0), (Do("set_timeout"), Do("wait")), timeout=1.0),),),
        ),
        {"exited", "timeout"},
    ),
    "kill in the grace of a kill": (
        Program(((Life(_STUBBORN, (Do("kill", 2.0),), rivals=((_SLEEP, Do("kill", 0.0)),)),),)),
        {"killed"},
    ),
    "kill of what an ended shell keeps": (
        Program(
            (
                (
                    Life(
                        Script.exits().leaves(Script.forever()),
                        (Do("wait"), Do("kill")),
                        background="keep",
                    ),
                ),
            )
        ),
        {"exited"},
    ),
    "waiters against remove": (
        Program(
            (
                (
                    Life(
                        Script.forever().prints(b"a"),
                        (Do("result"),),
                        rivals=((_SLEEP, Do("remove")), (Do("wait"),)),
                    ),
                ),
            )
        ),
        {"killed"},
    ),
    "caller gives up a start that another one waits for": (
        Program(
            (
                (Life(Script.exits().spawn_takes(1.0), (), within=0.5),),
                (Life(Script.exits(), (Do("wait"),)),),
            ),
            limit=1,
        ),
        {"exited"},
    ),
}
