"""The device attributes of an instance, by the numbers of CUdevice_attribute.

Numbers and meanings: CUDA driver API reference, "enum CUdevice_attribute". A feature is absent
here if the client library answers its entry points with CUDA_ERROR_NOT_SUPPORTED; a test
compares the two lists. A query for a number that is not set here fails with
CUDA_ERROR_INVALID_VALUE.
"""

from enum import IntEnum

from boards.record import ARCHITECTURES
from vgpu_sim.gpud.devices.silicon import BOARDS
from vgpu_sim.gpud.model import MigInstance
from vgpu_sim.hal.compute import limits

REGISTERS_PER_MULTIPROCESSOR = 65536
_INT_MAX = (1 << 31) - 1
_NVIDIA_PCI_VENDOR = 0x10DE  # the PCI vendor of all simulated boards


class Attribute(IntEnum):
    """The numbers, in ``CUdevice_attribute``, of the device attributes whose value may differ from
    0.
    """

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    TOTAL_CONSTANT_MEMORY = 9
    WARP_SIZE = 10
    MAX_PITCH = 11
    MAX_REGISTERS_PER_BLOCK = 12
    CLOCK_RATE = 13
    TEXTURE_ALIGNMENT = 14
    GPU_OVERLAP = 15
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    COMPUTE_MODE = 20
    MAXIMUM_TEXTURE1D_WIDTH = 21
    MAXIMUM_TEXTURE2D_WIDTH = 22
    MAXIMUM_TEXTURE2D_HEIGHT = 23
    MAXIMUM_TEXTURE3D_WIDTH = 24
    MAXIMUM_TEXTURE3D_HEIGHT = 25
    MAXIMUM_TEXTURE3D_DEPTH = 26
    MAXIMUM_TEXTURE2D_LAYERED_WIDTH = 27
    MAXIMUM_TEXTURE2D_LAYERED_HEIGHT = 28
    MAXIMUM_TEXTURE2D_LAYERED_LAYERS = 29
    SURFACE_ALIGNMENT = 30
    CONCURRENT_KERNELS = 31
    ECC_ENABLED = 32
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    TCC_DRIVER = 35
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    ASYNC_ENGINE_COUNT = 40
    UNIFIED_ADDRESSING = 41
    MAXIMUM_TEXTURE1D_LAYERED_WIDTH = 42
    MAXIMUM_TEXTURE1D_LAYERED_LAYERS = 43
    CAN_TEX2D_GATHER = 44
    MAXIMUM_TEXTURE2D_GATHER_WIDTH = 45
    MAXIMUM_TEXTURE2D_GATHER_HEIGHT = 46
    MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE = 47
    MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE = 48
    MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE = 49
    PCI_DOMAIN_ID = 50
    TEXTURE_PITCH_ALIGNMENT = 51
    MAXIMUM_TEXTURECUBEMAP_WIDTH = 52
    MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH = 53
    MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS = 54
    MAXIMUM_SURFACE1D_WIDTH = 55
    MAXIMUM_SURFACE2D_WIDTH = 56
    MAXIMUM_SURFACE2D_HEIGHT = 57
    MAXIMUM_SURFACE3D_WIDTH = 58
    MAXIMUM_SURFACE3D_HEIGHT = 59
    MAXIMUM_SURFACE3D_DEPTH = 60
    MAXIMUM_SURFACE1D_LAYERED_WIDTH = 61
    MAXIMUM_SURFACE1D_LAYERED_LAYERS = 62
    MAXIMUM_SURFACE2D_LAYERED_WIDTH = 63
    MAXIMUM_SURFACE2D_LAYERED_HEIGHT = 64
    MAXIMUM_SURFACE2D_LAYERED_LAYERS = 65
    MAXIMUM_SURFACECUBEMAP_WIDTH = 66
    MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH = 67
    MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS = 68
    MAXIMUM_TEXTURE1D_LINEAR_WIDTH = 69
    MAXIMUM_TEXTURE2D_LINEAR_WIDTH = 70
    MAXIMUM_TEXTURE2D_LINEAR_HEIGHT = 71
    MAXIMUM_TEXTURE2D_LINEAR_PITCH = 72
    MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH = 73
    MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT = 74
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH = 77
    STREAM_PRIORITIES_SUPPORTED = 78
    GLOBAL_L1_CACHE_SUPPORTED = 79
    LOCAL_L1_CACHE_SUPPORTED = 80
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    MANAGED_MEMORY = 83
    SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87
    CONCURRENT_MANAGED_ACCESS = 89
    COMPUTE_PREEMPTION_SUPPORTED = 90
    COOPERATIVE_LAUNCH = 95
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    HOST_REGISTER_SUPPORTED = 99
    VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED = 102
    HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111
    MEMORY_POOLS_SUPPORTED = 115
    MEMPOOL_SUPPORTED_HANDLE_TYPES = 119
    CAN_USE_64_BIT_STREAM_MEM_OPS = 122
    CAN_USE_STREAM_WAIT_VALUE_NOR = 123
    DMA_BUF_SUPPORTED = 124
    IPC_EVENT_SUPPORTED = 125
    MEM_SYNC_DOMAIN_COUNT = 126
    CLUSTER_LAUNCH = 120
    TENSOR_MAP_ACCESS_SUPPORTED = 127
    NUMA_ID = 131
    HOST_NUMA_ID = 134
    GPU_PCI_DEVICE_ID = 139
    HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142
    HOST_MEMORY_POOLS_SUPPORTED = 144


