"""The events of gpud. Each is written as one log line, and sent to every subscriber as a JSON
object.

Texts in events come from workers and thus from tenants, and end up in logs and Kubernetes
events: ``clean_text`` limits their length and removes control characters.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from vgpu_sim.hal.management import shortage
from vgpu_sim.system.admin_socket import events

logger = logging.getLogger("tessera.gpud")

MAX_TEXT_CHARACTERS = 512

# Logged by default, for the operator of a node.
_WARNINGS = frozenset(
    {
        "fault",
        "unsupported_ptx",
        "out_of_memory",
        "fenced",
        "refused",
        "worker_failed",
        "xid",
        "health",
    }
)


def clean_text(value: object, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a tenant's value as printable text of bounded length."""
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text[:limit])


def ascii_text(value: object, limit: int) -> str:
    """Return a tenant's value as printable ASCII text of at most ``limit`` characters, for the
    inventory. Other characters would take six or twelve bytes each in JSON.
    """
    return clean_text(value, limit).encode("ascii", "replace").decode("ascii")


def sentence(name: str, fields: Mapping[str, Any]) -> str | None:
    """Return an event as a message for the user of a run; None if the client library reports the
    event itself.
    """
    match name:
        case "out_of_memory":
            return f"out of memory: {shortage.describe(fields, 'run')} (--budget)"
        case "worker_failed":
            return f"the context could not be set up: {fields['message']}"
        case _:
            return None


class EventBus(events.EventBus):
    """Logs each event, then sends it to the subscribers.

    ``for_user`` states that gpud serves one user's run. The run's terminal then shows messages
    instead of event records.
    """

    def __init__(self, for_user: bool = False) -> None:
        super().__init__()
        self._for_user = for_user

    def emit(self, name: str, /, **fields: Any) -> None:
        """Log an event and send it to the subscribers."""
        self._log(name, fields)
        super().emit(name, **fields)

    def _log(self, name: str, fields: Mapping[str, Any]) -> None:
        level = logging.WARNING if name in _WARNINGS else logging.INFO
        if self._for_user:
            text = sentence(name, fields)
            if text is not None:
                logger.warning("%s", text)
            level = logging.INFO
        logger.log(level, "%s %s", name, json.dumps(fields, ensure_ascii=False))
