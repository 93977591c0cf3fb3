"""Makes the parts of GPU objects that the operator writes."""

import uuid
from typing import Any

from gpu_operator.api.v1alpha1 import (
    API_VERSION,
    FINALIZER,
    INDEX_LABEL,
    NODE_LABEL,
    NODE_UID,
    POOL_LABEL,
)
from gpu_operator.api.v1alpha1.gpu import GPUSpec, MigMode, PlacedInstance, WantedFault
from mig.geometry import WHOLE

# a random namespace for UUIDs; must never change
_NAMESPACE = uuid.UUID("6b2f1e0c-6c0e-5f0e-9a2b-3d1c5a7e4f10")


def name_of(node: str, index: int) -> str:
    """Return the name of the GPU with this index on a node."""
    return f"{node}-gpu-{index}"


def uuid_of(node: str, index: int) -> str:
    """Return the UUID of a GPU, derived from the node's name and the GPU's index.

    The UUID stays the same if the Node object is deleted and registered again, because the
    machine still has the same devices, and pods may still hold slices of them.
    """
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"


def gpu(spec: GPUSpec, node_uid: str) -> dict[str, Any]:
    """Return a GPU object without its instances, for the Node object with this UID."""
    foreign_fields = {"instances", "layout", "mig_mode", "faults"}  # fields of other field managers
    spec_fields = spec.model_dump(
        mode="json", by_alias=True, exclude=foreign_fields | spec.unset_facts
    )
    metadata: dict[str, Any] = {
        "name": name_of(spec.node_name, spec.index),
        "labels": {
            NODE_LABEL: spec.node_name,
            POOL_LABEL: spec.pool,
            INDEX_LABEL: str(spec.index),
        },
        "annotations": {NODE_UID: node_uid},
        "finalizers": [FINALIZER],
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "GPU",
        "metadata": metadata,
        "spec": {key: value for key, value in spec_fields.items() if value is not None},
    }


def faults(name: str, uid: str, requested_faults: tuple[WantedFault, ...]) -> dict[str, Any]:
    """Return the part of a GPU object that GPUFaults own: the wanted faults."""
    requested = [
        fault.model_dump(mode="json", by_alias=True, exclude_none=True)
        for fault in requested_faults
    ]
    metadata = {"name": name, "uid": uid}
    spec = {"faults": requested}
    return {"apiVersion": API_VERSION, "kind": "GPU", "metadata": metadata, "spec": spec}


def instances(
    name: str,
    uid: str,
    placed: tuple[PlacedInstance, ...],
    layout: str | None,
    annotations: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return the part of a GPU object that a layout owns.

    It consists of the instances, and of the MIG mode that they imply.
    """
    spec: dict[str, Any] = {
        "instances": [p.model_dump(mode="json", by_alias=True, exclude_none=True) for p in placed]
    }
    if layout is not None:
        spec["layout"] = layout
    if placed or layout is not None:
        whole = any(p.profile == WHOLE for p in placed)
        spec["migMode"] = (MigMode.DISABLED if whole else MigMode.ENABLED).value
    metadata: dict[str, Any] = {"name": name, "uid": uid}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": API_VERSION, "kind": "GPU", "metadata": metadata, "spec": spec}
