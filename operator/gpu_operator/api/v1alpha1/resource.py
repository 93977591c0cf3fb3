"""A custom resource as a value: metadata that reconciling needs, and its models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from gpu_operator.api.v1alpha1.base import Model, Status
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, GPUPolicyStatus
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutSpec, MIGLayoutStatus
from gpu_operator.api.v1alpha1.thrift import share

SpecT = TypeVar("SpecT", bound=Model)
StatusT = TypeVar("StatusT", bound=Status)
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Meta:
    """The part of ``metadata`` that matters here. ``created`` is RFC 3339, so it sorts."""

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
        """Orders by age, oldest first; the name decides between equals."""
        return (self.created, self.name)


@dataclass(frozen=True, slots=True)
class Resource(Generic[SpecT, StatusT]):
    """One object."""

    meta: Meta
    spec: SpecT
    status: StatusT

    @property
    def name(self) -> str:
        return self.meta.name


@dataclass(frozen=True, slots=True)
class Broken:
    """An object whose spec does not fit the model: it is left alone, and its status says why."""

    meta: Meta
    problem: str
    status: Status


Pool = Resource[GPUPoolSpec, GPUPoolStatus]
Gpu = Resource[GPUSpec, GPUStatus]
Layout = Resource[MIGLayoutSpec, MIGLayoutStatus]
Policy = Resource[GPUPolicySpec, GPUPolicyStatus]
Fault = Resource[GPUFaultSpec, GPUFaultStatus]


def meta_of(document: Document) -> Meta:
    """Read ``metadata`` of any object."""
    metadata = document["metadata"]
    return Meta(
        kind=document.get("kind", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation") or 1,
        created=metadata.get("creationTimestamp") or "",
        deleting=bool(metadata.get("deletionTimestamp")),
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        finalizers=tuple(metadata.get("finalizers") or ()),
    )


def parse(
    document: Document, spec: type[SpecT], status: type[StatusT]
) -> Resource[SpecT, StatusT] | Broken:
    """Read one object. A status that cannot be read counts as none: the next report replaces it."""
    meta = meta_of(document)
    try:
        seen = share(status.model_validate(document.get("status") or {}))
    except ValidationError:
        seen = status()
    try:
        return Resource(meta, share(spec.model_validate(document.get("spec") or {})), seen)
    except ValidationError as err:
        problems = [f"spec.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in err.errors()]
        return Broken(meta, "; ".join(problems), seen)
