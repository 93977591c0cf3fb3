"""Reads pods, namespaces, networks and policies as the API writes them: the one reader of each.

Pods and namespaces are the cluster's, so fields that are not asked for are passed over; of networks
and policies the ``spec`` is this project's, where an unknown field is an error.
"""

from contextlib import suppress
from typing import Final

from rdma import addresses
from rdma.errors import PolicyError
from rdma.objects import NamespaceFacts, Network, PodFacts, Policy
from rdma.reading.fields import NAME, Fields
from rdma.reading.network_fields import (
    EVERYBODY,
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
POLICY_KIND: Final = "RDMANetworkPolicy"
NETWORK_KIND: Final = "RDMANetwork"
_DIRECTIONS: Final = {"Ingress": Direction.INGRESS, "Egress": Direction.EGRESS}
_ENDED: Final = ("Succeeded", "Failed")


def policy(document: object) -> Policy:
    """Return the policy that an object's dict says. Raises PolicyError."""
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    return policy_of(
        metadata.text("namespace", NAME) or "default",
        metadata.required("name", NAME),
        whole.take("spec"),
        metadata.text("creationTimestamp") or "",
    )


def policy_of(namespace: str, name: str, spec: object, created: str = "") -> Policy:
    """Return the policy that a spec says; directions as NetworkPolicy has them by default.

    Raises:
        PolicyError: it says nothing that can be enforced.
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
    fields.done()
    types = named or [Direction.INGRESS, *([Direction.EGRESS] if egress else [])]
    audit = enforcement == "Audit"
    return Policy(namespace, name, selector, frozenset(types), ingress, egress, audit, created)


def closed(namespace: str, name: str, spec: object, created: str = "") -> Policy:
    """Return what stands for a policy that cannot be read: nothing passes whom it selects.

    Whom it selects is all pods of its namespace where even that cannot be read.
    """
    selector: Selector | None = None
    with suppress(PolicyError):
        selector = read_selector(Fields(spec, "spec"), "podSelector")
    return Policy(namespace, name, selector or EVERYTHING, frozenset(Direction), created=created)


def network(document: object) -> Network:
    """Return the network that an object's dict says. Raises PolicyError."""
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    created = metadata.text("creationTimestamp") or ""
    return network_of(metadata.required("name", NAME), whole.take("spec"), created)


def network_of(name: str, spec: object, created: str = "") -> Network:
    """Return the network that a spec says. Raises PolicyError."""
    fields = Fields(spec, "spec")
    mtu = read_mtu(fields)
    partitions = read_partitions(fields)
    classes = read_qos_classes(fields, name)
    fields.done()
    return Network(name, partitions, classes, mtu, created)


def closed_network(name: str, spec: object, created: str = "") -> Network:
    """Return what stands for a network that cannot be read, and was in force: it opens nobody.

    Partitions that can be read, all of them, stay. Else whom they select is in no partition by
    them; who that is stays what it was where it can be read, and else is everybody.
    """
    with suppress(PolicyError):
        return Network(name, read_partitions(Fields(spec, "spec")), created=created)
    with suppress(PolicyError):
        return Network(name, read_closed_partitions(Fields(spec, "spec")), created=created)
    return Network(name, (closed_partition(EVERYBODY),), created=created)


def namespace(document: object) -> NamespaceFacts:
    """Return what a namespace says. Raises PolicyError."""
    metadata = Fields(document, "").inner("metadata") or Fields({}, "metadata")
    return NamespaceFacts(metadata.required("name", NAME), metadata.labels("labels"))


def pod(document: object) -> PodFacts:
    """Return what a pod says. One that has ended has no address and no HCA.

    One that is being deleted keeps both until then: its programs still run.

    Raises:
        PolicyError: it is no pod.
    """
    whole = Fields(document, "")
    metadata = whole.inner("metadata") or Fields({}, "metadata")
    spec = whole.inner("spec") or Fields({}, "spec")
    status = whole.inner("status") or Fields({}, "status")
    namespace_name = metadata.text("namespace", NAME) or "default"
    name = metadata.required("name", NAME)
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
        holds_hca=not ended and not on_host and _asks_for_hca(spec),
    )


def _asks_for_hca(spec: Fields) -> bool:
    for containers in ("containers", "initContainers"):
        for container in spec.items(containers):
            resources = container.inner("resources")
            limits = resources.inner("limits") if resources else None
            if limits and str(limits.take(HCA_RESOURCE) or "0") != "0":
                return True
    return False


def _addresses(status: Fields) -> tuple[str, ...]:
    texts = [item.text("ip") for item in status.items("podIPs")] or [status.text("podIP")]
    found = []
    for text in texts:
        if text:
            try:
                found.append(addresses.canonical(text))
            except ValueError as error:
                raise PolicyError(status.at("podIP"), str(error), "wait for the kubelet") from error
    return tuple(dict.fromkeys(found))
