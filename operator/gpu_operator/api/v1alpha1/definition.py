"""What of a resource its models do not say: names, columns, CEL rules."""

from dataclasses import dataclass

from pydantic import BaseModel

from gpu_operator.api.v1alpha1 import GROUP


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; ``wide`` ones show with ``-o wide`` only."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """All of a resource that its models do not say."""

    kind: str
    plural: str
    short: tuple[str, ...]
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    description: str
    rules: tuple[tuple[str, str], ...] = ()  # CEL over the spec, message
    root_rules: tuple[tuple[str, str], ...] = ()  # CEL over the object, message
    group: str = GROUP
    namespaced: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def condition(name: str, part: str = "status") -> str:
    """Return the path of a part of a condition, for a column."""
    return f".status.conditions[?(@.type=='{name}')].{part}"
