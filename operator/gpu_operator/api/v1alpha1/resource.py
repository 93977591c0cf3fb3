"""Typed representation of a custom resource: the metadata that reconciliation needs, and its
models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, GPUPolicyStatus
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.interning import intern_model
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutSpec, MIGLayoutStatus

SpecT = TypeVar("SpecT", bound=Model)
StatusT = TypeVar("StatusT", bound=Status)
Document = Mapping[str, Any]
_NONE: Mapping[str, str] = {}  # one for all objects without labels or annotations


@dataclass(frozen=True, slots=True)
class Meta:
    """The fields of ``metadata`` that reconciliation needs.

    ``created`` is an RFC 3339 text, so it sorts by time.
    """

    kind: str
    name: str
    uid: str
    generation: int = 1
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()

    @property
    def age_key(self) -> tuple[str, str]:
        """Return a key that sorts by age, oldest first, then by name."""
        return (self.created, self.name)


@dataclass(frozen=True, slots=True)
class Resource(Generic[SpecT, StatusT]):
    """One object of a custom resource."""

    meta: Meta
    spec: SpecT
    status: StatusT

    @property
    def name(self) -> str:
        return self.meta.name


@dataclass(frozen=True, slots=True)
class Broken:
    """An object whose spec does not fit the model.

    Such an object is not reconciled; its status gives the reason.
    """

    meta: Meta
    problem: str
    status: Status


Pool = Resource[GPUPoolSpec, GPUPoolStatus]
Gpu = Resource[GPUSpec, GPUStatus]
Layout = Resource[MIGLayoutSpec, MIGLayoutStatus]
Policy = Resource[GPUPolicySpec, GPUPolicyStatus]
Fault = Resource[GPUFaultSpec, GPUFaultStatus]


def meta_of(document: Document) -> Meta:
    """Return the fields of an object's ``metadata`` that reconciliation needs."""
    metadata = document["metadata"]
    return Meta(
        kind=document.get("kind", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation") or 1,
        created=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        labels=dict(metadata.get("labels") or ()) or _NONE,
        annotations=dict(metadata.get("annotations") or ()) or _NONE,
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


def parse(
    document: Document, spec: type[SpecT], status: type[StatusT]
) -> Resource[SpecT, StatusT] | Broken:
    """Parse an object with the models of its spec and status.

    An object with an invalid spec becomes a ``Broken``. An invalid status is replaced by an
    empty one, which the next report overwrites.
    """
    meta = meta_of(document)
    try:
        parsed_status = intern_model(status.model_validate(document.get("status") or {}))
    except ValidationError:
        parsed_status = status()
    try:
        return Resource(
            meta, intern_model(spec.model_validate(document.get("spec") or {})), parsed_status
        )
    except ValidationError as err:
        problems = [f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in err.errors()]
        return Broken(meta, "; ".join(problems), parsed_status)
