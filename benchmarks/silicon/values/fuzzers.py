"""Cases of the fuzzers: random kernels, random programs through LLVM, and kernels of clusters."""

import re
import struct
from collections.abc import Iterator
from typing import Any

from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.capture import suit_target
from support.fuzzers.random_ir import backends, programs
from support.kernels.random_kernels import clusters, kernels
from support.kernels.random_kernels.program import SLOT_BYTES

_FIRST_SEED = 500_000
_NEWER = re.compile(
    r"f32x2|e2m\dx2|e3m2x2|(?:add|sub|fma)\.[a-z.]*f32\.b?f16|satfinite\S*tf32|tf32\S*satfinite"
    r"|bf16x2\.e\dm|e\dm\dx2\.bf16x2|8x4|add\.sat\.(?:u32|[us]16x2)|clmad"
)
"""Instructions that no GPU of compute capability 9.0 has."""


def random_kernels(count: int, store: Store) -> Iterator[dict[str, Any]]:
    """Return kernels that access no memory outside of their own."""
    accepted_count, seed = 0, _FIRST_SEED
    while accepted_count < count:
        kernel = kernels.generate(seed)
        seed += 1
        if kernel.wild or _NEWER.search(kernel.code):
            continue
        accepted_count += 1
        n, m, w, real = kernel.words
        parameters = struct.pack(
            "<QQIIQI", 0, 0, n & 0xFFFFFFFF, m & 0xFFFFFFFF, w & (1 << 64) - 1, real & 0xFFFFFFFF
        )
        yield {
            "id": f"random/{kernel.seed}",
            "group": "random",
            "ptx": suit_target(_with_all_set(kernel.code)),
            "entry": "k",
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "params": parameters.hex(),
            "buffers": [[store.add(kernel.table()), 0], [kernel.threads * SLOT_BYTES, 0]],
            "relocs": [["p", 0, 0, 0], ["p", 8, 1, 0]],
            "out": [1],
        }


def _with_all_set(code: str) -> str:
    """Return a kernel that sets all registers: on a GPU, they begin with any values."""
    place = "mov.b64 %d1, %w;"
    assert place in code
    return code.replace(place, f"{place} mov.b64 %d2, 0; mov.b16 %h1, 0;", 1)


def random_programs(count: int, store: Store) -> Iterator[dict[str, Any]]:
    """Return programs that LLVM compiled to PTX."""
    for seed in range(_FIRST_SEED, _FIRST_SEED + count):
        program = programs.generate(seed)
        try:
            text = backends.ptx_alone(program)
        except backends.NoPtx:
            continue
        blank = bytes([backends.UNWRITTEN]) * (program.rows * programs.OUT_WORDS * 8)
        inputs = program.inputs().tobytes()
        yield {
            "id": f"program/{seed}",
            "group": "program",
            "ptx": suit_target(text),
            "entry": "kernel",
            "grid": [program.blocks, 1, 1],
            "block": list(program.block),
            "params": bytes(16).hex(),
            "buffers": [[store.add(blank), 0], [store.add(inputs), 0]],
            "relocs": [["p", 0, 0, 0], ["p", 8, 1, 0]],
            "out": [0],
        }


def cluster_kernels(count: int) -> Iterator[dict[str, Any]]:
    """Return kernels whose blocks exchange numbers within clusters."""
    for seed in range(_FIRST_SEED, _FIRST_SEED + count):
        kernel = clusters.generate(seed)
        yield {
            "id": f"cluster/{seed}",
            "group": "cluster",
            "ptx": suit_target(kernel.text.strip() + "\n"),
            "entry": "k",
            "grid": list(kernel.grid),
            "block": [kernel.threads, 1, 1],
            "params": bytes(8).hex(),
            "buffers": [[kernel.expected.nbytes, 0]],
            "relocs": [["p", 0, 0, 0]],
        }
