"""How slices are shared between pods: what each sharer gets of memory, threads and contexts.

What ResourceClaims share says itself how much of its memory each has (``MigInstance.shares``); all
else they use in turns. What the device plugin has shared is in the table:

Time-slicing keeps nobody apart: contexts take turns, memory is whoever's comes first. With MPS each
sharer has its part of memory and of multiprocessors, as the limits have it that NVIDIA's device
plugin sets (``set_default_device_pinned_mem_limit``, ``set_default_active_thread_percentage``).
gpud remembers it over a restart: holders are told anew before it is, and whoever got in between
would have everything.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from vgpu_sim.gpud.errors import JournalError
from vgpu_sim.gpud.model import InstanceUuid, MigInstance, parse_instance_uuid
from vgpu_sim.hal.messages import WHOLE_THREAD_SHARE
from vgpu_sim.system import durable

MAX_REPLICAS: Final = 48
FILE_NAME: Final = "sharing.json"
_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 1 << 20


class Kind(StrEnum):
    """The two ways of NVIDIA's device plugin."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True, slots=True)
class Sharing:
    """How one instance is shared."""

    kind: Kind
    replicas: int


class SharingTable:
    """How instances are shared, as last told. ``state_dir`` None: it is not remembered."""

    def __init__(self, state_dir: Path | None = None) -> None:
        """Read what was told before.

        Raises:
            JournalError: the file was unreadable and has been moved aside.
            OSError: it could not be read.
        """
        self._path = None if state_dir is None else state_dir / FILE_NAME
        self._shared: Mapping[InstanceUuid, Sharing] = (
            {} if self._path is None else _load(self._path)
        )

    def replace(self, shared: Mapping[InstanceUuid, Sharing]) -> None:
        """Take a new list of the whole node; instances that are not named are not shared.

        Raises:
            OSError: it could not be written down; then what was told before holds.
        """
        if shared == self._shared:
            return
        if self._path is not None:
            rows = {uuid: asdict(one) for uuid, one in shared.items()}
            durable.write_json(self._path, {"version": _VERSION, "shares": rows})
        self._shared = dict(shared)

    def of(self, uuid: InstanceUuid) -> Sharing | None:
        """Return how an instance is shared; None: it is not."""
        return self._shared.get(uuid)

    def client_bytes(self, instance: MigInstance, sharer: str = "") -> int:
        """Return the device memory that one sharer may have; all of it without MPS.

        ``sharer`` is as in ``Owner``: of what claims share each has its own part.
        """
        share = instance.share_of(sharer)
        if share is not None:
            return share.memory_bytes
        return instance.profile.memory_bytes // self._parts(instance)

    def multiprocessors(self, instance: MigInstance, thread_share: int = 0) -> int:
        """Return how many multiprocessors a context of a sharer sees and uses.

        With MPS a client may ask for less than its part, never for more: ``thread_share`` is what
        it wants of the whole instance in parts of WHOLE_THREAD_SHARE, 0 for no wish, rounded up to
        what the hardware can do ("Volta MPS Execution Resource Provisioning" of NVIDIA's manual).
        Without MPS there is no server that would read it, and CUDA does not either.
        """
        whole = instance.sm_count
        part = max(1, whole // self._parts(instance))
        if not thread_share or not self._has_mps(instance):
            return part
        return min(part, -(-whole * thread_share // WHOLE_THREAD_SHARE))

    def threads(self, instance: MigInstance, all_threads: int, thread_share: int = 0) -> int:
        """Return the native threads of a context, its share of ``all_threads``.

        Rounded up: three sharers with two of eight threads each would leave two cores idle.
        """
        part = -(-all_threads // self._parts(instance))
        if thread_share and self._has_mps(instance):
            part = min(part, -(-all_threads * thread_share // WHOLE_THREAD_SHARE))
        return part

    def contexts(self, instance: MigInstance, most: int, sharer: str = "") -> int:
        """Return how many of a slice's ``most`` contexts one sharer may have."""
        share = instance.share_of(sharer)
        if share is not None:
            return max(1, most * share.memory_bytes // instance.profile.memory_bytes)
        shared = self.of(instance.uuid)
        return most if shared is None else max(1, most // shared.replicas)

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
            f"{path} does not say how slices are shared ({err}); moved to {aside}: repair it and"
            " move it back, or start again with nothing shared until the agent says what is"
        ) from err


def _decode(document: Any) -> dict[InstanceUuid, Sharing]:
    if document["version"] != _VERSION:
        raise ValueError(f"not of version {_VERSION}")
    return {parse_instance_uuid(uuid): _sharing(row) for uuid, row in document["shares"].items()}


def _sharing(row: Any) -> Sharing:
    read = Sharing(Kind(row["kind"]), row["replicas"])
    if type(read.replicas) is not int or not 2 <= read.replicas <= MAX_REPLICAS:
        raise ValueError(f"replicas are 2 to {MAX_REPLICAS}")
    return read
