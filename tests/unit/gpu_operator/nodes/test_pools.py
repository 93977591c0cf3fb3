"""GPUPool, one decision at a time."""

from typing import Any

import pytest

from gpu_operator.api.v1alpha1 import FINALIZER, NODE_UID, POOL_LABEL, RESOURCE_PREFIXES
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpupolicy import GPUPolicySpec
from gpu_operator.api.v1alpha1.gpupool import HCAs
from gpu_operator.config import RdmaConfig
from gpu_operator.controllers.common.world import AgentPod, AgentSet, ChartPolicy, Outcome, World
from gpu_operator.controllers.pools import pools
from gpu_operator.kube.actions import Apply, Delete, DropFinalizer, Manager, PatchNode, Record
from support.worlds.gpu_world import (
    GPU_NODE,
    NOW,
    PREFIX,
    agent_conditions,
    applied_documents,
    by_name,
    condition,
    gpu,
    layout,
    mig_slice,
    node,
    pool,
    world,
)
from support.worlds.pool_world import CONFIG, IN_POOL, agent_set, decide


def test_a_selected_node_gets_labels_a_daemon_set_and_its_gpus() -> None:
    actions = decide(world(node(), node("other", labels={}), pool(count=2))).actions
    (labelled,) = applied_documents(actions, Manager.LABELS)
    assert labelled["metadata"] == {
        "name": "n1",
        "uid": "uid-n1",
        "labels": {
            k: ("2" if k.endswith("gpu.count") else v) for k, v in IN_POOL.items() if k != "gpu"
        },
    }
    children = applied_documents(actions, Manager.CHILDREN)
    assert [(c["kind"], c["metadata"]["name"]) for c in children] == [
        ("DaemonSet", "tessera-gpud-p"),  # their pods start while GPUs are written
        ("DaemonSet", "tessera-node-p"),
        ("GPU", "n1-gpu-0"),
        ("GPU", "n1-gpu-1"),
    ]
    assert children[2]["metadata"]["labels"] == {
        "gpu.tessera.dev/node": "n1",
        "gpu.tessera.dev/pool": "p",
        "gpu.tessera.dev/index": "0",
    }
    assert children[2]["metadata"]["finalizers"] == [FINALIZER]
    assert len({c["spec"]["uuid"] for c in children[2:]}) == 2


def test_up_to_date_objects_are_not_written_again() -> None:
    seen = world(node(labels=IN_POOL), pool(), gpu(), daemon_sets=agent_set())
    first = decide(seen)
    assert applied_documents(first.actions, Manager.LABELS) == []
    assert [d["kind"] for d in applied_documents(first.actions, Manager.CHILDREN)] == [
        "DaemonSet"
    ] * 2
    assert condition(first.actions, "Ready") == (
        "True",
        "Reconciled",
        "1 GPU on 1 node is served",
    )


def test_an_up_to_date_status_is_not_written_again() -> None:
    seen = world(node(labels=IN_POOL), pool(), gpu())
    status = pools.GPUPoolStatus(nodes=1, ready_nodes=1, gpus=1)
    (write,) = (a for a in decide(seen).actions if getattr(a, "manager", None) is Manager.STATUS)
    settled = pool()
    settled = type(settled)(
        settled.meta, settled.spec, status.model_validate(write.document["status"])
    )
    again = decide(world(node(labels=IN_POOL), settled, gpu()))
    assert not any(getattr(a, "manager", None) is Manager.STATUS for a in again.actions)
    assert not any(isinstance(a, Record) for a in again.actions)


def test_an_unknown_board_is_refused_and_lists_the_known_ones() -> None:
    actions = decide(world(node(), pool(board="h1000"))).actions
    status, reason, message = condition(actions, "Accepted")
    assert (status, reason) == ("False", "UnknownBoard")
    assert "h1000" in message
    assert "rtx-pro-6000" in message
    assert applied_documents(actions, Manager.CHILDREN) == []
    assert applied_documents(actions, Manager.LABELS) == []


