"""Collectives of a warp by their definition in PTX, one lane at a time, on Python integers.

It shares no code with compiler or executors.
"""

import math
import struct
from collections.abc import Sequence

FULL = 0xFFFF_FFFF
CANONICAL = 0x7FFF_FFFF

Given = tuple[int, int, int]
Result = tuple[int, int]


def result(words: Sequence[str], lane: int, mates: set[int], given: Sequence[Given]) -> Result:
    """Return the result (d, p) of ``opcode.modifiers...``, spelled without ``sync``, in ``lane``.

    ``mates`` are the participating lanes, itself included; ``given`` has operands a, b and c of each
    lane.
    """
    opcode, *modifiers = (word for word in words if word != "sync")
    if opcode == "shfl":
        return _shuffle(modifiers[0], lane, mates, given)
    values = {mate: given[mate][0] for mate in mates}
    match opcode:
        case "vote":
            return _vote(modifiers[0], {mate: value & 1 for mate, value in values.items()})
        case "match":
            same = {mate for mate, value in values.items() if value == values[lane]}
            if modifiers[0] == "any":
                return _bits(same), 0
            return (_bits(mates), 1) if same == mates else (0, 0)
        case "elect":
            return min(mates), int(lane == min(mates))
        case "bar":
            return 0, 0
    return _redux(modifiers, list(values.values())), 0


def _bits(lanes: set[int]) -> int:
    return sum(1 << lane for lane in lanes)


def _shuffle(mode: str, lane: int, mates: set[int], given: Sequence[Given]) -> Result:
    """PTX ISA 9.7.10.6, the pseudocode of shfl.sync."""
    own, b, c = given[lane]
    bval, cval, segmask = b & 31, c & 31, c >> 8 & 31
    max_lane = (lane & segmask) | (cval & ~segmask)
    min_lane = lane & segmask
    match mode:
        case "up":
            j = lane - bval
            within = j >= max_lane
        case "down":
            j = lane + bval
            within = j <= max_lane
        case "bfly":
            j = lane ^ bval
            within = j <= max_lane
        case _:
            j = min_lane | (bval & ~segmask)
            within = j <= max_lane
    if not within:
        return own, 0
    return (given[j][0] if j in mates else 0), 1


def _vote(mode: str, flags: dict[int, int]) -> Result:
    match mode:
        case "ballot":
            return sum(flag << lane for lane, flag in flags.items()), 0
        case "all":
            return 0, int(all(flags.values()))
        case "any":
            return 0, int(any(flags.values()))
    return 0, int(len(set(flags.values())) == 1)


def _redux(modifiers: Sequence[str], values: list[int]) -> int:
    operation, type_ = modifiers[0], modifiers[-1]
    if type_ == "f32":
        return _extremum(operation, values, "abs" in modifiers, "NaN" in modifiers)
    if type_ == "s32":
        values = [value - (1 << 32) if value >> 31 else value for value in values]
    found = values[0]
    for value in values[1:]:
        match operation:
            case "add":
                found += value
            case "min":
                found = min(found, value)
            case "max":
                found = max(found, value)
            case "and":
                found &= value
            case "or":
                found |= value
            case "xor":
                found ^= value
    return found & FULL


def _extremum(operation: str, patterns: list[int], absolute: bool, keep_nan: bool) -> int:
    if absolute:
        patterns = [pattern & 0x7FFF_FFFF for pattern in patterns]
    floats = [struct.unpack("<f", struct.pack("<I", pattern))[0] for pattern in patterns]
    numbers = [f for f in floats if not math.isnan(f)]
    if not numbers or (keep_nan and len(numbers) < len(floats)):
        return CANONICAL
    choose = min if operation == "min" else max
    found = choose(numbers, key=lambda f: (f, math.copysign(1.0, f)))
    return int(struct.unpack("<I", struct.pack("<f", found))[0])
