"""Values that the driver passes around: GPUs, their instances, holders, peers.

UUIDs carry their prefix (``GPU-``, ``MIG-``) everywhere outside the binary ``DeviceInfo``.
"""

import re
import uuid
from dataclasses import dataclass, field
from typing import NewType

from facts.document import DEFAULT_FACTS, GpuFacts
from mig.geometry import Board, ComputePlace, Instance, Profile, board
from vgpu_sim.perf.topology import Place, topology_named
from vgpu_sim.system.peers import PodUid

GpuUuid = NewType("GpuUuid", str)
InstanceUuid = NewType("InstanceUuid", str)
GpuInstanceKey = NewType("GpuInstanceKey", tuple[GpuUuid, int])
"""A GPU and the number of a GPU instance on it."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU_UUID = re.compile(f"GPU-{_UUID}", re.ASCII)
_INSTANCE_UUID = re.compile(f"(MIG|GPU)-{_UUID}", re.ASCII)
_CLAIM = re.compile(f"claim:{_UUID}", re.ASCII)
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # RFC 1123: a namespace's name
_CLAIM_NAME = re.compile(rf"{_LABEL}/[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?", re.ASCII)


def parse_gpu_uuid(text: object) -> GpuUuid:
    """Check a GPU's UUID. Raises ValueError: it becomes part of names and must be exact."""
    if not isinstance(text, str) or not _GPU_UUID.fullmatch(text):
        raise ValueError("a GPU's uuid is GPU-<uuid in lower case>")
    return GpuUuid(text)


def parse_instance_uuid(text: object) -> InstanceUuid:
    """Check an instance's UUID. Raises ValueError: it becomes a directory's name."""
    if not isinstance(text, str) or not _INSTANCE_UUID.fullmatch(text):
        raise ValueError("an instance's uuid is MIG-<uuid in lower case>, or its GPU's if whole")
    return InstanceUuid(text)


def is_owner(text: str) -> bool:
    """Return whether this names what instances are made for: a claim, or (empty) a layout."""
    return not text or _CLAIM.fullmatch(text) is not None


def check_made_for(owner: str, name: str) -> None:
    """Check what an instance is made for (``MigInstance``). Raises ValueError."""
    if not is_owner(owner):
        raise ValueError("an owner is empty or claim:<uid of a ResourceClaim in lower case>")
    if bool(name) != bool(owner) or (name and not _CLAIM_NAME.fullmatch(name)):
        raise ValueError("owner_name is the <namespace>/<name> of the claim that is the owner")


def new_gpu_uuid() -> GpuUuid:
    """Return a random GPU UUID."""
    return GpuUuid(f"GPU-{uuid.uuid4()}")


def new_instance_uuid() -> InstanceUuid:
    """Return a random instance UUID."""
    return InstanceUuid(f"MIG-{uuid.uuid4()}")


