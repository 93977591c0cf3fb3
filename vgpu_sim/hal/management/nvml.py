"""Requests of libnvidia-ml.so.1 to gpud, on a slice's socket or on gpud's management socket.

One connection carries one message: a ``Header`` of type MANAGEMENT and a ``ManagementRequest``.
The reply is a ``ManagementReport``; its status is an nvmlReturn_t. In the reply to a REPORT,
``gpu_count`` GpuRecords follow, then ``instance_count`` InstanceRecords and so on, in the order
of the counts. The whole reply is one packet of at most MAX_REPORT_BYTES. On a slice's socket the
report shows that slice, its GPU, and the requester's own processes; a request for a change is
answered NO_PERMISSION.
"""

import ctypes
from ctypes import c_char, c_uint8, c_uint16, c_uint32, c_uint64
from enum import IntEnum
from typing import Final

from vgpu_sim.hal.messages import TOKEN_BYTES

# The R580 drivers are those of CUDA 13.0, the version that cuDriverGetVersion returns. NVIDIA has
# no release with this number, so that Tessera cannot be mistaken for one.
DRIVER_RELEASE: Final = "580.0.1"
MANAGEMENT_SOCKET_NAME: Final = "management.sock"  # in gpud's run directory

UUID_BYTES: Final = 16
NVML_NAME_BYTES: Final = 96
PROFILE_NAME_BYTES: Final = 32
ENGINE_KINDS: Final = 5  # copy, decoder, encoder, JPEG, optical flow
MAX_STARTS: Final = 16
MAX_COMPUTE_STARTS: Final = 8
MAX_COMPUTE_PROFILES: Final = 8
MAX_FANS: Final = 4
MAX_REPORT_BYTES: Final = 192 << 10  # 8 GPUs with 64 contexts on each of 56 slices, and profiles
NO_RECORD: Final = 0xFFFFFFFF
PLACE_KNOWN: Final = 1 << 31  # otherwise each GPU has its own bridge
PLACE_LINKS_SHIFT: Final = 24  # 7 bits
PLACE_SWITCHED_SHIFT: Final = 23
PLACE_PEERS_SHIFT: Final = (
    20  # 3 bits: the number of GPUs that its NVLinks lead to, if not to NVSwitches
)
PLACE_NUMA_SHIFT: Final = 16  # 4 bits
PLACE_BRIDGE_SHIFT: Final = 8
NVSWITCH_BUS: Final = 0x05
ANY_START: Final = 0xFFFFFFFF


class NvmlReturn(IntEnum):
    """The statuses that gpud returns, with the numbers of nvmlReturn_t."""

    SUCCESS = 0
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23
    ARGUMENT_VERSION_MISMATCH = 25
    UNKNOWN = 999


class ManagementOperation(IntEnum):
    """The operation of a management request; the request's ``uuid`` names a GPU or an instance."""

    REPORT = 1
    CREATE_GPU_INSTANCE = 2  # of a GPU: profile (driver ID), start or ANY_START
    DESTROY_GPU_INSTANCE = 3
    # In the GPU instance that contains ``uuid``: profile (NVML's number), start in compute slices,
    # or ANY_START.
    CREATE_COMPUTE_INSTANCE = 4
    DESTROY_COMPUTE_INSTANCE = 5
    REMAINING_CAPACITY = 6  # of a GPU: how many more instances of a profile (driver ID)
    SET_MIG_MODE = 7  # of a GPU: mode


class ReportFlag(IntEnum):
    """Bits of a REPORT request's ``mode``, which select parts of the report."""

    PROFILES = 1  # include ProfileRecords, which never change
    RESERVED = 2  # instance records end with memory_reserved_bytes; an older gpud ignores this


class MigMode(IntEnum):
    """A GPU's MIG mode, with the numbers of NVML_DEVICE_MIG_*."""

    DISABLED = 0
    ENABLED = 1


class ManagementRequest(ctypes.Structure):
    """The single message that a client sends on a management connection."""

    _fields_ = (
        ("version_min", c_uint16),
        ("version_max", c_uint16),
        ("operation", c_uint32),
        ("uuid", c_uint8 * UUID_BYTES),
        ("profile", c_uint32),
        ("start", c_uint32),
        ("mode", c_uint32),
        ("reserved", c_uint32),
        ("token", c_uint8 * TOKEN_BYTES),
    )


