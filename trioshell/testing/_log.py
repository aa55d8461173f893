"""`EventLog`: what was published, and the state of the world that follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, final

import attrs
import trio

from .._events import Created, Deleted, Event, Exited
from .._records import Leftover, ShellInfo, Status, Usage

# Built by key: the values do not matter, the order does.
_Ids = dict[str, None]


@final
@attrs.define(eq=False)
class EventLog:
    """Every event of a scope, and the shells that there are, by these events alone.

    Give it to `open_shells` as an observer, feed it from a subscription, or from the JSON lines
    of a program that ran long ago: it takes events and what their ``as_dict()`` returned.

    Attributes:
        events: In the order they came.
        times: When each came, on trio's clock; None outside of trio.
    """

    events: list[Event] = attrs.field(factory=list)
    times: list[float | None] = attrs.field(factory=list)
    _running: _Ids = attrs.field(factory=dict)
    _retained: _Ids = attrs.field(factory=dict)

    def __call__(self, event: Event | Mapping[str, Any]) -> None:
        """Take the next event."""
        event = as_event(event)
        self.events.append(event)
        self.times.append(trio.current_time() if trio.lowlevel.in_trio_run() else None)
        match event:
            case Created():
                self._running[event.id] = None
            case Exited():
                self._running.pop(event.id, None)
                self._retained[event.id] = None
            case Deleted():
                self._running.pop(event.id, None)
                self._retained.pop(event.id, None)

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    @property
    def last_seq(self) -> int:
        """``seq`` of the newest event; 0 before any."""
        return self.events[-1].seq if self.events else 0

    def running(self) -> AbstractSet[str]:
        """The ids of the shells that run, in creation order. It equals a set of them."""
        return self._running.keys()

    def retained(self) -> AbstractSet[str]:
        """The ids of the shells that ended and are kept, in the order of their ends."""
        return self._retained.keys()

    def of(self, id: str) -> list[str]:
        """The life of one shell: ``["created", "exited(killed)", "deleted"]``."""
        return [label(event) for event in self.events if event.id == id]

    def view(self) -> str:
        """All lives for people to read, one line each, with the ``seq`` of every event."""
        return "\n".join(History.of(self).lines())


@attrs.define(eq=False)
class Life:
    """One shell in a log.

    Attributes:
        number: From 1, in the order in which the shells appear.
        id: Its id.
        events: All of its events.
    """

    number: int
    id: str
    events: list[Event] = attrs.field(factory=list)

    @property
    def created(self) -> Created | None:
        return next((event for event in self.events if isinstance(event, Created)), None)

    @property
    def exited(self) -> Exited | None:
        return next((event for event in self.events if isinstance(event, Exited)), None)

    @property
    def deleted(self) -> Deleted | None:
        return next((event for event in self.events if isinstance(event, Deleted)), None)

    def runs_at(self, seq: int) -> bool:
        """Whether it ran after the event with this ``seq``."""
        return _is_past(self.created, seq) and not _is_past(self.exited, seq)

    def known_at(self, seq: int) -> bool:
        """Whether it ran or was retained after the event with this ``seq``."""
        return _is_past(self.created, seq) and not _is_past(self.deleted, seq)

    def timeline(self, culprit: Event | None = None) -> str:
        """Its events with their ``seq``, one of them marked."""
        steps = " -> ".join(f"{label(event)}@{event.seq}" for event in self.events)
        if culprit is None:
            return steps
        before = self.events[: self.events.index(culprit) + 1]
        marked = " -> ".join(f"{label(event)}@{event.seq}" for event in before)
        return f"{marked} <-- here{steps[len(marked) :]}"


@attrs.frozen
class History:
    """A log in which everything can be looked up."""

    events: tuple[Event, ...]
    times: tuple[float | None, ...]
    lives: dict[str, Life]

    @classmethod
    def of(cls, log: EventLog) -> History:
        lives: dict[str, Life] = {}
        for event in log.events:
            life = lives.setdefault(event.id, Life(len(lives) + 1, event.id))
            life.events.append(event)
        return cls(tuple(log.events), tuple(log.times), lives)

    @property
    def first_seq(self) -> int:
        return self.events[0].seq if self.events else 1

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    def running_at(self, seq: int) -> list[str]:
        """The ids of the shells that ran after the event with this ``seq``."""
        return [life.id for life in self.lives.values() if life.runs_at(seq)]

    def name(self, id: str) -> str:
        """How to call a shell: by its place in the order of creation, since ids are long."""
        life = self.lives.get(id)
        return f"shell {life.number}" if life else f"an unknown shell ({id})"

    def lines(self) -> list[str]:
        """All lives for people to read."""
        return [f"shell {life.number}: {life.timeline()}" for life in self.lives.values()]

    def around(self, seq: int, width: int = 4) -> str:
        """The events near one of them, of all shells."""
        near = [event for event in self.events if abs(event.seq - seq) <= width]
        return "  ".join(f"{label(event)} {self.name(event.id)}@{event.seq}" for event in near)


def label(event: Event) -> str:
    """``created``, ``exited(status)`` or ``deleted``."""
    kind = event.type.removeprefix("shell.")
    return f"{kind}({event.info.status})" if isinstance(event, Exited) else kind


def as_event(value: Event | Mapping[str, Any]) -> Event:
    """An event, also from what its ``as_dict()`` returned.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, Created | Exited | Deleted):
        return value
    try:
        kind = _KINDS[value["type"]]
        told: dict[str, Any] = {name: value[name] for name in ("seq", "time", "id")}
        if kind is Deleted:
            told["reason"] = value["reason"]
        return kind(info=_info(value["info"]), **told)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not an event ({error!r}): {value!r}") from error


_KINDS: Mapping[str, type[Event]] = {kind.type: kind for kind in (Created, Exited, Deleted)}


def _info(fields: Mapping[str, Any]) -> ShellInfo:
    known = {field.name for field in attrs.fields(ShellInfo)}
    values = {name: value for name, value in fields.items() if name in known}
    command, usage = values["command"], values["usage"]
    values["command"] = command if isinstance(command, str) else tuple(command)
    values["status"] = Status(values["status"])
    values["usage"] = None if usage is None else Usage(**usage)
    values["leftovers"] = tuple(Leftover(**leftover) for leftover in values["leftovers"])
    return ShellInfo(**values)


def _is_past(event: Event | None, seq: int) -> bool:
    return event is not None and event.seq <= seq
