"""Progress of a pool's DaemonSets: whether the running pods have the current rendering."""

from collections.abc import Mapping
from typing import Any

from gpu_operator.controllers.common.world import Node, World
from gpu_operator.render import daemonset


def progress(world: World, document: Mapping[str, Any]) -> tuple[int, str]:
    """Return the number of a DaemonSet's pods that are up to date, and what the rollout waits for.

    The second result is a text; it is empty if the rollout is complete.
    """
    name = document["metadata"]["name"]
    daemon_set = world.daemon_sets.get(name)
    if daemon_set is None or daemon_set.rendered != daemonset.rendered_digest(document):
        return 0, f"DaemonSet {name} is being written"
    if not daemon_set.observed:
        return 0, f"DaemonSet {name} is being rolled out"
    if daemon_set.updated < daemon_set.pods:
        progress_text = f"{daemon_set.updated} of {daemon_set.pods} pods are up to date"
        return daemon_set.updated, f"DaemonSet {name} is being rolled out: {progress_text}"
    return daemon_set.updated, ""


def explain_old_agent(world: World, document: Mapping[str, Any], node: Node) -> str:
    """Explain that the node's agent has an earlier rendering of the DaemonSet.

    The text is empty if the agent has the current rendering, or if the node has no agent.
    """
    agent = world.agents.get(node.name)
    if agent is None or agent.rendered == daemonset.rendered_digest(document):
        return ""
    return (
        f"node agent {agent.name} is about to be replaced by one with the current policy and pool"
    )


def explain_late_gpud(world: World, document: Mapping[str, Any], node: Node) -> str:
    """Explain why a node still lacks a ready gpud with this rendering of the DaemonSet.

    The text is empty if the rollout need not wait for the node. There are three such cases: the
    node has a ready gpud with this rendering, the node is not ready, or the node has no pod of
    Tessera. In the last case, affinity or taints may keep Tessera's pods off the node.
    """
    digest, gpud_pods = daemonset.rendered_digest(document), world.gpuds.get(node.name, ())
    updated_pods = [pod for pod in gpud_pods if pod.rendered == digest]
    nothing_to_lose = not node.ready or not (gpud_pods or node.name in world.agents)
    if nothing_to_lose or any(not pod.problem for pod in updated_pods):
        return ""
    failing = next((pod for pod in updated_pods if pod.failing), None)
    if failing is None:
        return f"gpud of node {node.name} has not started yet"
    return f"gpud {failing.name} of node {node.name}: {failing.problem}"
