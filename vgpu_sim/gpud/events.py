"""Events: one log line each, and a JSON object to every subscriber.

Texts in events come from workers, that is from tenants, and end in logs and Kubernetes events:
``clean_text`` bounds them and takes control characters out.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from vgpu_sim.system.admin_socket import events

logger = logging.getLogger("tessera.gpud")

MAX_TEXT_CHARACTERS = 512

# What an operator of a node should see without asking for more.
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
    """Return printable text of bounded length from whatever a tenant sent."""
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() else " " for c in text[:limit])


def ascii_text(value: object, limit: int) -> str:
    """Return the same of ASCII alone: what stays in the inventory, where JSON writes every other
    character as six or twelve.
    """
    return clean_text(value, limit).encode("ascii", "replace").decode("ascii")


def sentence(name: str, fields: Mapping[str, Any]) -> str | None:
    """Return what the user of a run should read; None where the client library says it itself."""
    match name:
        case "out_of_memory":
            requested, of_slice, of_run, budget = (
                f"{fields[key] >> 20} MiB"
                for key in (
                    *("requested_bytes", "slice_free_bytes"),
                    *("node_free_bytes", "node_total_bytes"),
                )
            )
            return (
                f"out of memory: {requested} asked for, {of_slice} free of the slice and {of_run}"
                f" of the run's memory budget of {budget} (--budget)"
            )
        case "worker_failed":
            return f"the context could not be set up: {fields['message']}"
        case _:
            return None


class EventBus(events.EventBus):
    """Logs each event before subscribers get it.

    ``for_user``: this is one user's run, whose terminal gets sentences instead of records.
    """

    def __init__(self, for_user: bool = False) -> None:
        super().__init__()
        self._for_user = for_user

    def emit(self, name: str, /, **fields: Any) -> None:
        """Log and send an event."""
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
