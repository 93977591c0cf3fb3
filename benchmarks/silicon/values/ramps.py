"""Cases of one function on every operand of a range of bits, and their compact results."""

import bz2
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.silicon.values.lanes import HEAD

Floats = NDArray[np.floating[Any]]
_ONE, _BINADE = 0x3F800000, 1 << 23
_REFERENCES: dict[str, Callable[[Floats], Floats]] = {
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "lg2": np.log2,
    "ex2": np.exp2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
_BINADES = (
    ("rcp", 0), ("ex2", 0), ("rsqrt", 0), ("lg2", 0), ("sin", 0), ("rsqrt", 1), ("cos", 0),
    ("tanh", 0), ("lg2", -1), ("sin", -1), ("tanh", -1), ("ex2", -1), ("sqrt", 0), ("tanh", -2),
)  # fmt: skip
_ALL = tuple(_REFERENCES)


def reference(function: str, start: int, step: int, count: int) -> NDArray[np.uint32]:
    """Return the bits of the rounded results of a function on ``count`` operands."""
    operands = (start + step * np.arange(count, dtype=np.uint64)).astype(np.uint32)
    with np.errstate(all="ignore"):
        wide = _REFERENCES[function](operands.view(np.float32).astype(np.float64))
        return wide.astype(np.float32).view(np.uint32)


def pack(data: bytes, spec: list[Any]) -> bytes:
    """Return the differences from the rounded results, or the steps of these, compressed."""
    off, candidates = np.frombuffer(data, np.uint32) - reference(*spec), list[bytes]()
    for mode in range(2):
        folded = (off << np.uint32(1)) ^ (off.view(np.int32) >> 31).view(np.uint32)
        planes = np.ascontiguousarray(folded.view(np.uint8).reshape(-1, 4).T)
        candidates.append(bytes([mode]) + bz2.compress(planes.tobytes()))
        off = np.diff(off, prepend=np.uint32(0))
    return min(candidates, key=len)


def unpack(data: bytes, spec: list[Any]) -> NDArray[np.uint32]:
    """Return the bits of all results that ``pack`` was given."""
    planes = np.frombuffer(bz2.decompress(data[1:]), np.uint8).reshape(4, -1)
    folded: NDArray[np.uint32] = np.ascontiguousarray(planes.T).view(np.uint32).reshape(-1)
    off = (folded >> np.uint32(1)) ^ -(folded & np.uint32(1))
    if data[0]:
        off = np.cumsum(off, dtype=np.uint32)
    return off + reference(*spec)


def _case(name: str, instruction: str, spec: list[Any]) -> dict[str, Any]:
    _, start, step, count = spec
    text = (
        f"{HEAD}.visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %at; .reg .b32 %i, %n, %a, %d;\n"
        "mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %i, %n, 256, %i;\n"
        f"ld.param.u64 %at, [p0]; mad.wide.u32 %at, %i, 4, %at;\n"
        f"mad.lo.u32 %a, %i, {step}, {start};\n{instruction} %d, %a;\nst.global.b32 [%at], %d;\n"
        "ret;\n}\n"
    )
    return {
        "id": name,
        "group": "ramp",
        "ptx": text,
        "entry": "k",
        "grid": [count // 256, 1, 1],
        "block": [256, 1, 1],
        "params": bytes(8).hex(),
        "buffers": [[4 * count, 0]],
        "relocs": [["p", 0, 0, 0]],
        "ramp": spec,
        "seconds": 60,
    }


def cases() -> Iterator[dict[str, Any]]:
    """Return whole binades of the functions, then each on some operands of every exponent."""
    for function, exponent in _BINADES:
        start = _ONE + exponent * _BINADE
        spec = [function, start, 1, _BINADE]
        yield _case(f"ramp/{function}.{exponent}", f"{function}.approx.f32", spec)
    for function in _ALL:
        spec = [function, 0, 65_537 if function in ("sin", "cos", "tanh") else 32_771, 1 << 16]
        yield _case(f"ramp/{function}.all", f"{function}.approx.f32", spec)
        if function not in ("tanh", "rcp", "sqrt"):
            yield _case(f"ramp/{function}.ftz", f"{function}.approx.ftz.f32", spec)
    for function in ("sin", "cos", "ex2", "tanh"):
        spec = [function, 0x33000000, 1021, 1 << 18]
        yield _case(f"ramp/{function}.around", f"{function}.approx.f32", spec)
        spec = [function, 0xB3000000, 1021, 1 << 18]
        yield _case(f"ramp/{function}.below", f"{function}.approx.f32", spec)
