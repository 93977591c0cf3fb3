"""How far a pool's DaemonSet is: whether the pods that run are of what is rendered now."""

from collections.abc import Mapping
from typing import Any

from gpu_operator.controllers.world import Node, World
from gpu_operator.render import daemonset


def progress(world: World, document: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many pods are of this DaemonSet, and what is missing; empty when all are."""
    name = document["metadata"]["name"]
    found = world.daemon_sets.get(name)
    if found is None or found.rendered != daemonset.rendered(document):
        return 0, f"DaemonSet {name} is being written"
    if not found.observed:
        return 0, f"DaemonSet {name} is being rolled out"
    if found.updated < found.pods:
        done = f"{found.updated} of {found.pods} pods are up to date"
        return found.updated, f"DaemonSet {name} is being rolled out: {done}"
    return found.updated, ""


def outdated(world: World, document: Mapping[str, Any], node: Node) -> str:
    """Say which pod on the node is of an earlier rendering; empty when none is."""
    agent = world.agents.get(node.name)
    if agent is None or agent.rendered == daemonset.rendered(document):
        return ""
    return f"node agent {agent.name} is about to be replaced by one of the present policy and pool"
