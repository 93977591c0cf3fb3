"""gpud's inventory as values (docs/gpud-admin.md, ``inventory``)."""

from dataclasses import dataclass, field, replace
from typing import Any

from facts.document import DEFAULT_FACTS, GpuFacts
from mig import geometry
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.observe.modelled import WALL
from vgpu_sim.perf.topology import FLAT, topology_named

CLAIM = "claim:"  # how owners begin that are ResourceClaims


@dataclass(frozen=True, slots=True)
class HolderPod:
    """A pod that the kubelet has given a slice to, for one of its containers."""

    namespace: str
    name: str
    uid: str
    container: str = field(default="", compare=False)  # it is no part of which pod it is
    claim: str = ""
    """``claim:UID`` of the ResourceClaim by which it has the slice; empty: the device plugin."""


@dataclass(frozen=True, slots=True)
class ClaimShare:
    """What a ResourceClaim has of a slice: all of it, or of its memory a share."""

    owner: str
    """``claim:UID``."""
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
    """A MIG device, or a whole GPU, as gpud has it."""

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
    """``claim:UID`` of the one ResourceClaim that it was made for; empty: see ``claims``."""
    owner_name: str = ""
    """That claim's "namespace/name"."""
    shares: tuple[ClaimShare, ...] = ()
    """Those of the ResourceClaims that share it."""

    @property
    def claims(self) -> tuple[ClaimShare, ...]:
        """Return the ResourceClaims that have it; none: a layout's, or the device plugin's."""
        if not self.owner:
            return self.shares
        has = self.memory_bytes, self.memory_used_bytes, self.contexts
        return (ClaimShare(self.owner, self.owner_name, *has),)

    def is_of(self, owner: str) -> bool:
        """Return whether a claim (``claim:UID``) has it, or a share of it."""
        return any(one.owner == owner for one in self.claims)


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
    """Ids of the injected faults that last."""

    @property
    def root(self) -> int:
        """Return the number of the NUMA node, or else of the PCIe root, that it is below."""
        if self.facts.topology == FLAT:
            return self.index
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index].numa

    @property
    def bus(self) -> int:
        """Return the number of the PCI bus that it is alone on."""
        return topology_named(self.facts.topology, self.index + 1).gpus[self.index].bus

    @property
    def root_bus(self) -> int:
        """Return the number of the PCIe root that it is below: the least bus there."""
        if self.facts.topology == FLAT:
            return self.bus
        there = topology_named(self.facts.topology, self.index + 1)
        bridge = there.gpus[self.index].bridge
        return min(one.bus for one in (*there.gpus, *there.hcas) if one.bridge == bridge)

    @property
    def unclaimed(self) -> tuple[MigSlice, ...]:
        """Return the slices that were not made for a ResourceClaim."""
        return tuple(s for s in self.slices if not s.claims)

    @property
    def claimed(self) -> tuple[MigSlice, ...]:
        """Return the slices that were made for ResourceClaims: they alone take them away."""
        return tuple(s for s in self.slices if s.claims)


@dataclass(frozen=True, slots=True)
class Inventory:
    """One snapshot of gpud."""

    version: str
    libraries_dir: str
    budget_total_bytes: int
    budget_used_bytes: int
    isolation_enforced: bool
    isolation_reason: str
    sandbox: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    clock: str = WALL
    """What programs' events measure, one of ``hal.observe.modelled.CLOCKS``."""

    def slices(self) -> tuple[MigSlice, ...]:
        """Return all slices of the node, in the order of GPUs and placements."""
        return tuple(s for gpu in self.gpus for s in gpu.slices)

    def claimed(self) -> tuple[MigSlice, ...]:
        """Return those of ``slices`` that were made for ResourceClaims."""
        return tuple(s for gpu in self.gpus for s in gpu.claimed)

    def unclaimed(self) -> tuple[MigSlice, ...]:
        """Return those of ``slices`` that were not made for a ResourceClaim."""
        return tuple(s for gpu in self.gpus for s in gpu.unclaimed)


def replica(uuid: str, number: int) -> str:
    """Return the device id of one share of a slice, as NVIDIA's device plugin writes it."""
    return f"{uuid}::{number}"


def shared_uuid(device: str) -> str:
    """Return the UUID of the slice that a device id is of, shared or not."""
    return device.partition("::")[0]


def is_share(device: str) -> bool:
    """Return whether a device id is one of several of a slice, and not the slice alone."""
    return shared_uuid(device) != device


def in_service(health: str) -> bool:
    """Tell whether what has this health (``admin.Gpu``, ``admin.Instance``) may be given away."""
    return health.partition(":")[0] in ("Healthy", "Suspect")


def is_given(gpu: Gpu, one: MigSlice) -> bool:
    """Return whether a slice is given to pods as far as its health and its GPU's go."""
    return in_service(gpu.health) and in_service(one.health)


def out_of_service(inventory: Inventory, why: str) -> Inventory:
    """Return the same on GPUs that are all unhealthy."""
    gpus = tuple(replace(gpu, health=f"Unhealthy: {why}") for gpu in inventory.gpus)
    return replace(inventory, gpus=gpus)


def parse(document: dict[str, Any]) -> Inventory:
    """Read the result of gpud's ``inventory``.

    Raises:
        documents.DocumentError, mig.errors.MigError: when gpud and this agent do not fit together.
    """
    node = admin.Inventory.from_json(document)
    return Inventory(
        version=node.version,
        libraries_dir=node.libraries_dir,
        budget_total_bytes=node.budget.total_bytes,
        budget_used_bytes=node.budget.used_bytes,
        isolation_enforced=node.isolation.enforced,
        isolation_reason=node.isolation.reason,
        sandbox=node.sandbox.standing,
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
            HolderPod(one.namespace, one.name, one.pod_uid, one.container)
            for one in instance.holders
        ),
        health=instance.health,
        owner=instance.owner,
        owner_name=instance.owner_name,
        shares=tuple(
            ClaimShare(
                *(one.owner, one.owner_name, one.memory_bytes),
                *(one.memory_used_bytes, one.contexts),
            )
            for one in instance.shares
        ),
    )
