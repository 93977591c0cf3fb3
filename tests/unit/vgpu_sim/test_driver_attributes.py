"""Device attributes: complete, true to the slice, and silent about what is not there."""

import importlib.resources
import tomllib

import pytest
from cuda.bindings import driver as cuda

from mig.geometry import BOARDS
from vgpu_sim.driver.attributes import ABSENT, Attribute, attributes_of
from vgpu_sim.driver.device_info import device_info, device_name
from vgpu_sim.driver.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid
from vgpu_sim.driver.silicon import ARCHITECTURES, BOARDS as FIGURES
from vgpu_sim.hal.messages import ATTRIBUTE_UNKNOWN

OFFICIAL = {
    int(one): one.name.removeprefix("CU_DEVICE_ATTRIBUTE_") for one in cuda.CUdevice_attribute
}

# What the CUDA 13 runtime reads when it fills cudaDeviceProp.
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


def test_the_message_is_filled():
    instance = next(one for one in instances() if one.gpu.board_key == "h100-80gb")
    info = device_info(instance, (8, 0), 77, 3, enforced=True)
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
    assert info.attributes[115] == 0


# A feature may be announced only if the client library implements what a program would call next.
NEEDS = {
    19: {"cuMemHostGetDevicePointer"},  # CAN_MAP_HOST_MEMORY
    31: {"cuStreamCreate"},  # CONCURRENT_KERNELS
    78: {"cuStreamGetPriority"},
    83: {"cuMemAllocManaged"},
    92: {"cuStreamWriteValue32"},
    95: {"cuLaunchCooperativeKernel"},
    99: {"cuMemHostRegister"},
    102: {"cuMemCreate", "cuMemMap", "cuMemAddressReserve"},
    115: {"cuMemAllocAsync", "cuDeviceGetMemPool"},
    124: {"cuMemGetHandleForAddressRange"},
    125: {"cuIpcGetEventHandle"},
    127: {"cuTensorMapEncodeTiled"},
    132: {"cuMulticastCreate"},
}


def test_nothing_is_announced_that_the_library_answers_as_not_supported():
    text = (importlib.resources.files("vgpu_sim.native") / "libcuda" / "functions.toml").read_text()
    functions = tomllib.loads(text)["functions"]
    implemented = {one["name"] for one in functions if one.get("class", "absent") != "absent"}
    for instance in instances():
        values = attributes_of(instance, instance.gpu.board.compute_capability)
        for number, names in NEEDS.items():
            if values[number]:
                assert names <= implemented, OFFICIAL[number]


def test_no_kernel_is_told_to_ask_for_more_shared_memory_than_it_has():
    """cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES), which it would call next, answers 801."""
    for instance in instances():
        values = attributes_of(instance, instance.gpu.board.compute_capability)
        assert values[97] == values[8]
