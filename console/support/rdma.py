"""The RDMA objects of a support bundle, reduced to the fields that it may have.

Policies of other namespaces are their tenants' objects: of these the bundle has the shape of the
rules and the state of enforcement, under a number in place of the name. Selectors name tenants'
pods even in the cluster's own networks, so only their sizes are kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from console.support import pruning
from console.support.installation import conditions, metadata, name_of
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.kube.port import Document
from rdma.kinds import NETWORK_KIND, POLICY_KIND

_RULE: Final = ("verbs", "limits")
_MEMORY: Final = ("maxAccess", "scope")
_CONDITION: Final = ("type", "status", "reason", "lastTransitionTime", "observedGeneration")
# Conditions and events with these reasons name nodes; others can quote a policy's spec.
ABOUT_NODES: Final = frozenset(
    (
        Reason.PROGRAMMED.value,
        Reason.PENDING.value,
        Reason.NODE_SILENT.value,
        Reason.HCA_UNAVAILABLE.value,
        Reason.NO_NODES.value,
        Reason.ENFORCED.value,
        Reason.ENGINE_ONLY.value,
        Reason.ACCEPTED.value,
    )
)


def number_policies(policies: Iterable[Document], own: str) -> dict[tuple[str, str], str]:
    """Return the names that policies have in a bundle, by namespace and name."""
    keys = sorted(map(key_of, policies))
    return {
        key: key[1] if key[0] == own else f"policy-{number}" for number, key in enumerate(keys, 1)
    }


def key_of(policy: Document) -> tuple[str, str]:
    """Return the namespace and the name of a policy."""
    return str(metadata(policy).get("namespace") or ""), name_of(policy)


def prune_policy(policy: Document, name: str) -> Document:
    """Return the shape of a policy's rules, and where it is enforced."""
    spec = _mapping(policy.get("spec"))
    return {
        "kind": POLICY_KIND,
        "metadata": {**pruning.prune_metadata(policy), "name": name, "labels": {}},
        "spec": {
            **_chosen(spec, ("policyTypes", "enforcement")),
            "podSelector": _size(spec.get("podSelector")),
            "ingress": [_rule(rule, "from") for rule in _list(spec.get("ingress"))],
            "egress": [_rule(rule, "to") for rule in _list(spec.get("egress"))],
        },
        "status": _status(policy, ("observedGeneration", "selectedPods", "nodes", "nodesReady")),
    }


def prune_network(network: Document) -> Document:
    """Return a network's partitions and classes, without the labels that select members."""
    spec = _mapping(network.get("spec"))
    return {
        "kind": NETWORK_KIND,
        "metadata": pruning.prune_metadata(network),
        "spec": {
            **_chosen(spec, ("mtu", "qosClasses")),
            "partitions": [
                {
                    **_chosen(partition, ("name", "pkey")),
                    "members": [
                        {
                            **_chosen(member, ("membership",)),
                            "namespaceSelector": _size(member.get("namespaceSelector")),
                            "podSelector": _size(member.get("podSelector")),
                        }
                        for member in map(_mapping, _list(partition.get("members")))
                    ],
                }
                for partition in map(_mapping, _list(spec.get("partitions")))
            ],
        },
        "status": _mapping(network.get("status")),
    }


def prune_tables(tables: Document) -> Document:
    """Return the state of a node's HCA; its tables, which name all pods, only by their size."""
    spec = _mapping(tables.get("spec"))
    return {
        "kind": "RDMANodeTables",
        "metadata": pruning.prune_metadata(tables),
        "spec": {
            **_chosen(spec, ("generation", "encoding")),
            "tables": f"{len(str(spec.get('tables') or ''))} characters not shown",
        },
        "status": _mapping(tables.get("status")),
    }


def _rule(rule: Any, peers: str) -> Document:
    of = _mapping(rule)
    rule_shape = _chosen(of, _RULE)
    for field in (peers, "ports"):
        if field in of:
            rule_shape[field] = f"{len(_list(of[field]))} not shown"
    if "memory" in of:
        memory = _mapping(of["memory"])
        regions = f"{len(_list(memory.get('regions')))} not shown"
        rule_shape["memory"] = {**_chosen(memory, _MEMORY), "regions": regions}
    return rule_shape


def _status(policy: Document, fields: Sequence[str]) -> Document:
    status = _chosen(_mapping(policy.get("status")), fields)
    status["conditions"] = [
        {
            **_chosen(condition, _CONDITION),
            "message": condition.get("message", "")
            if condition.get("reason") in ABOUT_NODES
            else "not shown",
        }
        for condition in conditions(policy)
    ]
    return status


def _size(selector: Any) -> str | None:
    """Return how many labels a selector requires; None if there is no selector."""
    if selector is None:
        return None
    of = _mapping(selector)
    number = len(_mapping(of.get("matchLabels"))) + len(_list(of.get("matchExpressions")))
    return f"{number} labels not shown"


def _chosen(value: Mapping[str, Any], fields: Sequence[str]) -> Document:
    return {field: value[field] for field in fields if field in value}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()
