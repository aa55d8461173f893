"""What happened, in one order for everyone: the events, the log, its subscriptions (C12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, final

import attrs
import trio

from . import _checks
from ._exceptions import SubscriptionLaggedError
from ._records import ShellInfo
from ._report import report

Reason = Literal["removed", "evicted", "closed"]

# Events that `subscribe(since=...)` can replay. At about 1 KiB an event this is some 8 MiB at
# the most; a log without a bound would be a leak in a long-lived scope.
HISTORY = 8192


@final
@attrs.frozen(kw_only=True)
class Created:
    """A shell runs. Queued before anything about it can be seen elsewhere (C5).

    Attributes:
        seq: Position in the scope's one order of events, from 1, without gaps.
        time: Epoch seconds.
        id: The shell's id.
        info: The shell at that moment, with its pid.
    """

    type: ClassVar[str] = "shell.created"
    seq: int
    time: float
    id: str
    info: ShellInfo

    def as_dict(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes as it is."""
        return _as_dict(self)


@final
@attrs.frozen(kw_only=True)
class Exited:
    """A shell has ended: its tree is gone and its output is complete (C4).

    Attributes:
        seq: Position in the scope's one order of events, from 1, without gaps.
        time: Epoch seconds.
        id: The shell's id.
        info: The final info.
    """

    type: ClassVar[str] = "shell.exited"
    seq: int
    time: float
    id: str
    info: ShellInfo

    def as_dict(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes as it is."""
        return _as_dict(self)


@final
@attrs.frozen(kw_only=True)
class Deleted:
    """The record and the capture file of an ended shell are gone.

    Attributes:
        seq: Position in the scope's one order of events, from 1, without gaps.
        time: Epoch seconds.
        id: The shell's id.
        info: The final info.
        reason: ``"removed"`` by a caller, ``"evicted"`` by the retention limit, or ``"closed"``
            with its scope.
    """

    type: ClassVar[str] = "shell.deleted"
    seq: int
    time: float
    id: str
    info: ShellInfo
    reason: Reason

    def as_dict(self) -> dict[str, Any]:
        """A dict that `json.dumps` takes as it is."""
        return _as_dict(self) | {"reason": self.reason}


Event = Created | Exited | Deleted
Observer = Callable[[Event], object]


def _as_dict(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "seq": event.seq,
        "time": event.time,
        "id": event.id,
        "info": event.info.as_dict(),
    }


@attrs.define(eq=False)
class Log:
    """The one order of events of a scope. Publishing never waits and never fails.

    Subscriptions hold references to shared events, so a slow subscriber costs a pointer per
    event and nobody's time (C12).
    """

    _observers: Sequence[Observer] = ()
    last_seq: int = 0
    closed: bool = False
    _history: deque[Event] = attrs.field(factory=lambda: deque(maxlen=HISTORY))
    _subscriptions: list[Subscription] = attrs.field(factory=list)

    @property
    def subscribers(self) -> int:
        """How many subscriptions are open."""
        return len(self._subscriptions)

    def created(self, info: ShellInfo, *, time: float) -> None:
        """Publish `Created`."""
        self._publish(Created(seq=self.last_seq + 1, time=time, id=info.id, info=info))

    def exited(self, info: ShellInfo, *, time: float) -> None:
        """Publish `Exited`."""
        self._publish(Exited(seq=self.last_seq + 1, time=time, id=info.id, info=info))

    def deleted(self, info: ShellInfo, *, time: float, reason: Reason) -> None:
        """Publish `Deleted`."""
        self._publish(
            Deleted(seq=self.last_seq + 1, time=time, id=info.id, info=info, reason=reason)
        )

    def _publish(self, event: Event) -> None:
        self.last_seq = event.seq
        self._history.append(event)
        # A copy: a subscription that overflows leaves the list while we go over it.
        # Subscriptions before observers: an observer may close one, which empties its buffer.
        for subscription in tuple(self._subscriptions):
            subscription._push(event)
        for observer in self._observers:
            _notify(observer, event)

    def since(self, seq: int) -> list[Event]:
        """The events after ``seq``.

        Raises:
            ValueError: ``seq`` is not a position in this log.
            SubscriptionLaggedError: The log no longer holds all of them.
        """
        if _checks.count("since", seq, least=0) > self.last_seq:
            raise ValueError(f"since must be at most {self.last_seq}, the last seq, not {seq!r}")
        missing = self.last_seq - seq
        if missing > len(self._history):
            raise SubscriptionLaggedError(seq, missing)
        return [event for event in self._history if event.seq > seq]

    def close(self) -> None:
        """No event will follow: subscriptions end after what they still hold."""
        self.closed = True
        for subscription in tuple(self._subscriptions):
            subscription._finish()


def _notify(observer: Observer, event: Event) -> None:
    try:
        observer(event)
    except BaseException as error:  # noqa: BLE001
        # Publication is one step with the change it tells of (C5): nothing may break out of it.
        # Not even sys.exit(). Ctrl+C is held back here, so this loses none.
        report(f"the observer {observer!r} raised {error!r} at {event.type} {event.id}")


@final
@attrs.define(eq=False)
class Subscription(trio.abc.ReceiveChannel[Event]):
    """The events of a scope from one moment on: ``async for event in subscription``.

    Made by `Shells.subscribe`. It ends after the last event of the scope, or when it is closed
    (from any task, also with `close`); then ``async for`` just ends.
    """

    _log: Log
    _capacity: int
    _last: int
    _buffer: deque[Event]
    _open: bool = True  # still fed by the log
    _lagged: bool = False
    _waiting: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)

    async def receive(self) -> Event:
        """Wait for the next event.

        Raises:
            trio.EndOfChannel: No event will follow.
            SubscriptionLaggedError: More events were published than the buffer holds. Raised
                once, after the events that it did hold; then the subscription has ended.

        Cancellation: no event is lost; the next call returns it.
        """
        await trio.lowlevel.checkpoint()
        while not self._buffer:
            if self._lagged:
                self._lagged = False
                raise SubscriptionLaggedError(self._last, self._log.last_seq - self._last)
            if not self._open:
                raise trio.EndOfChannel
            await self._waiting.park()
        event = self._buffer.popleft()
        self._last = event.seq
        return event

    def close(self) -> None:
        """End the subscription now: it gives no further event, not even buffered ones."""
        self._buffer.clear()
        self._lagged = False
        self._finish()

    async def aclose(self) -> None:
        """`close`, as a checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()

    def _push(self, event: Event) -> None:
        if len(self._buffer) >= self._capacity:
            self._lagged = True
            self._finish()
            return
        self._buffer.append(event)
        self._waiting.unpark()

    def _finish(self) -> None:
        if self._open:
            self._open = False
            self._log._subscriptions.remove(self)
        self._waiting.unpark_all()


def subscribe(log: Log, *, since: int | None, max_buffer: int) -> Subscription:
    """Open a subscription; its first event is the one published next, or the one after since."""
    _checks.count("max_buffer", max_buffer, least=1)
    replay = [] if since is None else log.since(since)
    last = log.last_seq if since is None else since
    # What is replayed was missed before, so it does not count against the buffer.
    subscription = Subscription(log, max_buffer + len(replay), last, deque(replay))
    if log.closed:
        subscription._open = False
    else:
        log._subscriptions.append(subscription)
    return subscription
