"""Device attributes: complete, correct for the slice, and absent for unsupported features."""

import importlib.resources
import tomllib

import pytest
from cuda.bindings import driver as cuda

from boards.record import ARCHITECTURES
from facts.document import GpuFacts
from mig.geometry import BOARDS
from vgpu_sim.gpud.devices.attributes import ABSENT, Attribute, attributes_of
from vgpu_sim.gpud.devices.device_info import device_info, device_name
from vgpu_sim.gpud.devices.silicon import BOARDS as FIGURES
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid
from vgpu_sim.hal.compute import limits
from vgpu_sim.hal.messages import ATTRIBUTE_UNKNOWN, CLOCK_ATTRIBUTE

OFFICIAL = {
    int(one): one.name.removeprefix("CU_DEVICE_ATTRIBUTE_") for one in cuda.CUdevice_attribute
}

# The attributes that the CUDA 13 runtime reads to fill cudaDeviceProp.
READ_BY_CUDART = {
    *range(1, 15), 16, 18, 19, *range(21, 36), *range(37, 44), *range(45, 69), *range(70, 92), 95, 97,
    99, 100, 101, 106, 108, 109, *range(111, 122), 125, 129, 130, 131, 133, 134, 139, 140, 143,
}  # fmt: skip


def instances():
    for board in BOARDS.values():
        gpu = Gpu(new_gpu_uuid(), 2, board.key)
        for profile in board.profiles:
            yield MigInstance(new_instance_uuid(), gpu, profile, profile.starts[-1], 0)


def test_numbers_have_their_official_names():
    assert {int(one): one.name for one in Attribute}.items() <= OFFICIAL.items()
    assert set(OFFICIAL) >= ABSENT
    assert not ABSENT & {int(one) for one in Attribute}


@pytest.mark.parametrize("instance", list(instances()), ids=device_name)
def test_every_slice_of_every_board_answers(instance):
    board, profile = instance.gpu.board, instance.profile
    values = attributes_of(instance, board.compute_capability)
    assert set(values) >= READ_BY_CUDART
    assert values[16] == profile.sm_count
    assert (values[75], values[76]) == board.compute_capability
    assert values[40] == profile.engines.copy
    assert values[38] <= FIGURES[board.key].l2_bytes
    if profile.size == board.placement_units:
        assert values[38] == FIGURES[board.key].l2_bytes
    assert all(-(2**31) < value < 2**31 for value in values.values())


def test_every_board_and_its_capability_has_figures():
    assert set(FIGURES) == set(BOARDS)
    assert {board.compute_capability for board in BOARDS.values()} <= set(ARCHITECTURES)


# From data sheets and the programming guide's table, in their units, independent of the code's
# tables.
ARCHITECTURE_FACTS = {
    # capability: threads and blocks of a multiprocessor, KiB of shared memory, FP32 : FP64
    (7, 0): (2048, 32, 96, 2),
    (7, 5): (1024, 16, 64, 32),
    (8, 0): (2048, 32, 164, 2),
    (8, 6): (1536, 16, 100, 64),
    (8, 9): (1536, 24, 100, 64),
    (9, 0): (2048, 32, 228, 2),
    (10, 0): (2048, 32, 228, 2),
    (12, 0): (1536, 24, 100, 64),
}
BOARD_FACTS = {
    # board: highest clock and memory clock in MHz, bus in bytes, second-level cache in MiB
    "a30": (1440, 1215, 384, 24),
    "a100-40gb": (1410, 1215, 640, 40),
    "a100-80gb": (1410, 1593, 640, 40),
    "h100-80gb": (1980, 2619, 640, 50),
    "h100-nvl": (1785, 2619, 752, 50),
    "h200": (1980, 3201, 768, 50),
    "b200": (1965, 3996, 1024, 126),
    "rtx-pro-6000": (2430, 12481, 64, 128),  # of the Server Edition; 1597 GB/s
}


def whole(key: str) -> MigInstance:
    """Return the instance that spans a whole GPU of a board."""
    gpu = Gpu(new_gpu_uuid(), 0, key)
    profile = max(BOARDS[key].profiles, key=lambda one: (one.size, one.sm_count))
    return MigInstance(new_instance_uuid(), gpu, profile, profile.starts[0], 0)


@pytest.mark.parametrize("key", BOARDS)
def test_a_whole_gpu_has_the_figures_of_its_data_sheet(key):
    instance = whole(key)
    clock_mhz, memory_mhz, bus_bytes, cache_mib = BOARD_FACTS[key]
    values = attributes_of(instance, BOARDS[key].compute_capability)
    assert instance.profile.size == BOARDS[key].placement_units
    assert values[13] == clock_mhz * 1000  # CLOCK_RATE, kHz
    assert values[36] == memory_mhz * 1000  # MEMORY_CLOCK_RATE
    assert values[37] == bus_bytes * 8  # GLOBAL_MEMORY_BUS_WIDTH
    assert values[38] == cache_mib * 1024 * 1024  # L2_CACHE_SIZE


