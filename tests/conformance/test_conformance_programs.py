"""Random kernels give the same bits on the interpreter and under every plan."""

import numpy as np
import random_kernels
from both_backends import compare
from hypothesis import HealthCheck, given, settings, strategies as st

from vgpu_sim.exec import jit
from vgpu_sim.isa import Module

_SHAPES = ((64, 1, 1), (32, 4, 1), (24, 2, 1), (16, 2, 2), (20, 1, 1), (7, 3, 1), (128, 1, 1))
_TABLE = np.random.default_rng(7).integers(0, 1 << 32, random_kernels.TABLE_WORDS, dtype=np.uint32)
_TABLE[:66:3] = [
    0x7FC00001,
    0xFF800001,
    0x3F800000,
    0,
    0x80000000,
    1,
    5,
    0xFFFFFFFF,
    0x40490FDB,
    7,
    0x7F800000,
] * 2


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(random_kernels.kernels(), st.sampled_from(_SHAPES), st.data())
def test_plans_agree(module: Module, block: tuple[int, int, int], data: st.DataObject) -> None:
    plans = list(jit.legal_plans(module.functions[0], block))
    chosen = data.draw(st.lists(st.sampled_from(plans), min_size=2, max_size=4, unique=True))
    grid = (2, 1, 1)
    threads = block[0] * block[1] * block[2] * grid[0]
    slots = bytes(threads * random_kernels.SLOT_BYTES)
    compare(module, [_TABLE.tobytes(), slots], grid, block, [None, *chosen])
