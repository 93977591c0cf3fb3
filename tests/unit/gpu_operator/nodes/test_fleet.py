"""Indexes of the fleet: after any history they equal rebuilt ones, and the cost of one GPU's change
is the same with ten nodes and ten thousand.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import MIG_CONFIG_NODE, POOL_LABEL
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.controllers.common import membership
from gpu_operator.controllers.common.world import AgentPod, Outcome, World
from gpu_operator.controllers.fleet import Fleet, Named
from gpu_operator.controllers.layouts import layouts, orphans, selection
from gpu_operator.controllers.pools import pools
from support.worlds.driven_operator import CONFIG
from support.worlds.gpu_world import NOW, gpu, layout, mig_slice, node, pool, world

SEVEN = [f"1g.10gb@{i}" for i in range(7)]
HALVES = ["3g.40gb@0", "3g.40gb@4"]
NODES = [f"n{i}" for i in range(5)]
KINDS = {"Node": "nodes", "GPU": "gpus", "GPUPool": "pools", "MIGLayout": "layouts"}


class History:
    """Random edits of a small cluster, each reported to a fleet."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fleet = Fleet()
        self.world = World()
        self.waiting: set[Named] = set()

    def step(self) -> None:
        edits = [self.put_node, self.put_gpu, self.put_gpu, self.put_layout, self.put_pool]
        self.random.choice([*edits, self.put_agent, self.remove])()

    def look(self) -> World:
        """Report all changes to the fleet; return the world with the fleet as its index."""
        seen = replace(self.world, index=self.fleet)
        self.fleet.update(seen, self.waiting)
        self.waiting = set()
        return seen

    def put_node(self) -> None:
        name = self.random.choice(NODES)
        labels = {"gpu": self.random.choice(["yes", "no"]), "zone": self.random.choice("ab")}
        if self.random.random() < 0.3:
            labels[POOL_LABEL] = self.random.choice("pq")
        offers = {"gpu.tessera.dev/mig-1g.10gb": str(self.random.choice([0, 7, 14]))}
        made = node(name, labels=labels, allocatable=offers, uid=self.random.choice(["u", "v"]))
        self._put("Node", name, made)

    def put_gpu(self) -> None:
        on, index = self.random.choice(NODES), self.random.randrange(2)
        have = self.random.choice([SEVEN, HALVES, ["whole@0"], []])
        pods = ["default/a"] if self.random.random() < 0.3 else []
        made = gpu(
            on,
            index,
            pool=self.random.choice("pq"),
            want=self.random.choice([SEVEN, HALVES, ["whole@0"], []]),
            layout=self.random.choice([None, "l", "m", "x"]),
            have=[mig_slice(place, *pods) for place in have],
            reported=self.random.random() < 0.8,
            generation=self.random.choice([1, 2]),
            seen=1,
        )
        claims = Allocation.DRA if self.random.random() < 0.15 else Allocation.DEVICE_PLUGIN
        spec = made.spec.model_copy(update={"allocation": claims})
        self._put("GPU", made.name, replace(made, spec=spec))

    def put_layout(self) -> None:
        name = self.random.choice("lmx")
        desired = self.random.choice(["7x1g.10gb", "2x3g.40gb", "8x1g.10gb", "1x2g.20gb"])
        select = self.random.choice(
            [{}, {"pool": "p"}, {"node_names": ("n1", "n2")}, {"node_selector": {"zone": "a"}}]
        )
        labels = {MIG_CONFIG_NODE: "n1"} if self.random.random() < 0.3 else {}
        made = layout(
            name,
            desired,
            created=f"2026-01-0{self.random.randrange(1, 4)}T00:00:00Z",
            select=select,
            rollout={"max_unavailable": self.random.choice([1, "50%"]), "on_in_use": "Evict"},
            generation=self.random.randrange(1, 5),
            labels=labels,
            deleting=self.random.random() < 0.1,
        )
        self._put("MIGLayout", name, made)

    def put_pool(self) -> None:
        name = self.random.choice("pq")
        made = pool(
            name,
            count=self.random.choice([1, 2]),
            created=f"2026-01-0{self.random.randrange(1, 4)}T00:00:00Z",
            meta={"deleting": self.random.random() < 0.1},
        )
        self._put("GPUPool", name, made)

    def put_agent(self) -> None:
        on = self.random.choice(NODES)
        problem = self.random.choice(["", "container agent: starting"])
        agents = {**self.world.agents, on: AgentPod(f"agent-{on}", on, "p", problem)}
        self.world = replace(self.world, agents=agents)
        self.waiting.add(("Agent", on))

    def remove(self) -> None:
        kind = self.random.choice(list(KINDS))
        there = getattr(self.world, KINDS[kind])
        if there:
            name = self.random.choice(sorted(there))
            left = {n: value for n, value in there.items() if n != name}
            self.world = replace(self.world, **{KINDS[kind]: left})
            self.waiting.add((kind, name))

    def _put(self, kind: str, name: str, value: Any) -> None:
        there = {**getattr(self.world, KINDS[kind]), name: value}
        self.world = replace(self.world, **{KINDS[kind]: there})
        self.waiting.add((kind, name))


