"""The events of a daemon: a JSON object for every subscriber, in causal order."""

from collections import deque
from collections.abc import Callable
from typing import Any

Subscriber = Callable[[dict[str, Any]], None]


class EventBus:
    """Distributes events to subscribers. A subscriber must not block or raise.

    If a subscriber emits an event while it handles another one, all subscribers receive the new
    event after the handled one. For example, an Xid comes after its fault.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._delivers = False

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber; call the returned function to remove it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def emit(self, name: str, /, **fields: Any) -> None:
        """Send an event to all subscribers."""
        self._waiting.append((name, fields))
        if self._delivers:
            return  # emitted by a subscriber: delivered after the event that it handles
        self._delivers = True
        try:
            while self._waiting:
                event_name, its = self._waiting.popleft()
                for subscriber in tuple(self._subscribers):
                    subscriber({"event": event_name, **its})
        finally:
            self._delivers = False
