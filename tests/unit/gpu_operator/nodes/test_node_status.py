"""What is lowered in a node's status, what is removed from it, and what is never changed."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import HCA_RESOURCE, POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.gpupool import HCAs
from gpu_operator.controllers.common.world import AgentPod, ChartPolicy, World
from gpu_operator.controllers.nodes import extended_resources
from gpu_operator.kube.actions import Manager, PatchNode
from support.worlds.gpu_world import GPU_NODE, applied_documents, gpu, mig_slice, node, pool, world

SMALL = "gpu.tessera.dev/mig-1g.10gb"
AGENT = {"n1": AgentPod("agent", "n1", "p")}


def having(count: str, *gpus: Any, resource: str = SMALL, **changes: Any) -> World:
    there = node(
        labels=GPU_NODE | {POOL_LABEL: "p"},
        capacity={resource: count},
        allocatable={resource: count},
    )
    return world(there, *gpus, **changes)


def operations(seen: World, clock_s: float = 0.0) -> list[tuple[str, str, Any]]:
    found = extended_resources.reconcile(seen, "n1", clock_s).actions
    assert all(isinstance(a, PatchNode) and a.status for a in found)
    return [
        (o["op"], o["path"], o.get("value"))
        for a in found
        if isinstance(a, PatchNode)
        for o in a.operations
    ]


def test_withdrawn_slices_are_not_allocatable() -> None:
    slices = [mig_slice("1g.10gb@0"), mig_slice("1g.10gb@1", "default/x", withdrawing=True)]
    path = "/status/allocatable/gpu.tessera.dev~1mig-1g.10gb"
    assert operations(having("7", gpu(have=slices))) == [
        ("test", path, "7"),
        ("replace", path, "1"),
    ]


def test_the_slices_of_all_gpus_of_the_node_count() -> None:
    both = [gpu(index=i, have=[mig_slice("1g.10gb@0")]) for i in (0, 1)]
    assert operations(having("2", *both)) == []


def test_allocatable_is_never_raised() -> None:
    assert operations(having("0", gpu(have=[mig_slice("1g.10gb@0")]))) == []


@pytest.mark.parametrize(
    "seen",
    [
        having("7"),
        having("7", gpu(), gpu(index=1, reported=False)),
        having("7", gpu("another")),
        having("7", gpu(), resource="example.com/mig-1g.10gb"),
        having("7", gpu(), resource="gpu.tessera.dev/other"),
    ],
    ids=["no GPU of ours", "not all reported", "another node's", "another prefix", "no slice"],
)
def test_possibly_foreign_resources_are_not_lowered(seen: World) -> None:
    assert operations(seen) == []


def test_a_resource_is_removed_when_the_kubelet_has_forgotten_it() -> None:
    seen = having("0", gpu(), zero_since={("n1", SMALL): 1000.0})
    early = extended_resources.reconcile(seen, "n1", 1000.0 + extended_resources.RETIRE_AFTER_S - 5)
    assert early.actions == ()
    assert early.again_in_s == pytest.approx(5.1)
    key = "gpu.tessera.dev~1mig-1g.10gb"
    assert operations(seen, 1000.0 + extended_resources.RETIRE_AFTER_S) == [
        ("test", f"/status/capacity/{key}", "0"),
        ("remove", f"/status/capacity/{key}", None),
        ("remove", f"/status/allocatable/{key}", None),
    ]


def test_a_resource_is_not_removed_before_it_was_zero() -> None:
    assert operations(having("0", gpu()), 1e9) == []


@pytest.mark.parametrize(
    "offering",
    [
        gpu(want=["1g.10gb@0"]),
        gpu(have=[mig_slice("1g.10gb@0", "default/x", withdrawing=True)]),
        gpu(index=1, want=["1g.10gb@6"]),
    ],
    ids=["requested for", "still held", "by another GPU"],
)
def test_a_resource_that_may_be_served_stays(offering: Any) -> None:
    assert operations(having("0", offering, zero_since={("n1", SMALL): 0.0}), 1e9) == []


def test_with_a_shared_prefix_foreign_nodes_are_left_alone() -> None:
    resource = "nvidia.com/mig-1g.10gb"
    policy = ChartPolicy(GPUPolicySpec(resource_prefix="nvidia.com"))
    zero = {("n1", resource): 0.0}
    figures = {"capacity": {resource: "0"}, "allocatable": {resource: "0"}}
    foreign = world(node(**figures), zero_since=zero, chart_policy=policy)
    ours = world(node(labels={POOL_LABEL: "p"}, **figures), zero_since=zero, chart_policy=policy)
    assert operations(foreign, 1e9) == []
    assert len(operations(ours, 1e9)) == 3


def test_resources_with_tessera_s_prefix_are_removed_after_a_change() -> None:
    policy = ChartPolicy(GPUPolicySpec(resource_prefix="nvidia.com"))
    figures = {"capacity": {SMALL: "0"}, "allocatable": {SMALL: "0"}}
    seen = world(node(**figures), zero_since={("n1", SMALL): 0.0}, chart_policy=policy)
    assert len(operations(seen, 1e9)) == 3


SHARED = "nvidia.com/mig-1g.10gb"


def noted_prefixes(seen: World) -> list[str | None]:
    """Return what is written to the node about its resources' prefixes."""
    found = extended_resources.reconcile(seen, "n1", 0.0).actions
    written = [d["metadata"]["annotations"] for d in applied_documents(found, Manager.RESOURCES)]
    path = "/metadata/annotations/gpu.tessera.dev~1resource-prefixes"
    removed = (  # whatever manager owns it: after a restore from a backup it is another one
        {"op": "test", "path": "/metadata/uid", "value": "uid-n1"},
        {"op": "test", "path": path, "value": "nvidia.com"},
        {"op": "remove", "path": path},
    )
    patches = [a for a in found if isinstance(a, PatchNode)]
    assert patches in ([], [PatchNode("n1", removed)])
    return [a[RESOURCE_PREFIXES] for a in written] + [None for _ in patches]


