"""`zoo`: commands that misbehave, for tests with real processes."""

from __future__ import annotations

import sys

from . import _animals


def zoo(animal: str, *arguments: object) -> list[str]:
    """The command of a misbehaving program, for `Shells.create` or any other way to run it.

    ``hopper`` re-forks into new sessions without pause, ``daemon`` leaves a double-forked daemon,
    ``stubborn`` ignores SIGTERM, ``stopper`` stops itself, ``holder`` and ``chatty`` leave a
    child on the output, ``flooder`` writes numbered records, ``bytewise`` splits characters,
    ``truncator`` opens its output again by name, ``closer`` closes its streams and works on,
    ``zombies`` collects no child, ``storm`` is many processes, ``racer`` exits in a moment.
    None of them lives longer than a minute.

    Args:
        animal: Which one.
        arguments: For some: seconds (``holder``, ``chatty``, ``closer``, ``racer``, whose second
            one is the exit code), bytes (``flooder``), how many (``zombies``, ``storm``), a text
            (``bytewise``).

    Raises:
        ValueError: There is no such animal.
    """
    if animal not in _animals.ANIMALS:
        raise ValueError(f"there is no {animal!r} in the zoo: {', '.join(_animals.ANIMALS)}")
    return [sys.executable, "-I", "-S", _animals.__file__, animal, *map(str, arguments)]