class ManagementReport(ctypes.Structure):
    """The head of gpud's answer to a management request. Fields that the request did not select are
    0.

    ``node`` is 1 if the request came through the management socket, which shows the whole node.
    ``uuid`` is the UUID of the instance that the request created. ``remaining`` is the result of
    the operation REMAINING_CAPACITY.
    """

    _fields_ = (
        ("gpu_count", c_uint32),
        ("instance_count", c_uint32),
        ("process_count", c_uint32),
        ("profile_count", c_uint32),
        ("xid_count", c_uint32),
        ("node", c_uint32),
        ("remaining", c_uint32),
        ("driver_version", c_uint32),
        ("uuid", c_uint8 * UUID_BYTES),
        ("driver_release", c_char * 32),
    )


class TelemetryRecord(ctypes.Structure):
    """The sensor readings and memory errors of a GPU: ``admin.Gpu.telemetry`` and ``ecc``. The unit
    of a field is the one that the field's name states, or else the one that NVML defines.

    ``idle_memory_mhz`` is 0 if the memory clock is never slow.

    ``clock_event_reasons`` are bits of nvmlClocksEventReasons; ``fan_percents`` has
    ``fan_count`` entries.

    ``place`` describes the GPU's position in its node's topology, packed into bits (PLACE_*). It
    has the numbers of the GPU's PCIe switch, host bridge and NUMA node, and how many NVLinks the
    GPU has. If the NVLinks lead to NVSwitches, a flag in ``place`` is set. Otherwise ``place`` has
    the number of GPUs to which the NVLinks lead.
    """

    _fields_ = (
        ("gpu_percent", c_uint32),
        ("memory_percent", c_uint32),
        ("sm_mhz", c_uint32),
        ("memory_mhz", c_uint32),
        ("max_sm_mhz", c_uint32),
        ("max_memory_mhz", c_uint32),
        ("power_mw", c_uint32),
        ("power_limit_mw", c_uint32),
        ("temperature_c", c_uint32),
        ("memory_temperature_c", c_uint32),
        ("slowdown_c", c_uint32),
        ("shutdown_c", c_uint32),
        ("performance_state", c_uint32),
        ("clock_event_reasons", c_uint32),
        ("fan_count", c_uint32),
        ("fan_percents", c_uint32 * MAX_FANS),
        ("idle_sm_mhz", c_uint16),
        ("idle_memory_mhz", c_uint16),
        ("pcie_tx_bytes_per_s", c_uint64),
        ("pcie_rx_bytes_per_s", c_uint64),
        ("energy_mj", c_uint64),
        ("ecc_volatile", c_uint64 * 2),  # corrected, uncorrected
        ("ecc_aggregate", c_uint64 * 2),
        ("remapped_rows", c_uint32),
        ("pending_rows", c_uint32),
        ("remapping_failed", c_uint32),
        ("place", c_uint32),
    )


class GpuRecord(ctypes.Structure):
    """A GPU as an NVML requester sees it. ``visible`` is 1 if the requester holds the whole GPU,
    and may therefore see sums over all its processes.

    ``architecture`` and ``brand`` are NVML's numbers. ``lost`` is set if the GPU no longer
    responds. The GPU's profiles are ``profile_count`` consecutive ProfileRecords. ``first_profile``
    is the number of the first of these records.
    """

    _fields_ = (
        ("uuid", c_uint8 * UUID_BYTES),
        ("name", c_char * NVML_NAME_BYTES),
        ("board", c_char * PROFILE_NAME_BYTES),
        ("index", c_uint32),
        ("pci_bus", c_uint32),
        ("pci_device_id", c_uint32),
        ("capability_major", c_uint32),
        ("capability_minor", c_uint32),
        ("architecture", c_uint32),
        ("brand", c_uint32),
        ("mig_mode", c_uint32),
        ("max_mig_devices", c_uint32),
        ("multiprocessors", c_uint32),
        ("bus_bits", c_uint32),
        ("visible", c_uint32),
        ("lost", c_uint32),
        ("first_profile", c_uint32),
        ("profile_count", c_uint32),
        ("copy_engines", c_uint32),
        ("memory_bytes", c_uint64),
        ("memory_used_bytes", c_uint64),
        ("telemetry", TelemetryRecord),
    )


