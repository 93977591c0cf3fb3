"""Values that the driver passes around: GPUs, MIG instances, holders, peers.

UUIDs carry their prefix (``GPU-``, ``MIG-``) everywhere outside the binary ``DeviceInfo``.
"""

import re
import uuid
from dataclasses import dataclass
from typing import NewType

from mig.geometry import Board, Profile, board
from vgpu_sim.system.peers import PodUid

GpuUuid = NewType("GpuUuid", str)
InstanceUuid = NewType("InstanceUuid", str)

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU_UUID = re.compile(f"GPU-{_UUID}", re.ASCII)
_INSTANCE_UUID = re.compile(f"MIG-{_UUID}", re.ASCII)


def parse_gpu_uuid(text: object) -> GpuUuid:
    """Check a GPU's UUID. Raises ValueError: it becomes part of names and must be exact."""
    if not isinstance(text, str) or not _GPU_UUID.fullmatch(text):
        raise ValueError("a GPU's uuid is GPU-<uuid in lower case>")
    return GpuUuid(text)


def parse_instance_uuid(text: object) -> InstanceUuid:
    """Check an instance's UUID. Raises ValueError: it becomes a directory's name."""
    if not isinstance(text, str) or not _INSTANCE_UUID.fullmatch(text):
        raise ValueError("an instance's uuid is MIG-<uuid in lower case>")
    return InstanceUuid(text)


def new_gpu_uuid() -> GpuUuid:
    """Return a random GPU UUID."""
    return GpuUuid(f"GPU-{uuid.uuid4()}")


def new_instance_uuid() -> InstanceUuid:
    """Return a random instance UUID."""
    return InstanceUuid(f"MIG-{uuid.uuid4()}")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a prefixed UUID."""
    return uuid.UUID(text[4:]).bytes


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU. ``index`` is its place on the node and in the aperture."""

    uuid: GpuUuid
    index: int
    board_key: str

    @property
    def board(self) -> Board:
        """Return its board."""
        return board(self.board_key)


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance with its one compute instance of full width.

    ``slot`` is the smallest number free on the node when it was made; a worker's uid follows from
    it. ``admit`` False means withdrawn: running contexts stay, new ones are refused.
    """

    uuid: InstanceUuid
    gpu: Gpu
    profile: Profile
    start: int
    slot: int
    admit: bool = True


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance, as podresources says."""

    pod_uid: PodUid
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a context runs. ``pod_uid`` and ``namespace`` are empty outside a cluster."""

    pod_uid: PodUid
    namespace: str
