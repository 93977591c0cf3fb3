"""GPUPolicy: how slices are offered, for the whole cluster. One object, called ``default``."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.sharing import Sharing
from mig.geometry import WHOLE_RESOURCE, DeviceProfile, Profile


class Strategy(StrEnum):
    """How MIG devices become extended resources, as NVIDIA's device plugin names the ways.

    Whole GPUs are ``<prefix>/gpu`` in each.
    """

    NONE = "none"  # MIG devices are not offered
    SINGLE = "single"  # <prefix>/gpu, where all of a node's MIG devices have one profile
    MIXED = "mixed"  # one resource a profile: <prefix>/mig-1g.10gb

    def resource_of(self, profile: Profile | DeviceProfile) -> str:
        """Return the resource, without its prefix, of devices of a profile; empty: not offered."""
        if profile.resource_name == WHOLE_RESOURCE or self is Strategy.MIXED:
            return profile.resource_name
        return WHOLE_RESOURCE if self is Strategy.SINGLE else ""


class DeviceListStrategy(StrEnum):
    """How a slice gets into a container."""

    CDI = "cdi"
    MOUNTS = "mounts"  # where the container runtime has no CDI


class NvidiaSmi(Model):
    """The command ``nvidia-smi`` in containers."""

    enabled: bool = Field(
        default=False,
        description="Put Tessera's command nvidia-smi at /usr/bin in containers with a slice.",
    )


class GPUPolicySpec(Model):
    """Cluster-wide choices of the node agents."""

    strategy: Strategy = Field(
        default=Strategy.MIXED,
        description="How MIG devices are offered. mixed: one extended resource for each profile. "
        "single: as gpu, on nodes where all have one profile. none: not at all. Whole GPUs are "
        "offered as gpu. A node's label <prefix>/mig.strategy.config says otherwise for it.",
    )
    resource_prefix: str = Field(
        default="gpu.tessera.dev",
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        max_length=200,
        description="Prefix of the resources; nvidia.com makes existing manifests run unchanged.",
    )
    device_list_strategy: DeviceListStrategy = Field(
        default=DeviceListStrategy.CDI, description="cdi, or plain mounts where CDI is off."
    )
    nvidia_smi: NvidiaSmi = Field(default=NvidiaSmi(), description="The command nvidia-smi.")
    sharing: Sharing | None = Field(
        default=None,
        description="Lets several containers have one device, as NVIDIA's device plugin does.",
    )


class GPUPolicyStatus(Status):
    """Whether it is in force."""
