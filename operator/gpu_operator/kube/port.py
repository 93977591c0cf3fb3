"""What the operator needs of a cluster. Every method raises errors of ``gpu_operator.errors``."""

from typing import Any, Protocol

from gpu_operator.kube.actions import Action

Document = dict[str, Any]


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