@pytest.mark.parametrize("capability", ARCHITECTURES)
def test_a_capability_has_the_figures_of_the_programming_guide(capability):
    threads, blocks, shared_kib, double_ratio = ARCHITECTURE_FACTS[capability]
    values = attributes_of(whole("h100-80gb"), capability)
    assert values[39] == threads  # MAX_THREADS_PER_MULTIPROCESSOR
    assert values[106] == blocks  # MAX_BLOCKS_PER_MULTIPROCESSOR
    assert values[81] == shared_kib * 1024  # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    assert 48 * 1024 < values[97] <= limits.MAX_SHARED_BYTES_OPTIN  # ..._PER_BLOCK_OPTIN
    assert values[87] == double_ratio  # SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO


# Values that are the same for all slices and boards, from the driver API reference and the
# programming guide.
SAME_EVERYWHERE = {
    1: 1024,  # MAX_THREADS_PER_BLOCK
    2: 1024,  # MAX_BLOCK_DIM_X
    3: 1024,  # MAX_BLOCK_DIM_Y
    4: 64,  # MAX_BLOCK_DIM_Z
    5: 2**31 - 1,  # MAX_GRID_DIM_X
    6: 65535,  # MAX_GRID_DIM_Y
    7: 65535,  # MAX_GRID_DIM_Z
    8: 49152,  # MAX_SHARED_MEMORY_PER_BLOCK
    9: 65536,  # TOTAL_CONSTANT_MEMORY
    10: 32,  # WARP_SIZE
    11: 2**31 - 1,  # MAX_PITCH
    12: 65536,  # MAX_REGISTERS_PER_BLOCK
    14: 512,  # TEXTURE_ALIGNMENT
    17: 0,  # KERNEL_EXEC_TIMEOUT
    18: 0,  # INTEGRATED
    19: 1,  # CAN_MAP_HOST_MEMORY
    20: 0,  # COMPUTE_MODE: CU_COMPUTEMODE_DEFAULT
    30: 512,  # SURFACE_ALIGNMENT
    31: 1,  # CONCURRENT_KERNELS
    32: 1,  # ECC_ENABLED
    34: 0,  # PCI_DEVICE_ID
    35: 0,  # TCC_DRIVER
    41: 1,  # UNIFIED_ADDRESSING
    50: 0,  # PCI_DOMAIN_ID
    51: 32,  # TEXTURE_PITCH_ALIGNMENT
    78: 1,  # STREAM_PRIORITIES_SUPPORTED
    79: 1,  # GLOBAL_L1_CACHE_SUPPORTED
    80: 1,  # LOCAL_L1_CACHE_SUPPORTED
    82: 65536,  # MAX_REGISTERS_PER_MULTIPROCESSOR
    83: 1,  # MANAGED_MEMORY
    89: 1,  # CONCURRENT_MANAGED_ACCESS
    90: 1,  # COMPUTE_PREEMPTION_SUPPORTED
    95: 1,  # COOPERATIVE_LAUNCH
    99: 1,  # HOST_REGISTER_SUPPORTED
    102: 1,  # VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED
    103: 1,  # HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
    115: 1,  # MEMORY_POOLS_SUPPORTED
    119: 1,  # MEMPOOL_SUPPORTED_HANDLE_TYPES
    122: 1,  # CAN_USE_64_BIT_STREAM_MEM_OPS
    123: 1,  # CAN_USE_STREAM_WAIT_VALUE_NOR
    124: 1,  # DMA_BUF_SUPPORTED
    125: 1,  # IPC_EVENT_SUPPORTED
    126: 1,  # MEM_SYNC_DOMAIN_COUNT
    131: -1,  # NUMA_ID
    134: 0,  # HOST_NUMA_ID
    142: 1,  # HOST_NUMA_MEMORY_POOLS_SUPPORTED
    144: 1,  # HOST_MEMORY_POOLS_SUPPORTED
}
TEXTURES = {
    **dict(
        zip(range(21, 30), (131072, 131072, 65536, *[16384] * 3, 32768, 32768, 2048), strict=True)
    ),
    **dict(zip(range(42, 47), (32768, 2048, 1, 32768, 32768), strict=True)),
    **dict(zip(range(47, 50), (8192, 8192, 32768), strict=True)),
    **dict(zip(range(52, 55), (32768, 32768, 2046), strict=True)),
    **dict(zip(range(55, 61), (32768, 131072, 65536, *[16384] * 3), strict=True)),
    **dict(zip(range(61, 66), (32768, 2048, 32768, 32768, 2048), strict=True)),
    **dict(zip(range(66, 69), (32768, 32768, 2046), strict=True)),
    **dict(zip(range(69, 75), (2**28, 131072, 65000, 2097120, 32768, 32768), strict=True)),
    77: 32768,
}
OF_THE_SLICE = {13, 15, 16, 33, 36, 37, 38, 39, 40, 75, 76, 81, 87, 97, 106, 111, 120, 127, 139}


