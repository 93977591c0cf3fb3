"""Policies of a fabric without a cluster: stores the members' labels and the policies, and compiles
both.

Members and policies are stored in a file in the fabric's folder. A process that changes the file
holds the fabric's lock, compiles members and policies as the operator does for a node, and sends
the tables to hcad. The file contains what hcad has acknowledged.

The compiler and the readers of policies are imported on first use, because every `tessera run`
imports this module.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

from hca.contract.fabric_files import ADMIN_NAME, POLICY_NAME
from rdma.errors import PolicyError
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from vgpu_sim.cli.clients.admin import AdminClient
from vgpu_sim.records import dataclass

NAMESPACE: Final = "default"
NODE: Final = "fabric"

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """A run as policies see it: with the name and labels that a pod would have."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class FabricPolicy:
    """The state of a fabric: its members by address, and its policies and networks by kind and key.

    In generation 0, hcad has not yet received tables.
    """

    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    objects: dict[str, Document] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> "FabricPolicy":
        """Read the state from the file in a fabric's folder; the state is empty if there is no
        file. Raises OSError.
        """
        try:
            text = (directory / POLICY_NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        state = json.loads(text)
        members = {address: Member(**fields) for address, fields in state["members"].items()}
        return cls(state["generation"], members, state["objects"])

    def write(self, directory: Path) -> None:
        """Replace the file in a fabric's folder by this state. Raises OSError."""
        state = {
            "generation": self.generation,
            "members": {address: asdict(member) for address, member in self.members.items()},
            "objects": self.objects,
        }
        scratch = directory / f"{POLICY_NAME}.new"
        scratch.write_text(json.dumps(state), encoding="utf-8")
        os.replace(scratch, directory / POLICY_NAME)

    def put(self, documents: Iterable[Document]) -> None:
        """Add policies and networks; each replaces the object of the same kind and name. Raises
        PolicyError.
        """
        for document in documents:
            self.objects[key_of(document)] = document

    def compile(self) -> str:
        """Return the tables of the next generation, as text. Raises PolicyError."""
        from rdma import codec
        from rdma.compiling.compiler import Compiler
        from rdma.objects import NamespaceFacts, PodFacts
        from rdma.reading import manifests

        compiler = Compiler()
        compiler.upsert_namespace(NamespaceFacts(NAMESPACE))
        for address, member in self.members.items():
            pod = PodFacts(
                uid=address,
                namespace=NAMESPACE,
                name=member.name,
                node=NODE,
                labels=member.labels,
                addresses=(address,),
            )
            compiler.upsert_pod(pod)
        for document in self.objects.values():
            if document["kind"] == POLICY_KIND:
                compiler.upsert_policy(manifests.policy(document))
            else:
                compiler.upsert_network(manifests.network(document))
        for problems in compiler.problems().values():
            raise problems[0]
        return codec.encode(compiler.tables(NODE, self.generation + 1))


def key_of(document: Document) -> str:
    """Return the kind and name of a valid policy or network. Raises PolicyError."""
    from rdma.reading import manifests

    kind = document.get("kind")
    if kind == POLICY_KIND:
        return f"{kind} {manifests.policy(document).key}"
    if kind == NETWORK_KIND:
        return f"{kind} {manifests.network(document).name}"
    remedy = f"a fabric has objects of kind {POLICY_KIND} and {NETWORK_KIND}"
    raise PolicyError("kind", f"{kind!r} is neither", remedy)


def change(
    directory: Path,
    documents: Sequence[Document] = (),
    removed: Sequence[str] = (),
    introduced: Mapping[str, Member] | None = None,
) -> Mapping[str, Any]:
    """Change a fabric's policies or members and have hcad enforce them; return hcad's answer.

    ``documents`` are added. ``removed`` are the keys (see ``key_of``) of objects to remove, and
    ``introduced`` are new members, by address. The caller holds the fabric's lock. A fabric that
    never had a policy stays open to all members: hcad gets no tables, and the answer is empty.

    Raises:
        PolicyError: an object is not enforceable; nothing changes.
        AdminRefused, OSError: hcad refuses the tables.
    """
    policy = FabricPolicy.read(directory)
    policy.put(documents)
    for key in removed:
        policy.objects.pop(key, None)
    policy.members |= introduced or {}
    if not policy.objects and policy.generation == 0:
        policy.write(directory)
        return {}
    with AdminClient(directory, name=ADMIN_NAME) as admin:
        parties = admin.call("policy-status")["parties"]
        present = {party["addresses"][0]: party["function"] for party in parties}
        policy.members = {
            address: policy.members.get(address, Member(function))
            for address, function in present.items()
        }
        answer = admin.call("tables", document=policy.compile())
    policy.generation = answer["generation"]
    policy.write(directory)
    return answer