def of_pool(seen: World, name: str, fleet: Fleet | None = None) -> Outcome:
    book = fleet.pool_book(name) if fleet is not None else None
    return pools.reconcile(seen, name, CONFIG.node, "tessera-system", NOW, book)


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_the_indexes_equal_rebuilt_ones(seed: int) -> None:
    history = History(seed)
    for _ in range(60):
        for _ in range(history.random.randrange(1, 4)):
            history.step()
        plain, fleet = history.world, history.fleet
        seen = history.look()
        assert dict(fleet.held) == dict(membership.pools_by_node(plain))
        assert dict(fleet.followed) == dict(selection.layouts_by_gpu(plain))
        for name in plain.layouts:
            book = fleet.books[name]
            reported = layouts.reconcile(seen, name, NOW, book)
            assert reported == layouts.reconcile(plain, name, NOW)
        for name in {*plain.pools, "p", "q"}:
            assert of_pool(seen, name, fleet) == of_pool(plain, name)
        for name in plain.gpus:
            assert orphans.reconcile(seen, name) == orphans.reconcile(plain, name)


def test_a_change_returns_only_the_affected_keys() -> None:
    fleet = Fleet()
    gpus = [
        gpu(f"n{i}", want=SEVEN, have=[mig_slice(p) for p in SEVEN], layout="l") for i in (1, 2)
    ]
    desired = layout("l", "7x1g.10gb", select={"node_names": ("n1",)})
    other = layout("m", "2x3g.40gb", select={"node_names": ("n2",)})
    first = world(node("n1"), node("n2"), pool(), *gpus, desired, other)
    fleet.update(replace(first, index=fleet), ())
    held = replace(gpus[0], status=gpus[0].status.model_copy(update={"slices_used": 1}))
    changed = replace(first, gpus={**first.gpus, held.name: held}, index=fleet)
    assert fleet.update(changed, {("GPU", held.name)}) == {
        ("GPU", held.name),
        ("Node", "n1"),
        ("GPUPool", "p"),
        ("MIGLayout", "l"),
    }
    done = replace(desired, status=desired.status.model_copy(update={"applied": 7}))
    said = replace(changed, layouts={**changed.layouts, "l": done}, index=fleet)
    assert fleet.update(said, {("MIGLayout", "l")}) == {("MIGLayout", "l")}  # without its GPUs


def test_faults_are_reconciled_only_when_a_gpu_changes() -> None:
    """A fault's state is in its GPU's status, which does not name the GPUFault object."""
    fleet = Fleet()
    faults: Any = {"f": None, "g": None}
    first = replace(world(node("n1"), pool(), gpu("n1"), layout("l")), faults=faults)
    fleet.update(replace(first, index=fleet), ())

    def touched_faults(*changes: Named) -> set[Named]:
        found = fleet.update(replace(first, index=fleet), changes)
        return {one for one in found if one[0] == "GPUFault"}

    (name,) = first.gpus
    assert touched_faults(("GPU", name)) == {("GPUFault", "f"), ("GPUFault", "g")}
    for kind in ("Node", "GPUPool", "MIGLayout", "Agent"):
        assert touched_faults((kind, {"Node": "n1", "GPUPool": "p"}.get(kind, "l"))) == set(), kind
    assert touched_faults() == set()


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of Python functions."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def cost_of_one_change(nodes: int) -> tuple[int, int]:
    """Return the number of function calls and of writes for a change of one GPU."""
    template = gpu("n", want=SEVEN, have=[mig_slice(place) for place in SEVEN], layout="l")
    offers = {"gpu.tessera.dev/mig-1g.10gb": "7"}
    names = [f"n{i:05d}" for i in range(nodes)]
    gpus = {}
    for name in names:
        made = gpu(name, reported=False)
        spec = made.spec.model_copy(update={"instances": template.spec.instances, "layout": "l"})
        gpus[made.name] = replace(made, spec=spec, status=template.status)
    seen = replace(
        world(pool(), layout("l", "7x1g.10gb")),
        gpus=gpus,
        nodes={name: node(name, allocatable=offers) for name in names},
    )
    fleet = Fleet()

    def look(now: World, *changes: Named) -> list[Outcome]:
        indexed = replace(now, index=fleet)
        touched = fleet.update(indexed, changes)
        found = [layouts.reconcile(indexed, "l", NOW, fleet.books["l"])]
        found.append(of_pool(indexed, "p", fleet))
        if changes:
            assert len(touched) == 4
        return found

    look(seen)
    one = replace(template, meta=gpus[f"{names[nodes // 2]}-gpu-0"].meta)
    other = replace(
        one,
        spec=gpus[one.name].spec,
        status=template.status.model_copy(update={"slices": template.status.slices[:6]}),
    )
    after = replace(seen, gpus={**gpus, one.name: other})
    writes: list[Outcome] = []
    calls = calls_of(lambda: writes.extend(look(after, ("GPU", one.name))))
    acting = {
        n for outcome in writes for a in outcome.actions if (n := a.what) == f"GPU {one.name}"
    }
    assert acting <= {f"GPU {one.name}"}
    assert fleet.books["l"].applied == 7 * nodes - 1
    return calls, sum(a.what.startswith("GPU ") for o in writes for a in o.actions)


def test_one_change_among_ten_thousand_nodes_costs_what_it_costs_among_ten() -> None:
    small, few = cost_of_one_change(10)
    large, many = cost_of_one_change(10_000)
    assert many == few
    assert large <= small + 100, (small, large)
