"""GPUPolicy: how slices are offered, for the whole cluster. One object, called ``default``."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status


class Strategy(StrEnum):
    """How MIG devices become extended resources."""

    MIXED = "mixed"  # one resource a profile: <prefix>/mig-1g.10gb


class DeviceListStrategy(StrEnum):
    """How a slice gets into a container."""

    CDI = "cdi"
    MOUNTS = "mounts"  # where the container runtime has no CDI


class GPUPolicySpec(Model):
    """Cluster-wide choices of the node agents."""

    strategy: Strategy = Field(
        default=Strategy.MIXED, description="mixed: one extended resource for each MIG profile."
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


class GPUPolicyStatus(Status):
    """Whether it is in force."""
