"""How a node's GPUs are allocated to pods, which its pool or a label on the node specifies.

With the label, a pool can move from extended resources to claims node by node.
"""

from gpu_operator.api.v1alpha1 import ALLOCATION_LABEL
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Pool
from gpu_operator.controllers.common.world import Node


def allocation_on(pool: Pool, node: Node, *, dra: bool) -> Allocation:
    """Return how the node's GPUs are allocated.

    If ``dra`` is false, only the device plugin allocates them.
    """
    if not dra:
        return Allocation.DEVICE_PLUGIN
    requested = node.labels.get(ALLOCATION_LABEL, "")
    return Allocation(requested) if requested in list(Allocation) else pool.spec.allocation


def find_label_problem(node: Node) -> str:
    """Return what is wrong with the node's label for allocation; empty if nothing is."""
    requested = node.labels.get(ALLOCATION_LABEL, "")
    if not requested or requested in list(Allocation):
        return ""
    known_values = ", ".join(Allocation)
    return (
        f"label {ALLOCATION_LABEL}={requested} of node {node.name} is not one of {known_values}:"
        " it has no effect"
    )
