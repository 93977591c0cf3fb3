"""Manifests are read strictly: errors name the field."""

from typing import Any

import pytest

from rdma.errors import PolicyError
from rdma.objects import Level, Partition
from rdma.reading import manifests, quantity
from rdma.tables import Block, Direction, Limits, Memory, Port, QosClass
from rdma.verbs import Verb
from support.worlds.rdma_world import Dict, network, pod, policy

FULL_SPEC: Dict = {
    "podSelector": {"matchLabels": {"app": "ps"}},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [
        {
            "from": [
                {"podSelector": {}, "namespaceSelector": {}},
                {"ipBlock": {"cidr": "10.9.0.0/16", "except": ["10.9.1.0/24"]}},
                {"partition": {"name": "train-a", "membership": "Limited"}},
            ],
            "verbs": ["Read", "CM"],
            "ports": [
                {"serviceID": 18515, "endServiceID": 18600},
                {"qpn": 0x11, "endQPN": 0x1FF},
                {"trafficClass": 104},
            ],
            "memory": {"maxAccess": "ReadOnly", "scope": "Named", "regions": ["weights"]},
            "limits": {
                "bandwidth": "5Gi",
                "burst": "64Mi",
                "ops": "200k",
                "maxQPs": 64,
                "maxMRBytes": "8Gi",
            },
        }
    ],
    "egress": [{"to": [{"podSelector": {}}], "qosClassName": "bulk"}],
    "enforcement": "Audit",
}


def test_every_field_of_a_policy() -> None:
    read = manifests.policy(policy(FULL_SPEC, "p", "ns"))
    assert read.key == "ns/p"
    assert read.audit
    assert read.types == frozenset(Direction)
    (rule,) = read.ingress
    assert rule.verbs == Verb.READ | Verb.CM
    assert rule.peers[1].block == Block("10.9.0.0/16", ("10.9.1.0/24",))
    partition = rule.peers[2].partition
    assert partition is not None
    assert (partition.name, partition.level) == ("train-a", Level.LIMITED)
    assert rule.ports == (
        Port(services=(18515, 18600), space="TCP"),
        Port(qpns=(0x11, 0x1FF)),
        Port(traffic_class=104),
    )
    assert rule.memory == Memory(read_only=True, scope="Named", regions=("weights",))
    assert rule.limits == Limits(5 << 30, 64 << 20, 200_000, 64, 8 << 30)
    assert read.egress[0].qos_class == "bulk"


@pytest.mark.parametrize(
    ("more", "types"),
    [
        ({}, {"ingress"}),
        ({"ingress": []}, {"ingress"}),
        ({"egress": []}, {"ingress"}),
        ({"egress": [{}]}, {"ingress", "egress"}),
        ({"policyTypes": [], "egress": [{}]}, {"ingress", "egress"}),
        ({"policyTypes": ["Egress"], "ingress": [{}]}, {"egress"}),
    ],
)
def test_directions_default_as_in_networkpolicy(more: Dict, types: set[str]) -> None:
    assert manifests.policy_of("ns", "p", {"podSelector": {}, **more}).types == types