def test_a_shared_prefix_is_noted_on_the_node_while_it_lists_resources_of_it() -> None:
    mine = mig_slice("1g.10gb@0")
    shared = mine.model_copy(update={"resource": SHARED})
    marked = {RESOURCE_PREFIXES: "nvidia.com"}
    zero = {SHARED: "0"}
    assert noted_prefixes(world(node(), gpu(have=[mine]))) == []
    assert noted_prefixes(world(node(), gpu(have=[shared]))) == ["nvidia.com"]
    assert noted_prefixes(world(node(annotations=marked), gpu(have=[shared]))) == []
    assert noted_prefixes(world(node(annotations=marked, capacity=zero), gpu(have=[mine]))) == []
    assert noted_prefixes(world(node(annotations=marked), gpu(have=[mine]))) == [None]


@pytest.mark.parametrize("labels", [{POOL_LABEL: "p"}, {}], ids=["in a pool", "left its pool"])
def test_resources_with_a_shared_prefix_are_removed_after_a_change_back(
    labels: dict[str, str],
) -> None:
    figures = {"capacity": {SHARED: "0"}, "allocatable": {SHARED: "0"}}
    marked = node(labels=labels, annotations={RESOURCE_PREFIXES: "nvidia.com"}, **figures)
    foreign = node(labels=labels, **figures)
    zero = {("n1", SHARED): 0.0}
    assert len(operations(world(marked, zero_since=zero), 1e9)) == 3
    assert operations(world(foreign, zero_since=zero), 1e9) == []


def test_a_deleted_node_needs_no_action() -> None:
    assert extended_resources.reconcile(world(), "n1", 0.0).actions == ()


def test_the_hca_resource_is_removed_when_no_pool_has_hcas() -> None:
    zero = {("n1", HCA_RESOURCE): 0.0}
    requested, unasked = pool(hcas=HCAs()), pool()
    assert operations(having("0", requested, resource=HCA_RESOURCE, zero_since=zero), 1e9) == []
    found = operations(having("0", unasked, resource=HCA_RESOURCE, zero_since=zero), 1e9)
    assert [path for _, path, _ in found] == [
        "/status/capacity/rdma.tessera.dev~1hca",
        "/status/capacity/rdma.tessera.dev~1hca",
        "/status/allocatable/rdma.tessera.dev~1hca",
    ]
    offers = having("8", unasked, gpu(), resource=HCA_RESOURCE, zero_since=zero, agents=AGENT)
    assert operations(offers, 1e9) == []


