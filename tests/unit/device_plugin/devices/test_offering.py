"""No pod fails when the resources that a node offers are renamed, shared or withdrawn.

The agent's loop and the operator's decision about a node's status are the real ones. Kubelet,
scheduler and gpud are a model: each acts at its own pace, and a pod is always waiting.
"""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from device_plugin.agent.holders import Holders
from device_plugin.agent.leaving import unlisting
from device_plugin.agent.leaving.allocatable import LONGEST_S
from device_plugin.agent.listing import SETTLE_S
from device_plugin.agent.loop import Agent
from device_plugin.agent.offer_record import OfferRecord
from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import HEALTHY, Offer
from device_plugin.errors import ClusterError
from device_plugin.inventory.functions import RESOURCE as HCA, HcaFunction
from device_plugin.inventory.model import Gpu, HolderPod, Inventory, MigSlice, slice_uuid_of
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.kube.node_status import NodeStatus
from device_plugin.podresources.client import Listing as PodListing
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus, PlacedInstance
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.resource import Meta, Resource
from gpu_operator.api.v1alpha1.sharing import Shared, SharingKind
from gpu_operator.controllers.common.world import AgentPod, Node, World
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.kube.actions import PatchNode
from mig import geometry, planner

BOARD = geometry.board("h100-80gb")
UUIDS = ("GPU-11111111-1111-4111-8111-111111111111", "GPU-21111111-1111-4111-8111-111111111111")
SMALL = [BOARD.instance("1g.10gb", start) for start in range(3)]
OTHER = [BOARD.instance("2g.20gb", 0)]
TICK_S = 0.1


def make_shared(replicas: int, offered_as: str = "mig-1g.10gb") -> Shared:
    kind = SharingKind.TIME_SLICING
    return Shared(name="mig-1g.10gb", offered_as=offered_as, replicas=replicas, kind=kind)


@dataclass(frozen=True)
class Wanted:
    """The operator's specification of the node's two GPUs."""

    strategy: Strategy = Strategy.MIXED
    second: str = "small"
    sharing: tuple[Shared, ...] = ()
    in_pool: bool = True


Edit = tuple[Wanted, Wanted, str]
PLAIN = Wanted()
SINGLE = Wanted(Strategy.SINGLE)
FOUR = Wanted(sharing=(make_shared(4),))
EDITS: dict[str, Edit] = {
    "strategy mixed to single": (PLAIN, SINGLE, "gpu"),
    "strategy single to mixed": (SINGLE, PLAIN, "mig-1g.10gb"),
    "strategy none": (PLAIN, Wanted(Strategy.NONE), ""),
    "single gets mixed kinds": (SINGLE, replace(SINGLE, second="other"), ""),
    "sharing renames": (PLAIN, Wanted(sharing=(make_shared(4, "fourth"),)), "fourth"),
    "sharing ends with its name": (
        Wanted(sharing=(make_shared(4, "fourth"),)),
        PLAIN,
        "mig-1g.10gb",
    ),
    "fewer shares": (FOUR, Wanted(sharing=(make_shared(2),)), "mig-1g.10gb"),
    "shared no longer": (FOUR, PLAIN, "mig-1g.10gb"),
    "shared from now on": (PLAIN, FOUR, "mig-1g.10gb"),
    "a layout takes slices away": (PLAIN, replace(PLAIN, second="none"), "mig-1g.10gb"),
    "the node leaves its pool": (PLAIN, replace(PLAIN, in_pool=False), ""),
}