def refusal_of(spec: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        manifests.policy_of("ns", "p", spec)
    assert caught.value.remedy
    return caught.value.field


def ingress(**rule: Any) -> Dict:
    return {"podSelector": {}, "ingress": [rule]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (None, "spec"),
        ([], "spec"),
        ({}, "spec.podSelector"),
        ({"podSelector": {}, "Ingress": []}, "spec.Ingress"),
        ({"podSelector": {}, 5: 6}, "spec.5"),
        ({"podSelector": {"matchLabel": {}}}, "spec.podSelector.matchLabel"),
        ({"podSelector": {"matchLabels": {"a": 1}}}, "spec.podSelector.matchLabels.a"),
        ({"podSelector": {"matchLabels": {"-a": "1"}}}, "spec.podSelector.matchLabels.key"),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "in"}]}},
            "spec.podSelector.matchExpressions[0].operator",
        ),
        (
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "spec.podSelector.matchExpressions[0].values",
        ),
        (
            {
                "podSelector": {
                    "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]
                }
            },
            "spec.podSelector.matchExpressions[0].values",
        ),
        ({"podSelector": {}, "policyTypes": ["ingress"]}, "spec.policyTypes[0]"),
        ({"podSelector": {}, "policyTypes": "Ingress"}, "spec.policyTypes"),
        ({"podSelector": {}, "enforcement": "audit"}, "spec.enforcement"),
        (ingress(verbs=["Reed"]), "spec.ingress[0].verbs[0]"),
        (ingress(to=[]), "spec.ingress[0].to"),
        ({"podSelector": {}, "ingress": [{}] * 1025}, "spec.ingress"),
        (ingress(**{"from": [{}]}), "spec.ingress[0].from[0]"),
        (
            ingress(**{"from": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "10.0.0.1"}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/255.0.0.0"}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/0.255.255.255"}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (
            ingress(**{"from": [{"ipBlock": {"cidr": "::ffff:10.0.0.0/104"}}]}),
            "spec.ingress[0].from[0].ipBlock",
        ),
        (ingress(ports=[{}]), "spec.ingress[0].ports[0]"),
        (ingress(ports=[{"endQPN": 5}]), "spec.ingress[0].ports[0].endQPN"),
        (ingress(ports=[{"qpn": 5, "endQPN": 4}]), "spec.ingress[0].ports[0].endQPN"),
        (ingress(ports=[{"qpn": 1 << 24}]), "spec.ingress[0].ports[0].qpn"),
        (ingress(ports=[{"qpn": True}]), "spec.ingress[0].ports[0].qpn"),
        (ingress(ports=[{"space": "UDP"}]), "spec.ingress[0].ports[0].space"),
        (ingress(ports=[{"trafficClass": 4, "dscp": 1}]), "spec.ingress[0].ports[0].dscp"),
        (ingress(memory={"scope": "Named"}), "spec.ingress[0].memory.regions"),
        (ingress(memory={"regions": ["a"]}), "spec.ingress[0].memory.regions"),
        (ingress(memory={"maxAccess": "ReadOnly"}, verbs=["Write"]), "spec.ingress[0].verbs"),
        (ingress(limits={"bandwidth": "fast"}), "spec.ingress[0].limits.bandwidth"),
        (ingress(limits={"burst": 5}), "spec.ingress[0].limits.burst"),
        (ingress(qosClassName="bulk"), "spec.ingress[0].qosClassName"),
        ({"podSelector": {}, "egress": [{"memory": {}}]}, "spec.egress[0].memory"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(spec: Any, field: str) -> None:
    assert refusal_of(spec) == field


def test_values_in_messages_are_short_whatever_they_are() -> None:
    for value in ("x" * 10_000, [0] * 10_000, 10**4000, {"a": "b" * 10_000}, 1.5):
        with pytest.raises(PolicyError) as caught:
            manifests.policy_of("ns", "p", ingress(limits={"maxQPs": value}, verbs=[value]))
        assert len(str(caught.value)) < 400


def test_read_only_memory_grants_nothing_that_writes() -> None:
    read = manifests.policy_of("ns", "p", ingress(memory={"maxAccess": "ReadOnly"}))
    writing = Verb.WRITE | Verb.WRITE_IMM | Verb.ATOMIC_CAS | Verb.ATOMIC_FAA
    assert read.ingress[0].verbs & writing == 0
    assert read.ingress[0].verbs & Verb.READ


def test_what_cannot_be_read_closes_whom_it_selects() -> None:
    spec = {"podSelector": {"matchLabels": {"app": "x"}}, "ingress": "all"}
    closed = manifests.closed_policy("ns", "p", spec)
    assert closed.pod_selector.matches({"app": "x"})
    assert not closed.pod_selector.matches({})
    assert closed.types == frozenset(Direction)
    assert not closed.rules(Direction.INGRESS)
    assert manifests.closed_policy("ns", "p", {"podSelector": 5}).pod_selector.matches({})


def test_every_field_of_a_network() -> None:
    read = manifests.network(
        network(
            [
                {
                    "name": "a",
                    "pkey": "0x7ffe",
                    "members": [{"podSelector": {}, "membership": "Limited"}],
                },
                {"name": "b"},
            ],
            mtu=4096,
            qosClasses=[
                {
                    "name": "bulk",
                    "dscp": 26,
                    "sl": 3,
                    "weight": 10,
                    "minRate": "1G",
                    "maxRate": "2G",
                    "cnpDscp": 48,
                }
            ],
        )
    )
    assert read.mtu == 4096
    assert read.partitions[0].pkey == 0x7FFE
    assert read.partitions[0].members[0].level is Level.LIMITED
    assert read.partitions[1] == Partition("b")
    assert read.qos_classes == (QosClass("bulk", 26, 3, 10, 10**9, 2 * 10**9, 48, "lab"),)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"mtu": 1500}, "spec.mtu"),
        ({"partitions": [{}]}, "spec.partitions[0].name"),
        ({"partitions": [{"name": "a"}, {"name": "a"}]}, "spec.partitions[1].name"),
        ({"partitions": [{"name": "a", "pkey": 0}]}, "spec.partitions[0].pkey"),
        ({"partitions": [{"name": "a", "pkey": 0x8001}]}, "spec.partitions[0].pkey"),
        ({"partitions": [{"name": "a", "pkey": 0xFFFF}]}, "spec.partitions[0].pkey"),
        ({"partitions": [{"name": "a", "pkey": 0x10000}]}, "spec.partitions[0].pkey"),
        ({"partitions": [{"name": "a", "members": [{}]}]}, "spec.partitions[0].members[0]"),
        (
            {"partitions": [{"name": "a", "members": [{"podSelector": {}, "membership": "Any"}]}]},
            "spec.partitions[0].members[0].membership",
        ),
        ({"qosClasses": [{"name": "a", "minRate": 2, "maxRate": 1}]}, "spec.qosClasses[0].minRate"),
        ({"qosClasses": [{"name": "a", "dscp": 64}]}, "spec.qosClasses[0].dscp"),
    ],
)
def test_what_is_wrong_with_a_network(spec: Dict, field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        manifests.network_of("lab", spec)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5Gi", 5 << 30),
        ("200k", 200_000),
        ("1.5Ki", 1536),
        ("1e3", 1000),
        (7, 7),
        ("0.0001k", 1),
        ("7E", 7 * 10**18),
    ],
)
def test_quantities(text: Any, number: int) -> None:
    assert quantity.parse(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "5GB",
        "5 Gi",
        "1e99",
        "٣",
        1.5,
        True,
        None,
        "8Ei",
        pytest.param(10**5000, id="huge"),
    ],
)
def test_invalid_quantities(text: Any) -> None:
    with pytest.raises(ValueError):
        quantity.parse(text)


