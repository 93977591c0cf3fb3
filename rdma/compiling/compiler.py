"""Compile pods, namespaces, networks and policies to the tables of each node, incrementally.

Objects may be added and removed in any order. ``Compiler.tables`` processes only the changes
since its last call. The result is the same as from a new compiler with all objects, except for
the numbers of identities and rules. A policy's peers are a set of identities, so the work grows
with the number of different pods (identities), not with the product of pods and policies.
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Mapping

from rdma.bits import from_numbers, numbers
from rdma.compiling import budget, excess
from rdma.compiling.budget import Charge
from rdma.compiling.compiled_policy import NO_PLACE, CompiledPolicy, CompiledRule, isolation
from rdma.compiling.partitions import DEFAULT, Partitions
from rdma.compiling.pkeys import Place, sort_by_age
from rdma.compiling.population import Change, Population
from rdma.compiling.terms import Term, Terms
from rdma.errors import PolicyError
from rdma.objects import NAMESPACE_NAME_LABEL, NamespaceFacts, Network, PodFacts, Policy
from rdma.tables import (
    UNIDENTIFIED,
    Direction,
    Endpoint,
    Identity,
    Isolation,
    NodeTables,
    QosClass,
    Rule,
)
from rdma.verbs import NONE

EMPTY_PLACE = Rule("", Direction.INGRESS, 0, NONE, 0)
_UNIDENTIFIED = Identity(UNIDENTIFIED, Isolation(), Isolation())
_Selecting = tuple[CompiledPolicy, ...]


class Compiler:
    """The Kubernetes objects that were added, and the tables compiled from them. Not thread-safe.

    ``earlier_pkeys``: the P_Keys that an earlier compiler allocated, by network and partition name.
    """

    def __init__(self, earlier_pkeys: Mapping[Place, int] | None = None) -> None:
        self.revision = 0
        """Version of the tables' content: as long as it stays the same, no node's tables have
        changed.
        """
        self._population = Population()
        self._terms = Terms(self._population)
        self._partitions = Partitions(self._terms, earlier_pkeys or {})
        self._namespaces: dict[str, dict[str, str]] = {}
        self._networks: dict[str, Network] = {}
        self._policies: dict[str, CompiledPolicy] = {}
        self._in_namespace: dict[str, dict[str, CompiledPolicy]] = {}
        self._selecting: dict[int, _Selecting] = {}
        self._copies: dict[str, Counter[CompiledPolicy]] = {}
        self._other_namespaces = False
        self._other_networks = False
        self._other_policies = False
        self._dirty = 0
        self._vacated: list[int] = []
        self._rules: list[Rule] = []
        self._identities: dict[int, Identity] = {UNIDENTIFIED: _UNIDENTIFIED}
        self._shared: tuple[tuple[Rule, ...], tuple[Identity, ...], tuple[Endpoint, ...]]
        self._shared = ((), (_UNIDENTIFIED,), ())
        self._qos_classes: tuple[QosClass, ...] = ()
        self._pod_changes = False

    def upsert_pod(self, pod: PodFacts) -> None:
        """Add a pod, or replace the pod with the same uid."""
        self._pod_changes |= self._population.put(pod)

    def delete_pod(self, uid: str) -> None:
        """Remove the pod with a uid, if it exists."""
        self._pod_changes |= self._population.remove(uid)

    def upsert_namespace(self, namespace: NamespaceFacts) -> None:
        """Add a namespace, or replace the namespace with the same name.

        Policy denies everything to the pods of a namespace that has not been added.
        """
        labels = {**namespace.labels, NAMESPACE_NAME_LABEL: namespace.name}
        if self._namespaces.get(namespace.name) != labels:
            self._namespaces[namespace.name] = labels
            self._other_namespaces = True

    def delete_namespace(self, name: str) -> None:
        """Remove a namespace, if it exists."""
        if self._namespaces.pop(name, None) is not None:
            self._other_namespaces = True

    def upsert_network(self, network: Network) -> None:
        """Add or replace an RDMANetwork."""
        if self._networks.get(network.name) != network:
            self._networks[network.name] = network
            self._other_networks = True

    def delete_network(self, name: str) -> None:
        """Remove an RDMANetwork, if it exists."""
        if self._networks.pop(name, None) is not None:
            self._other_networks = True

    def upsert_policy(self, policy: Policy) -> None:
        """Add or replace an RDMANetworkPolicy."""
        earlier_version = self._policies.get(policy.key)
        if earlier_version is not None and earlier_version.policy == policy:
            return
        subject = self._terms.acquire(Term(policy.namespace, None, policy.pod_selector))
        compiled_rules = []
        for direction in Direction:
            for index, rule in enumerate(policy.rules(direction)):
                terms = [
                    Term.of_peer(peer, policy.namespace) for peer in rule.peers if not peer.block
                ]
                peers = tuple(map(self._terms.acquire, terms)) if rule.peers else None
                compiled_rules.append((direction, index, peers))
        # afterwards, so that sets which both versions use are not computed again
        self.delete_policy(policy.key)
        compiled = CompiledPolicy(
            policy, subject, tuple(CompiledRule(*parts) for parts in compiled_rules)
        )
        self._policies[policy.key] = compiled
        self._in_namespace.setdefault(policy.namespace, {})[policy.key] = compiled
        self._other_policies = True

    def delete_policy(self, key: str) -> None:
        """Remove an RDMANetworkPolicy ("ns/name"), if it exists."""
        compiled = self._policies.pop(key, None)
        if compiled is None:
            return
        beside = self._in_namespace[compiled.policy.namespace]
        del beside[key]
        if not beside:
            del self._in_namespace[compiled.policy.namespace]
        self._dirty |= compiled.subject.bits
        for rule in compiled.rules:
            self._vacate(rule)
        self._terms.release(compiled.referenced_sets())
        self._other_policies = True

    def tables(self, node: str, generation: int = 0) -> NodeTables:
        """Return a node's tables from all objects that were added."""
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
        """Return the names of the nodes that have pods with an HCA."""
        self._settle()
        return self._population.nodes()

    def selected_count(self, key: str) -> int:
        """Return how many pods the policy ``key`` selects, or 0 if that policy does not exist."""
        self._settle()
        compiled = self._policies.get(key)
        return self._population.count_of(compiled.subject.bits) if compiled is not None else 0

    @property
    def pkeys(self) -> Mapping[Place, int]:
        """Return the allocated P_Keys by network and partition name, to pass to the next
        compiler.
        """
        self._settle()
        return dict(self._partitions.keys)

    def problems(self) -> dict[tuple[str, str], tuple[PolicyError, ...]]:
        """Return the errors in objects, by each object's kind and key.

        An error can make the tables stricter, but never more permissive.
        """
        self._settle()
        errors_by_object: dict[tuple[str, str], list[PolicyError]] = defaultdict(list)
        for (network_name, _), error in self._partitions.refused.items():
            errors_by_object["RDMANetwork", network_name].append(error)
        for network in sort_by_age(self._networks.values()):
            for index, qos_class in enumerate(network.qos_classes):
                holder = self._partitions.qos_classes[qos_class.name].network
                if holder != network.name:
                    field, problem = f"spec.qosClasses[{index}].name", f"is also {holder}'s"
                    errors_by_object["RDMANetwork", network.name].append(
                        PolicyError(field, problem, "choose another name")
                    )
        for key, compiled in self._policies.items():
            errors_by_object["RDMANetworkPolicy", key] += self._unknown_names(compiled.policy)
            if compiled.refusal is not None:
                errors_by_object["RDMANetworkPolicy", key].append(compiled.refusal.error())
        for namespace in self._in_namespace.values():
            for key, error in excess.problems(list(namespace.values())):
                errors_by_object["RDMANetworkPolicy", key].append(error)
        return {key: tuple(errors) for key, errors in errors_by_object.items() if errors}

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
                        errors.append(PolicyError(field, problem, "create it, or correct the name"))
                if rule.qos_class and rule.qos_class not in self._partitions.qos_classes:
                    problem = f"no RDMANetwork has {rule.qos_class!r}"
                    errors.append(
                        PolicyError(f"{at}.qosClassName", problem, "create it, or correct the name")
                    )
        return errors

    def _place(self) -> int:
        if self._vacated:
            return self._vacated.pop()
        self._rules.append(EMPTY_PLACE)
        return len(self._rules) - 1

    def _vacate(self, rule: CompiledRule) -> bool:
        """Remove a rule from the tables; return whether the tables contained it."""
        if rule.place == NO_PLACE:
            return False
        self._rules[rule.place] = EMPTY_PLACE
        self._vacated.append(rule.place)
        rule.place = NO_PLACE
        return True

    def _settle(self) -> None:
        """Process all changes to objects since the last call, and thereby update the tables."""
        noted = (
            self._pod_changes,
            self._other_namespaces,
            self._other_networks,
            self._other_policies,
        )
        if not any(noted):
            return
        collects = gc.isenabled()
        gc.disable()  # a collection would scan all live objects repeatedly and find no garbage
        try:
            self._work_off(any(noted[2:]))
        finally:
            if collects:
                gc.enable()
        self._pod_changes = self._other_namespaces = False
        self._other_networks = self._other_policies = False

    def _work_off(self, other_rules: bool) -> None:
        self._terms.clear_moves()
        if self._other_networks:
            self._partitions.replace_networks(self._networks.values())
            classes = self._partitions.qos_classes
            self._qos_classes = tuple(classes[name] for name in sorted(classes))
        change = self._population.process_changes(self._terms.keys, self._namespaces.keys())
        touched, has_changed_namespaces = change.namespaces, self._other_namespaces
        self._terms.recompute_sets(touched, self._namespaces, has_changed_namespaces, None)
        members = self._partitions.update_members()
        self._terms.recompute_sets(
            touched, self._namespaces, has_changed_namespaces, self._partitions
        )
        self._note_moves()
        dirty = -1 if self._other_networks else self._dirty | change.born | members
        todo = self._select(dirty, change)
        todo |= self._keep_budgets()
        other_rules |= self._settle_rules()
        other_identities = self._settle_identities(todo, change)
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

    def _note_moves(self) -> None:
        """Record the identities whose policies changed, and mark the rules whose peers changed as
        stale.
        """
        for compiled in self._policies.values():
            fresh, compiled.is_fresh = compiled.is_fresh, False
            self._dirty |= compiled.subject.bits if fresh else compiled.subject.moved
            for rule in compiled.rules:
                rule.mark_stale_if_changed()

    def _select(self, dirty: int, change: Change) -> int:
        """Update which policies select each identity in ``dirty`` (-1: all identities).

        Return those of these identities that exist.
        """
        for number in numbers(change.gone):
            self._selecting.pop(number, None)
        namespace_of = self._population.namespace_of
        chosen = range(len(namespace_of)) if dirty < 0 else numbers(dirty)
        todo = [number for number in chosen if namespace_of[number]]
        alive = from_numbers(todo) if todo else 0
        selecting: dict[int, list[CompiledPolicy]] = {number: [] for number in todo}
        namespaces = {namespace_of[number] for number in todo}
        for namespace in namespaces:
            for _, compiled in sorted(self._in_namespace.get(namespace, {}).items()):
                for number in numbers(compiled.subject.bits & alive):
                    selecting[number].append(compiled)
        for number, policies in selecting.items():
            self._selecting[number] = tuple(policies)
        for namespace in namespaces | change.namespaces:
            identities = self._population.in_namespace.get(namespace, 0)
            different = {self._selecting[number] for number in numbers(identities)}
            self._copies[namespace] = Counter(
                policy for policies in different for policy in policies
            )
            if not identities:
                del self._copies[namespace]
        return alive

    def _keep_budgets(self) -> int:
        """Refuse the policies that exceed their namespaces' budgets.

        Return the identities that are selected by a policy whose refusal changed.
        """
        kinds = self._population.kinds
        charges: dict[str, list[Charge]] = {}
        for namespace, policies_by_key in self._in_namespace.items():
            policies = tuple(policies_by_key.values())
            copies = self._copies.get(namespace, Counter())
            crowded = excess.crowded_identities(policies)
            listed = charges[namespace] = []
            for compiled_policy in policies:
                compiled_policy.mark_used_rules(crowded)
                if compiled_policy.subject.bits:
                    size = compiled_policy.size(kinds, copies[compiled_policy])
                    listed.append(
                        Charge(compiled_policy.policy.key, compiled_policy.policy.created, size)
                    )
        refused, changed_identities = budget.find_refused(charges), 0
        for key, compiled in self._policies.items():
            refusal = refused.get(key)
            if (refusal is None) is not (compiled.refusal is None):
                changed_identities |= compiled.subject.bits
            compiled.refusal = refusal
        return changed_identities

    def _settle_rules(self) -> bool:
        """Write changed rules into the tables and remove unused rules; return whether any rule
        changed.
        """
        has_changed = False
        for compiled in self._policies.values():
            for rule in compiled.rules:
                if compiled.refusal is not None or not rule.is_used:
                    has_changed |= self._vacate(rule)
                    continue
                if rule.place == NO_PLACE:
                    rule.place, rule.is_other = self._place(), True
                if rule.is_other:
                    self._rules[rule.place] = rule.to_rule(compiled.policy)
                    rule.is_other, has_changed = False, True
        return has_changed

    def _settle_identities(self, todo: int, change: Change) -> bool:
        """Update the isolations and partitions of the identities ``todo``.

        Return whether any identity has changed.
        """
        for number in numbers(change.gone):
            self._identities.pop(number, None)
        if not todo:
            return bool(change.gone)
        memberships = self._partitions.pkey_tables(todo)
        isolations: dict[_Selecting, tuple[Isolation | None, Isolation | None]] = {}
        for number in numbers(todo):
            policies = self._selecting[number]
            pair = isolations.get(policies)
            if pair is None:
                pair = isolations[policies] = (
                    isolation(policies, Direction.INGRESS),
                    isolation(policies, Direction.EGRESS),
                )
            keys = memberships.get(number, DEFAULT)
            self._identities[number] = Identity(number, *pair, keys)
        return True