def test_the_younger_pool_s_status_names_the_node_and_the_older_pool() -> None:
    older = pool("older", created="2026-01-01T00:00:00Z")
    younger = pool("younger", created="2026-01-01T00:00:01Z", node_selector=GPU_NODE)
    only_mine = node("n2", labels=GPU_NODE | {"mine": "yes"})
    seen = world(node(), older, younger)
    status, reason, message = condition(decide(seen, "younger").actions, "Accepted")
    assert (status, reason) == ("False", "NodeConflict")
    assert "n1" in message
    assert "older" in message
    assert applied_documents(decide(seen, "younger").actions, Manager.CHILDREN) == []
    assert condition(decide(seen, "older").actions, "Accepted")[0] == "True"

    # nodes that the older pool does not select stay with the younger one
    narrow = pool("older", node_selector={"mine": "yes"})
    seen = world(node(), only_mine, narrow, younger)
    names = [
        d["metadata"]["name"]
        for d in applied_documents(decide(seen, "younger").actions, Manager.CHILDREN)
    ]
    assert names == ["tessera-gpud-younger", "tessera-node-younger", "n1-gpu-0"]


def test_a_pool_with_an_unknown_board_holds_no_node() -> None:
    seen = world(node(), pool("a", board="h1000"), pool("b", created="2026-02-01T00:00:00Z"))
    assert applied_documents(decide(seen, "b").actions, Manager.CHILDREN)


def test_a_node_is_taken_over_only_after_the_other_pool_has_released_it() -> None:
    seen = world(node(), pool("p"), gpu(pool="former"))
    actions = decide(seen, "p").actions
    assert [d["kind"] for d in applied_documents(actions, Manager.CHILDREN)] == ["DaemonSet"] * 2
    assert "pool former has not released the node yet" in condition(actions, "Ready")[2]


def test_a_gpu_that_leaves_loses_its_instances_first() -> None:
    leaving = gpu(want=["7g.80gb@0"], layout="l", have=[mig_slice("7g.80gb@0")])
    actions = decide(world(node(labels=IN_POOL | {"gpu": "no"}), pool(), leaving)).actions
    (document,) = applied_documents(actions, Manager.LAYOUT)
    assert document["spec"] == {"instances": []}
    assert not any(isinstance(a, Delete) for a in actions)


@pytest.mark.parametrize(
    "held",
    [
        gpu(have=[mig_slice("7g.80gb@0", "default/x", withdrawing=True)]),
        gpu(generation=3, seen=2),  # the agent has not processed the removal of the instances yet
    ],
    ids=["slice is there", "agent is behind"],
)
def test_a_gpu_is_deleted_only_when_its_agent_says_it_is_empty(held: Any) -> None:
    seen = world(node(labels=IN_POOL | {"gpu": "no"}), pool(), held)
    actions = decide(seen).actions
    assert not any(isinstance(a, Delete) for a in actions)
    assert applied_documents(actions, Manager.LABELS) == []  # nor does the node lose its agent


def test_an_empty_gpu_is_deleted() -> None:
    seen = world(node(labels=IN_POOL | {"gpu": "no"}), pool(), gpu())
    actions = decide(seen).actions
    drop = DropFinalizer("GPU", "n1-gpu-0", "uid-n1-0", 0)
    assert actions.index(drop) < actions.index(Delete("GPU", "n1-gpu-0"))


def test_a_gpu_with_a_manually_set_layout_is_deleted() -> None:
    odd = gpu(layout="typo", finalizers=("their/finalizer", FINALIZER))
    actions = decide(world(node(labels=IN_POOL | {"gpu": "no"}), pool(), odd)).actions
    assert DropFinalizer("GPU", "n1-gpu-0", "uid-n1-0", 1) in actions


def test_gpus_are_released_before_others_are_created() -> None:
    """A creation may be refused, by a quota or while the CRD itself is deleted."""
    leaving = gpu(index=1, deleting=True)
    actions = decide(world(node(labels=IN_POOL), pool(count=2), leaving)).actions
    made = next(i for i, a in enumerate(actions) if isinstance(a, Apply) and _makes(a, "n1-gpu-0"))
    assert actions.index(DropFinalizer("GPU", "n1-gpu-1", "uid-n1-1", 0)) < made


def _makes(action: Apply, name: str) -> bool:
    return action.manager is Manager.CHILDREN and action.document["metadata"]["name"] == name


def test_the_gpus_of_a_deleted_node_are_deleted_at_once() -> None:
    held = gpu(want=["7g.80gb@0"], have=[mig_slice("7g.80gb@0", "default/x")])
    assert Delete("GPU", "n1-gpu-0") in decide(world(pool(), held)).actions


def test_a_node_that_registers_again_keeps_its_gpus() -> None:
    held = gpu(have=[mig_slice("7g.80gb@0")])
    actions = decide(world(node(uid="another"), pool(), held)).actions
    assert not any(isinstance(action, Delete) for action in actions)
    (_, _, document) = applied_documents(actions, Manager.CHILDREN)
    assert document["metadata"]["annotations"] == {NODE_UID: "another"}
    assert document["spec"]["uuid"] == held.spec.uuid


