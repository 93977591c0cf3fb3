"""gpud's inventory as values (docs/gpud-admin.md, ``inventory``)."""

from dataclasses import dataclass
from typing import Any

from mig import geometry
from vgpu_sim.hal import admin


@dataclass(frozen=True, slots=True)
class HolderPod:
    """A pod that the kubelet has given a slice to."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A MIG device as gpud has it."""

    uuid: str
    gpu_uuid: str
    instance: geometry.Instance
    memory_bytes: int
    memory_used_bytes: int
    multiprocessors: int
    socket_dir: str
    contexts: int
    holders: tuple[HolderPod, ...]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A simulated GPU of this node."""

    uuid: str
    index: int
    board: geometry.Board
    health: str
    slices: tuple[MigSlice, ...]


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

    def slices(self) -> tuple[MigSlice, ...]:
        """Return all slices of the node, in the order of GPUs and placements."""
        return tuple(s for gpu in self.gpus for s in gpu.slices)


def parse(document: dict[str, Any]) -> Inventory:
    """Read the result of gpud's ``inventory``.

    Raises:
        admin.DocumentError, mig.errors.MigError: when gpud and this agent do not fit together.
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
    )


def _gpu(gpu: admin.Gpu) -> Gpu:
    board = geometry.board(gpu.board)
    instances = sorted(gpu.instances, key=lambda instance: instance.start)
    return Gpu(
        uuid=gpu.uuid,
        index=gpu.index,
        board=board,
        health=gpu.health,
        slices=tuple(_slice(board, gpu.uuid, instance) for instance in instances),
    )


def _slice(board: geometry.Board, gpu_uuid: str, instance: admin.Instance) -> MigSlice:
    return MigSlice(
        uuid=instance.uuid,
        gpu_uuid=gpu_uuid,
        instance=geometry.Instance(board.profile(instance.profile), instance.start),
        memory_bytes=instance.memory_bytes,
        memory_used_bytes=instance.memory_used_bytes,
        multiprocessors=instance.multiprocessors,
        socket_dir=instance.socket_dir,
        contexts=len(instance.contexts),
        holders=tuple(HolderPod(one.namespace, one.name, one.pod_uid) for one in instance.holders),
    )
