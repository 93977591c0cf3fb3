"""The initial contents of a point's buffers, by name. This file runs beside ``runner.py``."""

import numpy as np

_contents = {}


def contents(kind, size):
    """Return the initial contents of a buffer, which are the same in every run."""
    key = (kind, size)
    if key in _contents:
        return _contents[key]
    name, _, detail = kind.partition(":")
    dice = np.random.default_rng(20261127)
    few = min(size, 1 << 22)
    if name == "zeros":
        array = np.zeros(size, np.uint8)
    elif name == "bytes":
        array = np.resize(dice.integers(0, 256, few, np.uint8), size)
    elif name == "floats":
        array = np.resize(dice.random(few // 4 + 1, np.float32), size // 4)
    elif name == "doubles":
        array = np.resize(dice.random(few // 8 + 1), size // 8)
    elif name == "halves":
        array = np.resize(
            (dice.random(few // 2 + 1, np.float32) - 0.5).astype(np.float16), size // 2
        )
    elif name == "brains":
        random = (dice.random(few // 2 + 1, np.float32) - 0.5).view(np.uint32) >> 16
        array = np.resize(random.astype(np.uint16), size // 2)
    elif name == "indices":  # random 32-bit indices below a limit
        array = dice.integers(0, int(detail), size // 4, np.uint32)
    elif name == "ring":  # one random cycle through all slots of ``detail`` bytes: offsets
        stride = int(detail)
        count = size // stride
        order = dice.permutation(count).astype(np.uint64)
        array = np.zeros(size // 8, np.uint64)
        array[order * (stride // 8)] = np.roll(order, -1) * stride
    elif name == "rows":  # the starts of sparse rows of 4 ... 27 elements
        lengths = dice.integers(4, 28, size // 4 - 1)
        array = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    else:
        raise ValueError(f"unknown contents: {kind}")
    array = np.ascontiguousarray(array)
    if len(_contents) > 6:
        _contents.clear()
    _contents[key] = array
    return array
