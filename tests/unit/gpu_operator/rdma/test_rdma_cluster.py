"""RDMA policies in the operator: what is written for nodes, and what users see of it."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpu_operator.controllers.rdma.cluster import TABLES_KIND
from gpu_operator.controllers.rdma.nodes import SILENT_AFTER_S
from gpu_operator.kube.actions import Apply
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from support.worlds.policy_cluster import RdmaWorld

A, B = "a", "b"


@pytest.fixture
def world() -> RdmaWorld:
    """Return two nodes with a pod each, in one namespace."""
    made = RdmaWorld()
    for node in (A, B):
        made.node(node)
    made.namespace("ml", team="x")
    made.pod("ml/x", A, "10.0.0.1", app="x")
    made.pod("ml/y", B, "10.0.0.2", app="y")
    return made


def only_send(count: int = 1) -> dict[str, Any]:
    """Return a spec that is distinguishable from one with another count."""
    return {"ingress": [{"verbs": ["Send"], "limits": {"maxQPs": count}}]}


def test_a_policy_is_programmed_when_every_node_has_acknowledged_and_not_before(
    world: RdmaWorld,
) -> None:
    world.policy("ml/p", **only_send())
    world.step()
    assert world.programmed_condition("ml/p")[:2] == ("False", "Pending")
    world.step(A)
    world.step()
    status, reason, message = world.programmed_condition("ml/p")
    assert (status, reason) == ("False", "Pending")
    assert message.endswith("by b")
    assert world.status("ml/p")["nodesReady"] == "1/2"
    world.step(B)
    world.step()
    assert world.programmed_condition("ml/p")[:2] == ("True", "Programmed")
    assert world.status("ml/p")["nodes"] == {"ready": 2, "total": 2}
    assert world.status("ml/p")["selectedPods"] == 2
    assert world.condition(POLICY_KIND, "ml/p", "Accepted")[:2] == ("True", "Accepted")
    assert [(e.reason, e.namespace) for e in world.events] == [("Programmed", "ml")]


def test_an_edit_is_programmed_again_only_by_its_own_acknowledgement(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    before = {node: world.tables(node).generation for node in (A, B)}
    world.policy("ml/p", **only_send(2))
    world.step()
    assert world.programmed_condition("ml/p")[:2] == ("False", "Pending")
    assert world.status("ml/p")["observedGeneration"] == 2
    assert {node: world.tables(node).generation for node in (A, B)} == {
        node: generation + 1 for node, generation in before.items()
    }
    world.settle(A, B)
    assert world.programmed_condition("ml/p")[0] == "True"


def test_nothing_is_written_when_nothing_changes(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    world.pod("ml/z", A, "10.0.0.9", hca=False)
    world.namespace("other")
    world.beat(A, B)
    assert world.step() == 0


def test_a_deleted_policy_is_removed_from_the_tables(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    assert any(rule.policy == "ml/p" for rule in world.tables(A).rules)
    world.remove(POLICY_KIND, "ml/p")
    world.settle(A, B)
    assert not any(rule.policy == "ml/p" for rule in world.tables(A).rules)


@pytest.mark.parametrize("label", ["x", "other"], ids=["alike", "of another kind"])
def test_a_recreated_pod_has_no_state_of_its_predecessor(world: RdmaWorld, label: str) -> None:
    """As in a list after a lost watch: the old address belongs to no pod any more."""
    world.policy("ml/p", ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "x"}}}]}])
    world.settle(A, B)
    (before,) = world.tables(A).pods
    world.lose("Pod", "ml/x")
    world.pod("ml/x", A, "10.0.0.7", app=label)
    world.settle(A, B)
    (now,) = world.tables(A).pods
    assert now.uid != before.uid
    assert now.addresses == ("10.0.0.7",)
    assert {one.address for one in world.tables(B).endpoints} == {"10.0.0.2", "10.0.0.7"}
    assert world.status("ml/p")["selectedPods"] == 2
    world.pod("ml/z", B, "10.0.0.1", app="x")
    world.settle(A, B)
    ends = {one.address: one.pod for one in world.tables(A).endpoints}
    assert ends["10.0.0.1"] == "ml/z", "no other pod claims it"
    world.remove("Pod", "ml/x")
    world.settle(A, B)
    assert world.tables(A).pods == ()


def test_a_recreated_policy_is_enforced(world: RdmaWorld) -> None:
    """Its generation is 1, as the previous policy's was."""
    world.policy("ml/p", **only_send(1))
    world.settle(A, B)
    world.lose(POLICY_KIND, "ml/p")
    world.policy("ml/p", **only_send(2))
    world.step()
    assert world.programmed_condition("ml/p")[:2] == ("False", "Pending")
    world.settle(A, B)
    assert enforced_count(world, A, "ml/p") == enforced_count(world, B, "ml/p") == 2
    assert world.programmed_condition("ml/p")[0] == "True"


