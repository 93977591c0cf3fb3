"""The reachability matrix: compiler and evaluator against nested loops over the manifests."""

import pytest

from rdma.compiling.compiler import Compiler
from support.oracles.rdma_oracle import Try, allowed_verbs
from support.worlds.rdma_world import (
    PEERS,
    TRAIN,
    TRIES,
    Dict,
    differences,
    load,
    namespace,
    network,
    nine,
    pairwise_specs,
    pod,
    policy,
)

SPECS = pairwise_specs()


def check(*specs: Dict, networks: tuple[Dict, ...] = (), spaces: str = "a") -> None:
    world = nine()
    world.networks = list(networks)
    world.policies = [
        policy(spec, f"p{at}", space) for at, spec in enumerate(specs) for space in spaces
    ]
    assert differences(world, load(Compiler(), world)) == []


def test_there_are_enough_cases() -> None:
    assert len({str(spec) for spec in SPECS}) * len(WAYS) >= 150


# Each policy in one namespace, in all, and auditing while another enforces: for pairs of addresses,
# 9 verbs, and 4 kinds of flow.
WAYS = ("a", "abc", "audited")
BASE = {
    "podSelector": {"matchLabels": {"app": "web"}},
    "ingress": [{"verbs": ["Read", "Send"]}],
    "egress": [{"to": [{"namespaceSelector": {}}]}],
}


@pytest.mark.parametrize("way", WAYS)
def test_pairwise_policies(way: str) -> None:
    compiler = Compiler()
    world = nine()
    world.networks = [TRAIN]
    load(compiler, world)
    wrong = []
    for spec in SPECS:
        if way == "audited":
            world.policies = [policy({**spec, "enforcement": "Audit"}), policy(BASE, "base")]
        else:
            world.policies = [policy(spec, space=space) for space in way]
        load(compiler, world)
        wrong += [f"{spec}: {one}" for one in differences(world, compiler, TRIES)]
    assert wrong == []


# The cases of NetworkPolicy's end-to-end tests, by their names there.
DENY_INGRESS: Dict = {"podSelector": {}}
DENY_EGRESS: Dict = {"podSelector": {}, "policyTypes": ["Egress"]}
DENY_ALL: Dict = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
ALLOW_ALL: Dict = {"podSelector": {}, "ingress": [{}]}
FROM_Y: Dict = {
    "podSelector": {"matchLabels": {"pod": "x"}},
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"pod": "y"}}}]}],
}


def selector(key: str, operator: str, *values: str) -> Dict:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    "specs",
    [
        pytest.param([DENY_INGRESS], id="deny-ingress"),
        pytest.param([DENY_EGRESS], id="deny-egress"),
        pytest.param([DENY_ALL], id="deny-all"),
        pytest.param([ALLOW_ALL], id="allow-all"),
        pytest.param([DENY_ALL, ALLOW_ALL], id="deny-all and allow-all"),
        pytest.param(
            [{"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]}], id="own namespace"
        ),
        pytest.param(
            [{"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]}],
            id="all namespaces, not from outside",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "ingress": [{"from": [{"namespaceSelector": selector("ns", "NotIn", "b")}]}],
                }
            ],
            id="namespaces by expression",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "ingress": [
                        {
                            "from": [
                                {"podSelector": {"matchLabels": {"pod": "y"}}},
                                {"namespaceSelector": {"matchLabels": {"ns": "c"}}},
                            ]
                        }
                    ],
                }
            ],
            id="namespace or pod",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "ingress": [
                        {
                            "from": [
                                {
                                    "podSelector": {"matchLabels": {"pod": "y"}},
                                    "namespaceSelector": {"matchLabels": {"ns": "c"}},
                                }
                            ]
                        }
                    ],
                }
            ],
            id="namespace and pod",
        ),
        pytest.param(
            [
                FROM_Y,
                {
                    "podSelector": {"matchLabels": {"pod": "x"}},
                    "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"ns": "b"}}}]}],
                },
            ],
            id="stacked policies",
        ),
        pytest.param(
            [
                {**FROM_Y, "policyTypes": ["Ingress", "Egress"]},
                {
                    "podSelector": {"matchLabels": {"pod": "y"}},
                    "policyTypes": ["Egress"],
                    "egress": [{"to": [{"podSelector": {"matchLabels": {"pod": "z"}}}]}],
                },
            ],
            id="egress of one and ingress of the other",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "policyTypes": ["Egress"],
                    "egress": [
                        {"to": [{"ipBlock": {"cidr": "10.0.2.0/24", "except": ["10.0.2.1/32"]}}]}
                    ],
                },
                {
                    "podSelector": {},
                    "policyTypes": ["Egress"],
                    "egress": [{"to": [{"ipBlock": {"cidr": "10.0.2.1/32"}}]}],
                },
            ],
            id="what one excepts another allows",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "policyTypes": ["Egress"],
                    "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
                }
            ],
            id="only outside",
        ),
        pytest.param(
            [
                {
                    "podSelector": {},
                    "ingress": [{"ports": [{"serviceID": 18515}], "verbs": ["CM"]}],
                },
                {
                    "podSelector": {"matchLabels": {"pod": "x"}},
                    "ingress": [{"ports": [{"serviceID": 1, "endServiceID": 65535}]}],
                },
            ],
            id="services",
        ),
        pytest.param(
            [{"podSelector": {}, "ingress": [{"memory": {"maxAccess": "ReadOnly"}}]}],
            id="read-only memory",
        ),
        pytest.param([{**DENY_ALL, "enforcement": "Audit"}], id="an audit alone denies nothing"),
        pytest.param(
            [DENY_INGRESS, {**ALLOW_ALL, "enforcement": "Audit"}], id="an audit allows nothing"
        ),
    ],
)
@pytest.mark.parametrize("spaces", ["a", "ab"])
def test_what_networkpolicy_is_tested_with(specs: list[Dict], spaces: str) -> None:
    check(*specs, spaces=spaces)


