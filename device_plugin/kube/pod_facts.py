"""What of a pod decides whether it may use an HCA function."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod as the API server has it. ``addresses`` are empty until its sandbox has some."""

    uid: str
    node_name: str
    host_network: bool
    addresses: tuple[str, ...]


def read(document: Mapping[str, Any]) -> PodFacts:
    """Read a Pod."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    listed = [entry.get("ip") for entry in status.get("podIPs") or ()]
    return PodFacts(
        uid=document["metadata"]["uid"],
        node_name=spec.get("nodeName") or "",
        host_network=bool(spec.get("hostNetwork")),
        addresses=tuple(ip for ip in listed if ip),
    )
