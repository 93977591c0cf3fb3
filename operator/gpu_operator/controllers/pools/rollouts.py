"""How far a pool's DaemonSets are: whether the pods that run are of what is rendered now."""

from collections.abc import Mapping
from typing import Any

from gpu_operator.controllers.common.world import Node, World
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


def late_gpud(world: World, document: Mapping[str, Any], node: Node) -> str:
    """Say why a node has yet to have a gpud of this rendering that serves or stands by.

    Empty when it has one, and for a node that is down, or has no pod of ours at all (affinity or
    taints may keep them away): the others do not wait for it.
    """
    digest, there = daemonset.rendered(document), world.gpuds.get(node.name, ())
    new = [pod for pod in there if pod.rendered == digest]
    nothing_to_lose = not node.ready or not (there or node.name in world.agents)
    if nothing_to_lose or any(not pod.problem for pod in new):
        return ""
    failing = next((pod for pod in new if pod.failing), None)
    if failing is None:
        return f"gpud of node {node.name} has yet to start"
    return f"gpud {failing.name} of node {node.name}: {failing.problem}"
