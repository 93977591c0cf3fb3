"""The desired state of the node's GPUs: which GPU objects gpud can apply, and which are refused.

Pure functions and values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from device_plugin.inventory.model import Gpu, Inventory
from device_plugin.kube.gpu_object import GpuObject
from facts.document import GpuFacts
from gpu_operator.api.v1alpha1 import quantity
from gpu_operator.api.v1alpha1.base import Reason
from gpu_operator.api.v1alpha1.gpu import GPUSpec, MigMode, PlacedInstance
from gpu_operator.api.v1alpha1.gpupolicy import Strategy
from gpu_operator.api.v1alpha1.sharing import Shared
from mig import geometry
from mig.errors import UnknownBoardError
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.records import dataclass

Row: TypeAlias = dict[str, str | int]
"""A GPU in the form that gpud's ``configure`` accepts: its UUID, index, board and facts."""


@dataclass(frozen=True, slots=True)
class Desired:
    """The GPUs that gpud should have, and the GPU objects that are refused.

    ``gpus`` has the specs by UUID. ``refused`` has, by object name, the reason why the object is
    not applied. ``frozen`` has the UUIDs of the devices of refused objects. Slices of these devices
    are neither withdrawn nor created. ``all_frozen`` is true if a refused object does not name its
    device; then no slice at all is removed.
    """

    gpus: Mapping[str, GPUSpec] = field(default_factory=dict)
    refused: Mapping[str, tuple[Reason, str]] = field(default_factory=dict)
    frozen: frozenset[str] = frozenset()
    all_frozen: bool = False
    budget_bytes: int = 0
    strategy: Strategy = Strategy.MIXED

    @property
    def sharing(self) -> dict[str, tuple[Shared, ...]]:
        """Return how the devices of each GPU are shared, by the GPU's UUID."""
        return {uuid: spec.sharing for uuid, spec in self.gpus.items()}

    def instances(self, gpu: Gpu) -> tuple[PlacedInstance, ...] | None:
        """Return the instances that a device should have; None if its instances stay unchanged."""
        spec = self.gpus.get(gpu.uuid)
        if spec is not None:
            # its slices are destroyed before the device is replaced
            return spec.layout_instances if _fits(gpu, spec) else ()
        return None if self.is_frozen(gpu.uuid) else ()

    def is_frozen(self, uuid: str) -> bool:
        """Return whether a device must stay unchanged.

        It must if its GPU object is refused. If a refused object does not name a device, every
        device without an applied object must stay unchanged.
        """
        return uuid not in self.gpus and (self.all_frozen or uuid in self.frozen)

    def configuration(self, inventory: Inventory) -> list[Row]:
        """Return the devices that gpud should have.

        A device that still has slices is included unchanged, even if no GPU object specifies it.
        """
        rows: dict[str, Row] = {
            uuid: _row(uuid, spec.index, geometry.board(spec.board).key, spec.facts)
            for uuid, spec in self.gpus.items()
        }
        for gpu, row in zip(inventory.gpus, current_configuration(inventory), strict=True):
            if gpu.slices or (gpu.uuid not in rows and self.instances(gpu) is None):
                rows[gpu.uuid] = row
        return sorted(rows.values(), key=lambda gpu: (gpu["index"], gpu["uuid"]))


def current_configuration(inventory: Inventory) -> list[Row]:
    """Return the devices that gpud has, in the form that ``configure`` accepts."""
    return [_row(gpu.uuid, gpu.index, gpu.board.key, gpu.facts) for gpu in inventory.gpus]


def desired_from_objects(objects: Sequence[GpuObject], default_budget_bytes: int) -> Desired:
    """Divide the GPU objects into those that can be applied and those that are refused."""
    gpus: dict[str, GPUSpec] = {}
    refused: dict[str, tuple[Reason, str]] = {}
    frozen: set[str] = set()
    all_frozen = False
    budget_bytes = default_budget_bytes
    for gpu_object in objects:
        if gpu_object.deleting:
            continue
        problem = _problem(gpu_object, gpus)
        if gpu_object.spec is None or problem is not None:
            refused[gpu_object.name] = problem or (Reason.INVALID_SPEC, gpu_object.problem)
            frozen.add(gpu_object.uuid)
            all_frozen = all_frozen or not gpu_object.uuid
            continue
        gpus[gpu_object.spec.uuid] = gpu_object.spec
        if gpu_object.spec.node_budget:
            budget_bytes = quantity.to_bytes(gpu_object.spec.node_budget)
    strategies = [spec.mig_strategy for spec in sorted(gpus.values(), key=lambda s: s.index)]
    return Desired(
        gpus,
        refused,
        frozenset(frozen - gpus.keys()),
        all_frozen,
        budget_bytes,
        strategies[0] if strategies else Strategy.MIXED,
    )


def _row(uuid: str, index: int, board: str, facts: GpuFacts) -> Row:
    return {"uuid": uuid, "index": index, "board": board, **facts.to_json()}


def _fits(gpu: Gpu, spec: GPUSpec) -> bool:
    return (gpu.index, gpu.board.key) == (spec.index, geometry.board(spec.board).key)


def _problem(
    gpu_object: GpuObject, accepted_specs: Mapping[str, GPUSpec]
) -> tuple[Reason, str] | None:
    spec = gpu_object.spec
    if spec is None:
        return Reason.INVALID_SPEC, gpu_object.problem
    try:
        geometry.board(spec.board)
    except UnknownBoardError as err:
        return Reason.UNKNOWN_BOARD, str(err)
    try:
        topology_named(spec.facts.topology, spec.index + 1)
    except BadShape as err:
        return Reason.INVALID_SPEC, f"spec.topology: {err}"
    try:
        quantity.to_bytes(spec.node_budget or "0")
    except ValueError as err:
        return Reason.INVALID_SPEC, f"spec.nodeBudget: {err}"
    whole = [instance.profile == geometry.WHOLE for instance in spec.instances]
    if spec.mig_mode is not None and whole and all(whole) != (spec.mig_mode is MigMode.DISABLED):
        return Reason.INVALID_SPEC, (
            f"spec.migMode is {spec.mig_mode.value}, which contradicts spec.instances:"
            f" {geometry.WHOLE} is MIG off, every other profile MIG on"
        )
    if spec.uuid in accepted_specs:
        return Reason.NODE_CONFLICT, f"another GPU object of this node has {spec.uuid}"
    if any(spec.index == accepted_spec.index for accepted_spec in accepted_specs.values()):
        return Reason.NODE_CONFLICT, f"another GPU object of this node has index {spec.index}"
    return None
