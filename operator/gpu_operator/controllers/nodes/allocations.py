"""Who gives a node's GPUs to pods: as its pool says, or a label on the node.

With the label a pool is moved from extended resources to claims node by node.
"""

from gpu_operator.api.v1alpha1 import ALLOCATION_LABEL
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.controllers.common.world import Node


def allocation_on(pool: Pool, node: Node, *, dra: bool) -> Allocation:
    """Return what is in force on a node; without ``dra`` the cluster has the device plugin only."""
    if not dra:
        return Allocation.DEVICE_PLUGIN
    asked = node.labels.get(ALLOCATION_LABEL, "")
    return Allocation(asked) if asked in list(Allocation) else pool.spec.allocation


def problem(node: Node) -> str:
    """Say what is wrong with the node's label; empty: nothing."""
    asked = node.labels.get(ALLOCATION_LABEL, "")
    if not asked or asked in list(Allocation):
        return ""
    known = ", ".join(Allocation)
    return (
        f"label {ALLOCATION_LABEL}={asked} of node {node.name} is not one of {known}:"
        " it has no effect"
    )