def test_a_pod_is_read_as_the_api_writes_it() -> None:
    made = pod("ns", "p", "::ffff:10.0.0.1", uid="u")
    made["status"]["podIPs"].append({"ip": "FD00::1"})
    read = manifests.pod(made)
    assert (read.uid, read.namespace, read.name, read.node) == ("u", "ns", "p", "node-p")
    assert read.addresses == ("10.0.0.1", "fd00::1")
    assert read.holds_hca


def test_which_pods_hold_an_hca() -> None:
    hca = {"resources": {"limits": {"rdma.tessera.dev/hca": 1}}}

    def holds(**spec: Any) -> bool:
        return manifests.pod(pod("ns", "p", "10.0.0.1", spec=spec)).holds_hca

    assert holds(containers=[{}, hca])
    assert holds(containers=[{}], initContainers=[hca])
    assert not holds(containers=[{}])
    assert not holds(containers=[{"resources": {"limits": {"rdma.tessera.dev/hca": "0"}}}])
    assert not holds(containers=[hca], hostNetwork=True)


def test_a_pod_that_ends_keeps_its_address_until_it_has_ended() -> None:
    made = pod("ns", "p", "10.0.0.1")
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert manifests.pod(made).addresses == ("10.0.0.1",)
    made["status"]["phase"] = "Failed"
    read = manifests.pod(made)
    assert (read.addresses, read.holds_hca) == ((), False)
