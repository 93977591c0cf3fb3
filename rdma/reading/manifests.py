"""Read pods, namespaces, networks and policies in the form that the Kubernetes API returns.

All components use these readers. The schemas of pods and namespaces belong to Kubernetes, so
unknown fields in them are ignored. The ``spec`` of networks and policies is this project's own,
so an unknown field in it is an error.
"""

from contextlib import suppress
from typing import Final

from rdma import addresses
from rdma.errors import PolicyError
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading.fields import NAME, Fields
from rdma.reading.network_fields import (
    ALL_PODS,
    closed_partition,
    read_closed_partitions,
    read_mtu,
    read_partitions,
    read_qos_classes,
)
from rdma.reading.policy_fields import read_rules
from rdma.reading.selector_fields import read_selector
from rdma.selectors import EVERYTHING, Selector
from rdma.tables import Direction

GROUP: Final = "rdma.tessera.dev"
HCA_RESOURCE: Final = f"{GROUP}/hca"
_DIRECTIONS: Final = {"Ingress": Direction.INGRESS, "Egress": Direction.EGRESS}
_ENDED: Final = ("Succeeded", "Failed")


def policy(document: object) -> Policy:
    """Return the RDMANetworkPolicy that a decoded Kubernetes object describes. Raises
    PolicyError.
    """
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    return policy_of(
        metadata.text("namespace", NAME) or "default",
        metadata.required_text("name", NAME),
        whole.take("spec"),
        metadata.text("creationTimestamp") or "",
    )


def policy_of(namespace: str, name: str, spec: object, created: str = "") -> Policy:
    """Return the RDMANetworkPolicy with this name and spec.

    If the spec states no directions, NetworkPolicy's defaults apply: ingress, and also egress if
    the spec has egress rules.

    Raises:
        PolicyError: the spec cannot be enforced.
    """
    fields = Fields(spec, "spec")
    selector = read_selector(fields, "podSelector")
    if selector is None:
        fields.fail("podSelector", "missing", "give it; {} is all pods of the namespace")
    named = [
        _DIRECTIONS[fields.checked_choice(f"policyTypes[{index}]", value, tuple(_DIRECTIONS))]
        for index, value in enumerate(fields.sequence("policyTypes"))
    ]
    ingress = read_rules(fields, Direction.INGRESS)
    egress = read_rules(fields, Direction.EGRESS)
    enforcement = fields.choice("enforcement", ("Enforce", "Audit"), "Enforce")
    fields.check_all_read()
    types = named or [Direction.INGRESS, *([Direction.EGRESS] if egress else [])]
    audit = enforcement == "Audit"
    return Policy(namespace, name, selector, frozenset(types), ingress, egress, audit, created)


def closed_policy(namespace: str, name: str, spec: object, created: str = "") -> Policy:
    """Return a substitute for an unreadable policy. The substitute selects the same pods, and
    allows them no traffic in either direction.

    If the policy's selector is also unreadable, the substitute selects all pods of its
    namespace.
    """
    selector: Selector | None = None
    with suppress(PolicyError):
        selector = read_selector(Fields(spec, "spec"), "podSelector")
    return Policy(namespace, name, selector or EVERYTHING, frozenset(Direction), created=created)


def network(document: object) -> Network:
    """Return the RDMANetwork that a decoded Kubernetes object describes. Raises PolicyError."""
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    created = metadata.text("creationTimestamp") or ""
    return network_of(metadata.required_text("name", NAME), whole.take("spec"), created)


def network_of(name: str, spec: object, created: str = "") -> Network:
    """Return the RDMANetwork with this name and spec. Raises PolicyError."""
    fields = Fields(spec, "spec")
    mtu = read_mtu(fields)
    partitions = read_partitions(fields)
    classes = read_qos_classes(fields, name)
    fields.check_all_read()
    return Network(name, partitions, classes, mtu, created)


def closed_network(name: str, spec: object, created: str = "") -> Network:
    """Return a substitute for a network that was enforced before its spec became unreadable.

    If all of the network's partitions are readable, the substitute keeps them. Otherwise the
    substitute connects no pods: none of the network's pods is in any of its named partitions.
    The network's pods are those that its selectors select, or all pods if a selector is
    unreadable.
    """
    with suppress(PolicyError):
        return Network(name, read_partitions(Fields(spec, "spec")), created=created)
    with suppress(PolicyError):
        return Network(name, read_closed_partitions(Fields(spec, "spec")), created=created)
    return Network(name, (closed_partition(ALL_PODS),), created=created)


def namespace(document: object) -> NamespaceFacts:
    """Return the name and the labels of the namespace that a decoded Kubernetes object describes.
    Raises PolicyError.
    """
    metadata = Fields(document, "").inner("metadata") or Fields({}, "metadata")
    return NamespaceFacts(metadata.required_text("name", NAME), metadata.labels("labels"))


def pod(document: object) -> PodFacts:
    """Return the labels, the addresses and other properties of the pod that a decoded Kubernetes
    object describes.

    A pod that has ended has no address and no HCA. A pod that is being deleted keeps both until
    it has ended, because its programs still run.

    Raises:
        PolicyError: the document is not a pod.
    """
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    spec = whole.inner("spec") or Fields({}, "spec")
    status = whole.inner("status") or Fields({}, "status")
    namespace_name = metadata.text("namespace", NAME) or "default"
    name = metadata.required_text("name", NAME)
    ended = status.text("phase") in _ENDED
    on_host = spec.take("hostNetwork") is True
    return PodFacts(
        uid=metadata.text("uid") or f"{namespace_name}/{name}",
        namespace=namespace_name,
        name=name,
        node=spec.text("nodeName") or "",
        labels=metadata.labels("labels"),
        addresses=() if ended else _addresses(status),
        host_network=on_host,
        holds_hca=not ended and not on_host and _requests_hca(spec),
    )


def _requests_hca(spec: Fields) -> bool:
    for containers in ("containers", "initContainers"):
        for container in spec.items(containers):
            resources = container.inner("resources")
            limits = resources.inner("limits") if resources else None
            if limits and str(limits.take(HCA_RESOURCE) or "0") != "0":
                return True
    return False


def _addresses(status: Fields) -> tuple[str, ...]:
    texts = [item.text("ip") for item in status.items("podIPs")] or [status.text("podIP")]
    canonical_addresses = []
    for text in texts:
        if text:
            try:
                canonical_addresses.append(addresses.canonical(text))
            except ValueError as error:
                raise PolicyError(status.at("podIP"), str(error), "wait for the kubelet") from error
    return tuple(dict.fromkeys(canonical_addresses))
