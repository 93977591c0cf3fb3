"""gpud's inventory as values (docs/gpud-admin.md, ``inventory``)."""

from dataclasses import dataclass
from typing import Any

from mig import geometry


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
    gpus: tuple[Gpu, ...]

    def slices(self) -> tuple[MigSlice, ...]:
        """All slices of the node, in the order of GPUs and placements."""
        return tuple(s for gpu in self.gpus for s in gpu.slices)


def parse(document: dict[str, Any]) -> Inventory:
    """Read the result of gpud's ``inventory``.

    Raises:
        KeyError, TypeError, mig.errors.MigError: when gpud and this agent do not fit together.
    """
    return Inventory(
        version=document["version"],
        libraries_dir=document["libraries_dir"],
        budget_total_bytes=document["budget"]["total_bytes"],
        budget_used_bytes=document["budget"]["used_bytes"],
        isolation_enforced=document["isolation"]["enforced"],
        isolation_reason=document["isolation"].get("reason") or "",
        gpus=tuple(_gpu(gpu) for gpu in sorted(document["gpus"], key=lambda g: g["index"])),
    )


def _gpu(document: dict[str, Any]) -> Gpu:
    board = geometry.board(document["board"])
    instances = sorted(document["instances"], key=lambda i: i["start"])
    return Gpu(
        uuid=document["uuid"],
        index=document["index"],
        board=board,
        health=document["health"],
        slices=tuple(_slice(board, document["uuid"], instance) for instance in instances),
    )


def _slice(board: geometry.Board, gpu_uuid: str, document: dict[str, Any]) -> MigSlice:
    return MigSlice(
        uuid=document["uuid"],
        gpu_uuid=gpu_uuid,
        instance=geometry.Instance(board.profile(document["profile"]), document["start"]),
        memory_bytes=document["memory_bytes"],
        memory_used_bytes=document["memory_used_bytes"],
        multiprocessors=document["multiprocessors"],
        socket_dir=document["socket_dir"],
        contexts=len(document["contexts"]),
        holders=tuple(
            HolderPod(holder["namespace"], holder["name"], holder["pod_uid"])
            for holder in document["holders"]
        ),
    )