def test_surplus_gpus_are_deleted_when_the_count_is_lowered() -> None:
    actions = decide(world(node(labels=IN_POOL), pool(count=1), gpu(), gpu(index=1))).actions
    assert [a for a in actions if isinstance(a, Delete)] == [Delete("GPU", "n1-gpu-1")]


def finalizers_dropped(outcome: Outcome) -> list[str]:
    return [a.name for a in outcome.actions if isinstance(a, DropFinalizer)]


def test_labels_are_removed_after_the_gpus_and_the_daemon_set_after_the_labels() -> None:
    gone = pool(meta={"deleting": True})
    outcome = decide(world(node(labels=IN_POOL), gone, daemon_sets=agent_set()))
    unlabel = [
        a
        for a in outcome.actions
        if isinstance(a, PatchNode) or (isinstance(a, Apply) and a.manager is Manager.LABELS)
    ]
    assert isinstance(unlabel[-1], Apply)
    assert unlabel[-1].document["metadata"]["labels"] == {}
    for name in ("tessera-gpud-p", "tessera-node-p"):
        delete = Delete("DaemonSet", name, "tessera-system")
        assert outcome.actions.index(unlabel[-1]) < outcome.actions.index(delete)
    assert finalizers_dropped(outcome) == []  # not while the DaemonSet exists

    assert finalizers_dropped(decide(world(node(), gone))) == ["p"]


def taken_off(seen: World) -> dict[str, str]:
    """Return the labels that a released node loses, and the values that they must have."""
    (patch,) = (a for a in decide(seen).actions if isinstance(a, PatchNode))
    assert (patch.name, patch.status) == ("n1", False)
    first, *others = patch.operations
    assert first == {"op": "test", "path": "/metadata/uid", "value": "uid-n1"}
    tests, removals = others[::2], others[1::2]
    assert {o["op"] for o in tests} <= {"test"}
    assert removals == [{"op": "remove", "path": o["path"]} for o in tests]
    paths = [o["path"].removeprefix("/metadata/labels/").replace("~1", "/") for o in tests]
    return dict(zip(paths, (o["value"] for o in tests), strict=True))


def test_labels_are_removed_whichever_manager_owns_them() -> None:
    """Server-side apply leaves labels that another manager owns, as in a restored Node."""
    foreign = {
        "topology.kubernetes.io/zone": "a",
        f"{PREFIX}/mine": "x",
        "nvidia.com/gpu.count": "8",
    }
    seen = world(node(labels=IN_POOL | foreign), pool(meta={"deleting": True}))
    assert taken_off(seen) == {k: v for k, v in IN_POOL.items() if k not in GPU_NODE}


@pytest.mark.parametrize("noted", [False, True], ids=["in force", "in force before"])
def test_labels_with_a_shared_prefix_are_removed_where_it_was_used(noted: bool) -> None:
    shared = {k.replace(PREFIX, "nvidia.com"): v for k, v in IN_POOL.items()} | {POOL_LABEL: "p"}
    policy = ChartPolicy(GPUPolicySpec(resource_prefix=PREFIX if noted else "nvidia.com"))
    marked = {RESOURCE_PREFIXES: "example.com,nvidia.com"} if noted else {}
    there = node(labels=shared, annotations=marked)
    seen = world(there, pool(meta={"deleting": True}), chart_policy=policy)
    expected = {k: v for k, v in shared.items() if k not in (*GPU_NODE, "nvidia.com/pool")}
    assert taken_off(seen) == expected


def test_a_foreign_label_on_a_node_does_not_delay_a_pool() -> None:
    strange = node("other", labels={POOL_LABEL: "p"})
    assert finalizers_dropped(decide(world(strange, pool(meta={"deleting": True})))) == ["p"]


def test_remains_of_a_deleted_pool_are_cleaned_up() -> None:
    actions = decide(world(node(labels=IN_POOL), gpu(), daemon_sets=agent_set())).actions
    assert Delete("GPU", "n1-gpu-0") in actions
    assert not any(getattr(a, "manager", None) is Manager.STATUS for a in actions)


def test_a_deleted_pool_names_the_pods_that_it_waits_for() -> None:
    held = gpu(have=[mig_slice("7g.80gb@0", "default/train", withdrawing=True)])
    actions = decide(world(node(labels=IN_POOL), pool(meta={"deleting": True}), held)).actions
    status, reason, message = condition(actions, "Progressing")
    assert (status, reason) == ("True", "Deleting")
    assert "default/train" in message


