"""Compiles pods, namespaces, networks and policies to the tables of any node, step by step.

Objects are put in and taken out in any order; ``tables`` works off what that changed and no more.
What comes out is the same as if all objects had been put into a new compiler, up to the numbers of
identities and rules. A policy's peers are a set of identities, so the work grows with the
number of different pods, not with pods times policies.
"""

import gc
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rdma import excess
from rdma.bits import numbers
from rdma.errors import PolicyError
from rdma.excess import is_too_much
from rdma.objects import NAMESPACE_NAME_LABEL, NamespaceFacts, Network, PodFacts, Policy
from rdma.partitions import DEFAULT, Partitions
from rdma.pkeys import Place, in_order
from rdma.population import Change, Population
from rdma.tables import (
    MAX_POLICIES_OF_A_POD,
    NOBODY,
    Direction,
    Endpoint,
    Identity,
    Isolation,
    NodeTables,
    QosClass,
    Rule,
)
from rdma.terms import Matches, Term, Terms
from rdma.verbs import NONE

EMPTY_PLACE = Rule("", Direction.INGRESS, 0, NONE, 0)
_NOBODY = Identity(NOBODY, Isolation(), Isolation())


@dataclass(slots=True)
class _Compiled:
    """A policy with the sets that it asks for and the places of its rules."""

    policy: Policy
    subject: Matches
    rules: tuple[tuple[Direction, int, tuple[Matches, ...] | None], ...]
    places: tuple[int, ...]
    fresh: bool = True

    def matches(self) -> list[Matches]:
        """Return every set that it uses, as often as it does."""
        return [self.subject, *(one for _, _, peers in self.rules for one in peers or ())]


