"""Converts the inventory to NVML records: pure functions of ``hal.management.admin`` values.

The records contain only what the administration socket publishes, so that NVML, the exporter and
the node agent agree. NVML's numbers for architectures and brands are those of
``nvmlDeviceArchitecture_t`` and ``nvmlBrandType_t`` in the NVML API reference.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from mig.geometry import Board, board
from vgpu_sim.gpud.devices.device_info import DRIVER_VERSION
from vgpu_sim.gpud.devices.silicon import BOARDS
from vgpu_sim.gpud.management import sensors
from vgpu_sim.gpud.management.profiles import full_width, gi_enum, profile_records
from vgpu_sim.hal.management import admin, nvml
from vgpu_sim.hal.management.nvml import (
    NO_RECORD,
    GpuRecord,
    InstanceRecord,
    ManagementReport,
    MigMode,
    ProcessRecord,
)
from vgpu_sim.perf.boards import BOARDS as MODELLED
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.records import dataclass

ARCHITECTURES: Final = {"Ampere": 7, "Hopper": 9, "Blackwell": 10}
_BRAND_NVIDIA: Final = 14
_BRAND_NVIDIA_RTX: Final = 13
_VENDOR: Final = 0x10DE  # NVIDIA's, of the simulated boards


@dataclass(frozen=True, slots=True)
class Process:
    """What a requester may see of a context. ``pid`` is the client's pid in the requester's PID
    namespace.
    """

    pid: int
    context: admin.Context


@dataclass(frozen=True, slots=True)
class View:
    """What one requester may see. ``processes`` has the visible processes by instance UUID. If
    ``node`` is set, the requester sees everything.

    ``reserved`` has the memory in bytes that an instance can neither use nor allocate now, by
    instance UUID. It is None if the requester's library does not read it.

    If ``stranger`` is set, the requester holds no part of the device, so the device's users are
    hidden.
    """

    gpus: tuple[admin.Gpu, ...]
    node: bool = False
    processes: Mapping[str, Sequence[Process]] = field(default_factory=dict)
    stranger: bool = False
    reserved: Mapping[str, int] | None = None

    def owns(self, gpu: admin.Gpu) -> bool:
        """Return whether the requester holds a GPU as a whole. The requester may then see sums over
        all processes of the GPU.
        """
        return self.node or not gpu.mig_enabled


def report(view: View, with_profiles: bool, sampled_us: int) -> bytes:
    """Return a ManagementReport with the records that a view shows. ``sampled_us`` is the current
    time in microseconds since the epoch.
    """
    ranges: dict[str, tuple[int, int]] = {}
    profiles: list[bytes] = []
    if with_profiles:
        for key in dict.fromkeys(gpu.board for gpu in view.gpus):
            rows = profile_records(key)
            ranges[key] = len(profiles), len(rows)
            profiles += rows
    gpus = [_gpu(view, gpu, ranges.get(gpu.board, (0, 0))) for gpu in view.gpus]
    instances: list[bytes] = []
    processes: list[bytes] = []
    xids: list[bytes] = []
    for number, gpu in enumerate(view.gpus):
        numbers = {instance.uuid: len(instances) + i for i, instance in enumerate(gpu.instances)}
        xids += sensors.xid_records(gpu, number, numbers)
        for instance in gpu.instances:
            visible_processes = view.processes.get(instance.uuid, ())
            processes += [
                _process(len(instances), process, sampled_us) for process in visible_processes
            ]
            record = _instance(number, board(gpu.board), instance)
            instances.append(_with_reserved(record, view, instance.uuid))
    head = new_report(view.node)
    head.gpu_count, head.instance_count = len(gpus), len(instances)
    head.process_count, head.profile_count = len(processes), len(profiles)
    head.xid_count = len(xids)
    return b"".join((bytes(head), *gpus, *instances, *processes, *profiles, *xids))


def new_report(node: bool) -> ManagementReport:
    """Return a ManagementReport without records. ``node`` states whether the report describes the
    whole node.
    """
    head = ManagementReport()
    head.node = int(node)
    head.driver_version = DRIVER_VERSION
    head.driver_release = nvml.DRIVER_RELEASE.encode()
    return head


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a UUID given as "GPU-..." or "MIG-..."."""
    return uuid.UUID(text[4:]).bytes