@pytest.mark.parametrize(
    ("holder", "message"),
    [("", "GPUs are being removed"), ("default/train", "waiting for pods that hold slices to end")],
)
def test_the_release_of_a_gpu_is_reported_with_what_it_waits_for(holder: str, message: str) -> None:
    held = [mig_slice("7g.80gb@0", *filter(None, [holder]), withdrawing=True)]
    leaving = gpu(index=1, deleting=True, have=held)
    found = pools._progressing_verdict(
        world(node(labels=IN_POOL), pool(), leaving), {}, [leaving], ""
    )
    assert found is not None
    assert (found.true, found.reason) == (True, Reason.DELETING)
    assert found.message.startswith(message)
    assert pools._progressing_verdict(world(pool()), {}, [], "") is None


def test_a_pool_without_nodes_reports_it() -> None:
    assert condition(decide(world(pool())).actions, "Ready")[:2] == ("False", "NoNodes")


@pytest.mark.parametrize(
    ("seen", "ready", "degraded"),
    [
        (world(gpu(reported=False)), "WaitingForAgent", "Healthy"),
        (
            world(gpu(conditions=agent_conditions(degraded="AgentError: gpud does not answer"))),
            "AgentError",
            "AgentError",
        ),
        (
            world(gpu(conditions=agent_conditions(degraded="Unhealthy: GPU-1 is Unhealthy"))),
            "Unhealthy",
            "Unhealthy",
        ),
        (
            world(gpu(), agents={"n1": AgentPod("a", "n1", "p", "CrashLoopBackOff", True)}),
            "AgentUnreachable",
            "AgentUnreachable",
        ),
        (
            world(gpu(), agents={"n1": AgentPod("a", "n1", "p", "container agent: starting")}),
            "WaitingForAgent",
            "Healthy",
        ),
        (
            world(
                gpu(reported=False),
                agents={"n1": AgentPod("a", "n1", "p", "ImagePullBackOff", True)},
            ),
            "WaitingForAgent",
            "Healthy",
        ),
    ],
)
def test_a_pool_reports_why_a_node_is_not_ready(seen: World, ready: str, degraded: str) -> None:
    everything = World(
        nodes=by_name([node(labels=IN_POOL)]),
        pools=by_name([pool()]),
        gpus=seen.gpus,
        agents=seen.agents,
    )
    actions = decide(everything).actions
    status, reason, message = condition(actions, "Ready")
    assert (status, reason) == ("False", ready)
    assert "n1" in message
    for agent in seen.agents.values():
        assert agent.problem in message
    if ready == "WaitingForAgent" and not seen.agents:
        assert "DaemonSet tessera-node-p has no pod on it" in message
    assert condition(actions, "Degraded")[1] == degraded


def test_a_node_that_is_down_degrades_the_pool() -> None:
    actions = decide(world(node(labels=IN_POOL, ready=False), pool(), gpu())).actions
    assert condition(actions, "Degraded")[:2] == ("True", "AgentUnreachable")


def test_a_change_causes_one_event() -> None:
    actions = decide(world(node(), pool(board="h1000"))).actions
    events = [(a.reason, a.warning) for a in actions if isinstance(a, Record)]
    assert events == [("UnknownBoard", True)]


def test_a_layout_does_not_affect_a_pool() -> None:
    items = (node(labels=IN_POOL), pool(), gpu(), layout("l", "7x1g.10gb"))
    seen = world(*items, daemon_sets=agent_set())
    assert condition(decide(seen).actions, "Ready")[0] == "True"


def test_a_gpu_that_is_being_released_does_not_count_as_served() -> None:
    held = gpu(index=1, have=[mig_slice("7g.80gb@0", "default/x", withdrawing=True)])
    seen = world(node(labels=IN_POOL), pool(), gpu(), held, daemon_sets=agent_set())
    ready = condition(decide(seen).actions, "Ready")
    assert ready == ("True", "Reconciled", "1 GPU on 1 node is served")


def test_a_node_whose_name_is_not_a_label_value_is_reported() -> None:
    long = "n" * 64
    actions = decide(world(node(long), pool())).actions
    assert condition(actions, "Accepted")[:2] == ("False", "NodeConflict")
    assert "63" in condition(actions, "Accepted")[2]


