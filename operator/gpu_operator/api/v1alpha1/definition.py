"""The parts of a CRD that its models do not define: names, columns and CEL rules."""

from dataclasses import dataclass

from pydantic import BaseModel

from gpu_operator.api.v1alpha1 import GROUP


@dataclass(frozen=True, slots=True)
class Column:
    """A column that ``kubectl get`` prints; ``wide`` columns are printed only with ``-o wide``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """The names, models, columns and rules from which the CRD of a kind is generated."""

    kind: str
    plural: str
    short: tuple[str, ...]
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    description: str
    rules: tuple[tuple[str, str], ...] = ()  # CEL rule over the spec, message
    root_rules: tuple[tuple[str, str], ...] = ()  # CEL rule over the object, message
    group: str = GROUP
    namespaced: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def condition_path(name: str, part: str = "status") -> str:
    """Return the JSON path of one field of the named condition, for a printer column."""
    return f".status.conditions[?(@.type=='{name}')].{part}"
