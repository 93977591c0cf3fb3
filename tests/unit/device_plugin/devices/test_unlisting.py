"""A withdrawn slice leaves the kubelet's list when no pod can be bound to it any more."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from device_plugin.agent.leaving import allocatable, unlisting
from device_plugin.agent.leaving.allocatable import (
    FRESH_S,
    LONGEST_S,
    LOW_S,
    QUIET_MOST_S,
    AllocatableWatch,
)
from device_plugin.agent.leaving.unlisting import Unlisting
from device_plugin.dp.slices import SliceOffer
from device_plugin.errors import ClusterError
from device_plugin.inventory.model import Gpu, MigSlice
from device_plugin.kube import node_status
from device_plugin.kube.client import Kube
from device_plugin.kube.node_status import NodeStatus
from mig import geometry
from support.processes.api_server import NODE, ApiServer

BOARD = geometry.board("h100-80gb")
RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
TICK_S = 0.05


def mig_slice(start: int) -> MigSlice:
    place = geometry.Instance(BOARD.profile("1g.10gb"), start)
    return MigSlice(f"MIG-{start}", "GPU-1", place, 1, 0, 1, "/run", 0, ())


SLICES = tuple(map(mig_slice, range(4)))
GPU = Gpu("GPU-1", 0, BOARD, "Healthy", SLICES)


class LooksAtEachPass(AllocatableWatch):
    """Reads the node's status in each pass, for tests that do not depend on the time of reads."""

    def _look_again_at(self, seen: allocatable._Resource) -> float:
        del seen
        return float("-inf")


@dataclass
class Node:
    """A node's status at the API server, and an agent that reads it."""

    now: float = 100.0
    allocatable: int = 4
    wrote: int | None = 0
    reachable: bool = True
    leaving: tuple[MigSlice, ...] = SLICES[:3]
    resource: str = RESOURCE
    watch: type[AllocatableWatch] = LooksAtEachPass

    def __post_init__(self) -> None:
        self.unlisting = Unlisting(self.look, lambda: self.now)
        self.unlisting._watch = self.watch(self.look, lambda: self.now)

    def look(self) -> NodeStatus:
        if not self.reachable:
            raise ClusterError("no answer")
        wrote = f"kubelet {self.wrote}" if self.wrote is not None else ""
        return NodeStatus({RESOURCE: self.allocatable}, wrote)

    def passes(self, after_s: float = 0.0) -> set[str]:
        """Make a pass of the agent; return the leaving slices that are still listed."""
        self.now += after_s
        leaving = {one.uuid: self.resource for one in self.leaving}
        self.unlisting.choose_unlisted(leaving, {RESOURCE: len(SLICES) - len(leaving)})
        return leaving.keys() - self.unlisting.unlisted


def test_slices_stay_listed_until_the_kubelet_wrote_and_the_operator_lowered_again() -> None:
    node, all_three = Node(), {s.uuid for s in SLICES[:3]}
    assert node.passes() == all_three
    node.allocatable = 1  # the operator has handled the report
    assert node.passes(5.0) == all_three  # the kubelet's next write may come at any moment
    node.passes(0.1)
    node.wrote, node.allocatable = 1, 4
    assert node.passes(0.1) == all_three
    node.allocatable = 1
    assert node.passes(0.1) == all_three
    assert node.passes(LOW_S - 0.01) == all_three
    assert node.passes(0.02) == set()
    assert not node.unlisting.has_pending
    assert node.unlisting.unlisted_for("MIG-0") == 0
    node.now += 2
    assert node.unlisting.unlisted_for("MIG-0") == 2


def test_a_write_between_two_looks_is_noticed_although_allocatable_is_low_again() -> None:
    node = Node(allocatable=1)
    node.passes()
    node.wrote = 1
    assert node.passes(0.4)
    node.wrote = 2
    assert node.passes(0.3)
    assert node.passes(LOW_S - 0.1)
    assert not node.passes(0.2)


def test_a_write_that_is_long_past_is_not_enough() -> None:
    """Until the period of writes was observed, the next one may come at any moment."""
    node = Node(allocatable=1)
    node.passes()
    node.wrote = 1
    node.passes(0.1)
    assert node.passes(FRESH_S)
    for _ in range(5):
        assert node.passes(1.0)
    node.wrote = 2
    node.passes(0.1)
    assert not node.passes(2 * FRESH_S)


@pytest.mark.parametrize(("period_s", "low_s"), [(10.0, 2.0), (4.0, 0.8), (2.0, LOW_S)])
def test_allocatable_stays_low_for_a_quarter_of_the_time_between_writes(
    period_s: float, low_s: float
) -> None:
    """On a busy node a bound pod took 1.6 s to reach the kubelet."""
    node = Node(allocatable=1)
    node.passes()
    node.passes(period_s)
    node.wrote = 1
    node.passes(0.1)
    assert node.passes(low_s - 0.2)
    assert not node.passes(0.3)