# Greatest sizes of textures and surfaces: CUDA C++ Programming Guide, "Technical Specifications per
# Compute Capability", from 8.0 on; of the mipmapped and linear ones, what deviceQuery prints.
_TEXTURES: dict[int, int] = {
    Attribute.MAXIMUM_TEXTURE1D_WIDTH: 131072,
    Attribute.MAXIMUM_TEXTURE2D_WIDTH: 131072,
    Attribute.MAXIMUM_TEXTURE2D_HEIGHT: 65536,
    Attribute.MAXIMUM_TEXTURE3D_WIDTH: 16384,
    Attribute.MAXIMUM_TEXTURE3D_HEIGHT: 16384,
    Attribute.MAXIMUM_TEXTURE3D_DEPTH: 16384,
    Attribute.MAXIMUM_TEXTURE2D_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURE2D_LAYERED_HEIGHT: 32768,
    Attribute.MAXIMUM_TEXTURE2D_LAYERED_LAYERS: 2048,
    Attribute.MAXIMUM_TEXTURE1D_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURE1D_LAYERED_LAYERS: 2048,
    Attribute.CAN_TEX2D_GATHER: 1,
    Attribute.MAXIMUM_TEXTURE2D_GATHER_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURE2D_GATHER_HEIGHT: 32768,
    Attribute.MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE: 8192,
    Attribute.MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE: 8192,
    Attribute.MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE: 32768,
    Attribute.MAXIMUM_TEXTURECUBEMAP_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS: 2046,
    Attribute.MAXIMUM_SURFACE1D_WIDTH: 32768,
    Attribute.MAXIMUM_SURFACE2D_WIDTH: 131072,
    Attribute.MAXIMUM_SURFACE2D_HEIGHT: 65536,
    Attribute.MAXIMUM_SURFACE3D_WIDTH: 16384,
    Attribute.MAXIMUM_SURFACE3D_HEIGHT: 16384,
    Attribute.MAXIMUM_SURFACE3D_DEPTH: 16384,
    Attribute.MAXIMUM_SURFACE1D_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_SURFACE1D_LAYERED_LAYERS: 2048,
    Attribute.MAXIMUM_SURFACE2D_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_SURFACE2D_LAYERED_HEIGHT: 32768,
    Attribute.MAXIMUM_SURFACE2D_LAYERED_LAYERS: 2048,
    Attribute.MAXIMUM_SURFACECUBEMAP_WIDTH: 32768,
    Attribute.MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH: 32768,
    Attribute.MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS: 2046,
    Attribute.MAXIMUM_TEXTURE1D_LINEAR_WIDTH: 1 << 28,
    Attribute.MAXIMUM_TEXTURE2D_LINEAR_WIDTH: 131072,
    Attribute.MAXIMUM_TEXTURE2D_LINEAR_HEIGHT: 65000,
    Attribute.MAXIMUM_TEXTURE2D_LINEAR_PITCH: 2097120,
    Attribute.MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH: 32768,
    Attribute.MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT: 32768,
    Attribute.MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH: 32768,
}

