"""How a node's GPUs are allocated: by the pool, by the node's label, and the effect on layouts."""

import dataclasses

import pytest

from gpu_operator.api.v1alpha1 import ALLOCATION_LABEL
from gpu_operator.api.v1alpha1.gpupool import Allocation
from gpu_operator.api.v1alpha1.resource import Gpu
from gpu_operator.config import DraConfig, NodeConfig
from gpu_operator.controllers.common.world import World
from gpu_operator.controllers.layouts import layouts, orphans, plans, selection
from gpu_operator.controllers.nodes import extended_resources, labels
from gpu_operator.controllers.nodes.allocations import allocation_on, find_label_problem
from gpu_operator.controllers.pools import fragmentation, pools
from gpu_operator.kube.actions import Apply
from mig import geometry
from mig.spec import Place
from support.worlds.gpu_world import (
    GPU_NODE,
    claimed_slice,
    condition,
    gpu,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.pool_world import CONFIG, IN_POOL, NOW, agent_set, decide

WITH_DRA = CONFIG.model_copy(update={"dra": DraConfig(enabled=True)})


def with_allocation(one: Gpu, how: Allocation) -> Gpu:
    return dataclasses.replace(one, spec=one.spec.model_copy(update={"allocation": how}))


@pytest.mark.parametrize(
    ("label", "dra", "expected"),
    [
        ("", True, Allocation.BOTH),
        ("DRA", True, Allocation.DRA),
        ("DevicePlugin", True, Allocation.DEVICE_PLUGIN),
        ("dra", True, Allocation.BOTH),
        ("DRA", False, Allocation.DEVICE_PLUGIN),
    ],
)
def test_a_node_s_label_overrides_its_pool(label: str, dra: bool, expected: Allocation) -> None:
    labelled = node(labels=GPU_NODE | ({ALLOCATION_LABEL: label} if label else {}))
    requested = pool(allocation=Allocation.BOTH)
    assert allocation_on(requested, labelled, dra=dra) is expected
    assert bool(find_label_problem(labelled)) == (label == "dra")


def written_allocations(seen: World, config: NodeConfig) -> list[str]:
    actions = pools.reconcile(seen, "p", config, "tessera-system", NOW).actions
    documents = [a.document for a in actions if isinstance(a, Apply)]
    return [d["spec"]["allocation"] for d in documents if d["kind"] == "GPU"]


def test_a_change_is_written_to_the_gpus_of_that_node_alone() -> None:
    other = node("n2", labels=GPU_NODE | {ALLOCATION_LABEL: "Both"})
    seen = world(node(labels=IN_POOL), other, pool(), gpu(), gpu("n2"))
    assert written_allocations(seen, WITH_DRA) == ["Both"]
    assert written_allocations(seen, CONFIG) == []  # DRA is off in the chart


def test_a_pool_reports_that_dra_is_off_in_the_chart() -> None:
    requested = pool(allocation=Allocation.DRA)
    seen = world(node(labels=IN_POOL), requested, gpu(), daemon_sets=agent_set(requested))
    _, reason, message = condition(decide(seen).actions, "Accepted")
    assert reason == "PartiallyAccepted"
    assert "dra.enabled" in message


@pytest.mark.parametrize("how", list(Allocation))
def test_layouts_do_not_select_gpus_for_claims_only(how: Allocation) -> None:
    one = with_allocation(gpu(), how)
    seen = world(node(), pool(), layout(), one)
    followed = selection.layouts_by_gpu(seen)
    assert (one.name in followed) == (how is not Allocation.DRA)
    ((_, role),) = selection.roles_of(seen, seen.layouts["l"])
    assert (role.part is selection.Part.OWN) == (how is not Allocation.DRA)


def test_a_layout_reports_that_claims_have_all_its_gpus() -> None:
    seen = world(node(), pool(), layout(), with_allocation(gpu(), Allocation.DRA))
    _, reason, message = condition(layouts.reconcile(seen, "l", NOW).actions, "Ready")
    assert reason == "NoGPUs"
    assert message.startswith("the selector matches only GPUs for ResourceClaims")
    assert message.endswith("n1-gpu-0")


def test_a_gpu_that_is_moved_to_claims_loses_its_layout() -> None:
    held = gpu(layout="l", want=["7g.80gb@0"], have=[mig_slice("7g.80gb@0", "ns/pod")])
    seen = world(node(), pool(), layout(), with_allocation(held, Allocation.DRA))
    (action,) = orphans.reconcile(seen, held.name).actions
    assert isinstance(action, Apply)
    assert "layout" not in action.document["spec"]


def test_instances_that_layouts_make() -> None:
    spare, divided = gpu(want=["whole@0"]), gpu(layout="l", want=["3g.40gb@4"])
    kept_whole = gpu(layout="l", want=["whole@0"])
    for one, by_how in (
        (spare, (1, 0, 0)),
        (divided, (1, 0, 1)),
        (kept_whole, (1, 0, 1)),
    ):
        assert by_how == tuple(
            len(with_allocation(one, how).spec.layout_instances) for how in Allocation
        )


def test_labels_of_a_node_with_claims_do_not_wait_for_a_whole_gpu() -> None:
    one = with_allocation(gpu(want=["whole@0"]), Allocation.DRA)
    assert labels._is_settled(one)
    assert not labels._is_settled(gpu(want=["whole@0"]))


def test_resources_that_claims_serve_stay_in_the_nodes_status_as_zero() -> None:
    """If the resource were removed, the kubelet would fail its pods; a 0 does not affect claims."""
    listed = {"gpu.tessera.dev/mig-1g.10gb": "0"}
    idle = node(labels=IN_POOL, capacity=listed, allocatable=listed)
    for how, removed in ((Allocation.DEVICE_PLUGIN, 1), (Allocation.DRA, 0), (Allocation.BOTH, 0)):
        seen = world(idle, pool(), with_allocation(gpu(), how))
        seen = dataclasses.replace(seen, zero_since={("n1", "gpu.tessera.dev/mig-1g.10gb"): 0.0})
        actions = extended_resources.reconcile(seen, "n1", 3600.0).actions
        assert len(actions) == removed


def test_the_pool_decides_whether_claims_share_devices() -> None:
    for requested in (False, True):
        wanted = pool(allocation=Allocation.DRA, allow_multiple_allocations=requested)
        actions = pools.reconcile(
            world(node(labels=IN_POOL), wanted), "p", WITH_DRA, "tessera-system", NOW
        ).actions
        specs = [
            a.document["spec"]
            for a in actions
            if isinstance(a, Apply) and a.document["kind"] == "GPU"
        ]
        assert [spec["allowMultipleAllocations"] for spec in specs] == [requested]
    assert not pool().spec.allow_multiple_allocations


def test_a_slice_that_claims_share_is_one_slice_to_layouts() -> None:
    """It is planned around once, and all claims that share it are named."""
    shares = [claimed_slice("3g.40gb@4", name, 4 << 30) for name in ("one", "two")]
    wanted = geometry.board("h100-80gb").instance("4g.40gb", 0)
    plan = plans.choose("h100-80gb", (), (wanted,), shares)
    assert [i.profile for i in plan.instances] == ["4g.40gb"]
    blocked = plans.find_blocking_claims("h100-80gb", {Place("3g.40gb", 4, None)}, shares)
    assert [one.claim.name for one in blocked] == ["one", "two"]
    one = gpu(claims=shares)
    assert fragmentation.room_on(one) == fragmentation.room_on(gpu(claims=shares[:1])) != {}
