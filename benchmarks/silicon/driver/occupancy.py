"""Occupancy: blocks, grids, shared memory and clusters over many shapes of a launch."""

import ctypes
import hashlib
import random
from typing import Any

from benchmarks.silicon.driver import kernels
from benchmarks.silicon.driver.answers import Out
from benchmarks.silicon.driver.context import Rig, rig

BATCH = 100
BATCHES = {"blocks": 36, "potential": 10, "available": 14, "clusters": 12, "largest": 4}
OPTIN = 232448
DYNAMIC, CARVEOUT, NON_PORTABLE = 8, 9, 14
CLUSTER_DIMENSION = 4


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
    )


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


def make_config(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    cluster: tuple[int, ...] | None = None,
) -> tuple[Config, Any]:
    """Return a launch's configuration, and what it points to."""
    config = Config((*grid,), (*block,), shared & 0xFFFF_FFFF)
    if cluster is None:
        return config, None
    attribute = (Attribute * 1)()
    attribute[0].id = CLUSTER_DIMENSION
    for i, value in enumerate(cluster):
        attribute[0].value[i] = value
    config.attributes, config.count = ctypes.addressof(attribute), 1
    return config, attribute


def size(rng: random.Random) -> int:
    """Return a block size."""
    usual = rng.choice((32, 64, 96, 128, 192, 256, 384, 512, 768, 1024))
    return rng.choice((usual, usual, rng.randint(1, 1024), rng.choice((-1, 0, 1025, 2048, 1))))


def dynamic(rng: random.Random) -> int:
    """Return a size of dynamic shared memory."""
    return rng.choice(
        (
            0,
            0,
            rng.randrange(0, 49152),
            rng.randrange(0, OPTIN + 2000),
            rng.choice((49152, 49153, OPTIN, OPTIN + 1, 1 << 31, 1 << 40)),
        )
    )


def blocks(gpu_rig: Rig, rng: random.Random) -> list[Any]:
    """Ask for the blocks of a multiprocessor."""
    name = rng.choice(kernels.NAMES)
    function = gpu_rig.function(name)
    flags = rng.choice((0, 0, 0, 1, 2))
    room, threads, shared = rng.choice((0, 0, 49152, 100000)), size(rng), dynamic(rng)
    gpu_rig.api.call("cuFuncSetAttribute", function, DYNAMIC, room)
    out = Out("i32")
    if flags or rng.random() < 0.3:
        call = "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"
        status, _ = gpu_rig.api.call(call, out, function, threads, shared, flags)
    else:
        call = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        status, _ = gpu_rig.api.call(call, out, function, threads, shared)
    return [name, room, threads, shared, flags, status, out.show()]


def potential(gpu_rig: Rig, rng: random.Random) -> list[Any]:
    """Ask for the block size with the largest occupancy."""
    name = rng.choice(kernels.NAMES)
    grid, block = Out("i32"), Out("i32")
    shared, limit = dynamic(rng), rng.choice((0, 0, size(rng)))
    call = "cuOccupancyMaxPotentialBlockSize"
    status, _ = gpu_rig.api.call(call, grid, block, gpu_rig.function(name), 0, shared, limit)
    return [name, shared, limit, status, grid.show(), block.show()]


def available(gpu_rig: Rig, rng: random.Random) -> list[Any]:
    """Ask for the dynamic shared memory with which some blocks fit."""
    name = rng.choice(kernels.NAMES)
    function = gpu_rig.function(name)
    room = rng.choice((0, 49152, 100000, 180000))
    gpu_rig.api.call("cuFuncSetAttribute", function, DYNAMIC, room)
    out = Out("u64")
    count, threads = rng.choice((1, 2, 3, 4, 8, 16, 32, 33, 0)), size(rng)
    call = "cuOccupancyAvailableDynamicSMemPerBlock"
    status, _ = gpu_rig.api.call(call, out, function, count, threads)
    return [name, room, count, threads, status, out.show()]


def clusters(
    gpu_rig: Rig, rng: random.Random, call: str = "cuOccupancyMaxActiveClusters"
) -> list[Any]:
    """Ask for the number of clusters on the device, or for the largest cluster."""
    name = rng.choice(("free", "pair", "explicit", "most4", "shared_pair"))
    function = gpu_rig.cluster_kernel(name)
    is_wide = rng.choice((0, 0, 1))
    room = rng.choice((0, 100000))
    gpu_rig.api.call("cuFuncSetAttribute", function, NON_PORTABLE, is_wide)
    gpu_rig.api.call("cuFuncSetAttribute", function, DYNAMIC, room)
    n = rng.choice((1, 2, 4, 8, 16, 3, 32))
    cluster = rng.choice((None, (n, 1, 1), (n, 1, 1), (n, 1, 1), (1, n, 1), (2, 2, 1)))
    grid = rng.choice(((n, n, 1), (n * 4, 2, 1), (1, 1, 1), (128, 128, 1), (0, 1, 1)))
    block = (max(size(rng), 0), 1, 1)
    shared = min(dynamic(rng), 1 << 31)
    config, kept_objects = make_config(grid, block, shared, cluster)
    out = Out("i32")
    status, _ = gpu_rig.api.call(call, out, function, config)
    del kept_objects
    return [name, is_wide, room, cluster, grid, block, shared, status, out.show()]


def largest(gpu_rig: Rig, rng: random.Random) -> list[Any]:
    """Ask for the largest cluster."""
    return clusters(gpu_rig, rng, "cuOccupancyMaxPotentialClusterSize")


MAKERS = {
    "blocks": blocks,
    "potential": potential,
    "available": available,
    "clusters": clusters,
    "largest": largest,
}


def questions() -> list[str]:
    """Return the batches of calls."""
    return [f"{kind}/{i}" for kind, count in BATCHES.items() for i in range(count)]


def ask(question: str) -> list[list[Any]]:
    """Return each call's arguments, status and result."""
    seed = int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "little")
    rng = random.Random(seed)
    gpu_rig, maker = rig(), MAKERS[question.split("/")[0]]
    gpu_rig.api.kept.clear()
    return [maker(gpu_rig, rng) for _ in range(BATCH)]