def _gpu(view: View, gpu: admin.Gpu, profiles: tuple[int, int]) -> bytes:
    its, figures = board(gpu.board), BOARDS[gpu.board]
    record = GpuRecord()
    record.uuid[:] = uuid_bytes(gpu.uuid)
    record.name = gpu.product.encode()
    record.board = gpu.board.encode()
    record.index = gpu.index
    record.pci_bus = int(gpu.pci_bus_id.split(":")[1], 16)
    record.pci_device_id = its.pci_device_id << 16 | _VENDOR
    record.capability_major, record.capability_minor = gpu.capability
    record.architecture = ARCHITECTURES[its.architecture.split()[0]]
    record.brand = _BRAND_NVIDIA_RTX if " RTX " in gpu.product else _BRAND_NVIDIA
    record.mig_mode = MigMode.ENABLED if gpu.mig_enabled else MigMode.DISABLED
    record.max_mig_devices = its.compute_slices if gpu.mig_enabled else 0
    record.multiprocessors = gpu.multiprocessors
    record.bus_bits = figures.bus_bits
    record.copy_engines = its.engines.copy
    record.visible = int(view.owns(gpu))
    record.lost = int(gpu.is_lost)
    record.telemetry = sensors.telemetry_record(gpu, with_sums=view.owns(gpu) and not view.stranger)
    record.telemetry.place = _place(gpu)
    record.memory_bytes = gpu.memory_bytes
    record.first_profile, record.profile_count = profiles
    if record.visible:
        record.memory_used_bytes = sum(instance.memory_used_bytes for instance in gpu.instances)
    return bytes(record)


def _place(gpu: admin.Gpu) -> int:
    """Return a GPU's place in its node's topology, packed as in ``hal.management.nvml``."""
    topology = topology_named(gpu.facts.topology, gpu.index + 1)
    place, modelled = topology.gpus[gpu.index], MODELLED[gpu.board]
    links = topology.links_of(modelled.architecture.split()[0]) if modelled.has_nvlink else 0
    peers = len(topology.gpus) - 1 if links and not topology.switched else 0
    return nvml.PLACE_KNOWN | (
        links << nvml.PLACE_LINKS_SHIFT
        | peers << nvml.PLACE_PEERS_SHIFT
        | int(topology.switched) << nvml.PLACE_SWITCHED_SHIFT
        | place.numa << nvml.PLACE_NUMA_SHIFT
        | place.bridge << nvml.PLACE_BRIDGE_SHIFT
        | place.switch
    )


def _with_reserved(record: InstanceRecord, view: View, uuid: str) -> bytes:
    if view.reserved is None:
        return bytes(record)[: InstanceRecord.memory_reserved_bytes.offset]
    record.memory_reserved_bytes = view.reserved.get(uuid, 0)
    return bytes(record)


def _instance(gpu: int, its: Board, instance: admin.Instance) -> InstanceRecord:
    device = its.device_profile(instance.profile)
    profile = device.profile
    record = InstanceRecord()
    record.uuid[:] = uuid_bytes(instance.uuid)
    record.name = instance.profile.encode()
    record.gpu = gpu
    record.gpu_instance_id = _number(instance.gi_id)
    record.compute_id = _number(instance.ci_id)
    record.start, record.size = instance.start, instance.size
    record.whole = int(profile.is_whole)
    if profile.driver_id is not None:
        record.profile = profile.driver_id
        record.profile_enum = gi_enum(profile)
        narrow = device.compute
        record.compute_enum = full_width(profile) if narrow is None else int(narrow.nvml_ci_enum)
    record.compute_slices = profile.compute_slices
    record.multiprocessors = instance.multiprocessors
    record.engines[:] = profile.engines.counts()
    record.memory_bytes = instance.memory_bytes
    record.memory_used_bytes = instance.shared_used_bytes
    return record


def _number(number: int) -> int:
    return NO_RECORD if number < 0 else number


def _process(instance: int, process: Process, sampled_us: int) -> bytes:
    context = process.context
    return bytes(
        ProcessRecord(instance, process.pid, context.memory_bytes, context.busy_ns, sampled_us)
    )