@dataclass
class Cluster:
    """One node; ``known`` is the scheduler's view of it, ``failed`` counts rejected pods."""

    directory: Path
    random: random.Random
    wanted: Wanted
    period_s: float
    now: float = 1000.0
    failed: int = 0
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    bound: dict[str, int] = field(default_factory=dict)
    pods: dict[str, tuple[str, str]] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    writes: int = 0
    admitted: int = 0
    pods_last_s: tuple[float, float] = (0.2, 0.6)
    agent_sees_api: bool = True
    requesting: bool = False
    """Whether the kubelet calls GetPreferredAllocation."""
    crowds: int = 0
    """The number of pods that got a share of a slice which already had as many pods as shares."""
    intrusions: int = 0
    """The number of pods that wrongly share a slice, or wrongly have one exclusively."""
    reported: list[bool] = field(default_factory=list)
    """For each status, whether it reports that the agent waits for ``allocatable``."""

    def __post_init__(self) -> None:
        self.slices: dict[str, dict[geometry.Instance, str]] = {uuid: {} for uuid in UUIDS}
        self.status = {uuid: GPUStatus() for uuid in UUIDS}
        self.allocations = Allocations(clock=lambda: self.now)
        self.made = 0
        self.next_write = self.now + self.random.uniform(0, self.period_s)
        self.next_pass = self.now
        self.next_answer = self.now
        self.home = self.directory / "lib" / "0"
        self.home.mkdir(parents=True)
        self.agent = self.start_agent()

    def start_agent(self) -> Agent:
        """Return a new agent, which knows only what its predecessor left on the node."""
        silent = {
            n: lambda *a, **k: True for n in ("post", "post_gpu", "post_health", "post_claim")
        }
        functions = (HcaFunction("HCA-1", 0, "/run/1", "/run/2"),)
        binder: Any = SimpleNamespace(functions=functions, wake=lambda: None, healthy=True)
        objects: Any = SimpleNamespace(gpus=self.objects, apply_status=self.apply_status)
        gpud: Any = self
        side: Any = self
        pods: Any = SimpleNamespace(list=self.listing)
        holders = Holders(pods, gpud, "agent", lambda: self.now)
        settings = Settings("n1", "agent", cdi_dir=self.directory, use_cdi=False)
        quiet: Any = SimpleNamespace(**silent)
        return Agent(
            *(settings, gpud, holders, objects, side, self.home, threading.Event(), quiet, binder),
            node_status=self.look,
            clock=lambda: self.now,
            record=OfferRecord(self.directory / "offered.json", "n1"),
        )

    # gpud

    def inventory(self) -> Inventory:
        gpus = []
        for index, uuid in enumerate(UUIDS):
            made = self.slices[uuid].items()
            found = (MigSlice(u, uuid, i, 1, 0, 1, f"/run/{u}", 0, ()) for i, u in made)
            gpus.append(Gpu(uuid, index, BOARD, "Healthy", tuple(found)))
        return Inventory("1", "/lib", 1, 0, True, "", ("seccomp",), tuple(gpus))

    def create_instance(
        self, gpu: str, profile: str, start: int, compute_start: int | None = None
    ) -> None:
        self.made += 1
        instance = BOARD.instance(profile, start, compute_start)
        self.slices[gpu][instance] = f"MIG-{self.made:08x}-1111-4111-8111-111111111111"

    def destroy_instance(self, uuid: str) -> None:
        assert all(slice_uuid_of(device) != uuid for _, device in self.pods.values())
        for made in self.slices.values():
            for instance in [i for i, u in made.items() if u == uuid]:
                del made[instance]

    def __getattr__(self, name: str) -> Any:
        if name in ("confirm_listed", "keep_only", "forbid", "allow", "has_pending", "all_ours"):
            return getattr(self.allocations, name)
        if name in ("configure", "set_sharing", "set_holders", "report_claim_health"):
            return lambda *a, **k: None
        raise AttributeError(name)

    # The kubelet as the agent sees it

    def update(self, offers: dict[str, Offer]) -> None:
        self.offers = dict(offers)

    def connected_resources(self) -> frozenset[str]:
        return frozenset(self.offers)

    def healthy(self) -> dict[str, list[str]]:
        found = {}
        for name, offer in self.offers.items():
            found[name] = [one.ID for one in offer.devices() if one.health == HEALTHY]
        return found

    def listing(self) -> PodListing:
        held: dict[str, tuple[HolderPod, ...]] = {}
        given = {device: name for name, device in self.pods.values() if name != HCA}
        for pod, (_, device) in self.pods.items():
            held[device] = (HolderPod("team", pod, f"uid-{pod}"),)
        return PodListing(held, given, frozenset({"agent"}))

    # The API server

    def objects(self) -> list[GpuObject]:
        if not self.agent_sees_api:
            raise ClusterError("away")
        leaves, spec = not self.wanted.in_pool, self.specs()
        return [GpuObject(u, u, 1, leaves, spec[u], self.status[u]) for u in spec]

    def specs(self) -> dict[str, GPUSpec]:
        """Return the specs of the GPU objects; without a pool, until their slices are gone."""
        if not self.wanted.in_pool and not any(one.slices for one in self.status.values()):
            return {}
        second = {"small": SMALL, "other": OTHER, "none": []}[self.wanted.second]
        return {
            uuid: GPUSpec(
                node_name="n1",
                index=index,
                board=BOARD.key,
                uuid=uuid,
                pool="p",
                instances=tuple(PlacedInstance.from_place(planner.place_of(i)) for i in places),
                mig_strategy=self.wanted.strategy,
                sharing=self.wanted.sharing,
            )
            for index, (uuid, places) in enumerate(zip(UUIDS, (SMALL, second), strict=True))
        }

    def apply_status(self, name: str, status: GPUStatus) -> None:
        self.status[name] = status
        (ready,) = (one for one in status.conditions if one.type == "Ready")
        self.reported.append("allocatable" in ready.message)

    def look(self) -> NodeStatus:
        return NodeStatus(self.known, f"kubelet {self.writes}")

    def operator_acts(self) -> None:
        specs = self.specs().items()
        gpus = {u: Resource(Meta("GPU", u, u), s, self.status[u]) for u, s in specs}
        figures = {name: str(count) for name, count in self.known.items()}
        node = Node("n1", "uid", {}, {}, {n: str(c) for n, c in self.capacity.items()}, figures)
        agents = {"n1": AgentPod("agent", "n1", "p")}
        seen = World({"n1": node}, gpus=gpus, agents=agents)
        for action in extended_resources.reconcile(seen, "n1", self.now).actions:
            if isinstance(action, PatchNode) and action.status:
                for one in action.operations:
                    if one["op"] == "replace":
                        name = one["path"].removeprefix("/status/allocatable/")
                        self.known[name.replace("~1", "/")] = int(one["value"])

    # The events of each moment

    def later(self, least_s: float, most_s: float, act: Callable[[], None]) -> None:
        self.due.append((self.now + self.random.uniform(least_s, most_s), act))

    def tick(self) -> None:
        self.now += TICK_S
        ready = [act for at, act in self.due if at <= self.now]
        self.due = [one for one in self.due if one[0] > self.now]
        for act in ready:
            act()
        if self.now >= self.next_write:
            self.next_write = self.now + self.period_s * self.random.uniform(1, 1.04)
            counts = {name: len(ids) for name, ids in self.healthy().items()}
            self.later(0.0, 0.1, lambda: self.kubelet_writes(counts))
        if self.now >= self.next_answer:
            self.next_answer = self.now + self.random.uniform(0.2, 0.5)
            self.operator_acts()
        for name, count in self.known.items():
            while count > self.bound.get(name, 0):
                self.bound[name] = self.bound.get(name, 0) + 1
                self.later(0.2, 0.45, lambda name=name: self.kubelet_admits(name))  # type: ignore[misc]
        if self.now >= self.next_pass:
            self.next_pass = self.now + self.random.uniform(0.2, 0.5)
            self.agent.attempt()

    def kubelet_writes(self, counts: dict[str, int]) -> None:
        counts = dict.fromkeys(self.capacity, 0) | counts
        if counts != self.known:
            self.capacity, self.known = dict(counts), dict(counts)
            self.writes += 1

    def kubelet_admits(self, name: str) -> None:
        taken = {slice_uuid_of(d) if name == HCA else d for _, d in self.pods.values()}
        free = [device for device in self.healthy().get(name, ()) if device not in taken]
        chosen = self.random.choice(free) if free else ""
        if self.requesting and free:
            (chosen,) = self.offers[name].prefer(free, [], 1, [])
        if not chosen or self.allocations.allocate([chosen]) is not None:
            self.failed += 1
            self.bound[name] -= 1
            return
        self.admitted += 1
        beside = [d for _, d in self.pods.values() if slice_uuid_of(d) == slice_uuid_of(chosen)]
        alone = [d for d in (chosen, *beside) if d == slice_uuid_of(d)]
        self.intrusions += bool(name != HCA and beside and alone)
        shared = getattr(self.offers[name], "shared", {}).get(slice_uuid_of(chosen))
        self.crowds += shared is not None and len(beside) >= shared.replicas
        pod = f"pod-{self.admitted}"
        self.pods[pod] = (name, chosen)
        self.later(*self.pods_last_s, lambda: self.pod_ends(pod))

    def pod_ends(self, pod: str) -> None:
        name, _ = self.pods.pop(pod)
        self.bound[name] -= 1

    def go_on(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.tick()


def run(
    directory: Path,
    edit: Edit,
    seed: int,
    period_s: float,
    pods_last_s: tuple[float, float] = (0.2, 0.6),
    *,
    requesting: bool = False,
) -> Cluster:
    before, after, _ = edit
    cluster = Cluster(
        directory,
        random.Random(seed),
        before,
        period_s,
        pods_last_s=pods_last_s,
        requesting=requesting,
    )
    cluster.go_on(2 * period_s + 3)
    assert cluster.admitted
    cluster.wanted = after
    phases = 1 if after.in_pool else 2  # the functions are withdrawn after the slices
    cluster.go_on(phases * LONGEST_S + SETTLE_S + period_s + 5)
    return cluster


@pytest.mark.parametrize(("seed", "period_s"), [(0, 2.0), (1, 10.0)])
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_no_pod_fails_when_the_offer_changes(
    edit: Edit, seed: int, period_s: float, tmp_path: Path
) -> None:
    cluster = run(tmp_path, edit, seed, period_s)
    assert (cluster.failed, cluster.intrusions) == (0, 0)
    there = {name for name, ids in cluster.healthy().items() if ids}
    expected = {f"gpu.tessera.dev/{edit[2]}"} if edit[2] else set()
    assert there - {HCA} == expected
    assert (HCA in there) is edit[1].in_pool
    assert any(cluster.reported)
    assert not cluster.reported[-1]


@pytest.mark.parametrize("edit", ["shared from now on", "shared no longer", "sharing renames"])
def test_no_pod_shares_a_slice_that_another_has_exclusively(edit: str, tmp_path: Path) -> None:
    """Pods outlast the change: a resource keeps its name, but not the kind of its devices."""
    cluster = run(tmp_path, EDITS[edit], 0, 2.0, (3.0, 12.0))
    assert (cluster.failed, cluster.intrusions) == (0, 0)
    assert not cluster.reported[-1]
    listed = cluster.healthy()[f"gpu.tessera.dev/{EDITS[edit][2]}"]
    assert len(listed) == 6 * (4 if EDITS[edit][1].sharing else 1)


def test_of_fewer_shares_no_slice_has_more_than_that(tmp_path: Path) -> None:
    """Pods outlast the change, some with ids that have left the list, while others start."""
    cluster = run(tmp_path, EDITS["fewer shares"], 0, 2.0, (3.0, 20.0), requesting=True)
    assert (cluster.failed, cluster.crowds) == (0, 0)
    assert len(cluster.healthy()["gpu.tessera.dev/mig-1g.10gb"]) == 6 * 2
    cluster.bound = dict.fromkeys(cluster.bound, 1000)  # no pod starts any more
    cluster.go_on(20)
    listed = cluster.healthy()["gpu.tessera.dev/mig-1g.10gb"]
    assert {one.partition("::")[2] for one in listed} == {"0", "1"}


@pytest.mark.parametrize("name", ["strategy single to mixed", "sharing ends with its name"])
def test_an_agent_without_an_api_server_keeps_the_last_agent_s_offer(
    name: str, tmp_path: Path
) -> None:
    before, after, offered_as = EDITS[name]
    cluster = Cluster(tmp_path, random.Random(0), before, 2.0)
    cluster.go_on(8)
    listed = {name: ids for name, ids in cluster.healthy().items() if ids}
    cluster.agent_sees_api, cluster.wanted = False, after
    cluster.agent = cluster.start_agent()
    cluster.go_on(8)
    assert {name: ids for name, ids in cluster.healthy().items() if ids} == listed
    cluster.agent_sees_api = True  # now the offer changes, but only after the scheduler sees it
    cluster.go_on(LONGEST_S + SETTLE_S + 7)
    assert (cluster.failed, cluster.intrusions) == (0, 0)
    assert cluster.healthy()[f"gpu.tessera.dev/{offered_as}"]


def test_a_record_names_no_device_that_gpud_does_not_have(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, random.Random(0), FOUR, 2.0)
    cluster.go_on(8)
    cluster.agent_sees_api = False
    cluster.slices[UUIDS[1]].clear()
    there = set(cluster.slices[UUIDS[0]].values())
    cluster.agent = cluster.start_agent()
    cluster.agent.attempt()
    (ids,) = (ids for name, ids in cluster.healthy().items() if name != HCA)
    assert {slice_uuid_of(one) for one in ids} == there
    assert len(ids) == 4 * len(there)


def test_a_node_that_has_left_its_pool_has_no_record(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, random.Random(0), SINGLE, 2.0)
    cluster.agent.attempt()
    assert (tmp_path / "offered.json").exists()
    cluster.wanted = replace(SINGLE, in_pool=False)
    cluster.go_on(2 * LONGEST_S + SETTLE_S)
    assert not (tmp_path / "offered.json").exists()


RENAMES = list(EDITS)[:8]


@pytest.mark.parametrize("name", RENAMES)
def test_the_model_fails_pods_where_slices_change_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a wait the list changes before ``allocatable``, as it did before ADR 110."""
    monkeypatch.setattr(unlisting, "LONGEST_S", 0.0)
    failed = [run(tmp_path / str(s), EDITS[name], s, 2.0).failed for s in (1, 5)]
    assert sum(failed) > 0