@pytest.mark.parametrize("reachable", [True, False])
def test_an_operator_that_is_away_stops_a_layout_for_so_long(reachable: bool) -> None:
    node = Node(reachable=reachable)
    assert node.passes()
    assert node.passes(LONGEST_S - 0.1)
    assert not node.passes(0.2)


def test_a_slice_that_is_wanted_again_was_never_off_the_list() -> None:
    node = Node()
    assert node.passes()
    node.leaving = ()
    assert not node.passes(1)
    node.leaving = SLICES[:1]
    node.now += LONGEST_S
    assert node.passes()  # its wait starts again


def test_where_no_writer_is_known_for_the_kubelet_slices_leave_when_allocatable_is_low() -> None:
    node = Node(wrote=None)
    assert node.passes()
    assert node.passes(5)
    node.allocatable = 1
    assert node.passes(0.1)
    assert not node.passes(LOW_S)


def test_a_device_without_a_resource_leaves_at_once() -> None:
    assert not Node(resource="").passes()


def test_without_an_api_server_slices_leave_at_once() -> None:
    leaving = Unlisting()
    leaving.choose_unlisted({"MIG-0": RESOURCE}, {})
    assert leaving.unlisted == {"MIG-0"}


def test_a_long_time_without_a_write_is_no_period() -> None:
    """A kubelet with nothing to raise writes every few minutes, but every 10 s once it has."""
    node = Node(allocatable=1, leaving=SLICES[:3])
    node.passes()
    node.wrote = 1
    for _ in range(100):
        node.passes(0.2)
    node.leaving = ()
    node.passes()
    node.leaving = SLICES[:3]
    node.passes()
    node.wrote = 2
    node.passes(0.1)
    assert node.passes(QUIET_MOST_S + 0.1)


def test_leaving_slices_are_allocated_last() -> None:
    uuids = [s.uuid for s in SLICES]
    leaving = frozenset({"MIG-0", "MIG-1"})
    offer = SliceOffer(SLICES, (GPU,), "/lib", leaving=leaving)
    assert {one.ID for one in offer.devices()} == set(uuids)  # they are still listed, as healthy
    assert sorted(offer.prefer(uuids, [], 2, [])) == ["MIG-2", "MIG-3"]
    assert len(offer.prefer(uuids, [], 3, [])) == 3
    assert "MIG-0" in offer.prefer(uuids, ["MIG-0"], 2, [])


@dataclass
class Cluster:
    """Kubelet, operator, scheduler and agent, each at its own pace; time advances in ticks."""

    random: random.Random
    period_s: float
    now: float = 0.0
    pending: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.node = Node(allocatable=self.random.choice((0, 4)), leaving=(), watch=AllocatableWatch)
        self.listed, self.held, self.bound = 4, 0, 0
        self.failed, self.unlisted_after = 0, 0.0
        self.known_active = 4
        self.next_write = self.random.uniform(0, self.period_s)
        self.next_pass = self.random.uniform(0, 0.5)
        self.next_answer = float("inf")
        self.edit_at = self.random.uniform(self.period_s, 2 * self.period_s)

    def later(self, least_s: float, most_s: float, act: Callable[[], None]) -> None:
        self.pending.append((self.now + self.random.uniform(least_s, most_s), act))

    def tick(self) -> None:
        self.now += TICK_S
        self.node.now = self.now
        due = [act for at, act in self.pending if at <= self.now]
        self.pending = [one for one in self.pending if one[0] > self.now]
        for act in due:
            act()
        if self.now >= self.next_write:
            self.next_write = self.now + self.period_s * self.random.uniform(1, 1.04)
            count = self.listed
            self.later(0.0, 0.1, lambda: self.kubelet_writes(count))
        if self.node.allocatable > self.known_active and self.next_answer > self.now + 10:
            self.next_answer = self.now + self.random.uniform(0.02, 0.3)
        if self.now >= self.next_answer:
            self.node.allocatable = min(self.node.allocatable, self.known_active)
            self.next_answer = float("inf")
        if self.node.allocatable > self.bound:
            self.bound += 1
            self.later(0.05, 0.45, self.kubelet_admits)
        if self.now >= self.next_pass:
            self.agent_passes()

    def kubelet_writes(self, count: int) -> None:
        if count != self.node.allocatable:
            self.node.allocatable = count
            self.node.wrote = (self.node.wrote or 0) + 1

    def kubelet_admits(self) -> None:
        if self.held < self.listed:
            self.held += 1
            self.later(0.1, 3.0, self.pod_ends)
        else:
            self.failed += 1
            self.bound -= 1

    def pod_ends(self) -> None:
        self.held -= 1
        self.bound -= 1

    def agent_passes(self) -> None:
        self.next_pass = self.now + self.random.uniform(0.2, 0.5)
        if self.now >= self.edit_at:
            self.node.leaving = SLICES
        listed = self.node.passes()
        if self.node.leaving:
            if not listed and self.listed:
                self.unlisted_after = self.now - self.edit_at
                self.listed = 0
            self.later(0.01, 0.2, lambda: setattr(self, "known_active", 0))


