"""A fabric of pods at the rig's addresses, and the tables that the compiler makes for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from hca.binding.addresses import address_of
from rdma.compiling.compiler import Compiler
from rdma.objects import NamespaceFacts, PodFacts
from rdma.reading import manifests
from rdma.tables import NodeTables

NODE = "here"


def policy(
    selector: Mapping[str, str], name: str = "p", namespace: str = "default", **spec: Any
) -> Mapping[str, Any]:
    """Return an RDMANetworkPolicy for pods with these labels."""
    return {
        "apiVersion": "rdma.tessera.dev/v1alpha1",
        "kind": "RDMANetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": selector}, **spec},
    }


def allow(*verbs: str, **more: Any) -> Mapping[str, Any]:
    """Return a rule without peers, for these verbs (none: all)."""
    return {**({"verbs": list(verbs)} if verbs else {}), **more}


def pod(index: int, namespace: str = "default", name: str = "", **labels: str) -> PodFacts:
    """Return the pod at the rig's address ``index``."""
    return PodFacts(
        uid=f"uid-{index}",
        namespace=namespace,
        name=name or f"pod{index}",
        node=NODE,
        labels=labels,
        addresses=(str(address_of(index).ip),),
    )


def tables(
    generation: int,
    pods: Sequence[PodFacts],
    policies: Sequence[Mapping[str, Any]] = (),
    networks: Sequence[Mapping[str, Any]] = (),
) -> NodeTables:
    """Compile the tables of the node."""
    compiler = Compiler()
    for namespace in {one.namespace for one in pods}:
        compiler.upsert_namespace(NamespaceFacts(namespace))
    for one in pods:
        compiler.upsert_pod(one)
    for document in networks:
        compiler.upsert_network(manifests.network(document))
    for document in policies:
        compiler.upsert_policy(manifests.policy(document))
    assert not compiler.problems(), compiler.problems()
    return compiler.tables(NODE, generation)
