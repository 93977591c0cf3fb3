"""Limits of a streaming multiprocessor, by compute capability.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits of a streaming multiprocessor of one compute capability."""

    max_threads: int
    max_blocks: int
    shared_bytes: int
    double_ratio: int
    """The single-precision throughput as a multiple of the double-precision throughput."""


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
