"""RDMANodeTables: what one node's HCA enforces. The operator writes spec, its agent status."""

from enum import StrEnum

from pydantic import Field

from gpu_operator.api.v1alpha1.base import Model, StatusModel
from gpu_operator.api.v1alpha1.rdma.packing import Encoding


class RDMANodeTablesSpec(Model):
    """Tables of all policies, compiled for one node (ADR 40)."""

    generation: int = Field(
        ge=0, description="Grows with each change of the tables, also after the object was deleted."
    )
    encoding: Encoding = Field(
        default=Encoding.PLAIN, description="Plain, or Deflate: zlib in base64, where it is long."
    )
    tables: str = Field(description="The tables as text, for the node's agent.")


class HcadState(StrEnum):
    """What the agent knows of hcad."""

    UNKNOWN = "Unknown"  # nobody has reported yet
    ENFORCING = "Enforcing"
    UNREACHABLE = "Unreachable"
    REFUSED = "Refused"  # hcad took the tables for wrong; it enforces those before


class SecondLayer(StrEnum):
    """How far the rules on the pods' links follow the tables."""

    UNKNOWN = "Unknown"
    ENFORCING = "Enforcing"
    ENGINE_ONLY = "EngineOnly"  # hcad alone judges what some pods send


class RDMANodeTablesStatus(StatusModel):
    """What is enforced. ``generation`` is an acknowledgement: whom it denies has been revoked."""

    generation: int = Field(default=0, description="Generation that hcad enforces; 0: none.")
    hcad: HcadState = Field(
        default=HcadState.UNKNOWN, description="Enforcing, Unreachable, Refused or Unknown."
    )
    time: str = Field(default="", description="When the agent wrote this (RFC 3339).")
    message: str = Field(default="", description="Why it is not Enforcing.")
    second_layer: SecondLayer = Field(
        default=SecondLayer.UNKNOWN,
        description="Rules on the pods' links: Enforcing, EngineOnly or Unknown.",
    )
    second_layer_message: str = Field(default="", description="Why it is EngineOnly.")
    path_mtu: int | None = Field(
        default=None, description="Largest path MTU in bytes that the node's interface carries."
    )
