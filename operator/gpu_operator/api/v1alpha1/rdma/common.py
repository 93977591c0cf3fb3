"""Parts that RDMANetwork and RDMANetworkPolicy share: selectors, quantities, conditions."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, WithJsonSchema
from pydantic.alias_generators import to_camel

from gpu_operator.api.v1alpha1.base import Condition, Model, StatusModel

# maximum length of a list in a spec; the API server estimates the cost of CEL rules from it
MAX_ITEMS = 128


def with_cel_rules(*pairs: tuple[str, str]) -> ConfigDict:
    """Return a model configuration with CEL rules (rule and message), which the API server
    enforces.
    """
    rules: list[JsonValue] = [{"rule": rule, "message": message} for rule, message in pairs]
    return ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        json_schema_extra={"x-kubernetes-validations": rules},
    )


class Operator(StrEnum):
    """Operator of a label expression."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_LABEL = "[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
LabelValue = Annotated[str, Field(max_length=63, pattern=f"^({_LABEL})?$")]
"""The API server's own rule for label values.

The operator treats an object with an invalid value as one that denies everything, so the API
server must refuse it.
"""


class Expression(Model):
    """One requirement of a label selector."""

    key: str = Field(
        min_length=1,
        max_length=317,
        pattern=rf"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?{_LABEL}$",
        description="Key of a label.",
    )
    operator: Operator = Field(description="In, NotIn, Exists or DoesNotExist.")
    values: tuple[LabelValue, ...] | None = Field(
        default=None, max_length=MAX_ITEMS, description="Values, for In and NotIn."
    )


class LabelSelector(Model):
    """A ``metav1.LabelSelector``; an empty one matches everything."""

    match_labels: dict[str, LabelValue] | None = Field(
        default=None, description="Labels that must all be present with these values."
    )
    match_expressions: tuple[Expression, ...] | None = Field(
        default=None, max_length=64, description="Requirements that must all be met."
    )


Quantity = Annotated[
    str,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "maxLength": 40,
            "pattern": r"^[0-9]{1,19}(\.[0-9]{1,9})?([eE][0-9]{1,2}|[KMGTPE]i|[kMGTPE])?$",
        }
    ),
]
"""A ``resource.Quantity`` of at least 1, such as 5Gi, 200k or 1000."""

Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        default=(),
        description="Accepted: the spec can be enforced as it is. Programmed: the HCAs of all"
        " nodes enforce it.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    ),
]


class RDMAStatus(StatusModel):
    """The fields with which the statuses of RDMANetwork and RDMANetworkPolicy begin."""

    observed_generation: int = Field(default=0, description="Generation that was last processed.")
    conditions: Conditions = ()
