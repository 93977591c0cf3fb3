"""Launches: shapes, parameters, attributes, and the attributes of functions."""

import ctypes

from benchmarks.silicon.driver import kernels
from benchmarks.silicon.driver.answers import Out, longs, words
from benchmarks.silicon.driver.context import Rig
from benchmarks.silicon.driver.occupancy import Attribute, Config
from benchmarks.silicon.driver.sequences.registry import Table

TABLE = Table("launches")
NAMES = ("nothing", "limited", "exact", "limited3", "shared16", "shared49152")
SHAPES = (
    (1, 1, 1, 1, 1, 1), (0, 1, 1, 1, 1, 1), (1, 0, 1, 1, 1, 1), (1, 1, 0, 1, 1, 1),
    (1, 1, 1, 0, 1, 1), (1, 1, 1, 1, 0, 1), (1, 1, 1, 1, 1, 0), (1, 1, 1, 64, 1, 1),
    (1, 1, 1, 96, 1, 1), (1, 1, 1, 97, 1, 1), (1, 1, 1, 1024, 1, 1), (1, 1, 1, 1025, 1, 1),
    (1, 1, 1, 1, 1024, 1), (1, 1, 1, 1, 1025, 1), (1, 1, 1, 1, 1, 64), (1, 1, 1, 1, 1, 65),
    (1, 1, 1, 32, 32, 1), (1, 1, 1, 32, 32, 2), (1, 65535, 1, 1, 1, 1), (1, 65536, 1, 1, 1, 1),
    (1, 1, 65535, 1, 1, 1), (1, 1, 65536, 1, 1, 1), (1 << 31, 1, 1, 1, 1, 1), (1, 1, 1, 8, 8, 2),
    (1, 1, 1, 16, 4, 2), (1, 1, 1, 8, 4, 2), (1, 1, 1, 32, 2, 1), (1, 1, 1, 48, 2, 1),
)  # fmt: skip


@TABLE.each([(name, *shape) for name in NAMES for shape in SHAPES])
def shape(rig: Rig, name: str, *dims: int) -> None:
    api, place = rig.api, longs(rig.api.make("cuMemAlloc_v2", 64))
    parameters = longs(ctypes.addressof(place))
    api("cuLaunchKernel", rig.function(name), *dims, 0, 0, parameters, 0)
    api("cuStreamSynchronize", 0)


