"""An oracle for RDMA policy: nested loops over manifests, with whose results compiler and evaluator
must agree.

Written from the specification of NetworkPolicy's API and docs/rdma.md. It imports nothing of
``rdma``: no identities, sets or numbers; it evaluates each policy for each pod, every time.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

VERBS = (
    "Send",
    "Write",
    "WriteImm",
    "Read",
    "AtomicCAS",
    "AtomicFAA",
    "Invalidate",
    "UD",
    "CM",
)
ALTERING = {"Write", "WriteImm", "AtomicCAS", "AtomicFAA"}
DEFAULT_PARTITION = 0x7FFF
Dict = dict[str, Any]


@dataclass
class World:
    """Manifests, as users write them; ``keys`` are the P_Keys of partitions that are not refused."""

    pods: list[Dict] = field(default_factory=list)
    namespaces: list[Dict] = field(default_factory=list)
    networks: list[Dict] = field(default_factory=list)
    policies: list[Dict] = field(default_factory=list)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass
class Try:
    """A flow to evaluate."""

    source: str
    destination: str
    pkey: int = 0xFFFF
    service: int | None = None
    space: str | None = None
    qpn: int | None = None
    traffic_class: int = 0


def allowed_verbs(world: World, attempt: Try) -> tuple[set[str], set[str]]:
    """Return the allowed verbs, and those of them that policies in audit mode would have denied."""
    source, destination = owner(world, attempt.source), owner(world, attempt.destination)
    if source == "contested" or destination == "contested":
        return set(), set()
    if not partition_shared(world, attempt, source, destination):
        return set(), set()
    if isinstance(source, dict) and source is destination:
        return set(VERBS), set()
    out, out_strict = one_side(world, source, "egress", attempt.destination, destination, attempt)
    into, in_strict = one_side(world, destination, "ingress", attempt.source, source, attempt)
    passing = out & into
    return passing, passing - (out_strict & in_strict)


KINDS = ({"Write", "WriteImm"}, {"Read"}, {"AtomicCAS", "AtomicFAA"})


def reachable_memory(world: World, attempt: Try) -> dict[str, str]:
    """Return the allowed verbs, under memory rules too, and the memory that each one may access.

    The memory is "all", "device", or "" for verbs that need no key. Engines check kinds of
    access: if one verb of a kind may access all memory, another of that kind with GPU memory
    alone is denied.
    """
    passing, _ = allowed_verbs(world, attempt)
    source, destination = owner(world, attempt.source), owner(world, attempt.destination)
    memory: dict[str, set[str]] = {verb: set() for verb in VERBS}
    isolated = False
    for policy in world.policies if isinstance(destination, dict) else []:
        spec = policy["spec"]
        if source is destination or spec.get("enforcement") == "Audit":
            continue
        if "Ingress" not in (spec.get("policyTypes") or ["Ingress"]):
            continue
        if policy["metadata"]["namespace"] != destination["metadata"]["namespace"]:
            continue
        if not selects(spec["podSelector"], destination["metadata"].get("labels", {})):
            continue
        isolated = True
        for rule in spec.get("ingress") or []:
            said = rule.get("memory") or {}
            regions = said.get("regions") or []
            for verb in rule_grants(
                world, policy, rule, "ingress", attempt.source, source, attempt
            ):
                if said.get("scope") != "Named":
                    memory[verb].add("all")
                elif "device" in regions:
                    memory[verb].add("device")
    found = {}
    for verb in passing:
        kind = next((kind for kind in KINDS if verb in kind), None)
        if kind is None:
            found[verb] = ""
        elif not isolated or "all" in memory[verb]:
            found[verb] = "all"
        elif memory[verb] and not any("all" in memory[one] for one in kind & passing):
            found[verb] = "device"
    return found


def qos_class(world: World, attempt: Try) -> str | None:
    """Return the name of the QoS class of the source's packets, or None."""
    classes: dict[str, Dict] = {}
    for network in sorted(world.networks, key=lambda one: one["metadata"]["name"]):
        for said in network["spec"].get("qosClasses", []):
            classes.setdefault(said["name"], said)
    source, destination = owner(world, attempt.source), owner(world, attempt.destination)
    found: list[tuple[str, int, str]] = []
    for policy in world.policies:
        spec, space = policy["spec"], policy["metadata"]["namespace"]
        if not isinstance(source, dict) or source is destination:
            continue
        if spec.get("enforcement") == "Audit" or space != source["metadata"]["namespace"]:
            continue
        if not selects(spec["podSelector"], source["metadata"].get("labels", {})):
            continue
        if "Egress" not in (spec.get("policyTypes") or ["Ingress", "Egress"]):
            continue
        for index, rule in enumerate(spec.get("egress") or []):
            wanted = rule.get("qosClassName")
            peer = attempt.destination, destination, attempt
            if wanted in classes and rule_grants(world, policy, rule, "egress", *peer):
                found.append((f"{space}/{policy['metadata']['name']}", index, wanted))
    if found:
        return min(found)[2]
    marked = attempt.traffic_class // 4
    return min((name for name, said in classes.items() if marked and said.get("dscp") == marked),
               default=None)  # fmt: skip