LOWERED = [
    ("test", "/status/allocatable/rdma.tessera.dev~1hca", "8"),
    ("replace", "/status/allocatable/rdma.tessera.dev~1hca", "0"),
]


@pytest.mark.parametrize("reported", [True, False])
def test_functions_of_hcas_are_lowered_while_their_agent_ends_or_is_away(reported: bool) -> None:
    """The agent waits for it before it ends; a pod that terminates is not an agent of the world."""
    there = gpu(reported=reported)
    assert operations(having("8", there, resource=HCA_RESOURCE, agents=AGENT)) == []
    assert operations(having("8", there, resource=HCA_RESOURCE)) == LOWERED


def test_functions_of_hcas_are_lowered_when_their_node_leaves_its_pool() -> None:
    assert operations(having("8", resource=HCA_RESOURCE, agents=AGENT)) == LOWERED


@pytest.mark.parametrize("changed_to", ["nvidia.com", "gpu.tessera.dev"])
def test_an_agent_of_an_earlier_prefix_ends_when_its_resources_are_lowered(changed_to: str) -> None:
    """A change of the prefix replaces the agent, which waits until no pod can be bound."""
    former = {"nvidia.com": SMALL, "gpu.tessera.dev": SHARED}[changed_to]
    policy = ChartPolicy(GPUPolicySpec(resource_prefix=changed_to))
    notes = {RESOURCE_PREFIXES: "nvidia.com"} if former == SHARED else {}
    for admitted, expected in ((True, []), (False, ["7", "0"])):
        update = {"resource": former, "admitted": admitted}
        have = [mig_slice(f"1g.10gb@{i}").model_copy(update=update) for i in range(7)]
        on = node(annotations=notes, capacity={former: "7"}, allocatable={former: "7"})
        seen = world(on, gpu(have=have), chart_policy=policy)
        assert [value for _, _, value in operations(seen)] == expected


def test_another_plugin_s_resource_of_an_earlier_prefix_is_left_alone() -> None:
    on = node(
        annotations={RESOURCE_PREFIXES: "nvidia.com"},
        capacity={SHARED: "7"},
        allocatable={SHARED: "7"},
    )
    assert operations(world(on, gpu(have=[mig_slice("1g.10gb@0")]))) == []


def test_an_earlier_prefix_is_ignored_once_the_agent_was_replaced() -> None:
    """A pod still has a slice with the name; another vendor's plugin may offer it by now."""
    slice_ = mig_slice("1g.10gb@0").model_copy(update={"resource": SHARED, "admitted": False})
    notes = {RESOURCE_PREFIXES: "nvidia.com"}
    on = node(annotations=notes, capacity={SHARED: "7"}, allocatable={SHARED: "7"})
    for agents, lowers in ((AGENT, False), ({}, True)):
        seen = world(on, gpu(have=[slice_]), agents=agents)
        assert bool(operations(seen)) is lowers


@pytest.mark.parametrize(
    ("resource", "lowered"),
    [("gpu.tessera.dev/small", True), ("example.com/small", False), ("cpu", False)],
)
def test_a_renamed_resource_is_lowered_only_with_tessera_s_prefixes(
    resource: str, lowered: bool
) -> None:
    """An agent's report does not justify changes to resources of another kind."""
    one = mig_slice("1g.10gb@0").model_copy(update={"resource": resource, "admitted": False})
    notes = {RESOURCE_PREFIXES: resource.partition("/")[0]}  # as noted in the report
    figures = {"capacity": {resource: "4"}, "allocatable": {resource: "4"}}
    seen = world(node(annotations=notes, **figures), gpu(have=[one]))
    found = extended_resources.reconcile(seen, "n1", 0.0).actions
    assert any(isinstance(a, PatchNode) and a.status for a in found) is lowered
