"""Value types that gpud's parts exchange: GPUs, their instances, holders, peers.

UUIDs carry their prefix (``GPU-``, ``MIG-``) everywhere outside the binary ``DeviceInfo``.
"""

import re
import uuid
from dataclasses import field
from typing import NewType

from facts.document import DEFAULT_FACTS, GpuFacts
from mig.geometry import Board, ComputePlace, Instance, Profile, board
from vgpu_sim.perf.topology import Place, topology_named
from vgpu_sim.records import dataclass
from vgpu_sim.system.peers import PodUid

GpuUuid = NewType("GpuUuid", str)
InstanceUuid = NewType("InstanceUuid", str)
GpuInstanceKey = NewType("GpuInstanceKey", tuple[GpuUuid, int])
"""The key of a GPU instance: the UUID of its GPU, and its number on the GPU."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GPU_UUID = re.compile(f"GPU-{_UUID}", re.ASCII)
_INSTANCE_UUID = re.compile(f"(MIG|GPU)-{_UUID}", re.ASCII)
_CLAIM = re.compile(f"claim:{_UUID}", re.ASCII)
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # RFC 1123: a namespace's name
_CLAIM_NAME = re.compile(rf"{_LABEL}/[a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?", re.ASCII)


def parse_gpu_uuid(text: object) -> GpuUuid:
    """Validate a GPU's UUID, which becomes part of names. Raises ValueError."""
    if not isinstance(text, str) or not _GPU_UUID.fullmatch(text):
        raise ValueError("a GPU's uuid must be GPU-<uuid in lower case>")
    return GpuUuid(text)


def parse_instance_uuid(text: object) -> InstanceUuid:
    """Validate an instance's UUID, which becomes a directory's name. Raises ValueError."""
    if not isinstance(text, str) or not _INSTANCE_UUID.fullmatch(text):
        raise ValueError(
            "an instance's uuid must be MIG-<uuid in lower case>; for a whole GPU, the GPU's uuid"
        )
    return InstanceUuid(text)


def is_owner(text: str) -> bool:
    """Return whether a text can be the owner of an instance: ``claim:UID`` for a ResourceClaim, or
    the empty text for an instance that no claim owns.
    """
    return not text or _CLAIM.fullmatch(text) is not None


def check_owner(owner: str, name: str) -> None:
    """Validate the owner of an instance and the owner's name (``owner`` and ``owner_name`` in
    ``MigInstance``). Raises ValueError.
    """
    if not is_owner(owner):
        raise ValueError("an owner must be empty or claim:<uid of a ResourceClaim in lower case>")
    if bool(name) != bool(owner) or (name and not _CLAIM_NAME.fullmatch(name)):
        raise ValueError(
            "owner_name must be the owner claim's <namespace>/<name>, and empty without an owner"
        )


def new_gpu_uuid() -> GpuUuid:
    """Return a random GPU UUID."""
    return GpuUuid(f"GPU-{uuid.uuid4()}")


def new_instance_uuid() -> InstanceUuid:
    """Return a random instance UUID."""
    return InstanceUuid(f"MIG-{uuid.uuid4()}")


