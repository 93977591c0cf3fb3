"""Limits of a launch: every component enforces the limits that a device reports."""

import re

import pytest

from mig.geometry import board
from vgpu_sim.exec.errors import PlanError
from vgpu_sim.exec.jit.planning.plan import check_block
from vgpu_sim.gpud.devices.attributes import Attribute, attributes_of
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid
from vgpu_sim.hal.compute import limits
from vgpu_sim.native import catalogue, generate


def announced_attributes() -> dict[int, int]:
    h100 = board("h100-80gb")
    gpu = Gpu(new_gpu_uuid(), 0, h100.key)
    instance = MigInstance(new_instance_uuid(), gpu, h100.profile("1g.10gb"), 0, 0)
    return attributes_of(instance, h100.compute_capability)


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", transcribed
# independently: the table under test must not be compared with itself.
EXPECTED = {
    Attribute.MAX_THREADS_PER_BLOCK: ("TESSERA_MAX_THREADS_PER_BLOCK", 1024),
    Attribute.MAX_BLOCK_DIM_X: ("TESSERA_MAX_BLOCK_X", 1024),
    Attribute.MAX_BLOCK_DIM_Y: ("TESSERA_MAX_BLOCK_Y", 1024),
    Attribute.MAX_BLOCK_DIM_Z: ("TESSERA_MAX_BLOCK_Z", 64),
    Attribute.MAX_GRID_DIM_X: ("TESSERA_MAX_GRID_X", 2147483647),
    Attribute.MAX_GRID_DIM_Y: ("TESSERA_MAX_GRID_Y", 65535),
    Attribute.MAX_GRID_DIM_Z: ("TESSERA_MAX_GRID_Z", 65535),
    Attribute.MAX_SHARED_MEMORY_PER_BLOCK: ("TESSERA_MAX_SHARED_BYTES_PER_BLOCK", 49152),
    Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: ("TESSERA_MAX_SHARED_BYTES_OPTIN", 232448),
    Attribute.WARP_SIZE: ("TESSERA_WARP_THREADS", 32),
}


@pytest.mark.parametrize("attribute", EXPECTED, ids=lambda attribute: attribute.name)
def test_devices_announce_what_the_native_runtime_enforces(attribute: Attribute) -> None:
    name, value = EXPECTED[attribute]
    found = re.search(
        rf"#define {name} UINT64_C\((0x[0-9a-f]+)\)", "".join(generate.headers().values())
    )
    assert found is not None
    assert announced_attributes()[attribute] == int(found[1], 16) == value


def test_no_c_file_of_the_worker_has_a_limit_of_its_own() -> None:
    worker = catalogue.RUNTIME
    own = r"(?<!TESSERA_)\bMAX_(BLOCK|GRID|SHARED|THREADS)\w*\s*="
    assert not [path.name for path in worker.rglob("*.[ch]") if re.search(own, path.read_text())]


LARGEST_BLOCKS = [(1024, 1, 1), (1, 1024, 1), (1, 16, 64), (32, 32, 1)]
BAD_BLOCKS = [(1025, 1, 1), (1, 1025, 1), (1, 1, 65), (0, 1, 1), (1, 1, 0), (-1, 1, 1), (32, 33, 1)]


@pytest.mark.parametrize("block", LARGEST_BLOCKS)
def test_the_largest_blocks_are_allowed(block: tuple[int, int, int]) -> None:
    limits.check_block(block)
    check_block(block)


@pytest.mark.parametrize("block", BAD_BLOCKS)
def test_larger_or_empty_blocks_are_refused(block: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=re.escape(str(block))):
        limits.check_block(block)
    with pytest.raises(PlanError, match=re.escape(str(block))):
        check_block(block)


def test_grids_end_where_hardware_ends_them() -> None:
    limits.check_grid((2147483647, 65535, 65535))
    for grid in ((2147483648, 1, 1), (1, 65536, 1), (1, 1, 65536), (1, 0, 1)):
        with pytest.raises(ValueError, match=re.escape(str(grid))):
            limits.check_grid(grid)
