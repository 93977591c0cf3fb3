"""How a node offers MIG devices: as the policy says, or a label on the node.

The label is what ``nvidia.com/device-plugin.config`` is to NVIDIA's plugin: one node of a
heterogeneous cluster can differ. ``<prefix>/mig.strategy`` says what is in force, as there.
"""

from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, Strategy
from gpu_operator.controllers.common.world import Node, World

_LABEL = "mig.strategy.config"


def policy_on(world: World, node: Node) -> GPUPolicySpec:
    """Return the policy as it is in force on a node."""
    asked = _asked(world, node)
    if asked not in list(Strategy):
        return world.policy
    return world.policy.model_copy(update={"strategy": Strategy(asked)})


def problem(world: World, node: Node) -> str:
    """Say what is wrong with the node's label; empty: nothing."""
    asked = _asked(world, node)
    if not asked or asked in list(Strategy):
        return ""
    known = ", ".join(Strategy)
    label = f"{world.policy.resource_prefix}/{_LABEL}"
    return f"label {label}={asked} of node {node.name} is not one of {known}: it has no effect"


def _asked(world: World, node: Node) -> str:
    return node.labels.get(f"{world.policy.resource_prefix}/{_LABEL}", "")
