"""Figures of boards and architectures that attribute queries ask for and MIG geometry lacks.

``ARCHITECTURES``: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
``BOARDS``: the vendor's data sheets, nominal maximum clocks. They describe the hardware to
programs that ask; nothing here changes what the simulator computes or how fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of a streaming multiprocessor, by compute capability."""

    max_threads: int
    max_blocks: int
    shared_bytes: int
    double_ratio: int
    """Single to double precision throughput."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A board's clocks in kHz, memory bus and second-level cache, of the whole GPU."""

    clock_khz: int
    memory_clock_khz: int
    bus_bits: int
    l2_bytes: int


ARCHITECTURES: Mapping[tuple[int, int], Architecture] = MappingProxyType(
    {
        (7, 0): Architecture(2048, 32, 96 * KIB, 2),
        (7, 5): Architecture(1024, 16, 64 * KIB, 32),
        (8, 0): Architecture(2048, 32, 164 * KIB, 2),
        (8, 6): Architecture(1536, 16, 100 * KIB, 64),
        (8, 9): Architecture(1536, 24, 100 * KIB, 64),
        (9, 0): Architecture(2048, 32, 228 * KIB, 2),
        (10, 0): Architecture(2048, 32, 228 * KIB, 2),
        (12, 0): Architecture(1536, 24, 100 * KIB, 64),
    }
)

BOARDS: Mapping[str, Figures] = MappingProxyType(
    {
        "a30": Figures(1_440_000, 1_215_000, 3072, 24 * MIB),
        "a100-40gb": Figures(1_410_000, 1_215_000, 5120, 40 * MIB),
        "a100-80gb": Figures(1_410_000, 1_593_000, 5120, 40 * MIB),
        "h100-80gb": Figures(1_980_000, 2_619_000, 5120, 50 * MIB),
        "h100-nvl": Figures(1_785_000, 2_619_000, 6016, 50 * MIB),
        "h200": Figures(1_980_000, 3_201_000, 6144, 50 * MIB),
        "b200": Figures(1_965_000, 3_996_000, 8192, 126 * MIB),
        "rtx-pro-6000": Figures(2_430_000, 12_481_000, 512, 128 * MIB),
    }
)
