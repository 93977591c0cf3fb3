"""Sharing of slices between pods: each sharer's memory, threads and contexts.

If ResourceClaims share an instance, each claim's share states its memory
(``MigInstance.shares``); the claims take turns at everything else. Sharing by the device plugin
is stored in the table. Time-slicing does not isolate the sharers: contexts take turns, and
memory is first come, first served. With MPS each sharer has its part of memory and of
multiprocessors, equal to the limits that NVIDIA's device plugin sets
(``set_default_device_pinned_mem_limit``, ``set_default_active_thread_percentage``).

gpud keeps the table across restarts, because a new gpud receives the list of holders before the
table. A client that connected in between would otherwise have the whole slice.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, parse_instance_uuid
from vgpu_sim.hal.messages import WHOLE_THREAD_SHARE
from vgpu_sim.records import dataclass
from vgpu_sim.system import durable

MAX_REPLICAS: Final = 48
FILE_NAME: Final = "sharing.json"
_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 1 << 20


class Kind(StrEnum):
    """The two kinds of sharing that NVIDIA's device plugin supports."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How one instance is shared: the kind of sharing, and among how many sharers."""

    kind: Kind
    replicas: int


class SharingTable:
    """How each instance is shared, as the node agent last reported it. If ``state_dir`` is None,
    the table is not persistent.
    """

    def __init__(self, state_dir: Path | None = None) -> None:
        """Read the table that was saved last.

        Raises:
            JournalError: the file was unreadable and has been moved aside.
            OSError: it could not be read.
        """
        self._path = None if state_dir is None else state_dir / FILE_NAME
        self._shared: Mapping[InstanceUuid, Sharing] = (
            {} if self._path is None else _load(self._path)
        )

    def replace(self, shared: Mapping[InstanceUuid, Sharing]) -> None:
        """Replace the table by ``shared``, which covers the whole node. An instance that is not in
        ``shared`` is not shared.

        Raises:
            OSError: the new table could not be saved; the previous table then remains in force.
        """
        if shared == self._shared:
            return
        if self._path is not None:
            rows = {uuid: asdict(sharing) for uuid, sharing in shared.items()}
            durable.write_json(self._path, {"version": _VERSION, "shares": rows})
        self._shared = dict(shared)

    def of(self, uuid: InstanceUuid) -> Sharing | None:
        """Return how an instance is shared; None if it is not shared."""
        return self._shared.get(uuid)

    def client_bytes(self, instance: MigInstance, sharer: str = "") -> int:
        """Return the device memory in bytes that one sharer may use.

        If claims share the instance, the result is the memory of the sharer's claim. With MPS,
        the result is an equal part of the instance's memory. Otherwise, it is all of the
        instance's memory. ``sharer`` is as in ``Owner``.
        """
        share = instance.share_of(sharer)
        if share is not None:
            return share.memory_bytes
        return instance.profile.memory_bytes // self._parts(instance)

    def multiprocessors(self, instance: MigInstance, thread_share: int = 0) -> int:
        """Return how many multiprocessors a context of a sharer sees and uses.

        With MPS, a client may request fewer multiprocessors than the sharer's part, but not more.
        ``thread_share`` is the requested part of the whole instance in units of
        1/WHOLE_THREAD_SHARE, or 0 for no request. The requested part is rounded up to the
        hardware's granularity ("Volta MPS Execution Resource Provisioning" of NVIDIA's manual).
        Without MPS the request is ignored, as in CUDA, because there is no MPS server to read it.
        """
        whole = instance.sm_count
        part = max(1, whole // self._parts(instance))
        if not thread_share or not self._has_mps(instance):
            return part
        return min(part, -(-whole * thread_share // WHOLE_THREAD_SHARE))

    def threads(self, instance: MigInstance, all_threads: int, thread_share: int = 0) -> int:
        """Return the number of native threads of a context: the sharer's part of ``all_threads``.

        The part is rounded up. If it were rounded down, three sharers of eight threads would get
        two threads each, and two cores would be idle.
        """
        part = -(-all_threads // self._parts(instance))
        if thread_share and self._has_mps(instance):
            part = min(part, -(-all_threads * thread_share // WHOLE_THREAD_SHARE))
        return part

    def contexts(self, instance: MigInstance, max_contexts: int, sharer: str = "") -> int:
        """Return how many contexts one sharer may have. ``max_contexts`` is the number of contexts
        that the whole slice may have.
        """
        share = instance.share_of(sharer)
        if share is not None:
            return max(1, max_contexts * share.memory_bytes // instance.profile.memory_bytes)
        shared = self.of(instance.uuid)
        return max_contexts if shared is None else max(1, max_contexts // shared.replicas)

    def _has_mps(self, instance: MigInstance) -> bool:
        shared = self.of(instance.uuid)
        return shared is not None and shared.kind is Kind.MPS

    def _parts(self, instance: MigInstance) -> int:
        shared = self.of(instance.uuid)
        return shared.replicas if shared is not None and self._has_mps(instance) else 1


def _load(path: Path) -> dict[InstanceUuid, Sharing]:
    try:
        with path.open("rb") as file:
            return _decode(json.loads(file.read(_MAX_FILE_BYTES)))
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        aside = path.with_suffix(".corrupt")
        path.rename(aside)
        raise JournalError(
            f"{path} does not state how slices are shared ({err}); moved to {aside}: repair it and"
            " move it back, or start again with nothing shared until the agent reports sharing"
        ) from err


def _decode(document: Any) -> dict[InstanceUuid, Sharing]:
    if document["version"] != _VERSION:
        raise ValueError(f"expected version {_VERSION}")
    return {parse_instance_uuid(uuid): _sharing(row) for uuid, row in document["shares"].items()}


def _sharing(row: Any) -> Sharing:
    read = Sharing(Kind(row["kind"]), row["replicas"])
    if type(read.replicas) is not int or not 2 <= read.replicas <= MAX_REPLICAS:
        raise ValueError(f"replicas must be 2 to {MAX_REPLICAS}")
    return read
