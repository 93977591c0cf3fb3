"""The CustomResourceDefinitions: ``python -m gpu_operator.api.v1alpha1.crd DIRECTORY`` writes them.

Schemas and the CEL rules within a spec come from the models. Names, columns and all other rules
are defined here and in ``rdma.definitions``.
"""

import argparse
from pathlib import Path
from typing import Any

import yaml

from gpu_operator.api.v1alpha1 import VERSION
from gpu_operator.api.v1alpha1.definition import AGE, Column, Kind as Kind, condition_path
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus
from gpu_operator.api.v1alpha1.gpufault import GPUFaultSpec, GPUFaultStatus
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec, GPUPolicyStatus
from gpu_operator.api.v1alpha1.gpupool import GPUPoolSpec, GPUPoolStatus
from gpu_operator.api.v1alpha1.miglayout import MIGLayoutSpec, MIGLayoutStatus
from gpu_operator.api.v1alpha1.rdma.definitions import DEFINITIONS
from gpu_operator.api.v1alpha1.schema import structural_schema

_READY = condition_path("Ready")
_REASON = condition_path("Ready", "reason")
_DEGRADED_CHANGED = condition_path("Degraded", "lastTransitionTime")

KINDS: tuple[Kind, ...] = (
    Kind(
        "GPUPool",
        "gpupools",
        ("gpool",),
        GPUPoolSpec,
        GPUPoolStatus,
        (
            Column("Board", ".spec.board"),
            Column("Per Node", ".spec.count", "integer"),
            Column("Nodes", ".status.nodes", "integer"),
            Column("GPUs", ".status.gpus", "integer"),
            Column("Ready", _READY),
            Column("Reason", _REASON),
            AGE,
            Column("Prefix", ".status.resourcePrefix", wide=True),
            Column("Clock", ".spec.clock", wide=True),
        ),
        "GPUPool gives simulated GPUs to the nodes that its selector matches.",
        (
            ("self.board == oldSelf.board", "board cannot be changed: create a new pool"),
            (
                "!has(self.customTopology) || self.topology == 'flat'",
                "customTopology replaces topology: omit topology",
            ),
            (
                "!has(self.customTopology) || self.count <= self.customTopology.gpus.size()",
                "customTopology describes fewer GPUs than count",
            ),
        ),
        # The name becomes a label value and part of a DaemonSet's name.
        (("self.metadata.name.size() <= 50", "the name of a pool has at most 50 characters"),),
    ),
    Kind(
        "GPU",
        "gpus",
        (),
        GPUSpec,
        GPUStatus,
        (
            Column("Node", ".spec.nodeName"),
            Column("Board", ".spec.board"),
            Column("MIG", ".status.migMode"),
            Column("Slices", ".status.slicesTotal", "integer"),
            Column("Used", ".status.slicesUsed", "integer"),
            Column("Health", ".status.health"),
            Column("Degraded Changed", _DEGRADED_CHANGED, "date", wide=True),
            AGE,
            Column("UUID", ".spec.uuid", wide=True),
            Column("Budget", ".status.budget.total", wide=True),
            Column("Holders", ".status.holders", wide=True),
            Column("Allocation", ".spec.allocation", wide=True),
            Column("Clock", ".status.clock", wide=True),
        ),
        "GPU is one simulated device. The operator writes its spec, the node agent its status.",
        (
            (
                "self.nodeName == oldSelf.nodeName && self.index == oldSelf.index"
                " && self.uuid == oldSelf.uuid",
                "nodeName, index and uuid cannot be changed",
            ),
        ),
    ),
    Kind(
        "MIGLayout",
        "miglayouts",
        ("mig",),
        MIGLayoutSpec,
        MIGLayoutStatus,
        (
            Column("Desired", ".status.desired", "integer"),
            Column("Applied", ".status.applied", "integer"),
            Column("Waiting", ".status.waiting", "integer"),
            Column("Ready", _READY),
            Column("Reason", _REASON),
            AGE,
        ),
        "MIGLayout defines the MIG slices of the selected GPUs, and how changes are rolled out.",
        (
            (
                "self.instances.all(i, !has(i.start) || !has(i.count) || i.count == 1)",
                "start places one instance: it requires count 1",
            ),
            (
                "self.instances.all(i, !has(i.computeStart) || has(i.start))",
                "computeStart is relative to the GPU instance at start: it requires start",
            ),
        ),
    ),
    Kind(
        "GPUPolicy",
        "gpupolicies",
        ("gpol",),
        GPUPolicySpec,
        GPUPolicyStatus,
        (
            Column("Strategy", ".spec.strategy"),
            Column("Prefix", ".spec.resourcePrefix"),
            Column("Ready", _READY),
            Column("Reason", _REASON),
            AGE,
        ),
        "GPUPolicy defines how slices are offered. Only the object named default has an effect.",
        (
            (
                "!has(self.sharing) || has(self.sharing.timeSlicing) != has(self.sharing.mps)",
                "set exactly one of sharing.timeSlicing and sharing.mps",
            ),
        ),
    ),
    Kind(
        "GPUFault",
        "gpufaults",
        ("gfault",),
        GPUFaultSpec,
        GPUFaultStatus,
        (
            Column("GPU", ".status.gpu"),
            Column("Fault", ".status.fault"),
            Column("Phase", ".status.phase"),
            Column("Reason", _REASON),
            AGE,
            Column("Slice", ".status.slice", wide=True),
        ),
        "GPUFault makes a GPU fail, to test workloads. Deleting it ends a lasting fault.",
        (
            ("self == oldSelf", "a fault cannot be changed: delete it and create another"),
            (
                "has(self.gpuName) != has(self.nodeName) && has(self.nodeName) == has(self.index)",
                "select the GPU by gpuName, or by nodeName and index",
            ),
            (
                "[has(self.xid), has(self.ecc), has(self.thermal) && self.thermal,"
                " has(self.hang) && self.hang, has(self.offBus) && self.offBus]"
                ".filter(given, given).size() == 1",
                "set exactly one of xid, ecc, thermal, hang and offBus",
            ),
            (
                "!has(self.ecc) || has(self.ecc.corrected) != has(self.ecc.uncorrected)",
                "set exactly one of ecc.corrected and ecc.uncorrected",
            ),
            (
                "!has(self.durationSeconds) || !(has(self.xid) || has(self.ecc))",
                "durationSeconds applies to thermal, hang and offBus only",
            ),
        ),
    ),
    *DEFINITIONS,
)


