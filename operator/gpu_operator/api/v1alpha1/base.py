"""Base classes of all resources: strict models, conditions, and the list of reasons."""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A model with camelCase names on the wire and snake_case in Python; unknown fields are
    errors.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )


class StatusModel(Model):
    """A status, possibly written by a newer version: unknown fields are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class ConditionType(StrEnum):
    """Types of conditions.

    Objects of ``rdma.tessera.dev`` have Accepted and Programmed; RDMANetworkPolicies also have
    SecondLayer. Pools have Fragmented while their GPUs are divided, and ModelledClock once they
    have used a modelled clock.
    """

    ACCEPTED = "Accepted"
    READY = "Ready"
    PROGRAMMED = "Programmed"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    SECOND_LAYER = "SecondLayer"
    FRAGMENTED = "Fragmented"
    MODELLED_CLOCK = "ModelledClock"


class Reason(StrEnum):
    """The reasons of all conditions and events that Tessera writes."""

    ACCEPTED = "Accepted"
    INVALID_SPEC = "InvalidSpec"
    UNKNOWN_BOARD = "UnknownBoard"
    NODE_CONFLICT = "NodeConflict"
    NO_NODES = "NoNodes"
    IGNORED = "Ignored"
    RECONCILED = "Reconciled"
    PACKED = "Packed"
    SCATTERED = "Scattered"
    OVERRIDDEN = "Overridden"
    PARTIALLY_ACCEPTED = "PartiallyAccepted"
    WAITING_FOR_AGENT = "WaitingForAgent"
    WAITING_FOR_KUBELET = "WaitingForKubelet"
    AGENT_UNREACHABLE = "AgentUnreachable"
    AGENT_ERROR = "AgentError"
    APPLYING = "Applying"
    SLICE_IN_USE = "SliceInUse"
    SLICE_WITHDRAWN = "SliceWithdrawn"
    SLICE_KEPT = "SliceKept"
    CLAIM_BLOCKED = "ClaimBlocked"
    CLAIM_ORPHANED = "ClaimOrphaned"
    CLAIM_NO_ROOM = "ClaimNoRoom"
    CLAIM_NOT_OFFERED = "ClaimNotOffered"
    CLAIM_UNMATCHED = "ClaimUnmatched"
    NOT_PLACEABLE = "NotPlaceable"
    LAYOUT_CONFLICT = "LayoutConflict"
    NO_GPUS = "NoGPUs"
    MIXED_PROFILES = "MixedProfiles"
    RESOURCE_CONFLICT = "ResourceConflict"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    VERIFICATION_FAILED = "VerificationFailed"
    NOT_ENFORCED = "IsolationNotEnforced"
    REFUSED = "Refused"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    PROBATION = "Probation"
    DELETING = "Deleting"
    FENCED = "Fenced"
    FAULTED = "Faulted"
    OUT_OF_BUDGET = "OutOfBudget"
    UNSUPPORTED_PTX = "UnsupportedPTX"
    PROGRAMMED = "Programmed"
    PENDING = "Pending"
    NODE_SILENT = "NodeSilent"
    HCA_UNAVAILABLE = "HCAUnavailable"
    MTU_EXCEEDS_INTERFACE = "MTUExceedsInterface"
    RDMA_DENIED = "RDMADenied"
    RDMA_DROPPED = "RDMADropped"
    ENFORCED = "Enforced"
    ENGINE_ONLY = "EngineOnly"
    CONTESTED = "Contested"
    MIG_CONFIG_APPLIED = "MIGConfigApplied"
    MIG_CONFIG_FAILED = "MIGConfigFailed"
    MODELLED_CLOCK = "ModelledClock"
    WALL_CLOCK = "WallClock"
    SUSPECT = "Suspect"
    SHARING_CONFLICT = "SharingConflict"
    INJECTED = "Injected"
    CLEARED = "Cleared"
    FAULT_REFUSED = "FaultRefused"
    GPU_NOT_FOUND = "GPUNotFound"


class Condition(StatusModel):
    """A ``metav1.Condition``."""

    type: str = Field(description="Type of the condition, such as Accepted.")
    status: str = Field(description="True, False or Unknown.")
    reason: str = Field(description="Machine-readable reason in one word.")
    message: str = Field(default="", description="Explanation in one sentence.")
    last_transition_time: str = Field(description="When the status last changed (RFC 3339).")
    observed_generation: int = Field(
        default=0, description="Generation that the condition describes."
    )


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        default=(),
        description="Accepted, Ready, Progressing and Degraded.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
]


class Status(StatusModel):
    """The fields with which every status begins."""

    observed_generation: int = Field(default=0, description="Generation that was last processed.")
    conditions: Conditions = ()
