"""Textures as numpy computes them: descriptors, and what a fetch returns (docs/textures.md)."""

import struct
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Words = NDArray[np.uint32]
TEXTURE, SURFACE = 1, 2


class Shape(IntEnum):
    """The shapes of textures."""

    LINE = 0
    PLANE = 1
    SPACE = 2
    LAYERED_LINE = 3
    LAYERED_PLANE = 4
    CUBE = 5
    LAYERED_CUBE = 6
    BUFFER = 7


class Mode(IntEnum):
    """How coordinates outside of a texture are addressed."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


DTYPES = ("u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4")
_HALF, _ONE = np.float32(0.5), np.float32(1)
DIMENSIONS = {
    Shape.LINE: 1,
    Shape.PLANE: 2,
    Shape.SPACE: 3,
    Shape.LAYERED_LINE: 1,
    Shape.LAYERED_PLANE: 2,
    Shape.CUBE: 2,
    Shape.LAYERED_CUBE: 2,
    Shape.BUFFER: 1,
}
LAYERED = (Shape.LAYERED_LINE, Shape.LAYERED_PLANE, Shape.LAYERED_CUBE, Shape.CUBE)


@dataclass
class Texture:
    """A texture or surface: its descriptor, and the elements of each level with their channels."""

    shape: Shape
    format: int
    levels: list[NDArray[np.generic]]
    modes: tuple[int, int, int] = (1, 1, 1)
    linear: bool = False
    linear_levels: bool = False
    normalized: bool = False
    integers: bool = False
    srgb: bool = False
    clamps: tuple[float, float, float] = (0.0, 0.0, 16.0)
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    kind: int = TEXTURE
    padding: int = 0
    offsets: list[int] = field(default_factory=list)

    @property
    def channels(self) -> int:
        return int(self.levels[0].shape[-1])

    @property
    def is_raw(self) -> bool:
        return self.format in (2, 5) or (self.integers and self.format < 6)

    def image(self) -> bytes:
        """Return the elements of all levels, with padding after each row and slice."""
        data, self.offsets = b"", []
        for level in self.levels:
            self.offsets.append(len(data))
            slices = level.reshape(-1, level.shape[-3], level.shape[-2] * level.shape[-1])
            for one in slices:
                for row in one:
                    data += row.tobytes() + b"\xee" * self.padding
                data += b"\xdd" * self.padding
            data += b"\0" * (-len(data) % 256)
        return data

    def encode(self, address: int) -> bytes:
        """Return the descriptor of the texture, whose ``image`` is at ``address``."""
        modes = bytes((*self.modes, self.linear, self.linear_levels, self.normalized))
        head = bytes((self.kind, self.shape, self.format, self.channels)) + modes
        head += bytes((self.integers, self.srgb, len(self.levels), 0, 0, 0))
        layers = self.levels[0].shape[0] if self.shape in LAYERED else 1
        head += struct.pack("<3fI4f", *self.clamps, layers, *self.border) + bytes(16)
        for level, offset in zip(self.levels, self.offsets, strict=True):
            slices, height, width, channels = level.shape
            pitch = width * channels * level.itemsize + self.padding
            depth = slices if self.shape is Shape.SPACE else 1
            place = (address + offset, width, height, depth, pitch)
            head += struct.pack("<Q4IQ", *place, pitch * height + self.padding)
        return head


def convert(texture: Texture, texels: NDArray[np.generic]) -> Words:
    """Return texels as a fetch reads them, as the bits of four channels each."""
    count, name = texture.channels, DTYPES[texture.format]
    if texture.is_raw:
        found = np.zeros((*texels.shape[:-1], 4), np.uint32)
        found[..., :count] = texels.astype("i8").astype(np.uint32)
        return found
    floats = np.zeros((*texels.shape[:-1], 4), np.float32)
    values = texels.astype(np.float32)
    if name[0] in "ui":
        values = np.maximum(values / np.float32(np.iinfo(name).max), np.float32(-1))
    if texture.srgb and texture.format == 0:
        colours = values[..., :3].astype(np.float64)
        bent = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
        values = np.concatenate([bent.astype(np.float32), values[..., 3:]], axis=-1)
    floats[..., :count] = values
    return floats.view(np.uint32)


def sample(texture: Texture, at: Floats, layer: Words, lod: Floats | None = None) -> Words:
    """Return the four words that a fetch at each row of ``at`` returns."""
    with np.errstate(all="ignore"):
        if lod is None:
            return _sample_level(texture, 0, at, layer)
        last = np.float32(len(texture.levels) - 1)
        bias, least, most = (np.float32(one) for one in texture.clamps)
        lod = np.fmin(np.fmax(np.fmin(np.fmax(lod + bias, least), most), np.float32(0)), last)
        results = np.zeros((len(at), 4), np.uint32)
        for n in range(len(at)):
            one = slice(n, n + 1)
            if not texture.linear_levels or texture.is_raw:
                level = min(int(lod[n] + _HALF), int(last))
                results[one] = _sample_level(texture, level, at[one], layer[one])
                continue
            level = int(lod[n])
            part = np.float32(np.rint((lod[n] - np.float32(level)) * 256) / 256)
            first = _sample_level(texture, level, at[one], layer[one])
            if part:
                second = _sample_level(texture, level + 1, at[one], layer[one])
                first = _weigh([first, second], [_ONE - part, part])
            results[one] = first
        return results


def _weigh(values: list[Words], weights: list[Floats]) -> Words:
    total = values[0].view(np.float32) * weights[0]
    for value, weight in zip(values[1:], weights[1:], strict=True):
        total = total + value.view(np.float32) * weight
    return total.astype(np.float32).view(np.uint32)


def face_of(at: Floats) -> tuple[Words, Floats]:
    """Return the face of a cube map and the normalized coordinates on it, for each direction."""
    faces, places = np.zeros(len(at), np.uint32), np.zeros((len(at), 2), np.float32)
    for n, (x, y, z) in enumerate(at):
        if abs(x) >= abs(y) and abs(x) >= abs(z):
            faces[n], major, s, t = int(x < 0), abs(x), z if x < 0 else -z, -y
        elif abs(y) >= abs(z):
            faces[n], major, s, t = 2 + int(y < 0), abs(y), x, -z if y < 0 else z
        else:
            faces[n], major, s, t = 4 + int(z < 0), abs(z), -x if z < 0 else x, -y
        places[n] = (s / major + _ONE) * _HALF, (t / major + _ONE) * _HALF
    return faces, places


def texels_at(texture: Texture, level: int, at: Floats, layer: Words) -> "Taps":
    """Return where a filter reads."""
    normalized, modes = texture.normalized, texture.modes
    slices = np.zeros(len(at), np.int64)
    if texture.shape in (Shape.CUBE, Shape.LAYERED_CUBE):
        faces, at = face_of(at)
        normalized, modes = True, (1, 1, 1)
        cubes = texture.levels[level].shape[0] // 6
        slices = faces.astype(np.int64)
        if texture.shape is Shape.LAYERED_CUBE:
            slices = slices + 6 * np.minimum(layer, cubes - 1)
    elif texture.shape in LAYERED:
        slices = np.minimum(layer, texture.levels[level].shape[0] - 1).astype(np.int64)
    found = Taps(slices)
    sizes = texture.levels[level].shape[2::-1]
    for n in range(DIMENSIONS[texture.shape]):
        size = sizes[n]
        x = np.fmin(np.fmax(at[:, n], np.float32(-(2.0**30))), np.float32(2.0**30))
        mode = modes[n]
        if normalized:
            if mode == Mode.WRAP:
                x = x - np.floor(x)
            if mode == Mode.MIRROR:
                x = x - np.floor(x * _HALF) * np.float32(2)
            x = x * np.float32(size)
        x = np.fmin(np.fmax(x, np.float32(-2)), np.float32(2.0**29))
        found.add(x, size, mode if normalized or mode == Mode.BORDER else Mode.CLAMP)
    return found


class Taps:
    """The indices of each dimension at which a point and a linear filter read."""

    def __init__(self, slices: NDArray[np.int64]) -> None:
        self.slices = slices
        self.point: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
        self.low: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
        self.high: list[tuple[NDArray[np.int64], NDArray[np.bool_]]] = []
        self.part: list[Floats] = []

    def add(self, x: Floats, size: int, mode: int) -> None:
        self.point.append(_address(np.floor(x).astype(np.int64), size, mode))
        x = x - _HALF
        whole = np.floor(x)
        self.part.append(np.rint((x - whole) * np.float32(256)) / np.float32(256))
        self.low.append(_address(whole.astype(np.int64), size, mode))
        self.high.append(_address(whole.astype(np.int64) + 1, size, mode))


def _address(
    at: NDArray[np.int64], size: int, mode: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    outside = ((at < 0) | (at >= size)) & (mode == Mode.BORDER)
    if mode == Mode.WRAP:
        at = at % size
    if mode == Mode.MIRROR:
        at = at % (2 * size)
        at = np.where(at >= size, 2 * size - 1 - at, at)
    return np.clip(at, 0, size - 1), outside


def _read(texture: Texture, level: int, slices: NDArray[np.int64], places: list[tuple]) -> Words:
    indices = [place for place, _ in places]
    outside = np.any([out for _, out in places], axis=0)
    while len(indices) < 2:
        indices.append(np.zeros_like(indices[0]))
    if texture.shape is Shape.SPACE:
        slices = indices[2]
    found = convert(texture, texture.levels[level][slices, indices[1], indices[0]])
    found[outside] = border(texture)
    return found


def border(texture: Texture) -> Words:
    """Return the border colour as a fetch reads it."""
    words = np.array(texture.border, np.float32).view(np.uint32)
    words[texture.channels :] = 0
    return words


def _sample_level(texture: Texture, level: int, at: Floats, layer: Words) -> Words:
    taps = texels_at(texture, level, at, layer)
    if not texture.linear or texture.is_raw:
        return _read(texture, level, taps.slices, taps.point)
    return _linear(texture, level, taps)


def _linear(texture: Texture, level: int, taps: Taps) -> Words:
    low, high, part = taps.low, taps.high, [p[:, None] for p in taps.part]

    def read(*places: tuple) -> Words:
        return _read(texture, level, taps.slices, list(places))

    a = part[0]
    if len(part) == 1:
        return _weigh([read(low[0]), read(high[0])], [_ONE - a, a])
    b = part[1]
    weights = [(_ONE - a) * (_ONE - b), a * (_ONE - b), (_ONE - a) * b, a * b]
    planes = []
    for z in [[]] if len(part) < 3 else [[low[2]], [high[2]]]:
        corners = [(low[0], low[1]), (high[0], low[1]), (low[0], high[1]), (high[0], high[1])]
        planes.append(_weigh([read(*corner, *z) for corner in corners], weights))
    if len(planes) == 1:
        return planes[0]
    return _weigh(planes, [_ONE - part[2], part[2]])


def gather(texture: Texture, at: Floats, layer: Words, channel: int) -> Words:
    """Return one channel of the four texels of a linear filter, as tld4 does."""
    with np.errstate(all="ignore"):
        taps = texels_at(texture, 0, at, layer)
        low, high = taps.low, taps.high
        corners = [(low[0], high[1]), (high[0], high[1]), (high[0], low[1]), (low[0], low[1])]
        found = [_read(texture, 0, taps.slices, list(corner)) for corner in corners]
        return np.stack([one[:, channel] for one in found], axis=1)