def render(kind: Kind) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind."""
    spec = structural_schema(kind.spec)
    if kind.rules:
        spec["x-kubernetes-validations"] = [{"rule": r, "message": m} for r, m in kind.rules]
    singular = kind.kind.lower()
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": singular,
        "categories": ["tessera"],
    }
    if kind.short:
        names["shortNames"] = list(kind.short)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": names,
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [_column(c) for c in kind.columns],
                    "schema": {"openAPIV3Schema": _root(kind, spec)},
                }
            ],
        },
    }


def _root(kind: Kind, spec: dict[str, Any]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    if kind.root_rules:
        root["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in kind.root_rules
        ]
    return root | {
        "type": "object",
        "description": kind.description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural_schema(kind.status),
        },
    }


def _column(column: Column) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
    }
    if column.wide:
        document["priority"] = 1
    return document


def write(directory: Path) -> None:
    """Write the definition of each kind to a file in ``directory``; overwrite existing files."""
    directory.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        text = yaml.safe_dump(render(kind), sort_keys=False, width=100)
        (directory / f"{kind.plural}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m gpu_operator.api.v1alpha1.crd", description=__doc__
    )
    parser.add_argument(
        "directory", type=Path, help="directory for the generated files, one for each kind"
    )
    write(parser.parse_args().directory)
