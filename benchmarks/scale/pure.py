"""The controllers alone on a fleet of documents: no API server, no agents.

``python -m benchmarks.scale.pure --nodes 10000`` reads every object as the operator does,
reconciles all GPUs at once, then one GPU's change after another, and prints the CPU time of each
and the final memory.
"""

import argparse
import datetime
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.report import Row, Section, machine, table
from benchmarks.scale.cluster import BOARD, GPUS_A_NODE
from benchmarks.scale.fleet import name_of
from benchmarks.scale.measure import SEVEN
from gpu_operator.api.v1alpha1 import API_VERSION, NODE_LABEL, POOL_LABEL
from gpu_operator.config import NodeConfig
from gpu_operator.controllers.common.world import Outcome, World
from gpu_operator.controllers.fleet import Fleet
from gpu_operator.controllers.layouts import layouts
from gpu_operator.controllers.pools import pools
from gpu_operator.engine.store import Store
from gpu_operator.kube.actions import Apply
from gpu_operator.render.gpu import uuid_of
from mig import geometry

_NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
_CONFIG = NodeConfig(image="scale", service_account="tessera-node")


@dataclass(slots=True)
class Fake:
    """Objects as the API server would send them; each version is newer than the last."""

    version: int = 0

    def document(self, kind: str, name: str, spec: Any, status: Any, **metadata: Any) -> Any:
        self.version += 1
        return {
            "apiVersion": API_VERSION,
            "kind": kind,
            "metadata": {
                "name": name,
                "uid": f"uid-{kind}-{name}",
                "resourceVersion": str(self.version),
                "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                **metadata,
            },
            "spec": spec,
            "status": status,
        }

    def node(self, number: int, offered: int) -> Any:
        labels = {"gpu": "yes", POOL_LABEL: "p"}
        figures = {_RESOURCE: str(offered), "cpu": "64"}
        status = {"capacity": figures, "allocatable": figures}
        return self.document("Node", name_of(number), {}, status, labels=labels)

    def gpu(
        self,
        number: int,
        index: int,
        places: tuple[str, ...],
        layout: Mapping[str, Any] | None = None,
        *,
        is_observed: bool = False,
    ) -> Any:
        """Return a GPU with the spec of ``layout``, which its agent may have observed."""
        node = name_of(number)
        name = f"{node}-gpu-{index}"
        spec = {"nodeName": node, "index": index, "board": BOARD, "uuid": uuid_of(node, index)}
        spec |= {"pool": "p", "instances": [{"profile": "whole", "start": 0}]}
        metadata: dict[str, Any] = {"labels": {NODE_LABEL: node, POOL_LABEL: "p"}}
        if layout is not None:
            spec |= layout["spec"]
            metadata |= {"annotations": layout["metadata"]["annotations"], "generation": 2}
        status = _status(name, places, 2 if is_observed else 1)
        return self.document("GPU", name, spec, status, **metadata)


def _status(name: str, places: tuple[str, ...], generation: int) -> dict[str, Any]:
    """Return a status as a node's agent writes it."""
    board = geometry.board(BOARD)
    slices = []
    for start, profile_name in enumerate(places):
        profile = board.whole if profile_name == "whole" else board.profile(profile_name)
        slices.append(
            {
                "uuid": f"MIG-{name}-{start}",
                "profile": profile_name,
                "start": start,
                "state": "Active",
                "resource": _RESOURCE if profile_name != "whole" else "gpu.tessera.dev/gpu",
                "admitted": True,
                "memoryBytes": profile.memory_bytes,
                "memoryUsedBytes": 0,
                "multiprocessors": profile.sm_count,
                "holders": [],
                "health": "Healthy",
            }
        )
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": "Reconciled",
            "message": f"{len(places)} slices as desired",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "observedGeneration": generation,
        }
        for kind, status in (("Accepted", "True"), ("Ready", "True"), ("Degraded", "False"))
    ]
    return {
        "observedGeneration": generation,
        "conditions": conditions,
        "product": board.product_name,
        "memoryBytes": board.memory_bytes,
        "multiprocessors": board.sm_count,
        "health": "Healthy",
        "migMode": "Enabled",
        "slices": slices,
        "slicesTotal": len(slices),
        "budget": {"total": "64Gi", "used": "0"},
        "isolation": {"enforced": True, "reason": ""},
        "agentVersion": "scale",
    }


