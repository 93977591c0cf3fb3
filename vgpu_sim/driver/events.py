"""Events: one log line each, and a JSON object to every subscriber.

Texts in events come from workers, that is from tenants, and end in logs and Kubernetes events:
``clean_text`` bounds them and takes control characters out.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("tessera.gpud")

MAX_TEXT_CHARACTERS = 512
Subscriber = Callable[[dict[str, Any]], None]

# What a user of the node should see without asking for more.
_WARNINGS = frozenset(
    {"fault", "unsupported_ptx", "out_of_memory", "fenced", "refused", "worker_failed"}
)


def clean_text(value: object, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return printable text of bounded length from whatever a tenant sent."""
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text[:limit])


class EventBus:
    """Distributes events. A subscriber must not block; one that raises is a defect."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber; the function returned removes it."""
        self._subscribers.append(subscriber)

        def unsubscribe() -> None:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

        return unsubscribe

    def emit(self, name: str, /, **fields: Any) -> None:
        """Log and send an event."""
        level = logging.WARNING if name in _WARNINGS else logging.INFO
        logger.log(level, "%s %s", name, json.dumps(fields, ensure_ascii=False))
        for subscriber in tuple(self._subscribers):
            subscriber({"event": name, **fields})
