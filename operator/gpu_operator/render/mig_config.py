"""Makes the layouts for nodes with the label ``mig.config``, and the state of such nodes."""

from collections.abc import Mapping
from typing import Any, Protocol

from gpu_operator.api.v1alpha1 import API_VERSION, MIG_CONFIG_NODE
from gpu_operator.api.v1alpha1.miglayout import InstanceRequest, MIGLayoutSpec
from gpu_operator.api.v1alpha1.resource import Layout
from gpu_operator.config import MigManagerConfig

Document = Mapping[str, Any]


class _Node(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def uid(self) -> str: ...


class _Group(Protocol):
    @property
    def indices(self) -> tuple[int, ...]: ...
    @property
    def instances(self) -> tuple[InstanceRequest, ...]: ...


def layout(node: _Node, number: int, group: _Group, settings: MigManagerConfig) -> Document:
    """Return the MIGLayout for one group of a node's GPUs.

    The MIGLayout is owned by the Node object, and so is deleted together with that object.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "MIGLayout",
        "metadata": {
            "name": f"mig-config-{node.name}-{number}",
            "labels": {MIG_CONFIG_NODE: node.name},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
            ],
        },
        "spec": {
            "selector": {"nodeNames": [node.name], "indices": list(group.indices)},
            "instances": [
                {"profile": request.profile, "count": request.count} for request in group.instances
            ],
            "rollout": {
                "maxUnavailable": "100%",  # the whole node at a time, as the MIG manager does
                "onInUse": settings.on_in_use,
                "deadlineSeconds": settings.deadline_seconds,
            },
        },
    }


def node_of(mig_layout: Layout) -> str:
    """Return the name of the node whose ``mig.config`` label led to a layout.

    The name is empty if the layout was not made for such a label.
    """
    return mig_layout.meta.labels.get(MIG_CONFIG_NODE, "")


def matches(mig_layout: Layout | None, document: Document) -> bool:
    """Return whether ``mig_layout`` exists and its spec equals that of ``document``."""
    return mig_layout is not None and mig_layout.spec == MIGLayoutSpec.model_validate(
        document["spec"]
    )


def node_state(node: _Node, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Document:
    """Return a Node document with the state of the node's MIG configuration and nothing else."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "uid": node.uid,
            "labels": dict(labels),
            "annotations": dict(annotations),
        },
    }
