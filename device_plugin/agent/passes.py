"""What one pass of the reconcile loop has learned so far, and when passes were made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.agent.desired import Desired
from device_plugin.agent.reporting.reporter import Refusals
from device_plugin.agent.steps import Steps
from device_plugin.errors import AgentError
from device_plugin.inventory.model import HolderPod, Inventory
from gpu_operator.api.v1alpha1.gpu import FaultStatus


@dataclass(slots=True)
class Pulse:
    """When (time.monotonic) the loop last began a pass, and last finished one without an error."""

    began: float | None = None
    succeeded: float | None = None


@dataclass(slots=True)
class Pass:
    """Facts of one pass; each stage reads what stages before it wrote."""

    failures: list[AgentError] = field(default_factory=list)
    """What failed so that later stages could still run."""
    held: Mapping[str, Sequence[HolderPod]] | None = None
    """Pods by slice UUID as the kubelet reports them now; None if it does not answer."""
    desired: Desired = field(default_factory=lambda: Desired(all_frozen=True))
    inventory: Inventory = field(init=False)
    """What gpud has: read when GPUs are configured, and again when instances were changed."""
    refused: Refusals = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)
    """By the UUID of a GPU: what is still to be created and destroyed."""
    devices: set[str] = field(default_factory=set)
    """Ids of all devices on the node: slices, and the functions of its HCAs."""
    faults: Mapping[str, tuple[FaultStatus, ...]] = field(default_factory=dict)
    holders: Mapping[str, Sequence[HolderPod]] = field(default_factory=dict)
    """Pods by slice UUID, those included that the kubelet no longer reports but may still run."""
