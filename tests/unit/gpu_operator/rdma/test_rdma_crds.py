"""The CRDs of networks and policies accept what their parser accepts."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpu_operator.api.v1alpha1 import crd
from gpu_operator.api.v1alpha1.rdma import network as network_models, policy as policy_models
from rdma import objects, verbs
from rdma.errors import PolicyError
from rdma.reading import manifests

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples" / "rdma").glob("*.yaml"))
PEERS = [
    {
        "podSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
        },
        "namespaceSelector": {},
    },
    {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    {"partition": {"name": "p", "network": "n", "membership": "Any"}},
]
SHARED = {
    "verbs": list(verbs.NAMES),
    "ports": [
        {"serviceID": 1, "endServiceID": 2, "space": "UDP"},
        {"qpn": 1, "endQPN": 2},
        {"trafficClass": 104},
        {"dscp": 26},
    ],
    "limits": {
        "bandwidth": "5Gi",
        "burst": "64Mi",
        "ops": 200000,
        "maxQPs": 64,
        "maxMRBytes": "8Gi",
    },
}
MEMORY = {"maxAccess": "ReadOnly", "scope": "Named", "regions": ["weights"]}
MAXIMAL = {
    "podSelector": {},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": PEERS, "memory": MEMORY, **SHARED}],
    "egress": [{"to": PEERS, "qosClassName": "bulk", **SHARED}],
    "enforcement": "Audit",
}
NETWORK = {
    "mtu": 1024,
    "partitions": [
        {
            "name": "train",
            "pkey": 7,
            "members": [
                {"namespaceSelector": {}, "podSelector": {}, "membership": "Limited"},
            ],
        }
    ],
    "qosClasses": [
        {"name": "bulk", "dscp": 1, "sl": 2, "weight": 3}
        | {"minRate": "1M", "maxRate": "2M", "cnpDscp": 4}
    ],
}


def definition(kind: str) -> dict[str, Any]:
    """Return the CRD that is sent to the API server."""
    return crd.render(next(k for k in crd.KINDS if k.kind == kind))


def spec_schema(kind: str) -> dict[str, Any]:
    """Return the schema of a spec with unknown fields refused, and quantities as the API server has
    them.
    """
    root = definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return refuse_unknown_fields(root["properties"]["spec"])


def refuse_unknown_fields(node: dict[str, Any]) -> dict[str, Any]:
    """Refuse unknown fields, as strict validation does."""
    copy = dict(node)
    if "properties" in node:
        copy["properties"] = {
            name: refuse_unknown_fields(child) for name, child in node["properties"].items()
        }
        copy["additionalProperties"] = False
    if isinstance(node.get("items"), dict):
        copy["items"] = refuse_unknown_fields(node["items"])
    return copy


def paths(node: dict[str, Any], at: str = "") -> set[str]:
    """Return the path of every field in a schema."""
    found = set()
    for name, child in node.get("properties", {}).items():
        found |= {f"{at}.{name}"} | paths(child, f"{at}.{name}")
    if isinstance(node.get("items"), dict):
        found |= paths(node["items"], at)
    return found


def used_fields(value: Any, at: str = "") -> set[str]:
    """Return the path of every field in a value."""
    if isinstance(value, dict):
        inner = (used_fields(child, f"{at}.{name}") for name, child in value.items())
        return {f"{at}.{name}" for name in value}.union(*inner)
    if isinstance(value, list):
        return set[str]().union(*(used_fields(item, at) for item in value))
    return set()


@pytest.mark.parametrize(
    ("kind", "spec"), [("RDMANetworkPolicy", MAXIMAL), ("RDMANetwork", NETWORK)]
)
def test_parser_and_schema_have_the_same_fields(kind: str, spec: dict[str, Any]) -> None:
    """The maximal object, which both accept, has every field of the schema."""
    schema = spec_schema(kind)
    jsonschema.validate(spec, schema)
    if kind == "RDMANetwork":
        manifests.network_of("n", spec)
    else:
        manifests.policy_of("ns", "p", spec)
    below_labels = {path for path in used_fields(spec) if ".matchLabels." in path}
    assert used_fields(spec) - below_labels | selectors(schema) == paths(schema)


def selectors(schema: dict[str, Any]) -> set[str]:
    """Return the fields of selectors, of which one with all fields suffices: they share a
    parser.
    """
    return {p for p in paths(schema) if re.search(r"Selector\.match", p)}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_the_examples_are_valid(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] not in ("RDMANetwork", "RDMANetworkPolicy"):
            continue
        jsonschema.validate(document["spec"], spec_schema(document["kind"]))
        if document["kind"] == "RDMANetwork":
            assert manifests.network(document).partitions
        else:
            assert manifests.policy(document).ingress


def test_examples_exist() -> None:
    assert {path.name for path in EXAMPLES} >= {"network.yaml", "deny-writes.yaml"}


def test_the_example_allows_reads_and_denies_writes() -> None:
    document = yaml.safe_load((ROOT / "examples" / "rdma" / "deny-writes.yaml").read_text())
    (rule,) = manifests.policy(document).ingress
    changing = (
        verbs.Verb.WRITE | verbs.Verb.WRITE_IMM | verbs.Verb.ATOMIC_CAS | verbs.Verb.ATOMIC_FAA
    )
    assert rule.verbs & verbs.Verb.READ
    assert not rule.verbs & changing


@pytest.mark.parametrize(
    "rule",
    [
        {"verb": ["Send"]},
        {"verbs": ["Destroy"]},
        {"ports": [{"serviceID": 0}]},
        {"ports": [{"qpn": 1 << 24}]},
        {"ports": [{"dscp": 64}]},
        {"limits": {"bandwidth": "fast"}},
        {"limits": {"maxQPs": -1}},
        {"memory": {"scope": "All"}},
        {"qosClassName": "bulk"},
        {"to": [{"podSelector": {}}]},
        {"from": [{"podSelector": {"matchLabels": {"app": "not a label"}}}]},
        {"from": [{"podSelector": {"matchLabels": {"app": "x" * 64}}}]},
        {
            "from": [
                {
                    "podSelector": {
                        "matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]
                    }
                }
            ]
        },
        {"from": [{"podSelector": {"matchExpressions": [{"key": "-", "operator": "Exists"}]}}]},
    ],
)
def test_parser_and_schema_refuse_malformed_rules(rule: dict[str, Any]) -> None:
    spec = {"podSelector": {}, "ingress": [rule]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spec, spec_schema("RDMANetworkPolicy"))
    with pytest.raises(PolicyError):
        manifests.policy_of("ns", "p", spec)


def test_enum_values_match_the_parser() -> None:
    assert {v.value for v in policy_models.VerbName} == set(verbs.NAMES)
    assert {v.value for v in policy_models.Level} == {v.value for v in objects.Level}
    assert {v.value for v in network_models.Membership} < {v.value for v in objects.Level}


def rules_of(node: Any) -> list[str]:
    """Return every CEL rule of a schema."""
    if isinstance(node, dict):
        own = [one["rule"] for one in node.get("x-kubernetes-validations", ())]
        return own + [rule for child in node.values() for rule in rules_of(child)]
    return []


def test_cel_rules_cover_what_the_schema_cannot() -> None:
    """A test on a cluster verifies that the API server enforces the rules (tests/e2e)."""
    found = rules_of(spec_schema("RDMANetworkPolicy"))
    for words in ("self.ipBlock", "self.endServiceID >= self.serviceID", "self.endQPN >= self.qpn"):
        assert any(words in rule for rule in found), words


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("", ("P_Keys are always checked", "at least one of them must be a full member")),
        ("podSelector", ("Rules are added up", "they have no order, and none denies")),
        ("policyTypes", ("egress of A and ingress of B", "responses and acknowledgements")),
        ("ingress", ("gets no response", "EACCES", "RDMA-CM's request is rejected")),
        ("ingress.verbs", ("remote access error", "at once")),
        ("egress.verbs", ("remote access error", "at once")),
        ("ingress.from.partition", ("NetworkPolicy has no such field",)),
        ("ingress.from.ipBlock", ("outside of the cluster",)),
        ("ingress.from", ("host's network have no HCA",)),
        (
            "ingress.ports.serviceID",
            ("that was not made through RDMA-CM has none and does not match",),
        ),
        ("ingress.memory", ("Memory that the peers' remote keys give access to",)),
        ("ingress.limits", ("the lowest limit applies", "not added up")),
        ("egress.limits", ("the lowest limit applies", "not added up")),
        ("enforcement", ("is ended, unlike with NetworkPolicy", "counted")),
    ],
)
def test_each_field_documents_its_difference_from_networkpolicy(
    field: str, words: tuple[str, ...]
) -> None:
    """`kubectl explain rdmanetworkpolicy.spec.FIELD` prints the field's description, and its
    items'.
    """
    schema = spec_schema("RDMANetworkPolicy")
    reported = schema["description"]
    for name in field.split(".") if field else ():
        schema = schema.get("items", schema)["properties"][name]
        reported = (
            f"{schema.get('description', '')} {schema.get('items', {}).get('description', '')}"
        )
    assert not [word for word in words if word not in " ".join(reported.split())], reported


def test_columns_show_the_state_of_a_policy() -> None:
    version = definition("RDMANetworkPolicy")["spec"]["versions"][0]
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Accepted", "Programmed", "Selected Pods", "Nodes", "Reason", "Age"]
    assert definition("RDMANetworkPolicy")["spec"]["scope"] == "Namespaced"
    assert definition("RDMANetwork")["spec"]["scope"] == "Cluster"
