"""The cluster operations that the operator needs, as protocols.

Methods raise errors of ``gpu_operator.errors``.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Protocol

from gpu_operator.kube.actions import Action

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Selects objects of one kind, in one namespace or in all, by field and label selectors.

    The selectors have kubectl's syntax. The API server evaluates them, so it does not send
    objects that do not match.
    """

    namespace: str = ""
    fields: str = ""
    labels: str = ""


class Source(Protocol):
    """The operations of the API server that a reflector needs."""

    async def page(self, kind: str, chosen: Chosen, token: str = "") -> Document:
        """Return one page of the list of a kind's objects."""

    def watch(self, kind: str, chosen: Chosen, version: str) -> AsyncIterator[Document]:
        """Yield the events of a kind's objects that follow a version of the kind's list."""


class Kube(Protocol):
    """Read and write access to a cluster."""

    async def perform(self, action: Action) -> Document | None:
        """Perform an action; return the resulting object, if there is one."""

    async def list(self, kind: str, namespace: str | None = None) -> list[Document]:
        """Return all objects of a kind."""

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Document:
        """Return one object. Raises NotFound."""

    async def create(self, document: Document) -> Document:
        """Create one object. Raises Conflict if it exists."""

    async def replace(self, document: Document) -> Document:
        """Replace one object. Raises Conflict unless the document's resourceVersion is current."""

    async def close(self) -> None:
        """Close the connections to the cluster."""


class Cluster(Kube, Source, Protocol):
    """A cluster that can be read, written and watched."""
