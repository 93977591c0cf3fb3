"""A GPU object read from the API server: validated, or with the reason why it is invalid."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gpu_operator.api.v1alpha1 import NODE_UID
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class GpuObject:
    """One GPU object. If it is invalid, ``spec`` is None and ``problem`` is the reason.

    ``uuid`` is the device's UUID. An invalid object has it, too, if the UUID can be read; otherwise
    ``uuid`` is empty.
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
    """UID of the Node object for which the GPU object was created."""


def read(document: Mapping[str, Any]) -> GpuObject:
    """Read one GPU object; set ``problem`` if the object is invalid.

    An invalid object, such as one that a newer operator wrote, must not end the agent.
    """
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
        status = GPUStatus()  # the agent will write the status again
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
