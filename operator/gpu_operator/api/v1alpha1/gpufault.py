"""GPUFault: makes a GPU fail, to test workloads. For cluster administrators only."""

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, Status


class EccErrors(Model):
    """Memory errors; exactly one field is set."""

    corrected: int | None = Field(default=None, ge=1, le=1000, description="Single-bit errors.")
    uncorrected: int | None = Field(default=None, ge=1, le=1000, description="Double-bit errors.")


class FaultySlice(Model):
    """A MIG slice of the GPU."""

    profile: str = Field(min_length=1, max_length=63, description="MIG profile such as 1g.10gb.")
    start: int | None = Field(
        default=None, ge=0, le=15, description="First memory slice; default: the lowest one."
    )
    compute_start: int | None = Field(
        default=None,
        ge=0,
        le=15,
        description="First compute slice in its GPU instance; default: the lowest one.",
    )


class GPUFaultSpec(Model):
    """The fault, and the GPU or slice that it affects."""

    gpu_name: str | None = Field(
        default=None,
        max_length=253,
        description="Name of the GPU object; or set nodeName and index.",
    )
    node_name: str | None = Field(default=None, max_length=253, description="Node of the GPU.")
    index: int | None = Field(default=None, ge=0, le=7, description="Index on its node.")
    slice: FaultySlice | None = Field(
        default=None, description="Slice that the fault affects; default: the whole GPU."
    )
    xid: int | None = Field(
        default=None, ge=1, le=9999, description="An Xid that Tessera supports, such as 79."
    )
    ecc: EccErrors | None = Field(default=None, description="Memory errors.")
    thermal: bool = Field(default=False, description="The GPU overheats and slows down.")
    hang: bool = Field(default=False, description="Kernels stop making progress.")
    off_bus: bool = Field(default=False, description="The GPU falls off the bus (Xid 79).")
    count: int = Field(default=1, ge=1, le=1000, description="Number of times that the Xid occurs.")
    duration_seconds: int | None = Field(
        default=None,
        ge=1,
        le=604800,
        description="Duration of thermal, hang or offBus; default: until this object is deleted.",
    )


class GPUFaultStatus(Status):
    """State of the fault."""

    phase: str = Field(default="", description="Pending, Injected, Active, Cleared or Refused.")
    gpu: str = Field(default="", description="GPU object that the fault affects.")
    slice: str = Field(default="", description="UUID of the slice that the fault affects.")
    fault: str = Field(default="", description="Type of the fault, in one word.")