def owner(world: World, address: str) -> Dict | str | None:
    """Return the pod with an address: None if it is outside, "contested" if two pods claim it."""
    claims = []
    for pod in world.pods:
        if pod["spec"].get("hostNetwork") or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        limits = pod["spec"]["containers"][0].get("resources", {}).get("limits", {})
        if not limits.get("rdma.tessera.dev/hca"):
            continue
        if address in [entry["ip"] for entry in pod["status"].get("podIPs", [])]:
            claims.append(pod)
    if len(claims) > 1:
        return "contested"
    if claims and namespace_labels(world, claims[0]) is None:
        return "contested"  # of an unknown namespace: denied as well
    return claims[0] if claims else None


def namespace_labels(world: World, pod: Dict) -> Dict | None:
    for namespace in world.namespaces:
        name = namespace["metadata"]["name"]
        if name == pod["metadata"]["namespace"]:
            labels = dict(namespace["metadata"].get("labels", {}))
            labels["kubernetes.io/metadata.name"] = name
            return labels
    return None


def selects(selector: Dict, labels: Dict) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if key not in labels or labels[key] != value:
            return False
    for expression in selector.get("matchExpressions") or []:
        key, operator = expression["key"], expression["operator"]
        if operator == "In" and (key not in labels or labels[key] not in expression["values"]):
            return False
        if operator == "NotIn" and key in labels and labels[key] in expression["values"]:
            return False
        if operator == "Exists" and key not in labels:
            return False
        if operator == "DoesNotExist" and key in labels:
            return False
    return True


def one_side(
    world: World,
    pod: Dict | str | None,
    direction: str,
    peer_address: str,
    peer: Dict | str | None,
    attempt: Try,
) -> tuple[set[str], set[str]]:
    """Return the verbs that a pod's policies of one direction allow, and those that they would
    allow with audited policies enforced.
    """
    if not isinstance(pod, dict):
        return set(VERBS), set(VERBS)
    enforced = audited = False
    granted: set[str] = set()
    also: set[str] = set()
    for policy in world.policies:
        spec = policy["spec"]
        if policy["metadata"]["namespace"] != pod["metadata"]["namespace"]:
            continue
        if not selects(spec["podSelector"], pod["metadata"].get("labels", {})):
            continue
        types = spec.get("policyTypes") or (
            ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        )
        if direction.capitalize() not in types:
            continue
        audit = spec.get("enforcement") == "Audit"
        audited, enforced = audited or audit, enforced or not audit
        for rule in spec.get(direction) or []:
            verbs = rule_grants(world, policy, rule, direction, peer_address, peer, attempt)
            if audit:
                also |= verbs
            else:
                granted |= verbs
    passing = granted if enforced else set(VERBS)
    return passing, (granted | also) if audited else passing


