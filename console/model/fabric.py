"""RDMA objects and the compiler that evaluates them, kept up to date as the operator does.

A policy that cannot be read denies everything, and so does a network that was in force before its
spec became unreadable: the readers are the operator's own.
"""

from typing import Any, Final

from gpu_operator.controllers.rdma.reading import SeenNetwork, SeenPolicy
from rdma.compiling.compiler import Compiler
from rdma.explain import Explainer
from rdma.objects import NamespaceFacts, PodFacts
from rdma.reading.manifests import NETWORK_KIND, POLICY_KIND

KINDS: Final = ("Namespace", NETWORK_KIND, POLICY_KIND)


class Fabric:
    """Pods with an HCA, namespaces, networks and policies."""

    def __init__(self) -> None:
        self._compiler = Compiler()
        self._explainer: Explainer | None = None
        self.pods: dict[str, PodFacts] = {}
        self.policies: dict[str, SeenPolicy] = {}
        self.networks: dict[str, SeenNetwork] = {}

    def put_pod(self, key: str, facts: PodFacts | None) -> None:
        """Store a pod that holds an HCA, or remove it."""
        known = self.pods.pop(key, None)
        if known == facts:
            if facts is not None:
                self.pods[key] = facts
            return
        self._explainer = None
        if known is not None and (facts is None or facts.uid != known.uid):
            self._compiler.delete_pod(known.uid)
        if facts is not None:
            self.pods[key] = facts
            self._compiler.upsert_pod(facts)

    def put(self, kind: str, key: str, value: Any) -> None:
        """Store a namespace, a network or a policy; None removes it."""
        self._explainer = None
        match kind:
            case "Namespace":
                self._put_namespace(key, value)
            case "RDMANetworkPolicy":
                self._put_policy(key, value)
            case "RDMANetwork":
                self._put_network(key, value)
            case _:
                raise ValueError(f"{kind} is no kind of the fabric")

    def explainer(self) -> Explainer:
        """Return the explainer of the current objects; it is compiled once per change."""
        if self._explainer is None:
            self._explainer = Explainer(self._compiler, self.pods.values())
        return self._explainer

    def _put_namespace(self, key: str, value: NamespaceFacts | None) -> None:
        if value is None:
            self._compiler.delete_namespace(key)
        else:
            self._compiler.upsert_namespace(value)

    def _put_policy(self, key: str, value: SeenPolicy | None) -> None:
        if value is None:
            if self.policies.pop(key, None) is not None:
                self._compiler.delete_policy(key)
            return
        self.policies[key] = value
        self._compiler.upsert_policy(value.policy)

    def _put_network(self, key: str, value: SeenNetwork | None) -> None:
        known = self.networks.pop(key, None)
        before = None if known is None else known.network or known.closed
        now = None if value is None else value.network or value.closed
        if value is not None:
            self.networks[key] = value
        if now is not None:
            self._compiler.upsert_network(now)
        elif before is not None:
            self._compiler.delete_network(key)
