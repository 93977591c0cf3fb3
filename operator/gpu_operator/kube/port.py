"""What the operator needs of a cluster. Every method raises errors of ``gpu_operator.errors``."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_operator.kube.actions import Action

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which objects of a kind: of one namespace or all, by fields and labels (as kubectl has them).

    The API server chooses, so that what is not chosen is not sent.
    """

    namespace: str = ""
    fields: str = ""
    labels: str = ""


class Source(Protocol):
    """What a reflector reads from."""

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of a list."""

    def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        """Yield events from a version on."""


class Kube(Protocol):
    """A cluster."""

    async def perform(self, action: Action) -> Document | None:
        """Do it; return the object as it is afterwards, where there is one."""

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Return all objects of a kind."""

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """Return one object. Raises NotFound."""

    async def create(self, document: Document) -> Document:
        """Create one object. Raises Conflict if it exists."""

    async def replace(self, document: Document) -> Document:
        """Replace one object; its resourceVersion must be current, else Conflict."""

    async def close(self) -> None:
        """Close connections."""


class Cluster(Kube, Source, Protocol):
    """A cluster that is written to, and followed."""
