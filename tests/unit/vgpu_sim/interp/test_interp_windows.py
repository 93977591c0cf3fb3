"""Global memory never overlaps the windows of generic addresses, in the product or in test rigs."""

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.interpreted_ptx import compile_verified, kernel
from support.execution.native_launch import pack
from vgpu_sim.exec import interp
from vgpu_sim.exec.interp.spaces import Spaces
from vgpu_sim.hal.compute import address_map

GPU = address_map.APERTURE_BASES[0]
# Including the guard range before the first window.
WINDOWS = address_map.HOST_OFFSET + address_map.HOST_BYTES
BEHIND = address_map.LOCAL_OFFSET + address_map.LOCAL_BYTES
SIZE = 4096

# Stores in shared memory, so that its window exists, and to a generic address.
_MODULE = compile_verified(
    kernel(
        "ld.param.u64 %d, [p]; st.shared.u32 [s], 7; ld.shared.u32 %r, [s]; st.u32 [%d], %r;",
        ".param .u64 p",
        registers=".reg .b64 %d; .reg .b32 %r; .shared .b32 s;",
    )
)


def _run(address: int) -> bytes:
    """Run the kernel on memory at ``address``, on the GPU whose window begins at ``GPU``."""
    function, data = _MODULE.functions[0], bytearray(SIZE)
    memory = interp.BufferMemory(address, data)
    block = pack(function.parameters, function.parameter_bytes, [address])
    interp.run(_MODULE, function, (1, 1, 1), (1, 1, 1), block, memory, segment_base=GPU)
    return bytes(data[:4])


@pytest.mark.parametrize(
    "address",
    [
        GPU + address_map.DEVICE_OFFSET,
        GPU + WINDOWS - SIZE,
        GPU + BEHIND,
        GPU + address_map.GPU_WINDOW_BYTES + address_map.SHARED_OFFSET,  # the window of another GPU
    ],
)
def test_memory_outside_the_windows_is_global(address: int) -> None:
    assert _run(address) == (7).to_bytes(4, "little")


@pytest.mark.parametrize(
    "address",
    [
        GPU + WINDOWS - SIZE + 1,
        GPU + address_map.SHARED_OFFSET + 8192,
        GPU + address_map.LOCAL_OFFSET,
        GPU + BEHIND - 1,
    ],
)
def test_memory_in_the_windows_is_rejected_with_its_address(address: int) -> None:
    with pytest.raises(ValueError, match=f"global memory at {address:#x} .*APERTURE_BASES"):
        _run(address)


def test_every_piece_of_memory_is_checked() -> None:
    class Pieces(interp.BufferMemory):
        def extents(self) -> list[tuple[int, int]]:
            inside = GPU + address_map.SHARED_OFFSET
            return [*super().extents(), (inside, inside + 1)]

    function = _MODULE.functions[0]
    memory = Pieces(GPU + address_map.DEVICE_OFFSET, bytearray(SIZE))
    launch = interp.InterpretedLaunch(
        _MODULE, function, (1, 1, 1), (1, 1, 1), bytes(8), memory, GPU
    )
    with pytest.raises(ValueError, match="is in the windows"):
        Spaces(launch, 32, 1, 32)


def test_rigs_map_their_aperture_where_clients_do() -> None:
    """Buffers at an address chosen by the kernel would sometimes overlap a window."""
    first, second = native_launch.Aperture(), native_launch.Aperture()
    try:
        bases = [first.base, second.base]
        assert first.base != second.base
        assert set(bases) < set(address_map.APERTURE_BASES)
        for aperture in (first, second):
            held = aperture.allocate(np.zeros(SIZE, np.uint8))
            place = held.address % address_map.GPU_WINDOW_BYTES
            assert address_map.MODULE_OFFSET <= place < WINDOWS
        with pytest.raises(AssertionError, match="is an aperture not closed"):
            native_launch.Aperture()
    finally:
        second.close()
        first.close()
    again = native_launch.Aperture()
    again.close()
    assert again.base == bases[0]