# Features that need entry points which answer "not supported": all of these are 0.
ABSENT: frozenset[int] = frozenset(
    {
        84,  # MULTI_GPU_BOARD
        85,  # MULTI_GPU_BOARD_GROUP_ID
        86,  # HOST_NATIVE_ATOMIC_SUPPORTED
        88,  # PAGEABLE_MEMORY_ACCESS
        91,  # CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: such memory has two addresses (ADR 142)
        # The first version of stream memory operations is absent from drivers since CUDA 12.
        92,  # CAN_USE_STREAM_MEM_OPS_V1
        93,  # CAN_USE_64_BIT_STREAM_MEM_OPS_V1
        94,  # CAN_USE_STREAM_WAIT_VALUE_NOR_V1
        96,  # COOPERATIVE_MULTI_DEVICE_LAUNCH
        98,  # CAN_FLUSH_REMOTE_WRITES
        100,  # PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
        101,  # DIRECT_MANAGED_MEM_ACCESS_FROM_HOST
        104,  # HANDLE_TYPE_WIN32_HANDLE_SUPPORTED
        105,  # HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED
        107,  # GENERIC_COMPRESSION_SUPPORTED
        108,  # MAX_PERSISTING_L2_CACHE_SIZE
        109,  # MAX_ACCESS_POLICY_WINDOW_SIZE
        110,  # GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
        112,  # SPARSE_CUDA_ARRAY_SUPPORTED
        113,  # READ_ONLY_HOST_REGISTER_SUPPORTED
        114,  # TIMELINE_SEMAPHORE_INTEROP_SUPPORTED
        116,  # GPU_DIRECT_RDMA_SUPPORTED
        117,  # GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
        118,  # GPU_DIRECT_RDMA_WRITES_ORDERING
        121,  # DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED
        128,  # HANDLE_TYPE_FABRIC_SUPPORTED
        129,  # UNIFIED_FUNCTION_POINTERS
        130,  # NUMA_CONFIG: CU_DEVICE_NUMA_CONFIG_NONE
        132,  # MULTICAST_SUPPORTED
        133,  # MPS_ENABLED
        135,  # D3D12_CIG_SUPPORTED
        136,  # MEM_DECOMPRESS_ALGORITHM_MASK
        137,  # MEM_DECOMPRESS_MAXIMUM_LENGTH
        138,  # VULKAN_CIG_SUPPORTED
        140,  # GPU_PCI_SUBSYSTEM_ID
        141,  # HOST_NUMA_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED
        143,  # HOST_NUMA_MULTINODE_IPC_SUPPORTED
        145,  # HOST_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED
        146,  # HOST_ALLOC_DMA_BUF_SUPPORTED
        147,  # ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED
    }
)