class Compiler:
    """All objects, and the tables that follow from them. Not safe for threads.

    ``given`` are P_Keys that partitions have had so far: network's and partition's name to key.
    """

    def __init__(self, given: Mapping[Place, int] | None = None) -> None:
        self.revision = 0
        """Counts changes of what tables say; no node's tables differ while it is the same."""
        self._population = Population()
        self._terms = Terms(self._population)
        self._partitions = Partitions(self._terms, given or {})
        self._namespaces: dict[str, dict[str, str]] = {}
        self._networks: dict[str, Network] = {}
        self._policies: dict[str, _Compiled] = {}
        self._in_namespace: dict[str, dict[str, _Compiled]] = defaultdict(dict)
        self._other_namespaces = False
        self._other_networks = False
        self._other_policies = False
        self._dirty = 0
        self._vacated: list[int] = []
        self._rules: list[Rule] = []
        self._identities: dict[int, Identity] = {NOBODY: _NOBODY}
        self._shared: tuple[tuple[Rule, ...], tuple[Identity, ...], tuple[Endpoint, ...]]
        self._shared = ((), (_NOBODY,), ())
        self._qos_classes: tuple[QosClass, ...] = ()
        self._pod_changes = False

    def upsert_pod(self, pod: PodFacts) -> None:
        """Add or replace a pod (by its uid)."""
        self._pod_changes |= self._population.put(pod)

    def delete_pod(self, uid: str) -> None:
        """Remove a pod, if it is there."""
        self._pod_changes |= self._population.remove(uid)

    def upsert_namespace(self, namespace: NamespaceFacts) -> None:
        """Add or replace a namespace; pods of an unknown one are denied everything."""
        labels = {**namespace.labels, NAMESPACE_NAME_LABEL: namespace.name}
        if self._namespaces.get(namespace.name) != labels:
            self._namespaces[namespace.name] = labels
            self._other_namespaces = True

    def delete_namespace(self, name: str) -> None:
        """Remove a namespace, if it is there."""
        if self._namespaces.pop(name, None) is not None:
            self._other_namespaces = True

    def upsert_network(self, network: Network) -> None:
        """Add or replace an RDMANetwork."""
        if self._networks.get(network.name) != network:
            self._networks[network.name] = network
            self._other_networks = True

    def delete_network(self, name: str) -> None:
        """Remove an RDMANetwork, if it is there."""
        if self._networks.pop(name, None) is not None:
            self._other_networks = True

    def upsert_policy(self, policy: Policy) -> None:
        """Add or replace an RDMANetworkPolicy."""
        before = self._policies.get(policy.key)
        if before is not None and before.policy == policy:
            return
        subject = self._terms.acquire(Term(policy.namespace, None, policy.pod_selector))
        rules = []
        for direction in Direction:
            for index, rule in enumerate(policy.rules(direction)):
                terms = [
                    Term.of_peer(peer, policy.namespace) for peer in rule.peers if not peer.block
                ]
                peers = tuple(map(self._terms.acquire, terms)) if rule.peers else None
                rules.append((direction, index, peers))
        self.delete_policy(policy.key)  # afterwards: what both ask for is not worked out anew
        places = tuple(self._place() for _ in rules)
        compiled = _Compiled(policy, subject, tuple(rules), places)
        self._policies[policy.key] = compiled
        self._in_namespace[policy.namespace][policy.key] = compiled
        self._other_policies = True

    def delete_policy(self, key: str) -> None:
        """Remove an RDMANetworkPolicy ("ns/name"), if it is there."""
        compiled = self._policies.pop(key, None)
        if compiled is None:
            return
        del self._in_namespace[compiled.policy.namespace][key]
        self._dirty |= compiled.subject.bits
        for place in compiled.places:
            self._rules[place] = EMPTY_PLACE
        self._vacated += compiled.places
        self._terms.release(compiled.matches())
        self._other_policies = True

    def tables(self, node: str, generation: int = 0) -> NodeTables:
        """Return what a node has to enforce, of everything that was put in."""
        self._settle()
        rules, identities, endpoints = self._shared
        return NodeTables(
            generation,
            node,
            rules,
            identities,
            endpoints,
            self._population.pods_of(node),
            self._qos_classes,
        )

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have pods with an HCA."""
        self._settle()
        return self._population.nodes()

    def selected_pods(self, key: str) -> tuple[str, ...]:
        """Return the pods ("ns/name") that a policy selects; none if it is not there."""
        self._settle()
        compiled = self._policies.get(key)
        return self._population.names_of(compiled.subject.bits) if compiled is not None else ()

    def selected_count(self, key: str) -> int:
        """Return how many pods a policy selects; 0 if it is not there."""
        self._settle()
        compiled = self._policies.get(key)
        return self._population.count_of(compiled.subject.bits) if compiled is not None else 0

    @property
    def pkeys(self) -> Mapping[Place, int]:
        """P_Keys by network and partition, to be given to the next compiler."""
        self._settle()
        return dict(self._partitions.keys)

    def problems(self) -> dict[tuple[str, str], tuple[PolicyError, ...]]:
        """Return what cannot be, by kind and key of its object: all of it denies more, not less."""
        self._settle()
        found: dict[tuple[str, str], list[PolicyError]] = defaultdict(list)
        for (network, _), error in self._partitions.refused.items():
            found["RDMANetwork", network].append(error)
        for one in in_order(self._networks.values()):
            for index, qos_class in enumerate(one.qos_classes):
                holder = self._partitions.qos_classes[qos_class.name].network
                if holder != one.name:
                    field, problem = f"spec.qosClasses[{index}].name", f"is {holder}'s, too"
                    found["RDMANetwork", one.name].append(
                        PolicyError(field, problem, "choose another name")
                    )
        for key, compiled in self._policies.items():
            found["RDMANetworkPolicy", key] += self._unknown_names(compiled.policy)
        for namespace in self._in_namespace.values():
            for key, error in excess.problems(list(namespace.values())):
                found["RDMANetworkPolicy", key].append(error)
        return {key: tuple(errors) for key, errors in found.items() if errors}

    def _unknown_names(self, policy: Policy) -> list[PolicyError]:
        errors = []
        for direction in Direction:
            for index, rule in enumerate(policy.rules(direction)):
                at = f"spec.{direction}[{index}]"
                side = "from" if direction is Direction.INGRESS else "to"
                for place, peer in enumerate(rule.peers):
                    if peer.partition is not None and not self._partitions.has(peer.partition):
                        field = f"{at}.{side}[{place}].partition"
                        problem = f"no RDMANetwork has {peer.partition.name!r}"
                        errors.append(PolicyError(field, problem, "make it, or mend the name"))
                if rule.qos_class and rule.qos_class not in self._partitions.qos_classes:
                    problem = f"no RDMANetwork has {rule.qos_class!r}"
                    errors.append(
                        PolicyError(f"{at}.qosClassName", problem, "make it, or mend the name")
                    )
        return errors

    def _place(self) -> int:
        if self._vacated:
            return self._vacated.pop()
        self._rules.append(EMPTY_PLACE)
        return len(self._rules) - 1

    def _settle(self) -> None:
        """Work off what has been put in and taken out since the last time."""
        noted = (
            self._pod_changes,
            self._other_namespaces,
            self._other_networks,
            self._other_policies,
        )
        if not any(noted):
            return
        collects = gc.isenabled()
        gc.disable()  # it would go through all that is kept, again and again, and find no garbage
        try:
            self._work_off(any(noted[2:]))
        finally:
            if collects:
                gc.enable()
        self._pod_changes = self._other_namespaces = False
        self._other_networks = self._other_policies = False

    def _work_off(self, other_rules: bool) -> None:
        self._terms.begin()
        if self._other_networks:
            self._partitions.place(self._networks.values())
            classes = self._partitions.qos_classes
            self._qos_classes = tuple(classes[name] for name in sorted(classes))
        change = self._population.settle(self._terms.keys, self._namespaces.keys())
        touched, other = change.namespaces, self._other_namespaces
        self._terms.settle(touched, self._namespaces, other, None)
        members = self._partitions.settle()
        self._terms.settle(touched, self._namespaces, other, self._partitions)
        other_rules |= self._settle_rules()
        dirty = -1 if self._other_networks else self._dirty | change.born | members
        other_identities = self._settle_identities(dirty, change)
        self._dirty = 0
        self._share(other_rules, other_identities, change.endpoints)

    def _share(self, rules: bool, identities: bool, endpoints: bool) -> None:
        old = self._shared
        self._shared = (
            tuple(self._rules) if rules else old[0],
            tuple(self._identities.values()) if identities else old[1],
            tuple(self._population.endpoints.values()) if endpoints else old[2],
        )
        self.revision += 1

    def _settle_rules(self) -> bool:
        """Make rules anew whose policy is new or whose peers differ; note who is selected anew."""
        other = False
        for compiled in self._policies.values():
            fresh, compiled.fresh = compiled.fresh, False
            self._dirty |= compiled.subject.bits if fresh else compiled.subject.moved
            for at, (direction, index, peers) in enumerate(compiled.rules):
                if fresh or (peers and any(matches.moved for matches in peers)):
                    place = compiled.places[at]
                    self._rules[place] = _rule(compiled.policy, direction, index, peers)
                    other = True
        return other

    def _settle_identities(self, dirty: int, change: Change) -> bool:
        """Say anew what is known of identities: who isolates them, and where they are members."""
        for number in numbers(change.gone):
            self._identities.pop(number, None)
        namespace_of = self._population.namespace_of
        chosen = range(len(namespace_of)) if dirty < 0 else numbers(dirty)
        todo = [number for number in chosen if namespace_of[number]]
        if not todo:
            return bool(change.gone)
        alive = dirty if dirty >= 0 else (1 << max(todo) + 1) - 1
        selecting: dict[int, tuple[_Compiled, ...]] = {}
        for namespace in {namespace_of[number] for number in todo}:
            for key in sorted(self._in_namespace.get(namespace, ())):
                compiled = self._in_namespace[namespace][key]
                for number in numbers(compiled.subject.bits & alive):
                    selecting[number] = (*selecting.get(number, ()), compiled)
        memberships = self._partitions.tables(alive)
        isolations: dict[tuple[int, ...], tuple[Isolation | None, Isolation | None]] = {}
        for number in todo:
            policies = selecting.get(number, ())
            same = tuple(map(id, policies))
            pair = isolations.get(same)
            if pair is None:
                pair = isolations[same] = (
                    _isolation(policies, Direction.INGRESS),
                    _isolation(policies, Direction.EGRESS),
                )
            ingress, egress = pair
            keys = memberships.get(number, DEFAULT)
            self._identities[number] = Identity(number, ingress, egress, keys)
        return True


def _rule(
    policy: Policy, direction: Direction, index: int, peers: Sequence[Matches] | None
) -> Rule:
    said = policy.rules(direction)[index]
    bits: int | None = None
    if peers is not None:
        bits = 0
        for matches in peers:
            bits |= matches.bits
    return Rule(
        policy.key,
        direction,
        index,
        said.verbs,
        bits,
        tuple(peer.block for peer in said.peers if peer.block is not None),
        said.ports,
        said.memory,
        said.limits,
        said.qos_class,
    )


def _isolation(policies: Sequence[_Compiled], direction: Direction) -> Isolation | None:
    """Return what a direction of whom these policies select is, by the union of their rules."""
    isolating = [one for one in policies if direction in one.policy.types]
    if not isolating:
        return None
    places: dict[bool, list[int]] = {False: [], True: []}
    names: dict[bool, list[str]] = {False: [], True: []}
    for one in isolating:
        audit = one.policy.audit
        names[audit].append(one.policy.key)
        for place, rule in zip(one.places, one.rules, strict=True):
            if rule[0] is direction:
                places[audit].append(place)
    for audit in (False, True):
        if is_too_much(len(names[audit]), len(places[audit])):
            places[audit].clear()  # what nobody can judge in time allows nothing
            del names[audit][MAX_POLICIES_OF_A_POD:]
    return Isolation(
        rules=tuple(places[False]),
        enforced=bool(names[False]),
        audited=bool(names[True]),
        audited_rules=tuple(places[True]),
        policies=tuple(names[False]),
        audited_policies=tuple(names[True]),
    )