class InstanceRecord(ctypes.Structure):
    """A MIG device: a compute instance in a GPU instance. ``gpu`` is the index of the GpuRecord of
    its GPU.

    Compute instances of one GPU instance have the same ``gpu_instance_id``, and share the GPU
    instance's properties: ``profile``, ``start``, ``size``, ``compute_slices``, engines and
    memory. Each compute instance has its own ``name``, ``multiprocessors``, ``compute_enum`` and
    ``compute_id``. ``compute_enum`` determines how many compute slices a compute instance has,
    and ``compute_id`` is the first of them. If a GPU instance has no compute instance, its
    record's ``compute_id`` is NO_RECORD. ``profile`` is the profile's ID in the driver;
    ``profile_enum`` and ``compute_enum`` are NVML's numbers of the profiles.

    If MIG mode is off, the record describes the whole GPU and ``whole`` is 1.
    ``memory_reserved_bytes`` is the memory that is not used and cannot be allocated, because other
    slices have the node's budget. It is in the report only if ReportFlag.RESERVED was requested.
    """

    _fields_ = (
        ("uuid", c_uint8 * UUID_BYTES),
        ("name", c_char * PROFILE_NAME_BYTES),
        ("gpu", c_uint32),
        ("gpu_instance_id", c_uint32),
        ("compute_id", c_uint32),
        ("profile", c_uint32),
        ("profile_enum", c_uint32),
        ("compute_enum", c_uint32),
        ("start", c_uint32),
        ("size", c_uint32),
        ("compute_slices", c_uint32),
        ("multiprocessors", c_uint32),
        ("engines", c_uint32 * ENGINE_KINDS),
        ("whole", c_uint32),
        ("memory_bytes", c_uint64),
        ("memory_used_bytes", c_uint64),
        ("memory_reserved_bytes", c_uint64),
    )


class ProcessRecord(ctypes.Structure):
    """A CUDA context. ``instance`` is the index of the InstanceRecord that describes where it runs.
    ``pid`` is the pid of the context's process in the requester's namespace.
    """

    _fields_ = (
        ("instance", c_uint32),
        ("pid", c_uint32),
        ("memory_bytes", c_uint64),
        ("busy_ns", c_uint64),
        ("sampled_us", c_uint64),
    )


class ComputeProfile(ctypes.Structure):
    """A compute instance profile inside a GPU instance profile; ``starts`` are the compute slices
    at which it may begin.
    """

    _fields_ = (
        ("compute_enum", c_uint32),
        ("compute_slices", c_uint32),
        ("multiprocessors", c_uint32),
        ("start_count", c_uint32),
        ("starts", c_uint32 * MAX_COMPUTE_STARTS),
    )


class ProfileRecord(ctypes.Structure):
    """A GPU instance profile of a board, with its compute instance profiles, narrowest first."""

    _fields_ = (
        ("name", c_char * PROFILE_NAME_BYTES),
        ("profile", c_uint32),
        ("profile_enum", c_uint32),
        ("compute_slices", c_uint32),
        ("size", c_uint32),
        ("multiprocessors", c_uint32),
        ("max_count", c_uint32),
        ("engines", c_uint32 * ENGINE_KINDS),
        ("start_count", c_uint32),
        ("starts", c_uint32 * MAX_STARTS),
        ("memory_bytes", c_uint64),
        ("compute_count", c_uint32),
        ("reserved", c_uint32),
        ("computes", ComputeProfile * MAX_COMPUTE_PROFILES),
    )


class XidRecord(ctypes.Structure):
    """An Xid of a GPU. ``gpu`` is the index of the GPU's GpuRecord. ``instance`` is the index of an
    InstanceRecord, or NO_RECORD if the Xid concerns the whole GPU.

    ``sequence`` rises by one with each Xid of a GPU.
    """

    _fields_ = (
        ("gpu", c_uint32),
        ("instance", c_uint32),
        ("sequence", c_uint64),
        ("xid", c_uint32),
        ("reserved", c_uint32),
    )


STRUCTURES: Final = (
    ManagementRequest,
    ManagementReport,
    TelemetryRecord,
    GpuRecord,
    InstanceRecord,
    ProcessRecord,
    ComputeProfile,
    ProfileRecord,
    XidRecord,
)
ENUMS: Final = (NvmlReturn, ManagementOperation, ReportFlag, MigMode)