def test_partitions_full_and_limited() -> None:
    """Two limited members do not reach each other; members are not in the default partition."""
    web, db = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}
    world = nine()
    world.networks = [
        network(
            [
                {
                    "name": "train",
                    "pkey": 5,
                    "members": [
                        {"podSelector": web, "membership": "Limited"},
                        {
                            "podSelector": db,
                            "namespaceSelector": {"matchLabels": {"team": "red"}},
                        },
                    ],
                },
                {"name": "drawn", "members": [{"podSelector": {"matchLabels": {"pod": "x"}}}]},
            ]
        )
    ]
    compiler = load(Compiler(), world)
    drawn = compiler.pkeys["lab", "drawn"]
    pkeys = (0x8005, 0x0005, 0xFFFF, 0x7FFF, drawn | 0x8000, 6, 0, 0x8000)
    assert differences(world, compiler, pkeys=pkeys) == []
    reached = {
        (source, destination, pkey)
        for source in ("10.0.1.1", "10.0.2.1", "10.0.1.3", "10.0.3.3")
        for destination in ("10.0.1.2", "10.0.2.3")
        for pkey in (0x8005, 0xFFFF)
        if allowed_verbs(world, Try(source, destination, pkey))[0]
    }
    assert reached == {
        ("10.0.1.3", "10.0.1.2", 0x8005),
        ("10.0.1.1", "10.0.2.3", 0x8005),
        ("10.0.2.1", "10.0.2.3", 0x8005),
        ("10.0.1.3", "10.0.2.3", 0x8005),
    }


def test_full_membership_beats_limited_and_a_refused_partition_connects_no_pods() -> None:
    all_pods = {"podSelector": {}}
    both = {
        "name": "both",
        "pkey": 5,
        "members": [all_pods, {**all_pods, "membership": "Limited"}],
    }
    world = nine()
    world.networks = [network([both])]
    compiler = load(Compiler(), world)
    (*_, identity) = compiler.tables("").identities
    assert [(one.pkey, one.full) for one in identity.partitions] == [(5, True)]
    xs = {"name": "taken", "pkey": 5, "members": [{"podSelector": {"matchLabels": {"pod": "x"}}}]}
    ys = {"name": "late", "pkey": 5, "members": [{"podSelector": {"matchLabels": {"pod": "y"}}}]}
    world.networks = [network([xs, ys])]
    load(compiler, world)
    assert differences(world, compiler, pkeys=(0xFFFF, 0x8005)) == []
    assert list(compiler.problems()) == [("RDMANetwork", "lab")]
    reached = [
        bool(allowed_verbs(world, Try("10.0.1.2", other, pkey))[0])
        for other in ("10.0.2.2", "10.0.1.3", "10.0.1.1")
        for pkey in (0xFFFF, 0x8005)
    ]
    assert reached == [False] * 6


def test_a_policy_is_updated_and_deleted() -> None:
    world, compiler = nine(), Compiler()
    for spec in (
        DENY_ALL,
        FROM_Y,
        ALLOW_ALL,
        {**DENY_INGRESS, "podSelector": {"matchLabels": {"pod": "z"}}},
    ):
        world.policies = [policy(spec)]
        assert differences(world, load(compiler, world)) == []
    world.policies = []
    compiler.delete_policy("a/p")
    assert differences(world, compiler) == []


