"""Objects that are valid by schema but nonsensical crash neither the operator nor the agent."""

import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from device_plugin.agent.claims import unavailable_instances
from device_plugin.agent.desired_state import desired_from_objects
from device_plugin.agent.steps import plan_steps
from device_plugin.inventory.model import Gpu
from device_plugin.kube.gpu_object import read
from gpu_operator.api.v1alpha1 import CHANGED_AT, CHART_VALUES, LAST_APPLIED, ROLLED_BACK
from gpu_operator.controllers.claims.room import GpuCapacities
from mig import geometry
from mig.errors import MigError
from support.worlds.driven_operator import Operator, layout, node, pool
from support.worlds.fake_cluster import FakeCluster
from support.worlds.odd_specs import odd

FILES = Path(__file__).parents[4] / "charts" / "tessera" / "files" / "crds"
KINDS = {
    "GPUPool": "gpupools",
    "MIGLayout": "miglayouts",
    "GPUPolicy": "gpupolicies",
    "GPUFault": "gpufaults",
    "GPU": "gpus",
}
STEPS = 12
SEEDS = 6
NOTES = (CHANGED_AT, LAST_APPLIED, ROLLED_BACK, CHART_VALUES, "gpu.tessera.dev/taints")
WORDS = (
    "",
    "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59",
    "3g.40gb@99999999999999999999",
    ",".join(["1g.10gb@0"] * 300),
    "3g.40gb@" + "7" * 3000,
    "[" * 5000 + "]" * 5000,
    "7" * 5000,
    ",,,",
)


def schema(kind: str) -> dict[str, Any]:
    document = yaml.safe_load((FILES / f"{KINDS[kind]}.yaml").read_text())
    found: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec: dict[str, Any] = found["properties"]["spec"]
    return spec


SPECS = {kind: schema(kind) for kind in KINDS}
GPUS = jsonschema.Draft202012Validator(SPECS["GPU"])


class Clumsy:
    """Changes the cluster carelessly, in a different way each time."""

    def __init__(self, cluster: FakeCluster, chance: random.Random) -> None:
        self._cluster = cluster
        self._chance = chance

    def act(self) -> None:
        deeds: tuple[Callable[[], object], ...] = (
            *(self._edit, self._edit, self._edit, self._add, self._replace),
            *(self._annotate, self._label, self._delete),
        )
        self._chance.choice(deeds)()

    def _any(self, *kinds: str) -> tuple[str, str] | None:
        there = [(k, name) for k in kinds for name in self._cluster.objects.get(k, {})]
        return self._chance.choice(there) if there else None

    def _edit(self) -> None:
        if (found := self._any(*KINDS)) is not None:
            kind, name = found
            spec = odd(SPECS[kind], self._chance)
            if kind == "GPU":  # locations stay: otherwise the API's own names would not match
                spec = {k: v for k, v in spec.items() if k not in ("nodeName", "index", "uuid")}
            self._cluster.edit(kind, name, **spec)

    def _add(self) -> None:
        kind = self._chance.choice(["GPUPool", "MIGLayout", "GPUPolicy", "GPUFault"])
        name = self._chance.choice(["default", "x", "x" * 50])
        name = name if kind == "GPUPool" else self._chance.choice([name, "x" * 253])
        if name not in self._cluster.objects.get(kind, {}):
            self._cluster.add(kind, name, odd(SPECS[kind], self._chance))

    def _replace(self) -> None:
        """Delete an object and create another of the same name before the next reconciliation."""
        if (found := self._any("GPUPool", "MIGLayout", "GPUFault", "Node", "GPU")) is not None:
            kind, name = found
            before = self._cluster.objects[kind].pop(name)
            self._cluster.disown(kind, name)
            labels = before["metadata"].get("labels", {})
            made = self._cluster.add(kind, name, before["spec"], labels=labels)
            made["status"] = before.get("status", {})

    def _annotate(self) -> None:
        if (found := self._any(*KINDS, "Node")) is not None:
            kind, name = found
            noted = self._cluster.objects[kind][name]["metadata"].setdefault("annotations", {})
            noted[self._chance.choice(NOTES)] = self._chance.choice(WORDS)
            self._cluster.edit(kind, name)

    def _label(self) -> None:
        if (found := self._any("Node", "GPU", "MIGLayout")) is not None:
            kind, name = found
            labels = self._cluster.objects[kind][name]["metadata"].setdefault("labels", {})
            keys = ("gpu.tessera.dev/pool", "gpu", "tessera.dev/allocation")
            keys += ("gpu.tessera.dev/mig.config", "gpu.tessera.dev/mig.strategy.config")
            labels[self._chance.choice(keys)] = self._chance.choice(["yes", "no", "x", "DRA", ""])
            self._cluster.edit(kind, name)

    def _delete(self) -> None:
        if (found := self._any("GPUPool", "MIGLayout", "GPUFault", "Node")) is not None:
            self._cluster.remove(*found)


def agents_look(cluster: FakeCluster) -> None:
    """Let agents process the GPU objects, each on an empty GPU of its board."""
    by_node: dict[str, list[Any]] = {}
    for document in cluster.objects.get("GPU", {}).values():
        by_node.setdefault(document["spec"]["nodeName"], []).append(read(document))
    for objects in by_node.values():
        desired = desired_from_objects(objects, 1 << 30)
        for uuid, spec in desired.gpus.items():
            gpu = Gpu(uuid, spec.index, geometry.board(spec.board), "Healthy", ())
            places = [one.place for one in desired.instances(gpu) or ()]
            made = plan_steps(gpu, places, ()).create
            assert set(unavailable_instances(gpu, desired.instances(gpu) or ())) == set(made)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_schema_valid_objects_crash_no_process(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    operator = Operator(cluster)
    for name in ("n1", "n2"):
        node(cluster, name)
    pool(cluster)
    layout(cluster)
    operator.settle("n1", "n2")
    clumsy = Clumsy(cluster, random.Random(seed))
    capacities = GpuCapacities()
    for _ in range(STEPS):
        clumsy.act()
        operator.round()
        with suppress(MigError):  # the agents of this cluster accept valid specs only
            cluster.run_agents("n1", "n2")
        for gpu in cluster.objects.get("GPU", {}).values():  # the API server would refuse others
            GPUS.validate(gpu["spec"])
        agents_look(cluster)
        capacities.read(operator.store.world(), ())
        ours = [r for r in caplog.records if r.name.startswith("gpu_operator") and r.exc_info]
        assert not ours, "\n".join(map(caplog.handler.format, ours))
