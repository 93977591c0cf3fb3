"""The facts about a pod that decide whether it may use an HCA function."""

from collections.abc import Mapping
from typing import Any

from vgpu_sim.records import dataclass

_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts about a pod as the API server has them.

    ``addresses`` is empty before the pod's sandbox has addresses, and after the pod has ended. The
    status of an ended pod still lists its addresses, but another pod may already have them.
    """

    uid: str
    node_name: str
    host_network: bool
    addresses: tuple[str, ...]


def read(document: Mapping[str, Any]) -> PodFacts:
    """Read the facts from a Pod as the API server sent it."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    ended = status.get("phase") in _ENDED
    listed = [entry.get("ip") for entry in (not ended and status.get("podIPs")) or ()]
    return PodFacts(
        uid=document["metadata"]["uid"],
        node_name=spec.get("nodeName") or "",
        host_network=bool(spec.get("hostNetwork")),
        addresses=tuple(ip for ip in listed if ip),
    )
