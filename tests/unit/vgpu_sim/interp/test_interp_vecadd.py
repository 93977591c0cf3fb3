"""A vector addition as the compiler emits it, through the whole interpreter."""

import struct
from pathlib import Path

import numpy as np
import pytest

from vgpu_sim.exec import interp
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa.asm import assemble

BASE = address_map.APERTURE_BASES[0] + address_map.DEVICE_OFFSET

GOLDEN = Path(__file__).parents[3] / "golden" / "isa"
MODULE = assemble((GOLDEN / "vecadd.isa").read_text())
VECADD = MODULE.function("vecadd")


@pytest.mark.parametrize("threads", [256, 33, 1])
def test_vector_addition_stops_at_its_bound(threads: int) -> None:
    count, bound = 1000, 990
    a, b = (np.random.default_rng(seed).random(count, dtype=np.float32) for seed in (1, 2))
    data = bytearray(a.tobytes() + b.tobytes() + bytes(4 * count))
    parameters = struct.pack("<QQQI", BASE, BASE + 4 * count, BASE + 8 * count, bound)
    grid = (-(-count // threads), 1, 1)
    memory = interp.BufferMemory(BASE, data)
    interp.run(MODULE, VECADD, grid, (threads, 1, 1), parameters, memory)
    result = np.frombuffer(data, np.float32)[2 * count :]
    assert (result[:bound] == a[:bound] + b[:bound]).all()
    assert (result[bound:] == 0).all()


def test_65536_elements_are_a_few_accesses_of_many_lanes() -> None:
    """Vector addition is fast because warps are wide if no thread waits."""
    accesses = []

    class Counted(interp.BufferMemory):
        def load(self, addresses: np.ndarray, width_bytes: int) -> np.ndarray:
            accesses.append(len(addresses))
            return super().load(addresses, width_bytes)

    count = 65536
    data = bytearray(np.ones(2 * count, dtype=np.float32).tobytes() + bytes(4 * count))
    parameters = struct.pack("<QQQI", BASE, BASE + 4 * count, BASE + 8 * count, count)
    memory = Counted(BASE, data)
    interp.run(MODULE, VECADD, (256, 1, 1), (256, 1, 1), parameters, memory)
    assert (sum(accesses), len(accesses)) == (2 * count, 8)
    assert (np.frombuffer(data, np.float32)[2 * count :] == 2).all()