def rule_grants(
    world: World,
    policy: Dict,
    rule: Dict,
    direction: str,
    peer_address: str,
    peer: Dict | str | None,
    attempt: Try,
) -> set[str]:
    peers = rule.get("from" if direction == "ingress" else "to") or []
    if peers and not any(is_peer(world, policy, item, peer_address, peer) for item in peers):
        return set()
    ports = rule.get("ports") or []
    if ports and not any(is_port(port, attempt) for port in ports):
        return set()
    verbs = set(rule.get("verbs") or VERBS)
    if (rule.get("memory") or {}).get("maxAccess") == "ReadOnly":
        verbs -= ALTERING
    return verbs


def is_peer(world: World, policy: Dict, item: Dict, address: str, peer: Dict | str | None) -> bool:
    if "ipBlock" in item:
        block = item["ipBlock"]
        if ip_address(address) not in ip_network(block["cidr"]):
            return False
        return all(ip_address(address) not in ip_network(gap) for gap in block.get("except", []))
    if not isinstance(peer, dict):
        return False
    if "namespaceSelector" in item:
        labels = namespace_labels(world, peer)
        if labels is None or not selects(item["namespaceSelector"], labels):
            return False
    own = policy["metadata"]["namespace"] == peer["metadata"]["namespace"]
    if "podSelector" in item and "namespaceSelector" not in item and not own:
        return False
    if "podSelector" in item and not selects(
        item["podSelector"], peer["metadata"].get("labels", {})
    ):
        return False
    if "partition" in item:
        wanted = item["partition"]
        for network in world.networks:
            for partition in network["spec"].get("partitions", []):
                if partition["name"] != wanted["name"]:
                    continue
                if wanted.get("network") not in (None, network["metadata"]["name"]):
                    continue
                if (network["metadata"]["name"], partition["name"]) not in world.keys:
                    continue
                level = level_of(world, partition, peer)
                if level is not None and wanted.get("membership", "Any") in ("Any", level):
                    return True
        return False
    return True


def is_port(port: Dict, attempt: Try) -> bool:
    if "serviceID" in port:
        last = port.get("endServiceID", port["serviceID"])
        if attempt.service is None or not port["serviceID"] <= attempt.service <= last:
            return False
        if attempt.space != port.get("space", "TCP"):
            return False
    if "qpn" in port:
        last = port.get("endQPN", port["qpn"])
        if attempt.qpn is None or not port["qpn"] <= attempt.qpn <= last:
            return False
    if "trafficClass" in port and attempt.traffic_class != port["trafficClass"]:
        return False
    return not ("dscp" in port and attempt.traffic_class // 4 != port["dscp"])


def level_of(world: World, partition: Dict, pod: Dict) -> str | None:
    """Return a pod's membership in a partition: Full, Limited or None."""
    found = None
    for member in partition.get("members", []):
        labels = namespace_labels(world, pod)
        if "namespaceSelector" in member and (
            labels is None or not selects(member["namespaceSelector"], labels)
        ):
            continue
        if "podSelector" in member and not selects(
            member["podSelector"], pod["metadata"].get("labels", {})
        ):
            continue
        level = member.get("membership", "Full")
        if found is None or level == "Full":
            found = level
    return found


def levels(world: World, pod: Dict | str | None, pkey: int) -> dict[int, str]:
    """Return the P_Keys of a peer, and its membership level for each."""
    if not isinstance(pod, dict):
        return {DEFAULT_PARTITION: "Full" if pkey >= 0x8000 else "Limited"}
    held: dict[int, str] = {}
    selected = False
    for network in world.networks:
        for partition in network["spec"].get("partitions", []):
            level = level_of(world, partition, pod)
            if level is None:
                continue
            selected = True
            place = (network["metadata"]["name"], partition["name"])
            if place not in world.keys:
                continue  # refused: it selects the pod but grants nothing
            assert partition.get("pkey") in (None, world.keys[place])
            held[world.keys[place]] = level
    return held if selected else {DEFAULT_PARTITION: "Full"}


def partition_shared(
    world: World, attempt: Try, source: Dict | str | None, destination: Dict | str | None
) -> bool:
    base = attempt.pkey % 0x8000
    one = levels(world, source, attempt.pkey).get(base)
    other = levels(world, destination, attempt.pkey).get(base)
    return one is not None and other is not None and "Full" in (one, other)
