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
    fields = common(rng, 1)
    size = GRANULES[fields["kind"] % 16]
    widths = [n for n in (16, 32, 64, 128, 256) if n >= size]
    width = rng.choice(widths) // size * (2 if fields["kind"] == 13 else 1)
    if fields["kind"] in (14, 15):
        width = 128
    fields["box"] = [pick(rng, width, (0, 1, 3, 96, 128, 256, 257, width + 1), 0.08)]
    fields["box"] += [pick(rng, rng.choice((1, 4, 8, 64, 256)), (0, 1, 257, 1 << 31), 0.02) for _ in range(4)]  # fmt: skip
    return fields


def im2col(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of cuTensorMapEncodeIm2col."""
    fields = common(rng, 3)
    size = GRANULES[fields["kind"] % 16]
    fields["channels"] = pick(rng, rng.choice((16, 32, 64, 128)) // min(size, 16), (0, 1, 3, 128, 256, 257), 0.06)  # fmt: skip
    fields["pixels"] = pick(rng, rng.choice((1, 8, 64, 256)), (0, 1, 1023, 1024, 1025, 1 << 20), 0.06)  # fmt: skip
    edge = {3: 32768, 4: 128, 5: 16}.get(fields["rank"], 16)
    small = (-1, 0, 1)
    far = (-edge, edge - 1, edge, -edge - 1, -130, 130, -17, 17)
    for name in ("lower", "upper"):
        fields[name] = [pick(rng, rng.choice(small), far, 0.05) for _ in range(3)]
    return fields


def wide(rng: random.Random) -> dict[str, Any]:
    """Return the arguments of cuTensorMapEncodeIm2colWide."""
    fields = im2col(rng)
    fields["mode"] = pick(rng, rng.randrange(2), (-1, 2), 0.02)
    return fields


MAKERS = {"tiled": draw_tiled, "im2col": im2col, "wide": wide}


def call(api: Api, kind: str, fields: dict[str, Any], places: Places) -> int:
    """Encode a map; return the status."""

    def unless_null(name: str, array: Any) -> Any:
        return None if fields["null"] == name else array

    address = None if fields["null"] == "map" else places.map + fields["shift"]
    api.kept.clear()
    start = (
        address,
        fields["kind"],
        fields["rank"],
        fields["address"],
        unless_null("dims", longs(*fields["dims"])),
        unless_null("strides", longs(*fields["strides"])),
    )
    steps = unless_null("steps", words(*fields["steps"]))
    end = (fields["swizzle"], fields["promotion"], fields["fill"])
    if kind == "tiled":
        box = unless_null("box", words(*fields["box"]))
        arguments = (*start, box, steps, fields["interleave"], *end)
        return api.call("cuTensorMapEncodeTiled", *arguments)[0]
    middle = (fields["channels"], fields["pixels"], steps, fields["interleave"])
    if kind == "im2col":
        lower, upper = (words(*fields[name]) for name in ("lower", "upper"))
        corners = (unless_null("lower", lower), upper)
        return api.call("cuTensorMapEncodeIm2col", *start, *corners, *middle, *end)[0]
    corners = (fields["lower"][0], fields["upper"][0])
    arguments = (*start, *corners, *middle, fields["mode"], *end)
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
    return [call(api, kind, fields, places) for fields in arguments_of(question)]