@TABLE.each(
    [
        (name, size, room)
        for name in ("nothing", "shared16", "shared49152")
        for size in (0, 1, 49136, 49152, 49153, 100000, 183296, 232432, 232448, 232449, 1 << 31)
        for room in (0, 49152, 100000, 232432, 232448, 232449)
    ]
)
def dynamic_shared(rig: Rig, name: str, size: int, room: int) -> None:
    api, function = rig.api, rig.function(name)
    place = longs(api.make("cuMemAlloc_v2", 64))
    api("cuFuncSetAttribute", function, 8, room)
    api("cuFuncGetAttribute", Out("i32"), 8, function)
    api("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, size, 0, longs(ctypes.addressof(place)), 0)
    api("cuStreamSynchronize", 0)
    api.call("cuFuncSetAttribute", function, 8, 0)


@TABLE.each(
    [
        (name, number, value)
        for name in ("nothing", "shared16")
        for number in range(-1, 18)
        for value in (-2, -1, 0, 1, 2, 3, 50, 100, 101, 4096, 232448)
    ]
)
def function_attribute(rig: Rig, name: str, number: int, value: int) -> None:
    api = rig.api
    module = api.make("cuModuleLoadData", kernels.MODULE.encode()) if number > 9 else 0
    function = (
        api.make("cuModuleGetFunction", module, name.encode()) if module else rig.function(name)
    )
    api("cuFuncSetAttribute", function, number, value)
    api("cuFuncGetAttribute", Out("i32") if number not in (4, 6) else Out("-"), number, function)
    if number == 8:
        api.call("cuFuncSetAttribute", function, 8, 0)
    if number == 9:
        api.call("cuFuncSetAttribute", function, 9, -1)
    if module:
        api.call("cuModuleUnload", module)


@TABLE.each((-1, 0, 1, 2, 3, 4))
def caches(rig: Rig, value: int) -> None:
    api, function = rig.api, rig.function("nothing")
    api("cuFuncSetCacheConfig", function, value)
    api("cuFuncSetSharedMemConfig", function, value)
    api("cuFuncSetBlockShape", function, value, 1, 1)
    api("cuFuncSetSharedSize", function, value)


@TABLE.each(
    (
        "none",
        "null function",
        "null parameters",
        "both",
        "extra",
        "extra short",
        "extra unknown",
        "extra unended",
    )
)
def forms(rig: Rig, how: str) -> None:
    api, function = rig.api, rig.function("poke")
    place = longs(api.make("cuMemAlloc_v2", 64))
    value = words(7)
    parameters = longs(ctypes.addressof(place), ctypes.addressof(value))
    buffer, size = longs(place[0], 7), longs(12 if how != "extra short" else 4)
    extra = longs(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    if how == "extra unknown":
        extra = longs(9, ctypes.addressof(buffer), 0)
    if how == "extra unended":
        extra = longs(1, ctypes.addressof(buffer), 0)
    kernel_params = parameters if how in ("both", "null function") else 0
    extra_options = extra if how == "both" or how.startswith("extra") else 0
    if how == "null parameters":
        kernel_params = longs(0, 0)
        return
    if how == "none":
        return
    api(
        "cuLaunchKernel",
        0 if how == "null function" else function,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        0,
        kernel_params,
        extra_options,
    )
    api("cuStreamSynchronize", 0)
    back = words(0)
    api("cuMemcpyDtoH_v2", back, place[0], 4)


def launch(
    rig: Rig,
    function: int,
    attributes: list[tuple[int, tuple[int, ...]]],
    grid: int = 8,
    block: int = 32,
    count: int | None = None,
) -> int:
    """Launch with attributes."""
    table = (Attribute * max(len(attributes), 1))()
    for launch_attribute, (number, values) in zip(table, attributes, strict=False):
        launch_attribute.id = number
        for i, value in enumerate(values):
            launch_attribute.value[i] = value & 0xFFFF_FFFF
    config = Config((grid, 1, 1), (block, 1, 1))
    config.attributes = ctypes.addressof(table)
    config.count = len(attributes) if count is None else count
    rig.api.kept.append(table)
    status = rig.api("cuLaunchKernelEx", config, function, 0, 0)
    rig.api("cuStreamSynchronize", 0)
    return status


@TABLE.each([(number, value) for number in range(-1, 22) for value in (0, 1, 2, 3, 8, 100, -1)])
def attribute(rig: Rig, number: int, value: int) -> None:
    if number in (1, 7, 12, 13, 15):  # addresses
        return
    launch(rig, rig.function("nothing"), [(number, (value, value & 1 or 1, 1))])
    launch(rig, rig.cluster_kernel("free"), [(number, (value, 1, 1))])


@TABLE.each(
    [
        (name, cluster, grid)
        for name in ("free", "pair", "explicit", "most4")
        for cluster in (
            (1, 1, 1),
            (2, 1, 1),
            (4, 1, 1),
            (8, 1, 1),
            (16, 1, 1),
            (3, 1, 1),
            (0, 1, 1),
            (2, 2, 1),
            (17, 1, 1),
            None,
        )
        for grid in (1, 6, 8, 16)
    ]
)
def cluster(rig: Rig, name: str, cluster: tuple[int, int, int] | None, grid: int) -> None:
    function = rig.cluster_kernel(name)
    launch(rig, function, [(4, cluster)] if cluster else [], grid)
    if cluster == (16, 1, 1):
        rig.api("cuFuncSetAttribute", function, 14, 1)
        launch(rig, function, [(4, cluster)], grid)
        rig.api("cuFuncSetAttribute", function, 14, 0)


@TABLE.each((1, 132, 2048, 4224, 4225, 5000, 100000))
def cooperative(rig: Rig, grid: int) -> None:
    api, function = rig.api, rig.function("nothing")
    api("cuLaunchCooperativeKernel", function, grid, 1, 1, 32, 1, 1, 0, 0, 0)
    api("cuLaunchCooperativeKernel", function, grid, 1, 1, 1024, 1, 1, 0, 0, 0)
    launch(rig, function, [(2, (1,))], grid, 64)


@TABLE.once
def wrong_config(rig: Rig) -> None:
    api, function = rig.api, rig.function("nothing")
    api("cuLaunchKernelEx", 0, function, 0, 0)
    config = Config((1, 1, 1), (1, 1, 1))
    config.count = 1
    api("cuLaunchKernelEx", config, function, 0, 0)
    config.count = 0
    api("cuLaunchKernelEx", config, 0, 0, 0)
    launch(rig, function, [(4, (2, 1, 1)), (4, (4, 1, 1))])
    launch(rig, function, [(2, (1,)), (4, (2, 1, 1))])
    launch(rig, function, [(0, (0,))])


@TABLE.once
def occupancy_wrong(rig: Rig) -> None:
    api, function = rig.api, rig.function("nothing")
    for name, arguments in (
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (0, function, 32, 0)),
        ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (Out("i32"), 0, 32, 0)),
        ("cuOccupancyMaxPotentialBlockSize", (0, Out("i32"), function, 0, 0, 0)),
        ("cuOccupancyMaxPotentialBlockSize", (Out("i32"), 0, function, 0, 0, 0)),
        ("cuOccupancyMaxPotentialBlockSize", (Out("i32"), Out("i32"), 0, 0, 0, 0)),
        ("cuOccupancyMaxPotentialBlockSize", (Out("i32"), Out("i32"), function, 0, 0, -1)),
        (
            "cuOccupancyMaxPotentialBlockSizeWithFlags",
            (Out("i32"), Out("i32"), function, 0, 0, 0, 2),
        ),
        ("cuOccupancyAvailableDynamicSMemPerBlock", (0, function, 1, 32)),
        ("cuOccupancyAvailableDynamicSMemPerBlock", (Out("u64"), function, 0, 32)),
        ("cuOccupancyAvailableDynamicSMemPerBlock", (Out("u64"), function, 1, 0)),
        ("cuOccupancyMaxActiveClusters", (Out("i32"), function, 0)),
        ("cuOccupancyMaxActiveClusters", (0, function, Config((1, 1, 1), (1, 1, 1)))),
        (
            "cuOccupancyMaxPotentialClusterSize",
            (Out("i32"), function, Config((1, 1, 1), (1, 1, 1))),
        ),
    ):
        api(name, *arguments)


@TABLE.once
def parameter_info(rig: Rig) -> None:
    api = rig.api
    for name in ("poke", "many", "nothing"):
        for index in (0, 1, 2, 1 << 40):
            api("cuFuncGetParamInfo", rig.function(name), index, Out("u64"), Out("u64"))
    api("cuFuncGetParamInfo", rig.function("poke"), 0, 0, Out("u64"))
    api("cuFuncGetParamInfo", rig.function("poke"), 0, Out("u64"), 0)
    api("cuFuncGetParamInfo", 0, 0, Out("u64"), Out("u64"))