def test_labels_of_pods_and_namespaces_are_flipped() -> None:
    world, compiler = nine(), Compiler()
    spec: Dict = {
        "podSelector": {"matchLabels": {"pod": "x"}},
        "ingress": [
            {
                "from": [
                    {
                        "namespaceSelector": {"matchLabels": {"team": "red"}},
                        "podSelector": {"matchLabels": {"app": "web"}},
                    }
                ]
            }
        ],
    }
    world.policies = [policy(spec)]
    load(compiler, world)
    for at, labels in (
        (4, {"app": "db"}),
        (4, {"app": "web", "new": "1"}),
        (0, {"pod": "y"}),
        (0, {"pod": "x"}),
    ):
        world.pods[at]["metadata"]["labels"] = labels
        assert differences(world, load(compiler, world)) == []
    world.namespaces[1] = namespace("b", team="blue")
    world.namespaces[2] = namespace("c", team="red")
    assert differences(world, load(compiler, world)) == []


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist"])
@pytest.mark.parametrize("labels", [{}, {"k": "v"}, {"k": "w"}, {"other": "v"}])
def test_a_key_that_is_absent_is_not_in_anything(operator: str, labels: Dict) -> None:
    world = nine()
    for one in world.pods[:4]:
        one["metadata"]["labels"] = labels
    values = () if "xist" in operator else ("v",)
    wanted = {"matchExpressions": [{"key": "k", "operator": operator, "values": list(values)}]}
    world.policies = [
        policy({"podSelector": wanted}),
        policy({"podSelector": {}, "ingress": [{"from": [{"podSelector": wanted}]}]}, "q", "b"),
    ]
    assert differences(world, load(Compiler(), world)) == []
    reached = bool(allowed_verbs(world, Try("10.0.3.1", "10.0.1.1"))[0])
    matching = {"In": [{"k": "v"}], "Exists": [{"k": "v"}, {"k": "w"}]}
    matching["NotIn"] = [{}, {"k": "w"}, {"other": "v"}]
    matching["DoesNotExist"] = [{}, {"other": "v"}]
    assert reached == (labels not in matching[operator])


def test_membership_follows_the_labels_of_namespaces() -> None:
    red = {"namespaceSelector": {"matchLabels": {"team": "red"}}}
    world, compiler = nine(), Compiler()
    world.networks = [network([{"name": "red", "pkey": 5, "members": [red]}])]
    assert differences(world, load(compiler, world), pkeys=(0xFFFF, 0x8005)) == []
    world.namespaces[1] = namespace("b", team="blue")
    assert differences(world, load(compiler, world), pkeys=(0xFFFF, 0x8005)) == []


def test_an_address_is_used_again_and_denied_while_two_claim_it() -> None:
    world, compiler = nine(), Compiler()
    world.policies = [policy(FROM_Y)]
    load(compiler, world)
    successor = pod("c", "new", "10.0.1.2", {"pod": "y"})
    world.pods.append(successor)
    assert differences(world, load(compiler, world)) == []
    assert allowed_verbs(world, Try("10.0.1.2", "10.0.1.1")) == (set(), set())
    assert compiler.tables("node-new").pods[0].addresses == ()
    compiler.delete_pod(world.pods.pop(1)["metadata"]["uid"])
    assert differences(world, compiler) == []
    assert compiler.tables("node-new").pods[0].addresses == ("10.0.1.2",)


def test_pods_that_ended_or_have_no_hca_are_outside_of_the_cluster() -> None:
    world, compiler = nine(), Compiler()
    world.policies = [
        policy({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": {}}]}]})
    ]
    world.pods[1]["status"]["phase"] = "Succeeded"
    world.pods[2]["spec"]["hostNetwork"] = True
    world.pods[3]["spec"]["containers"] = [{}]
    world.pods[4]["status"] = {"phase": "Pending"}
    assert differences(world, load(compiler, world)) == []
    assert [one.name for one in compiler.tables("node-y").pods] == ["b/y", "c/y"]
    assert [one.addresses for one in compiler.tables("node-y").pods] == [(), ("10.0.3.2",)]


def test_pods_of_an_unknown_namespace_are_denied_everything() -> None:
    """Its labels are not known: if it counted as unlabelled, NotIn would match."""
    world, compiler = nine(), Compiler()
    gone = world.namespaces.pop()
    assert differences(world, load(compiler, world)) == []
    assert allowed_verbs(world, Try("10.0.3.1", "10.0.1.1")) == (set(), set())
    world.namespaces.append(gone)
    assert differences(world, load(compiler, world)) == []
    world.namespaces.pop()
    compiler.delete_namespace("c")
    assert differences(world, compiler) == []


def test_every_kind_of_peer_allows_and_denies_something() -> None:
    """Otherwise the matrix would compare nothing."""
    for peers in PEERS[2:]:
        world = nine()
        world.networks = [TRAIN]
        world.keys = {("lab", "train"): 0x7FFF}
        world.policies = [policy({"podSelector": {}, "ingress": [{"from": peers}]})]
        passing = {
            source: bool(allowed_verbs(world, Try(source, "10.0.1.1"))[0])
            for source in ("10.0.1.2", "10.0.1.3", "10.0.2.2", "10.0.2.3", "10.0.3.1", "192.0.2.7")
        }
        if peers != PEERS[8]:  # limited members: pods x, which do not reach each other
            assert set(passing.values()) == {True, False}, peers
