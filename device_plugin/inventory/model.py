"""gpud's inventory as values (docs/gpud-admin.md, ``inventory``)."""

from dataclasses import field, replace
from typing import Any

from facts.document import DEFAULT_FACTS, GpuFacts
from facts.health import is_in_service
from mig import geometry
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.observe.modelled_report import WALL
from vgpu_sim.perf.topology import FLAT, topology_named
from vgpu_sim.records import dataclass

CLAIM = "claim:"  # prefix of owners that are ResourceClaims


@dataclass(frozen=True, slots=True)
class HolderPod:
    """A pod to which the kubelet has given a slice for one of its containers."""

    namespace: str
    name: str
    uid: str
    container: str = field(default="", compare=False)  # not part of the pod's identity
    claim: str = ""
    """``claim:UID`` of the claim by which the pod got the slice; empty: the device plugin."""


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """The part of a slice that a ResourceClaim has: all of it, or a share of its memory."""

    owner: str
    """The claim's UID with a prefix, as ``claim:UID``."""
    owner_name: str
    """The claim's "namespace/name"."""
    memory_bytes: int
    memory_used_bytes: int = 0
    contexts: int = 0

    @property
    def claim_uid(self) -> str:
        """Return the claim's UID."""
        return self.owner.removeprefix(CLAIM)


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A slice, which is a MIG device or a whole GPU, as gpud reports it."""

    uuid: str
    gpu_uuid: str
    instance: geometry.Instance
    memory_bytes: int
    memory_used_bytes: int
    multiprocessors: int
    socket_dir: str
    contexts: int
    holders: tuple[HolderPod, ...]
    health: str = "Healthy"
    owner: str = ""
    """``claim:UID`` of the only ResourceClaim that has the slice; empty: see ``claims``."""
    owner_name: str = ""
    """The "namespace/name" of the claim in ``owner``."""
    shares: tuple[ClaimShare, ...] = ()
    """The shares of the slice that ResourceClaims have, if claims share it."""

    @property
    def claims(self) -> tuple[ClaimShare, ...]:
        """Return the ResourceClaims that have the slice.

        A slice that belongs to a layout or to the device plugin has none.
        """
        if not self.owner:
            return self.shares
        share = ClaimShare(
            owner=self.owner,
            owner_name=self.owner_name,
            memory_bytes=self.memory_bytes,
            memory_used_bytes=self.memory_used_bytes,
            contexts=self.contexts,
        )
        return (share,)

    def is_of(self, owner: str) -> bool:
        """Return whether the claim ``owner`` (``claim:UID``) has the slice, or a share of it."""
        return any(claim.owner == owner for claim in self.claims)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU of this node."""

    uuid: str
    index: int
    board: geometry.Board
    health: str
    slices: tuple[MigSlice, ...]
    mig_enabled: bool = True
    facts: GpuFacts = DEFAULT_FACTS
    faults: frozenset[str] = frozenset()
    """Ids of the lasting faults that are injected into the GPU."""
    is_lost: bool = False
    """Whether the GPU is off the bus."""

    @property
    def root(self) -> int:
        """Return the number of the GPU's NUMA node; in the flat topology, that of its PCIe root."""
        if self.facts.topology == FLAT:
            return self.index
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index].numa

    @property
    def bus(self) -> int:
        """Return the number of the GPU's PCI bus, on which it is the only device."""
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index].bus

    @property
    def root_bus(self) -> int:
        """Return the number of the GPU's PCIe root: the lowest bus below the same bridge."""
        if self.facts.topology == FLAT:
            return self.bus
        topology = topology_named(self.facts.topology, self.index + 1)
        bridge = topology.gpus[self.index].bridge
        return min(
            device.bus for device in (*topology.gpus, *topology.hcas) if device.bridge == bridge
        )

    @property
    def unclaimed(self) -> tuple[MigSlice, ...]:
        """Return the GPU's slices that were not created for a ResourceClaim."""
        return tuple(s for s in self.slices if not s.claims)

    @property
    def claimed(self) -> tuple[MigSlice, ...]:
        """Return the GPU's slices that were created for ResourceClaims.

        The agent destroys such a slice only on behalf of its claims.
        """
        return tuple(s for s in self.slices if s.claims)


