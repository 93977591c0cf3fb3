"""The facts of a GPU as fields of its spec, one for each that ``facts.document`` declares.

The schema has no defaults for them, and a fact with its default value is not written. So an
agent of the previous version, which refuses unknown fields, reads the object until a pool sets a
new fact.
"""

from typing import TYPE_CHECKING, Any

from pydantic import Field, create_model

from facts.document import DECLARED, GpuFacts
from facts.fields import bounds_of
from gpu_operator.api.v1alpha1.base import Model


class _HasFacts(Model):
    @property
    def facts(self) -> GpuFacts:
        """Return the facts of the GPU."""
        return GpuFacts(**{name: getattr(self, name) for name in DECLARED})

    @property
    def unset_facts(self) -> set[str]:
        """Return the names of the facts that have their default value."""
        return DECLARED.keys() - self.facts.to_json().keys()


def _field(name: str) -> Any:
    bounds, default = bounds_of(DECLARED[name]), DECLARED[name].default
    limits: dict[str, Any] = {}
    if bounds.kind is str:
        limits = {"min_length": bounds.least, "max_length": bounds.most}
    elif bounds.kind is int:
        limits = {"ge": bounds.least, "le": bounds.most}
    limits["json_schema_extra"] = _without_default
    pydantic_field: Any = Field(default=default, description=bounds.description, **limits)
    return bounds.kind, pydantic_field


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


if TYPE_CHECKING:
    FactFields = _HasFacts  # type checkers cannot see fields that are created at import time
else:
    FactFields = create_model(
        "FactFields", __base__=_HasFacts, **{name: _field(name) for name in DECLARED}
    )
