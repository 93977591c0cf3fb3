"""Limits of a launch: the single table that every component checks and that devices report.

The values are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability", and are the same for every simulated compute capability. The generated C header
defines them as ``TESSERA_...``.
"""

from typing import Final

WARP_THREADS: Final = 32
MAX_THREADS_PER_BLOCK: Final = 1024

MAX_BLOCK_X: Final = 1024
MAX_BLOCK_Y: Final = 1024
MAX_BLOCK_Z: Final = 64
MAX_GRID_X: Final = (1 << 31) - 1
MAX_GRID_Y: Final = 65535
MAX_GRID_Z: Final = 65535

# Static and dynamic shared memory of a block together, and the most that a kernel can opt in to on
# any device. A device may report a lower limit, which the client library enforces.
MAX_SHARED_BYTES_PER_BLOCK: Final = 48 << 10
MAX_SHARED_BYTES_OPTIN: Final = 227 << 10

# Local memory of a thread (512 KiB), and the part of it that is a stack for kernels whose calls
# need one, unless the program has set another limit.
MAX_LOCAL_BYTES_PER_THREAD: Final = 512 << 10
STACK_BYTES_PER_THREAD: Final = 4 << 10

# The most blocks of a cluster, and the most for which a kernel needs no permission
# (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED).
MAX_CLUSTER_BLOCKS: Final = 16
MAX_PORTABLE_CLUSTER_BLOCKS: Final = 8

# Native threads of a context worker: a limit of the worker's own table, not of hardware.
MAX_WORKER_THREADS: Final = 1024

MAX_BLOCK: Final = (MAX_BLOCK_X, MAX_BLOCK_Y, MAX_BLOCK_Z)
MAX_GRID: Final = (MAX_GRID_X, MAX_GRID_Y, MAX_GRID_Z)


def check_grid(grid: tuple[int, int, int]) -> None:
    """Check the size of a launch's grid. Raises ValueError if the size is outside the limits."""
    _check_axes("grid", grid, MAX_GRID)


def check_block(block: tuple[int, int, int]) -> None:
    """Check the size of a launch's blocks. Raises ValueError if the size is outside the limits."""
    _check_axes("block", block, MAX_BLOCK)
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS_PER_BLOCK:
        raise ValueError(f"block {block} has {threads} threads, more than {MAX_THREADS_PER_BLOCK}")


def check_cluster(cluster: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
    """Check the size of a launch's clusters. Raises ValueError if the size is outside the limits,
    or does not divide the grid's.
    """
    blocks = cluster[0] * cluster[1] * cluster[2]
    if min(cluster) < 1 or blocks > MAX_CLUSTER_BLOCKS:
        raise ValueError(f"cluster {cluster} must have 1 to {MAX_CLUSTER_BLOCKS} blocks")
    if any(blocks % part for blocks, part in zip(grid, cluster, strict=True)):
        raise ValueError(f"grid {grid} is not a multiple of cluster {cluster}")


def _check_axes(label: str, axes: tuple[int, int, int], limits: tuple[int, int, int]) -> None:
    if any(not 1 <= axis <= limit for axis, limit in zip(axes, limits, strict=True)):
        raise ValueError(f"{label} {axes} must be at least 1 and at most {limits}")
