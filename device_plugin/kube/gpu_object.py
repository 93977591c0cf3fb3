"""A GPU resource as read from the API server: validated, or with the reason why it is not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gpu_operator.api.v1alpha1 import NODE_UID
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus


@dataclass(frozen=True, slots=True)
class GpuObject:
    """One GPU object. ``spec`` is None when it does not validate; then ``problem`` says why.

    ``uuid`` is what can be read of the device's UUID in any case, or empty.
    """

    name: str
    uuid: str
    generation: int
    deleting: bool
    spec: GPUSpec | None
    status: GPUStatus
    problem: str = ""
    object_uid: str = ""
    node_uid: str = ""
    """UID of the Node object that it was made for."""


def read(document: Mapping[str, Any]) -> GpuObject:
    """Read one object; what a newer operator wrote must not end the agent."""
    metadata = document["metadata"]
    raw_spec = document.get("spec")
    spec, problem = None, ""
    try:
        spec = GPUSpec.model_validate(raw_spec)
    except ValidationError as err:
        first = err.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"spec.{where}: {first['msg']}"
    try:
        status = GPUStatus.model_validate(document.get("status") or {})
    except ValidationError:
        status = GPUStatus()  # it is ours to write again
    uuid = raw_spec.get("uuid") if isinstance(raw_spec, Mapping) else None
    return GpuObject(
        name=metadata["name"],
        uuid=uuid if isinstance(uuid, str) else "",
        generation=metadata.get("generation") or 0,
        deleting=metadata.get("deletionTimestamp") is not None,
        spec=spec,
        status=status,
        problem=problem,
        object_uid=metadata.get("uid") or "",
        node_uid=(metadata.get("annotations") or {}).get(NODE_UID) or "",
    )
