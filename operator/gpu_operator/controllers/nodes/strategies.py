"""How a node offers MIG devices, which the policy or a label on the node specifies.

The label corresponds to ``nvidia.com/device-plugin.config`` of NVIDIA's plugin: single nodes of
a heterogeneous cluster can differ. As there, ``<prefix>/mig.strategy`` shows the strategy in
force.
"""

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.controllers.common.world import Node, World

_LABEL = "mig.strategy.config"


def policy_on(world: World, node: Node) -> GPUPolicySpec:
    """Return the policy in force on a node."""
    requested = _requested_strategy(world, node)
    if requested not in list(Strategy):
        return world.policy
    return world.policy.model_copy(update={"strategy": Strategy(requested)})


def find_label_problem(world: World, node: Node) -> str:
    """Return what is wrong with the node's label for the strategy; empty if nothing is."""
    requested = _requested_strategy(world, node)
    if not requested or requested in list(Strategy):
        return ""
    known_strategies = ", ".join(Strategy)
    label = f"{world.policy.resource_prefix}/{_LABEL}"
    return (
        f"label {label}={requested} of node {node.name} is not one of {known_strategies}:"
        " it has no effect"
    )


def _requested_strategy(world: World, node: Node) -> str:
    return node.labels.get(f"{world.policy.resource_prefix}/{_LABEL}", "")
