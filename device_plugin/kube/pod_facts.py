"""What of a pod decides whether it may use an HCA function."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as the API server has it.

    ``addresses`` are empty until its sandbox has some, and when it has ended: its status keeps
    them, though another pod may have them by then.
    """

    uid: str
    node_name: str
    host_network: bool
    addresses: tuple[str, ...]


def read(document: Mapping[str, Any]) -> PodFacts:
    """Read a Pod."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    ended = status.get("phase") in _ENDED
    listed = [entry.get("ip") for entry in (not ended and status.get("podIPs")) or ()]
    return PodFacts(
        uid=document["metadata"]["uid"],
        node_name=spec.get("nodeName") or "",
        host_network=bool(spec.get("hostNetwork")),
        addresses=tuple(ip for ip in listed if ip),
    )
