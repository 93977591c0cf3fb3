"""The state of one pass of the reconcile loop, and the times of passes."""

from collections.abc import Mapping, Sequence
from dataclasses import field

from device_plugin.agent.desired_state import Desired
from device_plugin.agent.reporting.reporter import Refusals
from device_plugin.agent.steps import Steps
from device_plugin.errors import AgentError
from device_plugin.inventory.model import HolderPod, Inventory
from gpu_operator.api.v1alpha1.gpu import FaultStatus
from vgpu_sim.records import dataclass


@dataclass(slots=True)
class Pulse:
    """The times at which the reconcile loop last began a pass, and last finished one without
    errors.

    Both are times of ``time.monotonic``. None means that there was no such pass yet.
    """

    began: float | None = None
    succeeded: float | None = None


@dataclass(slots=True)
class Pass:
    """The data of one pass of the reconcile loop. Each stage reads what earlier stages wrote."""

    failures: list[AgentError] = field(default_factory=list)
    """Errors after which later stages could still run."""
    held: Mapping[str, Sequence[HolderPod]] | None = None
    """The pods that hold each slice, by UUID; None if the kubelet does not answer."""
    desired: Desired = field(default_factory=lambda: Desired(all_frozen=True))
    inventory: Inventory = field(init=False)
    """The inventory that gpud sent.

    It is read when GPUs are configured, and again when instances were changed.
    """
    refused: Refusals = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)
    """The steps that remain for each GPU, by its UUID."""
    devices: set[str] = field(default_factory=set)
    """The ids of all devices on the node: of slices, and of the functions of its HCAs."""
    faults: Mapping[str, tuple[FaultStatus, ...]] = field(default_factory=dict)
    holders: Mapping[str, Sequence[HolderPod]] = field(default_factory=dict)
    """The pods that hold each slice, by UUID, with unlisted pods that may still run."""