def sm_limits(capability: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the limits of a multiprocessor of this compute capability, in the form of
    ``hal.compute.spawn.WorkerConfig``.

    Raises:
        KeyError: no limits are known for this capability.
    """
    architecture = ARCHITECTURES[capability]
    return (
        architecture.max_threads,
        architecture.max_blocks,
        architecture.shared_bytes,
        _reserved_bytes(capability),
    )


def _reserved_bytes(capability: tuple[int, int]) -> int:
    """Return the bytes of each block's shared memory that the system reserves."""
    return 1024 if capability[0] >= 8 else 0


def attributes_of(instance: MigInstance, capability: tuple[int, int]) -> dict[int, int]:
    """Return all known attributes of an instance that reports this compute capability.

    Raises:
        KeyError: no figures are known for the instance's board or for the capability.
    """
    board = instance.gpu.board
    profile = instance.profile
    architecture = ARCHITECTURES[capability]
    figures = BOARDS[board.key]
    a = Attribute
    reserved_bytes = _reserved_bytes(capability)
    async_engines = profile.engines.copy
    if profile.is_whole and figures.async_engines is not None:
        async_engines = figures.async_engines
    values: dict[int, int] = dict.fromkeys(ABSENT, 0)
    values |= _TEXTURES
    values |= {
        a.MAX_THREADS_PER_BLOCK: limits.MAX_THREADS_PER_BLOCK,
        a.MAX_BLOCK_DIM_X: limits.MAX_BLOCK_X,
        a.MAX_BLOCK_DIM_Y: limits.MAX_BLOCK_Y,
        a.MAX_BLOCK_DIM_Z: limits.MAX_BLOCK_Z,
        a.MAX_GRID_DIM_X: limits.MAX_GRID_X,
        a.MAX_GRID_DIM_Y: limits.MAX_GRID_Y,
        a.MAX_GRID_DIM_Z: limits.MAX_GRID_Z,
        a.MAX_SHARED_MEMORY_PER_BLOCK: limits.MAX_SHARED_BYTES_PER_BLOCK,
        a.TOTAL_CONSTANT_MEMORY: 64 * 1024,
        a.WARP_SIZE: limits.WARP_THREADS,
        a.MAX_PITCH: _INT_MAX,
        a.MAX_REGISTERS_PER_BLOCK: REGISTERS_PER_MULTIPROCESSOR,
        a.CLOCK_RATE: figures.max_clock_khz,
        a.TEXTURE_ALIGNMENT: 512,
        a.GPU_OVERLAP: int(profile.engines.copy > 0),
        a.MULTIPROCESSOR_COUNT: instance.sm_count,
        a.KERNEL_EXEC_TIMEOUT: 0,
        a.INTEGRATED: 0,
        a.CAN_MAP_HOST_MEMORY: 1,
        a.COMPUTE_MODE: 0,
        a.SURFACE_ALIGNMENT: 512,
        a.CONCURRENT_KERNELS: 1,
        a.ECC_ENABLED: 1,  # gpud counts memory errors (docs/gpud-admin.md)
        a.PCI_BUS_ID: instance.gpu.pci_bus,
        a.PCI_DEVICE_ID: 0,
        a.TCC_DRIVER: 0,
        a.MEMORY_CLOCK_RATE: figures.memory_clock_khz,
        a.GLOBAL_MEMORY_BUS_WIDTH: figures.bus_bits * profile.size // board.placement_units,
        a.L2_CACHE_SIZE: figures.l2_bytes * profile.size // board.placement_units,
        a.MAX_THREADS_PER_MULTIPROCESSOR: architecture.max_threads,
        a.ASYNC_ENGINE_COUNT: async_engines,
        a.UNIFIED_ADDRESSING: 1,
        a.PCI_DOMAIN_ID: 0,
        a.TEXTURE_PITCH_ALIGNMENT: 32,
        a.COMPUTE_CAPABILITY_MAJOR: capability[0],
        a.COMPUTE_CAPABILITY_MINOR: capability[1],
        a.STREAM_PRIORITIES_SUPPORTED: 1,
        a.GLOBAL_L1_CACHE_SUPPORTED: 1,
        a.LOCAL_L1_CACHE_SUPPORTED: 1,
        a.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: architecture.shared_bytes,
        a.MAX_REGISTERS_PER_MULTIPROCESSOR: REGISTERS_PER_MULTIPROCESSOR,
        a.MANAGED_MEMORY: 1,
        a.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: architecture.double_ratio,
        a.CONCURRENT_MANAGED_ACCESS: 1,
        a.COMPUTE_PREEMPTION_SUPPORTED: 1,
        a.COOPERATIVE_LAUNCH: 1,
        a.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: architecture.shared_bytes - reserved_bytes,
        a.HOST_REGISTER_SUPPORTED: 1,
        a.VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED: 1,
        a.HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: 1,
        a.MAX_BLOCKS_PER_MULTIPROCESSOR: architecture.max_blocks,
        a.RESERVED_SHARED_MEMORY_PER_BLOCK: reserved_bytes,
        a.MEMORY_POOLS_SUPPORTED: 1,
        a.MEMPOOL_SUPPORTED_HANDLE_TYPES: 1,  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
        a.CAN_USE_64_BIT_STREAM_MEM_OPS: 1,
        a.CAN_USE_STREAM_WAIT_VALUE_NOR: 1,
        a.DMA_BUF_SUPPORTED: 1,
        a.IPC_EVENT_SUPPORTED: 1,
        a.MEM_SYNC_DOMAIN_COUNT: 1,
        a.TENSOR_MAP_ACCESS_SUPPORTED: int(capability >= (9, 0)),
        a.CLUSTER_LAUNCH: int(capability >= (9, 0)),
        a.NUMA_ID: -1,
        a.HOST_NUMA_ID: 0,  # for libcuda the host is one NUMA node
        a.HOST_NUMA_MEMORY_POOLS_SUPPORTED: 1,
        a.HOST_MEMORY_POOLS_SUPPORTED: 1,
        a.GPU_PCI_DEVICE_ID: board.pci_device_id << 16 | _NVIDIA_PCI_VENDOR,
    }
    return values
