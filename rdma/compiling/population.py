"""Map pods to identities; index identities by label and namespace, and pods by address and node.

An identity is a namespace together with those of a pod's labels whose keys some selector names.
Changes are collected, and ``Population.process_changes`` processes them together, so that a
thousand new selectors cause only one identification of each pod.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from rdma import addresses
from rdma.bits import from_numbers, numbers
from rdma.objects import PodFacts
from rdma.tables import UNIDENTIFIED, Endpoint, Pod

_Key = TypeVar("_Key", str, tuple[str, str])
_Facts = tuple[str, frozenset[tuple[str, str]]]
_Settled = tuple[PodFacts, int, tuple[str, ...]]
"""A pod, the number of its identity, and the addresses that it claims."""


@dataclass(slots=True)
class Change:
    """The result of ``Population.process_changes``.

    ``born`` and ``gone`` are the sets of identities that were added and removed; ``namespaces`` are
    the namespaces of these identities. ``endpoints`` is true if the endpoint of any address
    changed.
    """

    born: int = 0
    gone: int = 0
    namespaces: set[str] = field(default_factory=set)
    endpoints: bool = False


class Population:
    """All pods that hold an HCA. Not thread-safe."""

    def __init__(self) -> None:
        self.with_value: dict[tuple[str, str], int] = {}
        self.with_key: dict[str, int] = {}
        self.in_namespace: dict[str, int] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.namespace_of: list[str] = [""]
        """The namespace of each identity, indexed by the identity's number. It is empty for
        UNIDENTIFIED and for unused numbers.
        """
        self._pods: dict[str, PodFacts] = {}
        self._settled: dict[str, _Settled] = {}
        self._stale: dict[str, None] = {}
        self._numbers: dict[_Facts, int] = {}
        self._facts: list[_Facts] = [("", frozenset())]
        self._heads = [0]
        self._free: list[int] = []
        self._claims: dict[str, tuple[str, ...]] = {}
        self._unmarked: list[int] = []
        self._of_node: dict[str, dict[str, None]] = {}
        self._keys: AbstractSet[str] = frozenset()
        self._namespaces: AbstractSet[str] = frozenset()

    @property
    def kinds(self) -> int:
        """Return the number of identities after the last ``process_changes``."""
        return len(self._numbers)

    def put(self, pod: PodFacts) -> bool:
        """Add or replace a pod; a pod without an HCA, or on the host's network, is ignored.

        Return whether anything has changed.
        """
        if not pod.holds_hca or pod.host_network:
            return self.remove(pod.uid)
        earlier_pod = self._pods.get(pod.uid)
        if earlier_pod is not None and earlier_pod == pod:
            return False
        self._pods[pod.uid] = pod
        self._stale[pod.uid] = None
        return True

    def remove(self, uid: str) -> bool:
        """Remove the pod with a uid; return whether it existed."""
        if self._pods.pop(uid, None) is None:
            return False
        self._stale[uid] = None
        return True

    def process_changes(self, keys: AbstractSet[str], namespaces: AbstractSet[str]) -> Change:
        """Process all changes to pods; return the identities that were added and removed as a
        result.

        ``keys`` are the keys of pod labels that selectors use. ``namespaces`` are the known
        namespaces.
        """
        change = Change()
        self._find_stale(keys, namespaces)
        touched: list[str] = []
        identified_pods = self._identify()
        for uid in self._stale:
            settled_pod = self._settled.pop(uid, None)
            if settled_pod is not None:
                self._leave(uid, settled_pod, change, touched)
        self._join(identified_pods, touched)
        self._stale.clear()
        self._mark(change)
        self._bury(change)
        for address in touched:
            change.endpoints |= self._settle_endpoint(address)
        return change

    def pods_of(self, node: str) -> tuple[Pod, ...]:
        """Return the pods of a node after the last ``process_changes``."""
        pods, claims = [], self._claims
        for uid in self._of_node.get(node, ()):
            pod, number, own = self._settled[uid]
            for address in own:
                if len(claims[address]) != 1:
                    own = tuple(
                        claimed_address
                        for claimed_address in own
                        if len(claims[claimed_address]) == 1
                    )
                    break
            pods.append(Pod(uid, f"{pod.namespace}/{pod.name}", number, own))
        return tuple(pods)

    def count_of(self, identities: int) -> int:
        """Return how many pods have an identity in the set ``identities``."""
        identity_count = len(self._heads)
        return sum(self._heads[number] for number in numbers(identities) if number < identity_count)

    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that have pods, sorted."""
        return tuple(sorted(self._of_node))

    def _find_stale(self, keys: AbstractSet[str], namespaces: AbstractSet[str]) -> None:
        other_keys = keys ^ self._keys
        other_namespaces = namespaces ^ self._namespaces
        self._keys, self._namespaces = frozenset(keys), frozenset(namespaces)
        if not other_keys and not other_namespaces:
            return
        for uid, pod in self._pods.items():
            if pod.namespace in other_namespaces or not other_keys.isdisjoint(pod.labels):
                self._stale[uid] = None

    def _identify(self) -> list[_Settled]:
        """Return each changed pod with its identity; unused identities are removed later.

        The method is one loop with local names for speed, because a restarted operator waits for
        it.
        """
        keys, namespaces, numbers, heads = self._keys, self._namespaces, self._numbers, self._heads
        identified_pods = []
        for uid in self._stale:
            pod = self._pods.get(uid)
            if pod is None:
                continue
            number = UNIDENTIFIED  # the labels of its namespace are not known yet
            namespace = pod.namespace
            if namespace in namespaces:
                facts = (
                    namespace,
                    frozenset([label for label in pod.labels.items() if label[0] in keys]),
                )
                number = numbers.get(facts, UNIDENTIFIED)
                if number == UNIDENTIFIED:
                    number = self._free.pop() if self._free else self._grow()
                    numbers[facts] = number
                    self._facts[number] = facts
                    self._unmarked.append(number)
            heads[number] += 1
            identified_pods.append((pod, number, _canonical(pod.addresses)))
        return identified_pods

    def _grow(self) -> int:
        """Return the number of a new identity."""
        self._heads.append(0)
        self._facts.append(self._facts[0])
        self.namespace_of.append("")
        return len(self._heads) - 1

    def _join(self, identified_pods: list[_Settled], touched: list[str]) -> None:
        """Record newly identified pods by address and node; append their addresses to
        ``touched``.
        """
        settled, claims, of_node = self._settled, self._claims, self._of_node
        for settled_pod in identified_pods:
            pod, _, claimed = settled_pod
            uid = pod.uid
            settled[uid] = settled_pod
            for address in claimed:
                claimants = claims.get(address)
                claims[address] = (*claimants, uid) if claimants else (uid,)
                touched.append(address)
            node_pods = of_node.get(pod.node)
            if node_pods is None:
                node_pods = of_node[pod.node] = {}
            node_pods[uid] = None

    def _leave(
        self,
        uid: str,
        settled_pod: _Settled,
        change: Change,
        touched: list[str],
    ) -> None:
        pod, number, claimed = settled_pod
        self._heads[number] -= 1
        if not self._heads[number] and number != UNIDENTIFIED:
            change.gone |= 1 << number
        for address in claimed:
            self._claims[address] = tuple(
                claimant for claimant in self._claims[address] if claimant != uid
            )
            touched.append(address)
        node_pods = self._of_node[pod.node]
        del node_pods[uid]
        if not node_pods:
            del self._of_node[pod.node]

    def _mark(self, change: Change) -> None:
        """Add new identities to the indexes, with one update per index entry."""
        values: dict[tuple[str, str], list[int]] = defaultdict(list)
        namespaces: dict[str, list[int]] = defaultdict(list)
        for number in self._unmarked:
            namespace, labels = self._facts[number]
            self.namespace_of[number] = namespace
            namespaces[namespace].append(number)
            for item in labels:
                values[item].append(number)
        for namespace, born in namespaces.items():
            bits = from_numbers(born)
            self.in_namespace[namespace] = self.in_namespace.get(namespace, 0) | bits
            change.born |= bits
        change.namespaces.update(namespaces)
        for item, born in values.items():
            bits = from_numbers(born)
            self.with_value[item] = self.with_value.get(item, 0) | bits
            self.with_key[item[0]] = self.with_key.get(item[0], 0) | bits
        self._unmarked.clear()

    def _bury(self, change: Change) -> None:
        """Remove identities without pods from all indexes and free their numbers."""
        gone, change.gone = change.gone, 0
        for number in _numbers_without_heads(gone, self._heads):
            namespace, labels = facts = self._facts[number]
            del self._numbers[facts]
            self.namespace_of[number] = ""
            keep = ~(1 << number)
            change.gone |= 1 << number
            change.born &= keep
            change.namespaces.add(namespace)
            _clear(self.in_namespace, namespace, keep)
            for item in labels:
                _clear(self.with_value, item, keep)
                _clear(self.with_key, item[0], keep)
            self._free.append(number)

    def _settle_endpoint(self, address: str) -> bool:
        """Update an address's endpoint; return whether it changed.

        If several pods claim the address, it belongs to none of them.
        """
        earlier_endpoint = self.endpoints.get(address)
        claims = self._claims.get(address)
        if not claims:
            self._claims.pop(address, None)
            return self.endpoints.pop(address, None) is not None
        if len(claims) > 1:
            endpoint = Endpoint(address, UNIDENTIFIED, "")
        else:
            pod, number, _ = self._settled[claims[0]]
            endpoint = Endpoint(address, number, f"{pod.namespace}/{pod.name}")
        self.endpoints[address] = endpoint
        return earlier_endpoint is None or endpoint != earlier_endpoint


def _canonical(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the valid addresses among ``texts`` in canonical form.

    Invalid ones are omitted, as an HCA cannot be opened at such an address.
    """
    canonical_addresses = []
    for text in texts:
        try:
            address = addresses.canonical(text)
        except ValueError:
            continue
        if address not in canonical_addresses:
            canonical_addresses.append(address)
    return tuple(canonical_addresses)


def _numbers_without_heads(candidates: int, heads: Sequence[int]) -> list[int]:
    free_numbers = []
    while candidates:
        number = candidates.bit_length() - 1
        candidates ^= 1 << number
        if not heads[number]:
            free_numbers.append(number)
    return free_numbers


def _clear(index: dict[_Key, int], key: _Key, keep: int) -> None:
    remaining_bits = index[key] & keep
    if remaining_bits:
        index[key] = remaining_bits
    else:
        del index[key]
