"""RDMANodeTables: compiled policies for one node's HCA. The operator writes spec, the agent
status.
"""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.packing import Encoding


class RDMANodeTablesSpec(Model):
    """Tables of all policies, compiled for one node (ADR 40)."""

    generation: int = Field(
        ge=0,
        description="Increases with each change of the tables, even after the object was deleted.",
    )
    encoding: Encoding = Field(
        default=Encoding.PLAIN, description="Plain, or Deflate for long tables: zlib in base64."
    )
    tables: str = Field(description="The tables as text, for the node's agent.")


class HcadState(StrEnum):
    """State of hcad, as the agent observes it."""

    UNKNOWN = "Unknown"  # the agent has not reported yet
    ENFORCING = "Enforcing"
    UNREACHABLE = "Unreachable"
    REFUSED = "Refused"  # hcad rejected the tables as invalid; it enforces the previous ones


class SecondLayer(StrEnum):
    """Whether the rules on the pods' links match the tables."""

    UNKNOWN = "Unknown"
    ENFORCING = "Enforcing"
    ENGINE_ONLY = "EngineOnly"  # for packets of some pods only hcad evaluates the policy


class RDMANodeTablesStatus(StatusModel):
    """The tables that hcad enforces.

    A ``generation`` in the status means that connections denied by these tables have been revoked.
    """

    generation: int = Field(default=0, description="Generation that hcad enforces; 0: none.")
    hcad: HcadState = Field(
        default=HcadState.UNKNOWN, description="Enforcing, Unreachable, Refused or Unknown."
    )
    time: str = Field(default="", description="When the agent wrote this (RFC 3339).")
    message: str = Field(default="", description="Why hcad is not Enforcing.")
    second_layer: SecondLayer = Field(
        default=SecondLayer.UNKNOWN,
        description="Rules on the pods' links: Enforcing, EngineOnly or Unknown.",
    )
    second_layer_message: str = Field(default="", description="Why the second layer is EngineOnly.")
    path_mtu: int | None = Field(
        default=None, description="Largest path MTU in bytes that the node's interface supports."
    )
