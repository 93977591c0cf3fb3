"""Manifests of pods x, y and z in namespaces a, b and c, and pairwise combinations of policies for
them.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

from rdma.compiling.compiler import Compiler
from rdma.evaluator import Evaluator
from rdma.reading import manifests
from rdma.tables import Flow
from rdma.verbs import NAMES, Verb
from support.oracles.rdma_oracle import Try, World, allowed_verbs, qos_class

Dict = dict[str, Any]
OUTSIDE = "192.0.2.7"


def pod(namespace: str, name: str, address: str, labels: Dict | None = None, **more: Any) -> Dict:
    """Return a pod with an HCA as the API prints it."""
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    return {
        "kind": "Pod",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": more.get("uid", f"{namespace}-{name}"),
            "labels": {"pod": name} if labels is None else labels,
        },
        "spec": {
            "nodeName": f"node-{name}",
            "containers": [{"resources": {"limits": {"rdma.tessera.dev/hca": "1"}}}],
            **more.get("spec", {}),
        },
        "status": {**status, **more.get("status", {})},
    }


def namespace(name: str, **labels: str) -> Dict:
    """Return a namespace."""
    return {"kind": "Namespace", "metadata": {"name": name, "labels": {"ns": name, **labels}}}


def policy(spec: Dict, name: str = "p", space: str = "a") -> Dict:
    """Return an RDMANetworkPolicy."""
    return {
        "kind": "RDMANetworkPolicy",
        "metadata": {"namespace": space, "name": name},
        "spec": spec,
    }


def network(partitions: list[Dict], name: str = "lab", **more: Any) -> Dict:
    """Return an RDMANetwork."""
    return {
        "kind": "RDMANetwork",
        "metadata": {"name": name},
        "spec": {"partitions": partitions, **more},
    }


def nine_pods() -> list[Dict]:
    """Return pods x, y, z of a, b, c at 10.0.<namespace>.<pod>."""
    return [
        pod(space, name, f"10.0.{i}.{j}", {"pod": name, "app": "web" if name != "z" else "db"})
        for i, space in enumerate("abc", 1)
        for j, name in enumerate("xyz", 1)
    ]


def nine() -> World:
    """Return the nine pods with their namespaces."""
    return World(
        nine_pods(), [namespace("a", team="red"), namespace("b", team="red"), namespace("c")]
    )


TYPES = (["Ingress"], ["Egress"], ["Ingress", "Egress"])
TARGETS = (
    {},
    {"matchLabels": {"pod": "x"}},
    {"matchExpressions": [{"key": "pod", "operator": "In", "values": ["x", "y"]}]},
    {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
    {"matchExpressions": [{"key": "pod", "operator": "Exists"}]},
    {"matchLabels": {"pod": "none"}},
)
NO_RULE = "no rule at all"
PEERS: tuple[Any, ...] = (
    NO_RULE,
    None,
    [{"podSelector": {"matchLabels": {"pod": "y"}}}],
    [{"namespaceSelector": {"matchLabels": {"team": "red"}}}],
    [
        {
            "namespaceSelector": {"matchLabels": {"ns": "b"}},
            "podSelector": {"matchLabels": {"pod": "z"}},
        }
    ],
    [{"ipBlock": {"cidr": "10.0.2.0/24"}}],
    [{"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.3.0/24", "10.0.1.2/32"]}}],
    [{"partition": {"name": "train", "membership": "Full"}}],
    [{"partition": {"name": "train", "membership": "Limited"}}],
)
VERBS = (
    None,
    ["Read"],
    ["Write", "WriteImm"],
    ["Send", "CM"],
    ["AtomicCAS", "AtomicFAA"],
    ["UD", "Invalidate"],
)
PORTS = (
    None,
    [{"serviceID": 18515}],
    [{"serviceID": 1000, "endServiceID": 2000, "space": "UDP"}],
    [{"qpn": 0x11, "endQPN": 0x1FF}],
    [{"trafficClass": 104}, {"dscp": 10}],
)
TRIES: tuple[Dict, ...] = (
    {},
    {"service": 18515, "space": "TCP", "qpn": 0x11},
    {"service": 1500, "space": "UDP", "traffic_class": 104},
    {"service": 1500, "space": "TCP", "qpn": 0x200, "traffic_class": 42},
)
TRAIN = network(
    [
        {
            "name": "train",
            "pkey": 0x7FFF,
            "members": [
                {"podSelector": {"matchLabels": {"pod": "x"}}, "membership": "Limited"},
                {
                    "podSelector": {
                        "matchExpressions": [{"key": "pod", "operator": "NotIn", "values": ["x"]}]
                    }
                },
            ],
        }
    ],
    qosClasses=[{"name": "bulk", "dscp": 10, "weight": 4}, {"name": "late", "dscp": 10}],
)


def pairwise(dimensions: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return rows such that any two values of two dimensions occur together in one of them.

    The choice is greedy and deterministic.
    """
    pairs = {
        ((i, a), (j, b))
        for i, j in combinations(range(len(dimensions)), 2)
        for a, b in product(range(len(dimensions[i])), range(len(dimensions[j])))
    }
    everything = list(product(*(range(len(values)) for values in dimensions)))
    covered = {row: set(combinations(enumerate(row), 2)) for row in everything}
    rows = []
    while pairs:
        best = max(everything, key=lambda row: len(covered[row] & pairs))
        pairs -= covered[best]
        rows.append(tuple(values[at] for values, at in zip(dimensions, best, strict=True)))
    return rows