class Controllers:
    """The operator's store and indexes, and its worker's reconciliation."""

    def __init__(self) -> None:
        self.store = Store()
        self.fleet = Fleet()

    def look(self) -> tuple[Outcome, Outcome]:
        """Process all changes; reconcile the layout and the pool."""
        changes = self.store.take_changes()
        world: World = replace(self.store.world(), index=self.fleet)
        self.fleet.update(world, changes)
        layout = layouts.reconcile(world, "l", _NOW, self.fleet.books["l"])
        book = self.fleet.pool_book("p")
        return layout, pools.reconcile(world, "p", _CONFIG, "tessera-system", _NOW, book)


def run(nodes: int, changes: int) -> Section:
    """Measure one size; ``changes`` nodes are partitioned one after the other."""
    fake, controllers = Fake(), Controllers()
    put = controllers.store.put
    pool = {"nodeSelector": {"gpu": "yes"}, "board": BOARD, "count": GPUS_A_NODE}
    put("GPUPool", fake.document("GPUPool", "p", pool, {}))
    requested_slices = [{"profile": profile, "count": count} for profile, count in SEVEN]
    spec = {"instances": requested_slices, "rollout": {"maxUnavailable": "100%"}}
    put("MIGLayout", fake.document("MIGLayout", "l", spec, {}))
    began = time.process_time()
    for number in range(nodes):
        put("Node", fake.node(number, 0))
        for index in range(GPUS_A_NODE):
            put("GPU", fake.gpu(number, index, ("whole",)))
    read_s, began = time.process_time() - began, time.process_time()
    layout, _ = controllers.look()
    decided_s = time.process_time() - began
    written = {
        action.document["metadata"]["name"]: action.document
        for action in layout.actions
        if isinstance(action, Apply) and action.document["kind"] == "GPU"
    }
    begun = {
        (number, index): written[name]
        for number in range(nodes)
        for index in range(GPUS_A_NODE)
        if (name := f"{name_of(number)}-gpu-{index}") in written
    }
    if len(begun) != nodes * GPUS_A_NODE:
        raise RuntimeError(f"{len(begun)} of {nodes * GPUS_A_NODE} GPUs were divided")
    for number in range(nodes):  # as the API server has them after all writes
        for index in range(GPUS_A_NODE):
            put("GPU", fake.gpu(number, index, ("whole",), begun[number, index]))
    controllers.look()
    each = []
    step = max(1, nodes // changes)
    for number in range(0, step * min(changes, nodes), step):
        began = time.process_time()
        for index in range(GPUS_A_NODE):
            put(
                "GPU",
                fake.gpu(number, index, ("1g.10gb",) * 7, begun[number, index], is_observed=True),
            )
            controllers.look()
        put("Node", fake.node(number, 7 * GPUS_A_NODE))
        controllers.look()
        each.append((time.process_time() - began) / GPUS_A_NODE)
    for number in range(nodes):  # partition all of them, to measure the memory of that state
        for index in range(GPUS_A_NODE):
            put(
                "GPU",
                fake.gpu(number, index, ("1g.10gb",) * 7, begun[number, index], is_observed=True),
            )
        put("Node", fake.node(number, 7 * GPUS_A_NODE))
    del begun, written, layout
    began = time.process_time()
    controllers.look()
    evaluated_s = time.process_time() - began
    applied = sum(
        controllers.fleet.books["l"].groups.count(group)
        for group in controllers.fleet.books["l"].groups.nonempty_groups()
    )
    name = f"{nodes} nodes"
    gpus = nodes * GPUS_A_NODE
    return Section(
        name,
        (
            Row(name, "read all objects, each", 1e6 * read_s / gpus, "us"),
            Row(name, f"plan for {gpus} GPUs at once", decided_s, "s"),
            Row(name, "one GPU's change, median", 1e3 * statistics.median(each), "ms", 5.0),
            Row(name, f"reconcile {applied} GPUs that all changed", evaluated_s, "s"),
            Row(name, "memory of the process", _resident_mib(), "MiB"),
        ),
    )


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main() -> int:
    """Exit status: 0 all goals met, 1 one is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.pure", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=50, help="nodes that change by themselves")
    options = parser.parse_args()
    print(f"{machine()}; {GPUS_A_NODE} GPUs a node", flush=True)
    section = run(options.nodes, options.changes)
    print(table([section]))
    return int(any(row.verdict == "MISSED" for row in section.rows))


if __name__ == "__main__":
    sys.exit(main())