def instance_uuid_of(gpu: "Gpu", profile: Profile) -> InstanceUuid:
    """Return the UUID of an instance to be made: a random one, or of a whole GPU the GPU's own."""
    return InstanceUuid(gpu.uuid) if profile.is_whole else new_instance_uuid()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a prefixed UUID."""
    return uuid.UUID(text[4:]).bytes


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU. ``index`` is its place on the node and in the aperture, and which of the
    places of the topology (``vgpu_sim.perf.topology``) it has that its facts name."""

    uuid: GpuUuid
    index: int
    board_key: str
    facts: GpuFacts = DEFAULT_FACTS

    @property
    def board(self) -> Board:
        """Return its board."""
        return board(self.board_key)

    @property
    def pci_bus(self) -> int:
        """Return the number of its PCI bus, on which it is alone (domain 0, device 0)."""
        return self.place.bus

    @property
    def place(self) -> Place:
        """Return where it is in the node's topology. Raises BadShape: there is no such place."""
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index]

    @property
    def pci_bus_id(self) -> str:
        """Return its PCI address as NVML writes it: "00000000:01:00.0"."""
        return f"00000000:{self.pci_bus:02X}:00.0"


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """What one ResourceClaim has of an instance that several share.

    ``owner`` and ``owner_name`` are as in ``MigInstance``. Its clients together may have
    ``memory_bytes``. ``admit`` False means that it is being taken away: no new contexts.
    """

    owner: str
    owner_name: str
    memory_bytes: int
    admit: bool = True


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG device: a compute instance in its GPU instance; or a whole GPU with MIG off.

    ``compute`` False is a GPU instance that has no compute instance (yet), and is alone in it.
    ``within`` is where the compute instance is when it is narrower than its GPU instance, in which
    others can then be beside it: they have the same ``profile`` and ``start``.

    ``slot`` is the smallest number free on the node when it was made; a worker's uid follows from
    it. ``admit`` False means withdrawn: running contexts stay, new ones are refused.

    ``owner`` is ``claim:UID`` of the ResourceClaim that it was made for, and ``owner_name`` that
    claim's "namespace/name"; both are empty for a layout's instance, a whole GPU, and what several
    claims share (``shares``).
    """

    uuid: InstanceUuid
    gpu: Gpu
    profile: Profile
    start: int
    slot: int
    admit: bool = True
    compute: bool = True
    owner: str = ""
    owner_name: str = ""
    within: ComputePlace | None = None
    shares: tuple[ClaimShare, ...] = ()

    @property
    def shared_bytes(self) -> int:
        """Return how much of its memory claims have as their shares."""
        return sum(one.memory_bytes for one in self.shares)

    def share_of(self, owner: str) -> ClaimShare | None:
        """Return the share of a claim (``claim:UID``); None: it has none."""
        return next((one for one in self.shares if one.owner == owner), None)

    @property
    def placed(self) -> Instance:
        """Return what and where it is; raises IllegalLayoutError where it cannot be."""
        return Instance(self.profile, self.start, self.within)

    @property
    def device_profile(self) -> str:
        """Return its name without the place: "3g.40gb", "1c.3g.40gb", "whole"."""
        return self.profile.name if self.within is None else self.within.profile.name

    @property
    def sm_count(self) -> int:
        """Return the SMs that are its own."""
        return self.profile.sm_count if self.within is None else self.within.profile.sm_count

    @property
    def compute_start(self) -> int | None:
        """Return its first compute slice in the GPU instance; None: it has all of them."""
        return None if self.within is None else self.within.start

    @property
    def gpu_instance(self) -> GpuInstanceKey:
        """Return which GPU instance it is in: that has the memory, and fails as one."""
        return GpuInstanceKey((self.gpu.uuid, self.gi_id))

    @property
    def gi_id(self) -> int:
        """Return the GPU instance's number on its GPU; -1 for a whole GPU.

        The possible placements of aligned sizes are a binary tree, numbered by rows from the whole
        GPU (0): instances that exist beside each other never have the same number.
        """
        if self.profile.is_whole:
            return -1
        size = self.profile.size
        return self.gpu.board.placement_units // size - 1 + self.start // size

    @property
    def ci_id(self) -> int:
        """Return the number of the compute instance in the GPU instance; -1: it has none.

        It is that of its first compute slice: those beside each other never have the same.
        """
        if not self.compute or self.profile.is_whole:
            return -1
        return 0 if self.within is None else self.within.start


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance, and its container, as podresources says.

    ``claims`` are the ResourceClaims (``claim:UID``) by which it may; none: the device plugin's.
    """

    pod_uid: PodUid
    namespace: str
    name: str
    container: str = field(default="", compare=False)
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """On whose behalf a context runs. ``pod_uid`` and ``namespace`` are empty outside a cluster.

    ``claim`` is the owner of the share that it uses (``ClaimShare``); empty: its instance is not
    shared by claims.
    """

    pod_uid: PodUid
    namespace: str
    claim: str = ""

    @property
    def sharer(self) -> str:
        """Return whose part of a shared instance it uses up: the claim's, else the pod's."""
        return self.claim or self.pod_uid