def rules_of(peers: Any, verbs: Any, ports: Any, direction: str) -> list[Dict]:
    """Return the rules with these peers, verbs and ports for a direction."""
    if peers == NO_RULE:
        return []
    rule: Dict = {}
    if peers is not None:
        rule["from" if direction == "ingress" else "to"] = peers
    if verbs is not None:
        rule["verbs"] = verbs
    if ports is not None:
        rule["ports"] = ports
    return [rule]


def pairwise_specs() -> list[Dict]:
    """Return the specs of every row: its rule in one direction with the other one open, or in
    both.
    """
    specs = []
    for types, target, *said in pairwise((TYPES, TARGETS, PEERS, VERBS, PORTS)):
        sides = [("ingress",), ("egress",), ("ingress", "egress")]
        for chosen in sides:
            if not {side.capitalize() for side in chosen} <= set(types):
                continue
            spec: Dict = {"podSelector": target, "policyTypes": types}
            for side in ("ingress", "egress"):
                if side.capitalize() in types:
                    spec[side] = rules_of(*said, side) if side in chosen else [{}]
            specs.append(spec)
    return specs


def load(compiler: Compiler, world: World) -> Compiler:
    """Add all objects of a world to a compiler."""
    for one in world.pods:
        compiler.upsert_pod(manifests.pod(one))
    for one in world.namespaces:
        compiler.upsert_namespace(manifests.namespace(one))
    for one in world.networks:
        compiler.upsert_network(manifests.network(one))
    for one in world.policies:
        compiler.upsert_policy(manifests.policy(one))
    return compiler


def names(verbs: Verb) -> set[str]:
    """Return the names of verbs."""
    return {name for name, verb in NAMES.items() if verb & verbs}


def addresses(world: World) -> list[str]:
    """Return every pod's address once, and one address outside the cluster."""
    own = [entry["ip"] for one in world.pods for entry in one["status"].get("podIPs", [])]
    return [*dict.fromkeys(own), OUTSIDE]


def differences(
    world: World,
    compiler: Compiler,
    tries: Sequence[Dict] = ({},),
    pkeys: Sequence[int] = (0xFFFF,),
) -> list[str]:
    """Return all differences between the compiler's tables, as evaluated, and the oracle, over all
    pairs.
    """
    evaluator = Evaluator(compiler.tables("node-x"))
    world.keys = dict(compiler.pkeys)
    found = []
    for source, destination in product(addresses(world), repeat=2):
        for more, pkey in product(tries, pkeys):
            attempt = Try(source, destination, pkey, **more)
            passing, audited = allowed_verbs(world, attempt)
            verdict = evaluator.evaluate(
                Flow(
                    source,
                    destination,
                    pkey,
                    attempt.service,
                    attempt.space,
                    attempt.qpn,
                    attempt.traffic_class,
                )
            )
            if (names(verdict.verbs), names(verdict.audited)) != (passing, audited):
                found.append(f"{attempt}: oracle {sorted(passing)}, evaluator {verdict}")
            chosen = verdict.qos_class.name if verdict.qos_class is not None else None
            if chosen != qos_class(world, attempt):
                found.append(f"{attempt}: class {qos_class(world, attempt)}, evaluator {chosen}")
    return found