def test_a_recreated_network_is_in_force(world: RdmaWorld) -> None:
    member = {"podSelector": {"matchLabels": {"app": "x"}}}
    world.network("lab", partitions=[{"name": "one", "pkey": 5, "members": [member]}])
    world.settle(A, B)
    world.lose(NETWORK_KIND, "lab")
    world.network("lab", partitions=[{"name": "one", "pkey": 6, "members": [member]}])
    world.settle(A, B)
    keys = {key.pkey for one in world.tables(A).identities for key in one.partitions}
    assert keys == {6, 0x7FFF}


def test_a_silent_node_is_reported_until_it_returns(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    again = world.operator.again_in_s(world.now)
    assert again is not None
    assert again <= SILENT_AFTER_S
    world.seconds += SILENT_AFTER_S - 0.5
    world.beat(A)
    world.step()
    assert world.programmed_condition("ml/p")[0] == "True"
    world.seconds += 1.0
    world.step()
    status, reason, message = world.programmed_condition("ml/p")
    assert (status, reason) == ("Unknown", "NodeSilent")
    assert message.endswith(": b")
    assert world.status("ml/p")["nodesReady"] == "1/2"
    world.beat(B)
    world.step()
    assert world.programmed_condition("ml/p")[0] == "True"
    assert [e.reason for e in world.events] == ["Programmed", "NodeSilent", "Programmed"]


def test_a_refusal_by_hcad_is_reported(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    world.agent(A, generation=0, hcad="Unreachable", message="no socket")
    world.step()
    status, reason, message = world.programmed_condition("ml/p")
    assert (status, reason) == ("False", "HCAUnavailable")
    assert message == "a: hcad is Unreachable: no socket"


def test_an_acknowledgement_of_unsent_tables_is_ignored(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.step(A, B)
    for generation in (1 << 60, -1, 1):
        world.agent(A, generation=generation, hcad="Enforcing")
        world.step()
        assert world.programmed_condition("ml/p")[0] == "False", generation


def test_tables_of_another_writer_are_overwritten(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    generation = world.tables(A).generation
    ours = world.objects[TABLES_KIND, A]["spec"]["tables"]
    world.put(TABLES_KIND, A, {"generation": generation, "tables": "{}"})
    world.step()
    assert world.tables(A).generation == generation + 1
    assert world.programmed_condition("ml/p")[0] == "False"
    world.settle(A, B)
    assert world.programmed_condition("ml/p")[0] == "True"
    assert ours != world.objects[TABLES_KIND, A]["spec"]["tables"]


def test_generations_increase_across_restarts_deletions_and_clocks(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)
    first = world.tables(A).generation
    world.restart()
    world.policy("ml/p", **only_send(2))
    world.settle(A, B)
    second = world.tables(A).generation
    assert second == first + 1
    world.remove(TABLES_KIND, A)
    world.restart()
    world.seconds += 5
    world.settle(A, B)
    third = world.tables(A).generation
    assert third > second
    # The clock was set back and the object is gone: hcad reports what it enforces.
    world.remove(TABLES_KIND, A)
    world.restart()
    world.wall -= 3600
    world.step()
    assert world.tables(A).generation < third
    world.agent(A, generation=third, hcad="Refused", message="older")
    world.settle(B)
    assert world.tables(A).generation == third + 1


def test_a_restarted_operator_does_not_rewrite_current_tables() -> None:
    world = RdmaWorld()
    world.node(A)
    world.namespace("ml")
    world.pod("ml/x", A, "10.0.0.1")
    world.policy("ml/p", **only_send())
    world.settle(A)
    world.restart()
    assert world.step(rounds=2) == 0


def test_an_invalid_object_denies_everything_and_reports_the_position(world: RdmaWorld) -> None:
    world.policy("ml/p", ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/99"}}]}])
    world.settle(A, B)
    status, reason, message = world.condition(POLICY_KIND, "ml/p", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert message.startswith("spec.ingress[0].from[0].ipBlock: ")
    assert message.endswith("write blocks such as 10.9.0.0/16")
    assert world.programmed_condition("ml/p")[:2] == ("False", "InvalidSpec")
    isolated = {i.number: i for i in world.tables(A).identities}
    pod = next(pod for pod in world.tables(A).pods if pod.name == "ml/x")
    assert isolated[pod.identity].ingress is not None
    assert "Rejected" in [e.reason for e in world.events]


def test_an_unknown_name_is_reported_with_a_remedy(world: RdmaWorld) -> None:
    world.policy("ml/p", ingress=[{"from": [{"partition": {"name": "train"}}]}])
    world.settle(A, B)
    status, reason, message = world.condition(POLICY_KIND, "ml/p", "Accepted")
    assert (status, reason) == ("False", "InvalidSpec")
    assert "spec.ingress[0].from[0].partition" in message
    world.network("net", partitions=[{"name": "train", "members": [{"podSelector": {}}]}])
    world.settle(A, B)
    assert world.condition(POLICY_KIND, "ml/p", "Accepted")[0] == "True"


def test_qos_classes_are_listed_with_their_dscp(world: RdmaWorld) -> None:
    world.network("one", qosClasses=[{"name": "bulk", "dscp": 8}, {"name": "plain"}])
    world.settle(A, B)
    assert world.objects[NETWORK_KIND, "one"]["status"]["qosClasses"] == "bulk=8,plain=0"


def test_allocated_p_keys_are_reported_and_kept(world: RdmaWorld) -> None:
    train = {"name": "train", "members": [{"podSelector": {}}]}
    world.network("one", partitions=[train, {**train, "name": "fixed", "pkey": 7}])
    world.settle(A, B)
    given_keys = world.objects[NETWORK_KIND, "one"]["status"]["partitions"]
    assert {"name": "fixed", "pkey": 7} in given_keys
    assert world.objects[NETWORK_KIND, "one"]["status"]["pkeys"].endswith("fixed=0x0007")
    world.objects[NETWORK_KIND, "one"]["status"]["partitions"] = [
        {"name": "train", "pkey": 0x1234},
        {"name": "fixed", "pkey": 7},
    ]
    world.restart()
    world.settle(A, B)
    keys = {m.partition: m.pkey for i in world.tables(A).identities for m in i.partitions}
    assert keys["train"] == 0x1234


def test_an_mtu_above_the_interface_s_is_refused(world: RdmaWorld) -> None:
    world.network("one", mtu=4096)
    world.settle(A, B)
    assert world.condition(NETWORK_KIND, "one", "Accepted")[0] == "True"
    world.agent(B, generation=world.tables(B).generation, hcad="Enforcing", pathMtu=1024)
    world.step()
    status, reason, message = world.condition(NETWORK_KIND, "one", "Accepted")
    assert (status, reason) == ("False", "MTUExceedsInterface")
    assert "1024" in message
    assert "node b" in message


def test_engine_only_enforcement_is_reported_and_programmed(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.settle(A, B)

    def second_layer() -> tuple[str, str, str]:
        world.step()
        status, reason, message = world.condition(POLICY_KIND, "ml/p", "SecondLayer")
        return status, reason, message

    assert second_layer()[:2] == ("Unknown", "Pending")
    said = {name: world.tables(name).generation for name in (A, B)}
    rules: dict[str, Any] = {"hcad": "Enforcing", "secondLayer": "Enforcing"}
    world.agent(A, generation=said[A], **rules)
    assert second_layer()[:2] == ("Unknown", "Pending")
    lacking = {"secondLayer": "EngineOnly", "secondLayerMessage": "nft is missing"}
    world.agent(B, generation=said[B], hcad="Enforcing", **lacking)
    status, reason, message = second_layer()
    assert (status, reason) == ("False", "EngineOnly")
    assert "b: nft is missing" in message
    assert world.programmed_condition("ml/p")[:2] == ("True", "Programmed")
    world.agent(B, generation=said[B], **rules)
    assert second_layer()[:2] == ("True", "Enforced")
    reported = [
        (event.reason, event.warning)
        for event in world.events
        if event.reason in ("EngineOnly", "Enforced")
    ]
    assert reported == [("EngineOnly", True), ("Enforced", False)]


def test_tables_of_a_node_without_hcas_are_deleted(world: RdmaWorld) -> None:
    world.step(A, B)
    world.remove("Pod", "ml/y")
    world.remove("Node", B)
    world.settle(A)
    assert (TABLES_KIND, B) not in world.objects
    world.policy("ml/p", **only_send())
    world.settle(A)
    assert world.status("ml/p")["nodesReady"] == "1/1"


def test_without_hcas_nothing_is_programmed() -> None:
    world = RdmaWorld()
    world.namespace("ml")
    world.policy("ml/p", **only_send())
    world.step()
    assert world.programmed_condition("ml/p")[:2] == ("False", "NoNodes")


def test_a_lagging_watch_does_not_undo_a_response(world: RdmaWorld) -> None:
    world.policy("ml/p", **only_send())
    world.step()
    old = world._change(POLICY_KIND, "ml/p")
    world.policy("ml/p", **only_send(2))
    world.settle(A, B)
    world._feed.append(old)
    assert world.step(rounds=2) == 0
    assert world.programmed_condition("ml/p")[0] == "True"


def enforced_count(world: RdmaWorld, node: str, key: str) -> int | None:
    """Return the count in the policy's spec that a node's hcad enforces."""
    tables = world.enforced.get(node)
    found = [r.limits.queue_pairs for r in tables.rules if r.policy == key] if tables else []
    return found[0] if found else None


STEPS = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from(["ml/p", "ml/q"]), st.integers(1, 4)),
    st.tuples(st.just("operator"), st.none(), st.none()),
    st.tuples(st.just("agent"), st.sampled_from([A, B]), st.none()),
    st.tuples(st.just("restart"), st.none(), st.none()),
    st.tuples(st.just("delete"), st.sampled_from([A, B]), st.none()),
    st.tuples(st.just("lose"), st.none(), st.none()),
    st.tuples(st.just("pod"), st.sampled_from([A, B]), st.integers(1, 3)),
    st.tuples(st.just("hcad"), st.sampled_from([A, B]), st.none()),
)


@settings(max_examples=150, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_programmed_requires_enforcement_on_every_node(
    steps: list[tuple[str, Any, Any]],
) -> None:
    world = RdmaWorld()
    for node in (A, B):
        world.node(node)
    world.namespace("ml")
    for action, what, number in steps:
        world.seconds += 0.1
        match action:
            case "edit":
                world.policy(what, **only_send(number))
            case "operator":
                world.step()
            case "agent":
                world.agent(what)
            case "restart":
                world.restart()
            case "delete" if (TABLES_KIND, what) in world.objects:
                world.remove(TABLES_KIND, what)
            case "lose":
                lost = lose_writes(world)
                assert lost >= 0
            case "pod":
                world.pod(f"ml/{what}{number}", what, f"10.0.{number}.{ord(what)}")
            case "hcad" if what in world.enforced:
                world.enforced.pop(what)
                world.agent(what, generation=0, hcad="Unreachable")
                world.step()
        for key in ("ml/p", "ml/q"):
            check(world, key)


def lose_writes(world: RdmaWorld) -> int:
    """Let the operator decide, but discard its writes."""
    feed, world._feed = world._feed, []
    world.operator.apply(feed, world.now)
    return len(world.operator.plan_tables(world.now)) + len(world.operator.plan_reports(world.now))


def check(world: RdmaWorld, key: str) -> None:
    found = world.objects.get((POLICY_KIND, key))
    if found is None or world.programmed_condition(key)[0] != "True":
        return
    status = world.status(key)
    if status["observedGeneration"] != found["metadata"]["generation"]:
        return
    count = found["spec"]["ingress"][0]["limits"]["maxQPs"]
    for node in (A, B):
        # The policy selects all pods of the namespace: tables with one of its pods contain the
        # rule.
        selects = bool(world.enforced[node].endpoints)
        assert enforced_count(world, node, key) == (count if selects else None)


def test_tables_are_written_with_the_right_manager(world: RdmaWorld) -> None:
    world.step()
    managers = {a.manager.value for a in world.written if isinstance(a, Apply) and not a.status}
    assert managers == {"tessera-rdma"}
