"""Kernels as text, sampled without a worker: buffers are pages of a private memory."""

import struct
from collections.abc import Sequence

from vgpu_sim import compiler
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute import address_map
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.perf.kernels import Chip, Estimate, estimate
from vgpu_sim.worker.modelling.sampler import Place, predict_counts
from vgpu_sim.worker.modelling.watch import MOST_WORDS

BASE = address_map.APERTURE_BASES[0] + address_map.MODULE_OFFSET
_PAGE = 4096
Shape = tuple[int, int, int]


def predict(
    chip: Chip,
    source: str,
    buffers: Sequence[int],
    numbers: Sequence[int] = (),
    *,
    grid: Shape,
    block: Shape,
    shared: int = 0,
    most_words: int = MOST_WORDS,
) -> Estimate:
    """Predict the only kernel of a PTX file. Its parameters are pointers to buffers of the given
    sizes in bytes, then 32-bit numbers.
    """
    module = compiler.compile_ptx(source, capability=(8, 0))
    (function,) = module.functions
    memory, addresses = bytearray(_PAGE), []
    for size in buffers:
        addresses.append(BASE + len(memory))
        memory += bytes(-(-size // _PAGE) * _PAGE)
    parameters = struct.pack(f"<{len(addresses)}Q{len(numbers)}I", *addresses, *numbers)
    before = bytes(memory)
    counts = predict_counts(
        chip,
        module,
        function,
        Launch(function.name, grid, block, parameters, shared),
        Place(BASE, chip.sms),
        BufferMemory(BASE, memory),
        most_words,
    )
    assert bytes(memory) == before, "a sample has changed memory"
    return estimate(chip, counts)
