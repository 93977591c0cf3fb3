"""The resources that the node last offered, in a file.

An agent that starts without an API server reads it, because the scheduler continues to bind pods
to the resources that the kubelet listed. The file is treated as untrusted input: a file that
does not match its schema entirely counts as missing, and it names no device. Which slices exist
is read from gpud; a GPU that gpud does not have is ignored.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from gpu_operator.api.v1alpha1.base import Model
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared
from vgpu_sim.exec import own_files

_MOST_BYTES = 256 << 10
_RESOURCE = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"  # part of a socket's name
_GpuUuid = Annotated[str, Field(pattern=r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]
_log = logging.getLogger(__name__)


class _Shared(Shared):
    """A shared resource as in a GPU object, where only the operator writes the names."""

    name: str = Field(pattern=_RESOURCE)
    offered_as: str = Field(pattern=_RESOURCE)


class _Record(Model):
    version: int = Field(default=1, ge=1, le=1)
    node: str
    strategy: Strategy
    sharing: dict[_GpuUuid, Annotated[tuple[_Shared, ...], Field(max_length=32)]] = Field(
        max_length=64
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        for of_gpu in self.sharing.values():
            if len({shared_resource.name for shared_resource in of_gpu}) < len(of_gpu):
                raise ValueError("one resource has two sharing configurations")
        return self


Sharing = Mapping[str, Sequence[Shared]]
"""The shared resources of each GPU, by its UUID."""


class OfferRecord:
    """A file that records the node's last offer to the kubelet: the strategy and the sharing.

    Used by the reconcile thread only, except for ``remove``.
    """

    def __init__(self, path: Path, node: str) -> None:
        self._path = path
        self._node = node
        self._written: object = None

    def read(self) -> tuple[Strategy, Sharing] | None:
        """Return the strategy and sharing of the last offer; None if there is no valid record."""
        text = own_files.read(self._path, _MOST_BYTES)
        if text is None:
            return None
        try:
            record = _Record.model_validate_json(text, strict=True)
        except ValidationError as err:
            first = err.errors(include_url=False, include_input=False)[0]
            _log.warning("%s is not read: %s %s", self._path, first["loc"], first["msg"])
            return None
        if record.node != self._node:
            _log.warning("%s is not read: it belongs to another node", self._path)
            return None
        return record.strategy, {
            uuid: tuple(Shared(**dict(shared_resource)) for shared_resource in of_gpu)
            for uuid, of_gpu in record.sharing.items()
        }

    def write(self, strategy: Strategy, sharing: Sharing) -> None:
        """Record the strategy and the sharing of the offer if they have changed.

        If the record cannot be written, the older record is deleted.
        """
        naming = strategy, {uuid: tuple(of_gpu) for uuid, of_gpu in sharing.items() if of_gpu}
        if naming == self._written:
            return
        shared = {u: tuple(_Shared(**dict(o)) for o in of_gpu) for u, of_gpu in naming[1].items()}
        record = _Record(node=self._node, strategy=strategy, sharing=shared)
        text = record.model_dump_json(by_alias=True).encode()
        own_files.replace(self._path, text)
        if own_files.read(self._path, _MOST_BYTES) != text:
            _log.warning("%s cannot be written: what is offered is not recorded", self._path)
            self.remove()
        self._written = naming

    def remove(self) -> None:
        """Delete the file with the record."""
        self._written = None
        try:
            self._path.unlink(missing_ok=True)
        except OSError as err:
            _log.warning("%s stays: %s", self._path, err)