@pytest.mark.parametrize("instance", list(instances()), ids=device_name)
def test_every_value_is_one_of_the_slices_or_the_same_everywhere(instance):
    values = attributes_of(instance, instance.gpu.board.compute_capability)
    fixed = {number: value for number, value in values.items() if number not in OF_THE_SLICE}
    assert fixed == SAME_EVERYWHERE | TEXTURES | dict.fromkeys(ABSENT, 0)
    assert values[40] == instance.profile.engines.copy
    assert values[15] == (values[40] > 0)  # GPU_OVERLAP, ASYNC_ENGINE_COUNT
    assert values[33] == instance.gpu.index + 1  # PCI_BUS_ID
    assert values[97] == values[81] - values[111]  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    assert values[111] == (1024 if values[75] >= 8 else 0)  # RESERVED_SHARED_MEMORY_PER_BLOCK
    assert values[120] == (values[75] >= 9)  # CLUSTER_LAUNCH
    assert values[127] == (values[75] >= 9)  # TENSOR_MAP_ACCESS_SUPPORTED
    assert values[139] == instance.gpu.board.pci_device_id * 0x10000 + 0x10DE  # GPU_PCI_DEVICE_ID


def test_the_message_is_filled():
    instance = next(one for one in instances() if one.gpu.board_key == "h100-80gb")
    info = device_info(instance, (8, 0), 77, 3, enforced=True, multiprocessors=7)
    assert info.name == b"NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert f"MIG-{bytes(info.uuid).hex()}" == instance.uuid.replace("-", "").replace("MIG", "MIG-")
    assert (info.profile, info.board) == (b"1g.10gb", b"h100-80gb")
    assert (info.capability_major, info.capability_minor) == (8, 0)
    assert info.memory_bytes == instance.profile.memory_bytes
    assert (info.memory_used_bytes, info.context_count, info.isolation) == (77, 3, 1)
    assert (info.gpu_index, info.instance_start, info.instance_size) == (2, 6, 1)
    assert info.driver_version == 13000
    assert info.attributes[0] == ATTRIBUTE_UNKNOWN
    assert info.attributes[200] == ATTRIBUTE_UNKNOWN
    assert info.attributes[1] == 1024
    assert info.attributes[132] == 0
    assert info.attributes[CLOCK_ATTRIBUTE] == 0
    reported = device_info(instance, (8, 0), 77, 3, enforced=True, multiprocessors=7, modelled=True)
    assert reported.attributes[CLOCK_ATTRIBUTE] == 1


# A feature may be announced only if the client library implements the calls that use it.
NEEDS = {
    19: {"cuMemHostGetDevicePointer"},  # CAN_MAP_HOST_MEMORY
    31: {"cuStreamCreate"},  # CONCURRENT_KERNELS
    78: {"cuStreamGetPriority"},
    83: {"cuMemAllocManaged"},
    92: {"cuStreamWaitValue32", "cuStreamWriteValue32", "cuStreamBatchMemOp"},
    93: {"cuStreamWaitValue64", "cuStreamWriteValue64"},
    94: {"cuStreamWaitValue32"},
    95: {"cuLaunchCooperativeKernel"},
    122: {"cuStreamWaitValue64", "cuStreamWriteValue64"},
    123: {"cuStreamWaitValue32"},
    99: {"cuMemHostRegister"},
    102: {"cuMemCreate", "cuMemMap", "cuMemAddressReserve"},
    115: {"cuMemAllocAsync", "cuDeviceGetMemPool"},
    124: {"cuMemGetHandleForAddressRange"},
    125: {"cuIpcGetEventHandle"},
    127: {"cuTensorMapEncodeTiled"},
    132: {"cuMulticastCreate"},
}


def test_nothing_is_announced_that_the_library_answers_as_not_supported():
    text = (
        importlib.resources.files("vgpu_sim.clients") / "libcuda" / "functions.toml"
    ).read_text()
    functions = tomllib.loads(text)["functions"]
    implemented = {one["name"] for one in functions if one.get("class", "absent") != "absent"}
    for instance in instances():
        values = attributes_of(instance, instance.gpu.board.compute_capability)
        for number, names in NEEDS.items():
            if values[number]:
                assert names <= implemented, OFFICIAL[number]


@pytest.mark.parametrize(("key", "engines"), [("h100-80gb", 3), ("a100-80gb", 7)])
def test_a_measured_number_of_asynchronous_engines_is_that_of_the_whole_gpu(key, engines):
    board = BOARDS[key]
    whole = MigInstance(new_instance_uuid(), Gpu(new_gpu_uuid(), 0, key), board.whole, 0, 0)
    assert attributes_of(whole, board.compute_capability)[40] == engines


def test_the_bus_is_that_of_the_place_in_the_topology() -> None:
    profile = BOARDS["h100-80gb"].profile("whole")
    for topology, bus in (("flat", 6), ("dgx-h100", 0xC3)):
        gpu = Gpu(new_gpu_uuid(), 5, "h100-80gb", GpuFacts(topology))
        instance = MigInstance(new_instance_uuid(), gpu, profile, 0, 0)
        assert attributes_of(instance, (9, 0))[Attribute.PCI_BUS_ID] == bus
        assert gpu.pci_bus_id == f"00000000:{bus:02X}:00.0"
