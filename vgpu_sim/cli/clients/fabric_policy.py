"""Policy of a fabric without a cluster: its members' labels, its policies, and who compiles them.

Members and policies lie in a file of the fabric's folder. Whoever changes it holds the fabric's
lock, compiles both as the operator does for a node, and hands the tables to hcad; the file is what
hcad has acknowledged.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from hca.daemon.__main__ import ADMIN_NAME, POLICY_NAME
from rdma import codec
from rdma.compiling.compiler import Compiler
from rdma.errors import PolicyError
from rdma.objects import NamespaceFacts, PodFacts
from rdma.reading import manifests
from vgpu_sim.cli.clients.admin import AdminClient

NAMESPACE: Final = "default"
NODE: Final = "fabric"
POLICY_KIND: Final = manifests.POLICY_KIND
NETWORK_KIND: Final = manifests.NETWORK_KIND

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Member:
    """What a run says of itself: a pod's name and labels."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class FabricPolicy:
    """A fabric's members by address, and its objects by kind and key. Generation 0: no tables."""

    generation: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    objects: dict[str, Document] = field(default_factory=dict)

    @classmethod
    def read(cls, directory: Path) -> "FabricPolicy":
        """Return what a fabric's folder says; nothing where there is no file. Raises OSError."""
        try:
            text = (directory / POLICY_NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        said = json.loads(text)
        members = {address: Member(**one) for address, one in said["members"].items()}
        return cls(said["generation"], members, said["objects"])

    def write(self, directory: Path) -> None:
        """Replace a fabric's file. Raises OSError."""
        said = {
            "generation": self.generation,
            "members": {address: asdict(one) for address, one in self.members.items()},
            "objects": self.objects,
        }
        scratch = directory / f"{POLICY_NAME}.new"
        scratch.write_text(json.dumps(said), encoding="utf-8")
        os.replace(scratch, directory / POLICY_NAME)

    def put(self, documents: Iterable[Document]) -> None:
        """Add policies and networks, each in place of the one of its name. Raises PolicyError."""
        for document in documents:
            self.objects[key_of(document)] = document

    def compile(self) -> str:
        """Return the tables of the next generation, as text. Raises PolicyError."""
        compiler = Compiler()
        compiler.upsert_namespace(NamespaceFacts(NAMESPACE))
        for address, member in self.members.items():
            named = member.name, NODE, member.labels
            compiler.upsert_pod(PodFacts(address, NAMESPACE, *named, addresses=(address,)))
        for document in self.objects.values():
            if document["kind"] == POLICY_KIND:
                compiler.upsert_policy(manifests.policy(document))
            else:
                compiler.upsert_network(manifests.network(document))
        for problems in compiler.problems().values():
            raise problems[0]
        return codec.encode(compiler.tables(NODE, self.generation + 1))


def key_of(document: Document) -> str:
    """Return the kind and name of a policy or a network that can be read. Raises PolicyError."""
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
    """Change what a fabric's folder says and have hcad enforce it; return hcad's answer.

    The caller holds the fabric's lock. A fabric that has no policy and never had one stays open to
    everybody: hcad is told nothing, and the answer is empty.

    Raises:
        PolicyError: an object says nothing that can be enforced; everything stays as it was.
        AdminRefused, OSError: hcad does not take the tables.
    """
    said = FabricPolicy.read(directory)
    said.put(documents)
    for key in removed:
        said.objects.pop(key, None)
    said.members |= introduced or {}
    if not said.objects and said.generation == 0:
        said.write(directory)
        return {}
    with AdminClient(directory, name=ADMIN_NAME) as admin:
        parties = admin.call("policy-status")["parties"]
        present = {party["addresses"][0]: party["function"] for party in parties}
        said.members = {
            address: said.members.get(address, Member(function))
            for address, function in present.items()
        }
        answer = admin.call("tables", document=said.compile())
    said.generation = answer["generation"]
    said.write(directory)
    return answer
