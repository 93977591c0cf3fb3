"""Tensor maps of random and edge arguments: the status of each call of cuTensorMapEncode*."""

import ctypes
import hashlib
import random
from typing import Any

from benchmarks.silicon.driver.answers import Api, longs, words
from benchmarks.silicon.driver.context import rig

ADDRESS = 0x2000_0000_1000
BATCH = 500
BATCHES = {"tiled": 80, "im2col": 30, "wide": 20}
GRANULES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1)


class Places:
    """The memory that a call's pointers refer to."""

    def __init__(self) -> None:
        self.room = (ctypes.c_uint8 * 512)()
        self.map = (ctypes.addressof(self.room) + 127) & -128


def pick(rng: random.Random, usual: Any, odd: tuple[Any, ...], rate: float) -> Any:
    """Return the usual value, or sometimes an odd one."""
    return rng.choice(odd) if rng.random() < rate else usual


def common(rng: random.Random, rank_from: int) -> dict[str, Any]:
    """Return arguments that both kinds of map have: mostly legal, each sometimes odd."""
    rate = rng.choice((0.0, 0.0, 0.02, 0.08))
    kind = rng.randrange(16)
    rank = pick(rng, rng.randint(rank_from, 5), (0, 1, 2, 3, 5, 6), rate)
    size = GRANULES[kind]
    interleave = pick(rng, rng.choice((0, 0, 0, 1, 2)), (0, 1, 2, 3, -1), rate)
    unit = 32 if interleave == 2 or kind in (14, 15) else 16
    dims = [pick(rng, rng.choice((8, 16, 64, 128, 256, 1000, 1024)), (0, 1, 3, 1 << 32, (1 << 32) + 1, 127), rate) for _ in range(5)]  # fmt: skip
    if kind in (13, 14, 15) and rng.random() < 0.9:
        dims[0] = rng.choice((128, 256, 1024))
    strides, reach = [], max(1, dims[0] * size // (2 if kind == 13 else 1))
    for i in range(5):
        reach = -(-reach // unit) * unit
        strides.append(pick(rng, reach, (0, 8, 16, 24, reach + 8, reach + 16, 1 << 40, (1 << 40) - 16, unit, -16), rate))  # fmt: skip
        reach = min(reach * max(dims[i + 1] if i < 4 else 1, 1), 1 << 38)
    return {
        "kind": pick(rng, kind, (-1, 16, 17, 100), rate / 4),
        "rank": rank,
        "address": pick(rng, ADDRESS, (0, ADDRESS + 8, ADDRESS + 16, ADDRESS + 32, 1 << 63), rate),
        "dims": dims,
        "strides": strides,
        "steps": [
            pick(rng, rng.choice((1, 1, 1, 2, 8)), (0, 1, 3, 8, 9, 1 << 20), rate) for _ in range(5)
        ],
        "interleave": interleave,
        "swizzle": pick(rng, rng.randrange(4), (0, 1, 2, 3, 4, 5, 6, 7, -1), max(rate, 0.1)),
        "promotion": pick(rng, rng.randrange(4), (4, -1), rate),
        "fill": pick(rng, 0, (0, 1, 2, -1), max(rate, 0.05)),
        "null": pick(rng, "", ("map", "dims", "strides", "box", "steps", "lower"), rate / 4),
        "shift": pick(rng, 0, (8, 16, 32, 64), rate / 4),
    }


def draw_tiled(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of cuTensorMapEncodeTiled."""
    given = common(rng, 1)
    size = GRANULES[given["kind"] % 16]
    widths = [n for n in (16, 32, 64, 128, 256) if n >= size]
    width = rng.choice(widths) // size * (2 if given["kind"] == 13 else 1)
    if given["kind"] in (14, 15):
        width = 128
    given["box"] = [pick(rng, width, (0, 1, 3, 96, 128, 256, 257, width + 1), 0.08)]
    given["box"] += [pick(rng, rng.choice((1, 4, 8, 64, 256)), (0, 1, 257, 1 << 31), 0.02) for _ in range(4)]  # fmt: skip
    return given


def im2col(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of cuTensorMapEncodeIm2col."""
    given = common(rng, 3)
    size = GRANULES[given["kind"] % 16]
    given["channels"] = pick(rng, rng.choice((16, 32, 64, 128)) // min(size, 16), (0, 1, 3, 128, 256, 257), 0.06)  # fmt: skip
    given["pixels"] = pick(rng, rng.choice((1, 8, 64, 256)), (0, 1, 1023, 1024, 1025, 1 << 20), 0.06)  # fmt: skip
    edge = {3: 32768, 4: 128, 5: 16}.get(given["rank"], 16)
    small = (-1, 0, 1)
    far = (-edge, edge - 1, edge, -edge - 1, -130, 130, -17, 17)
    for name in ("lower", "upper"):
        given[name] = [pick(rng, rng.choice(small), far, 0.05) for _ in range(3)]
    return given


def wide(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of cuTensorMapEncodeIm2colWide."""
    given = im2col(rng)
    given["mode"] = pick(rng, rng.randrange(2), (-1, 2), 0.02)
    return given


MAKERS = {"tiled": draw_tiled, "im2col": im2col, "wide": wide}


def call(api: Api, kind: str, given: dict[str, Any], places: Places) -> int:
    """Encode a map; return the status."""

    def unless_null(name: str, array: Any) -> Any:
        return None if given["null"] == name else array

    address = None if given["null"] == "map" else places.map + given["shift"]
    api.kept.clear()
    start = (
        address,
        given["kind"],
        given["rank"],
        given["address"],
        unless_null("dims", longs(*given["dims"])),
        unless_null("strides", longs(*given["strides"])),
    )
    steps = unless_null("steps", words(*given["steps"]))
    end = (given["swizzle"], given["promotion"], given["fill"])
    if kind == "tiled":
        box = unless_null("box", words(*given["box"]))
        arguments = (*start, box, steps, given["interleave"], *end)
        return api.call("cuTensorMapEncodeTiled", *arguments)[0]
    middle = (given["channels"], given["pixels"], steps, given["interleave"])
    if kind == "im2col":
        lower, upper = (words(*given[name]) for name in ("lower", "upper"))
        corners = (unless_null("lower", lower), upper)
        return api.call("cuTensorMapEncodeIm2col", *start, *corners, *middle, *end)[0]
    corners = (given["lower"][0], given["upper"][0])
    arguments = (*start, *corners, *middle, given["mode"], *end)
    return api.call("cuTensorMapEncodeIm2colWide", *arguments)[0]


def questions() -> list[str]:
    """Return the batches of calls."""
    return [f"{kind}/{i}" for kind, count in BATCHES.items() for i in range(count)]


def arguments_of(question: str) -> list[dict[str, Any]]:
    """Return the arguments of a batch's calls, which depend only on its name."""
    seed = int.from_bytes(hashlib.sha256(question.encode()).digest()[:8], "little")
    rng = random.Random(seed)
    return [MAKERS[question.split("/")[0]](rng) for _ in range(BATCH)]


def ask(question: str) -> list[int]:
    """Return the status of each call of a batch; the calls need a current context."""
    api = rig().api
    places, kind = Places(), question.split("/")[0]
    return [call(api, kind, given, places) for given in arguments_of(question)]