@dataclass(frozen=True, slots=True)
class Inventory:
    """A snapshot of the node's GPUs and slices."""

    version: str
    libraries_dir: str
    budget_total_bytes: int
    budget_used_bytes: int
    isolation_enforced: bool
    isolation_reason: str
    sandbox: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    clock: str = WALL
    """The time that CUDA events measure, one of ``hal.observe.modelled.CLOCKS``."""

    def slices(self) -> tuple[MigSlice, ...]:
        """Return all slices of the node, in the order of GPUs and placements."""
        return tuple(s for gpu in self.gpus for s in gpu.slices)

    def claimed_slices(self) -> tuple[MigSlice, ...]:
        """Return the node's slices that were created for ResourceClaims."""
        return tuple(s for gpu in self.gpus for s in gpu.claimed)

    def unclaimed_slices(self) -> tuple[MigSlice, ...]:
        """Return the node's slices that were not created for a ResourceClaim."""
        return tuple(s for gpu in self.gpus for s in gpu.unclaimed)


def replica(uuid: str, number: int) -> str:
    """Return the device id of one share of a slice, in the form of NVIDIA's device plugin."""
    return f"{uuid}::{number}"


def slice_uuid_of(device: str) -> str:
    """Return the slice's UUID from a device id, which names the slice or one of its shares."""
    return device.partition("::")[0]


def is_share(device: str) -> bool:
    """Return whether a device id is one share of a slice, and not the whole slice."""
    return slice_uuid_of(device) != device


def is_allocatable(gpu: Gpu, mig_slice: MigSlice) -> bool:
    """Return whether the health of a slice and of its GPU allow its allocation."""
    return is_in_service(gpu.health) and is_in_service(mig_slice.health)


def mark_all_unhealthy(inventory: Inventory, why: str) -> Inventory:
    """Return a copy of the inventory in which all GPUs are unhealthy for the reason ``why``."""
    gpus = tuple(replace(gpu, health=f"Unhealthy: {why}") for gpu in inventory.gpus)
    return replace(inventory, gpus=gpus)


def parse(document: dict[str, Any]) -> Inventory:
    """Read the inventory that gpud sent.

    Raises:
        documents.DocumentError, mig.errors.MigError: this agent cannot read what gpud sends.
    """
    node = admin.Inventory.from_json(document)
    return Inventory(
        version=node.version,
        libraries_dir=node.libraries_dir,
        budget_total_bytes=node.budget.total_bytes,
        budget_used_bytes=node.budget.used_bytes,
        isolation_enforced=node.isolation.enforced,
        isolation_reason=node.isolation.reason,
        sandbox=node.sandbox.active,
        gpus=tuple(_gpu(gpu) for gpu in sorted(node.gpus, key=lambda gpu: gpu.index)),
        clock=node.clock,
    )


def _gpu(gpu: admin.Gpu) -> Gpu:
    board = geometry.board(gpu.board)
    instances = sorted(gpu.instances, key=lambda one: (one.start, one.compute_start or 0))
    return Gpu(
        uuid=gpu.uuid,
        index=gpu.index,
        board=board,
        health=gpu.health,
        slices=tuple(_slice(board, gpu.uuid, instance) for instance in instances),
        mig_enabled=gpu.mig_enabled,
        facts=gpu.facts,
        faults=frozenset(fault.id for fault in gpu.faults),
        is_lost=gpu.is_lost,
    )


def _slice(board: geometry.Board, gpu_uuid: str, instance: admin.Instance) -> MigSlice:
    return MigSlice(
        uuid=instance.uuid,
        gpu_uuid=gpu_uuid,
        instance=board.instance(instance.profile, instance.start, instance.compute_start),
        memory_bytes=instance.memory_bytes,
        memory_used_bytes=instance.memory_used_bytes,
        multiprocessors=instance.multiprocessors,
        socket_dir=instance.socket_dir,
        contexts=len(instance.contexts),
        holders=tuple(
            HolderPod(holder.namespace, holder.name, holder.pod_uid, holder.container)
            for holder in instance.holders
        ),
        health=instance.health,
        owner=instance.owner,
        owner_name=instance.owner_name,
        shares=tuple(
            ClaimShare(
                owner=share.owner,
                owner_name=share.owner_name,
                memory_bytes=share.memory_bytes,
                memory_used_bytes=share.memory_used_bytes,
                contexts=share.contexts,
            )
            for share in instance.shares
        ),
    )