def test_a_deleted_pool_stays_until_its_daemon_set_is_gone() -> None:
    seen = world(pool(meta={"deleting": True}), daemon_sets=agent_set())
    assert finalizers_dropped(decide(seen)) == []
    held = gpu(have=[mig_slice("7g.80gb@0", "default/train")])
    in_use = world(node(labels=IN_POOL), pool(meta={"deleting": True}), held)
    assert finalizers_dropped(decide(in_use)) == []


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        ({}, "being written"),
        (agent_set(pool(node_budget="1Gi")), "being written"),
        (agent_set(observed=False), "being rolled out"),
        (agent_set(pods=3, updated=2), "2 of 3 pods"),
    ],
)
def test_a_pool_is_not_ready_before_its_nodes_run_its_spec(
    found: dict[str, AgentSet], reported: str
) -> None:
    actions = decide(world(node(labels=IN_POOL), pool(), gpu(), daemon_sets=found)).actions
    assert condition(actions, "Ready")[:2] == ("False", "WaitingForAgent")
    assert reported in condition(actions, "Ready")[2]
    (write,) = (a for a in actions if isinstance(a, Apply) and a.manager is Manager.STATUS)
    assert write.document["status"]["readyNodes"] == (1 if "2 of 3" in reported else 0)
    assert condition(actions, "Progressing")[0] == "True"
    assert condition(actions, "Degraded")[0] == "False"


def test_a_pool_reports_that_it_waits_for_an_unreachable_node() -> None:
    seen = world(
        node(labels=IN_POOL, ready=False),
        pool(meta={"deleting": True}),
        gpu(generation=3, seen=2),
    )
    assert "node n1 is not ready" in condition(decide(seen).actions, "Progressing")[2]
    failing = {"n1": AgentPod("agent-x", "n1", "p", "CrashLoopBackOff", True)}
    seen = world(
        node(labels=IN_POOL),
        pool(meta={"deleting": True}),
        gpu(generation=3, seen=2),
        agents=failing,
    )
    assert "agent-x on n1: CrashLoopBackOff" in condition(decide(seen).actions, "Ready")[2]


def test_a_refusal_by_the_api_server_is_reported() -> None:
    seen = world(
        node(labels=IN_POOL),
        pool(),
        gpu(),
        daemon_sets=agent_set(),
        refused_writes={("GPUPool", "p"): "DaemonSet x: quota exceeded"},
    )
    actions = decide(seen).actions
    assert condition(actions, "Ready")[:2] == ("False", "Refused")
    status, reason, message = condition(actions, "Degraded")
    assert (status, reason) == ("True", "Refused")
    assert "quota exceeded" in message


def test_a_pool_with_hcas_has_a_daemon_set_for_them() -> None:
    with_hcas = pool(hcas=HCAs(count=2))
    seen = world(node(labels=IN_POOL), with_hcas, gpu(), daemon_sets=agent_set(with_hcas))
    actions = decide(seen).actions
    sets = [a.document for a in actions if isinstance(a, Apply) and not a.status]
    names = [d["metadata"]["name"] for d in sets if d["kind"] == "DaemonSet"]
    assert names == ["tessera-gpud-p", "tessera-node-p", "tessera-hca-p"]
    assert "tessera-hca-p is being written" in condition(actions, "Ready")[2]
    there = {**agent_set(), "tessera-hca-p": AgentSet("p")}
    actions = decide(world(node(labels=IN_POOL), pool(), gpu(), daemon_sets=there)).actions
    assert [a.name for a in actions if isinstance(a, Delete)] == ["tessera-hca-p"]
    left = world(pool(meta={"deleting": True}), daemon_sets={"tessera-hca-p": AgentSet("p")})
    assert finalizers_dropped(decide(left)) == []
    assert [a.name for a in decide(left).actions if isinstance(a, Delete)] == ["tessera-hca-p"]


def test_hcas_without_rdma_in_the_chart_are_reported() -> None:
    hcas = HCAs(count=2)
    seen = world(node(labels=IN_POOL), pool(hcas=hcas), gpu(), daemon_sets=agent_set())
    assert condition(decide(seen).actions, "Accepted")[:2] == ("True", "Accepted")
    off = CONFIG.model_copy(update={"rdma": RdmaConfig(enabled=False)})
    actions = pools.reconcile(seen, "p", off, "tessera-system", NOW).actions
    status, reason, message = condition(actions, "Accepted")
    assert (status, reason) == ("True", "PartiallyAccepted")
    assert "rdma.enabled" in message