def instance_uuid_of(gpu: "Gpu", profile: Profile) -> InstanceUuid:
    """Return a UUID for a new instance. It is random, except that an instance which is a whole GPU
    has the GPU's UUID.
    """
    return InstanceUuid(gpu.uuid) if profile.is_whole else new_instance_uuid()


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a UUID given with its prefix, "GPU-" or "MIG-"."""
    return uuid.UUID(text[4:]).bytes


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU. ``index`` is the GPU's position on the node and in the aperture. The field
    ``facts`` names a topology (``vgpu_sim.perf.topology``), and ``index`` also selects the GPU's
    place in that topology.
    """

    uuid: GpuUuid
    index: int
    board_key: str
    facts: GpuFacts = DEFAULT_FACTS

    @property
    def board(self) -> Board:
        """The GPU's board."""
        return board(self.board_key)

    @property
    def pci_bus(self) -> int:
        """The number of the GPU's PCI bus. The GPU is the only device on this bus; its PCI domain
        and device numbers are 0.
        """
        return self.place.bus

    @property
    def place(self) -> Place:
        """The GPU's place in the node's topology. Raises BadShape if the topology has no such
        place.
        """
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index]

    @property
    def pci_bus_id(self) -> str:
        """The GPU's PCI address as NVML writes it: "00000000:01:00.0"."""
        return f"00000000:{self.pci_bus:02X}:00.0"


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """A ResourceClaim's share of an instance that several claims share.

    ``owner`` and ``owner_name`` are as in ``MigInstance``. The claim's clients together may use
    ``memory_bytes``. If ``admit`` is False, the share is being removed and admits no new
    contexts.
    """

    owner: str
    owner_name: str
    memory_bytes: int
    admit: bool = True


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG device: a compute instance in its GPU instance; or a whole GPU whose MIG mode is off.

    If ``compute`` is False, this is a GPU instance without any compute instance. ``profile`` and
    ``start`` describe the GPU instance, so all compute instances in it have the same ones. If the
    compute instance is narrower than its GPU instance, ``within`` is the place of the compute
    instance in the GPU instance.

    ``slot`` is the smallest number that was free on the node when the instance was created. The
    uid of the instance's workers follows from ``slot``. If ``admit`` is False, the instance is
    being withdrawn: running contexts continue, and new ones are refused.

    ``owner`` is ``claim:UID`` of the ResourceClaim for which the instance was created, and
    ``owner_name`` is that claim's "namespace/name". Both are empty for a layout's instance, for a
    whole GPU, and for an instance that several claims share (``shares``).
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
        """The sum of the memory of all claims' shares, in bytes."""
        return sum(share.memory_bytes for share in self.shares)

    def share_of(self, owner: str) -> ClaimShare | None:
        """Return the share that a claim (``claim:UID``) has of this instance; None if it has no
        share.
        """
        return next((share for share in self.shares if share.owner == owner), None)

    @property
    def placed(self) -> Instance:
        """The profile and the place of the instance, in the form that MIG geometry uses. Raises
        IllegalLayoutError if there is no such placement.
        """
        return Instance(self.profile, self.start, self.within)

    @property
    def device_profile(self) -> str:
        """The name of the device's profile without its placement, such as "3g.40gb", "1c.3g.40gb"
        or "whole".
        """
        return self.profile.name if self.within is None else self.within.profile.name

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors (SMs) of this instance."""
        return self.profile.sm_count if self.within is None else self.within.profile.sm_count

    @property
    def compute_start(self) -> int | None:
        """The first compute slice of the device in its GPU instance. None if the device has all
        compute slices of the GPU instance.
        """
        return None if self.within is None else self.within.start

    @property
    def gpu_instance(self) -> GpuInstanceKey:
        """The key of the GPU instance that contains this device. A GPU instance owns the memory and
        fails as a unit.
        """
        return GpuInstanceKey((self.gpu.uuid, self.gi_id))

    @property
    def gi_id(self) -> int:
        """The GPU instance's number on its GPU; -1 for a whole GPU."""
        if self.profile.is_whole:
            return -1
        return self.gpu.board.number_of(self.start, self.profile.size)

    @property
    def ci_id(self) -> int:
        """The compute instance's number in its GPU instance; -1 if there is no compute instance.

        The number is that of the first compute slice, so the compute instances of a GPU instance
        have different numbers.
        """
        if not self.compute or self.profile.is_whole:
            return -1
        return 0 if self.within is None else self.within.start


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that may use an instance, and its container, as the kubelet's podresources API reports
    them.

    ``claims`` are the ResourceClaims (``claim:UID``) that entitle the pod to the instance; if
    empty, the device plugin allocated the instance.
    """

    pod_uid: PodUid
    namespace: str
    name: str
    container: str = field(default="", compare=False)
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Owner:
    """The pod and claim on whose behalf a context runs. ``pod_uid`` and ``namespace`` are empty
    outside a cluster.

    ``claim`` is the owner of the share that the context uses (``ClaimShare``); it is empty if
    claims do not share the instance.
    """

    pod_uid: PodUid
    namespace: str
    claim: str = ""

    @property
    def sharer(self) -> str:
        """The claim, or else the pod, to which the context's part of a shared instance belongs."""
        return self.claim or self.pod_uid
