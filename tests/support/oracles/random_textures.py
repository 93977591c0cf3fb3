"""Random textures and coordinates."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from support.oracles.textures import DIMENSIONS, DTYPES, LAYERED, Shape, Texture


def texture(
    draw: random.Random,
    shape: Shape,
    *,
    levels: int = 1,
    sizes: Sequence[int] = (),
    format_: int | None = None,
    **fixed: object,
) -> Texture:
    """Return a texture of a few elements, with all of its settings random but those given."""
    format_ = draw.randrange(8) if format_ is None else format_
    sizes = list(sizes) or [draw.choice((1, 2, 3, 4, 7, 8, 13)) for _ in range(3)]
    sizes[DIMENSIONS[shape] :] = [1] * (3 - DIMENSIONS[shape])
    if shape in (Shape.CUBE, Shape.LAYERED_CUBE):
        sizes[1] = sizes[0]
    slices = draw.randrange(1, 4) if shape in LAYERED else sizes[2]
    if shape is Shape.CUBE:
        slices = 6
    if shape is Shape.LAYERED_CUBE:
        slices = 6 * draw.randrange(1, 3)
    channels = draw.choice((1, 2, 4))
    made = []
    for level in range(levels):
        width, height = (max(1, size >> level) for size in sizes[:2])
        deep = max(1, slices >> level) if shape is Shape.SPACE else slices
        made.append(_elements(draw, format_, (deep, height, width, channels)))
    settings = {
        "modes": tuple(draw.randrange(4) for _ in range(3)),
        "linear": draw.random() < 0.6,
        "linear_levels": draw.random() < 0.6,
        "normalized": draw.random() < 0.7,
        "integers": draw.random() < 0.3,
        "srgb": draw.random() < 0.3,
        "border": tuple(draw.choice((0.0, 1.0, -2.5, 77.0, 1e10)) for _ in range(4)),
        "padding": 16 * draw.randrange(3),
        **fixed,
    }
    return Texture(shape, format_, made, **settings)


def _elements(draw: random.Random, format_: int, shape: tuple[int, ...]) -> NDArray[np.generic]:
    dtype = np.dtype(DTYPES[format_])
    if dtype.kind == "f":
        numbers = [draw.uniform(-100, 100) for _ in range(int(np.prod(shape)))]
        return np.array(numbers, dtype).reshape(shape)
    data = draw.randbytes(int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)


_SPECIAL = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-30, -1e-7, 0.99999994, 1e9, -1e9, 3e38, -3e38)
_NOT_NUMBERS = (float("inf"), float("-inf"), float("nan"))


def coordinates(draw: random.Random, made: Texture, count: int) -> NDArray[np.float32]:
    """Return coordinates in and around a texture, at edges of texels, and far away."""
    sizes = made.levels[0].shape[2::-1]
    found = np.zeros((count, 3), np.float32)
    for n in range(count):
        for d in range(3):
            scale = 1.0 if made.normalized else float(sizes[d])
            kind = draw.randrange(8)
            if kind == 0:
                found[n, d] = draw.choice((*_SPECIAL, *_NOT_NUMBERS))
            elif kind < 3:
                found[n, d] = draw.randrange(-2, 2 * sizes[d] + 3) / 2 / sizes[d] * scale
            else:
                found[n, d] = draw.uniform(-1.5, 2.5) * scale
    return found