@pytest.mark.parametrize("period_s", [2.0, 10.0])
@pytest.mark.parametrize("seed", range(100))
def test_no_pod_is_bound_to_an_unlisted_device(seed: int, period_s: float) -> None:
    """Pods are always waiting: each is bound as soon as the node's status has room for it."""
    cluster = Cluster(random.Random(seed), period_s)
    while cluster.now < cluster.edit_at + LONGEST_S + 5:
        cluster.tick()
    assert cluster.listed == 0
    assert cluster.failed == 0
    assert cluster.unlisted_after < LONGEST_S


def test_the_old_order_fails_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model can fail: here devices leave the list first, and are reported afterwards."""
    monkeypatch.setattr(unlisting, "LONGEST_S", 0.0)
    clusters = [Cluster(random.Random(seed), 2.0) for seed in range(20)]
    for cluster in clusters:
        while cluster.now < cluster.edit_at + 5:
            cluster.tick()
    assert sum(cluster.failed > 0 for cluster in clusters) >= 10


def count_reads(api: ApiServer, watch: AllocatableWatch, now: list[float], lowers: bool) -> int:
    """Make passes until devices may leave, or a timeout; return the number of reads.

    Every 10 s the kubelet's write raises ``allocatable``, and 0.3 s later the operator lowers
    it.
    """
    begin, before = now[0], api.node_reads
    while now[0] - begin < LONGEST_S:
        written = int(now[0] / 10) if lowers else 0
        low = lowers and now[0] - 10 * written >= 0.3
        api.node["status"]["allocatable"][RESOURCE] = "0" if low else "4"
        api.node["metadata"]["managedFields"] = [entry("kubelet", f"t{written}", "Ready")]
        if watch.find_lowered([RESOURCE], {}):
            break
        now[0] += 0.4  # the loop's pause while it waits
    assert (now[0] - begin < LONGEST_S) == lowers
    watch.find_lowered([], {})
    return api.node_reads - before


def test_a_wait_costs_the_api_server_few_reads() -> None:
    """Thousands of nodes may wait at the same time; reads in each pass were 2.5 a second."""
    now = [1001.0]
    with ApiServer() as api:
        look = Kube(NODE, api.client()).node_status
        watch = AllocatableWatch(look, lambda: now[0])
        assert count_reads(api, watch, now, lowers=False) <= 22
        assert count_reads(api, watch, now, lowers=True) <= 22
        now[0] = 2001.0
        assert count_reads(api, watch, now, lowers=True) <= 12, "it knows the kubelet's period"
        now[0], api.broken = 3001.0, True
        assert count_reads(api, watch, now, lowers=False) == 0
        assert api.refused <= 26


def entry(manager: str, time: str, *fields: str, subresource: str = "status") -> dict[str, object]:
    owned = {f'k:{{"type":"{name}"}}': {"f:lastHeartbeatTime": {}} for name in fields}
    return {
        "manager": manager,
        "time": time,
        "subresource": subresource,
        "fieldsV1": {"f:status": {"f:conditions": owned}},
    }


def test_the_owner_of_the_heartbeat_is_the_kubelet() -> None:
    fields = [
        entry("kubelet", "t1", subresource=""),
        entry("k3s", "t2", "MemoryPressure", "Ready"),
        entry("tessera-operator", "t3"),
        entry("node-problem-detector", "t4", "KernelDeadlock"),
    ]
    document = {
        "metadata": {"managedFields": fields},
        "status": {"allocatable": {RESOURCE: "3", "cpu": "1500m", "memory": "2Gi"}},
    }
    found = node_status.read(document)
    assert (found.allocatable[RESOURCE], found.kubelet_wrote) == (3, "k3s t2")


@pytest.mark.parametrize(("text", "count"), [("1k", 1000), ("1500m", 2), ("0", 0), ("2e1", 20)])
def test_a_count_is_read_in_every_form_of_the_api(text: str, count: int) -> None:
    """The API server shortens 1000 shares to 1k, which must not count as 0, and so as lowered."""
    document = {"status": {"allocatable": {RESOURCE: text, "other": "no number"}}}
    assert node_status.read(document).allocatable == {RESOURCE: count}


@pytest.mark.parametrize("document", [{}, {"metadata": {}, "status": {}}, {"status": None}])
def test_a_node_of_which_nothing_is_known_offers_nothing(document: dict[str, object]) -> None:
    assert node_status.read(document) == NodeStatus({}, "")
