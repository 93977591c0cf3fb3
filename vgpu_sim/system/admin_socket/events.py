"""The events of a daemon: a JSON object to every subscriber, in the order of their causes."""

from collections import deque
from collections.abc import Callable
from typing import Any

Subscriber = Callable[[dict[str, Any]], None]


class EventBus:
    """Distributes events. A subscriber must not block; one that raises is a defect.

    An event that a subscriber emits follows the one that it was called for, for all subscribers:
    an Xid comes after its fault.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._waiting: deque[tuple[str, dict[str, Any]]] = deque()
        self._delivers = False

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber; the function returned removes it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def emit(self, name: str, /, **fields: Any) -> None:
        """Send an event."""
        self._waiting.append((name, fields))
        if self._delivers:
            return  # from within a subscriber: it is delivered when its cause has been
        self._delivers = True
        try:
            while self._waiting:
                one, its = self._waiting.popleft()
                for subscriber in tuple(self._subscribers):
                    subscriber({"event": one, **its})
        finally:
            self._delivers = False
