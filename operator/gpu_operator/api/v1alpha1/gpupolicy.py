"""GPUPolicy: how slices are offered in the whole cluster. Only the object ``default`` counts."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.sharing import Sharing
from mig.geometry import WHOLE_RESOURCE, DeviceProfile, Profile


class Strategy(StrEnum):
    """How MIG devices become extended resources. The values are those of NVIDIA's device plugin.

    Whole GPUs are ``<prefix>/gpu`` in each strategy.
    """

    NONE = "none"  # MIG devices are not offered
    SINGLE = "single"  # <prefix>/gpu on nodes whose MIG devices all have one profile
    MIXED = "mixed"  # one resource for each profile: <prefix>/mig-1g.10gb

    def resource_of(self, profile: Profile | DeviceProfile) -> str:
        """Return the resource, without its prefix, for devices of a profile; empty if not
        offered.
        """
        if profile.resource_name == WHOLE_RESOURCE or self is Strategy.MIXED:
            return profile.resource_name
        return WHOLE_RESOURCE if self is Strategy.SINGLE else ""


class DeviceListStrategy(StrEnum):
    """How a container runtime adds a slice to a container."""

    CDI = "cdi"
    MOUNTS = "mounts"  # for container runtimes without CDI


class NvidiaSmi(Model):
    """The command ``nvidia-smi`` in containers."""

    enabled: bool = Field(
        default=False,
        description="Install Tessera's nvidia-smi command at /usr/bin in containers with a slice.",
    )


class DeviceFiles(Model):
    """Inert files in the place of NVIDIA's device nodes, in containers."""

    enabled: bool = Field(
        default=False,
        description="Show containers with a slice empty files /dev/nvidiactl and /dev/nvidia0, for "
        "programs that only test that they exist.",
    )


class PyTorch(Model):
    """Variables by which PyTorch's wheel finds Tessera's plug-in and libraries."""

    enabled: bool = Field(
        default=False,
        description="Set PYTHONPATH and LD_PRELOAD for PyTorch's wheel in containers that request "
        "a slice by resource name. They replace those of the image; the pod's own precede.",
    )


class GPUPolicySpec(Model):
    """Cluster-wide settings of the node agents."""

    strategy: Strategy = Field(
        default=Strategy.MIXED,
        description="How MIG devices are offered. mixed: one extended resource for each profile. "
        "single: as gpu, on nodes whose MIG devices all have one profile. none: not at all. Whole "
        "GPUs are offered as gpu. A node's label <prefix>/mig.strategy.config overrides this.",
    )
    resource_prefix: str = Field(
        default="gpu.tessera.dev",
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        max_length=200,
        description="Prefix of the resources; with nvidia.com existing manifests run unchanged.",
    )
    device_list_strategy: DeviceListStrategy = Field(
        default=DeviceListStrategy.CDI, description="cdi, or mounts where CDI is off."
    )
    nvidia_smi: NvidiaSmi = Field(default=NvidiaSmi(), description="The command nvidia-smi.")
    device_files: DeviceFiles = Field(
        default=DeviceFiles(), description="Empty files in the place of NVIDIA's device nodes."
    )
    pytorch: PyTorch = Field(
        default=PyTorch(), description="Variables of containers for PyTorch's wheel."
    )
    sharing: Sharing | None = Field(
        default=None,
        description="Share devices between containers, as NVIDIA's device plugin does.",
    )


class GPUPolicyStatus(Status):
    """Whether the policy is in force."""
