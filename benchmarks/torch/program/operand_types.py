"""Operands of 16-bit and 8-bit types: results on the device beside those that CUDA's rules give.

A row fails if a bit differs. The expected numbers are computed on the CPU in float32, from operands
that are rounded where PyTorch's CUDA kernels round them.
"""

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import rows
import torch

_VALUES = (0.1, 1.7, -1.7, 3.0, 0.5, -0.0, math.inf, math.nan, 6e4, 1e-8)
_OPERANDS = (0.1, 1.7, 3.0039, 1e6)
_HALVES = (torch.float16, torch.bfloat16)
_EIGHTS = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
)
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{name: getattr(torch, name) for name in ("add", "sub", "mul", "fmod", "remainder", "xlogy")},
    "maximum": torch.maximum,
    "hypot": torch.hypot,
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "logical_and": torch.logical_and,
    "isin": torch.isin,
    "pow": torch.pow,
}
_OF_TENSORS = frozenset({"maximum", "hypot", "atan2", "logical_and"})
_IN_FLOAT32 = frozenset({"add", "sub", "mul"})  # numbers reach these kernels unrounded


def _rows() -> Iterator[tuple[str, Any, Any]]:
    yield from _promoted()
    yield from _divided()
    yield from _parameters()
    yield from _casts()
    yield from _of_eight_bits()


def _promoted() -> Iterator[tuple[str, Any, Any]]:
    kinds = ("number", "cpu float64", "cuda float32", "cuda float64")
    for dtype, (name, operator) in itertools.product(_HALVES, _OPERATORS.items()):
        x = torch.tensor(_VALUES, dtype=dtype)
        # Each row compiles a kernel: float16 has every other one.
        step = 2 if dtype == torch.float16 else 1
        for value, kind in list(zip(_OPERANDS, kinds, strict=True))[::step]:
            if kind == "number" and name in _OF_TENSORS:
                continue
            operand: Any = value
            if kind != "number":
                place, _, typename = kind.partition(" ")
                operand = torch.tensor(value, dtype=getattr(torch, typename), device=place)
            rounded = torch.tensor(value, dtype=torch.float32)
            if name not in _IN_FLOAT32 or kind.startswith("cuda"):
                rounded = rounded.to(dtype).float()
            expected = operator(x.float(), rounded)
            if expected.dtype != torch.bool:
                expected = expected.to(dtype)
            yield f"{name} {dtype} {kind} {value}", operator(x.cuda(), operand), expected
            if name == "mul":
                yield f"mul_ {dtype} {kind}", x.cuda().mul_(operand), expected
                out = torch.empty_like(x, device="cuda")
                yield f"mul out {dtype} {kind}", torch.mul(x.cuda(), operand, out=out), expected
        for value in (0.1, 1.7, 0.2, -1.7, 3.0, 0.1):  # later calls repeat launches
            number = torch.tensor(value, dtype=dtype).float()
            yield f"eq {dtype} {value} again", x.cuda() == value, x.float() == number
        whole = torch.full(x.shape, 257)
        expected = (x.float() + whole.to(dtype).float()).to(dtype)
        yield f"add {dtype} int64", x.cuda() + whole.cuda(), expected


def _divided() -> Iterator[tuple[str, Any, Any]]:
    for dtype in (torch.float32, *_HALVES):
        x = torch.tensor(_VALUES, dtype=dtype)
        reciprocal = 1 / torch.tensor(3.3)
        quotient = x.float() * reciprocal
        yield f"div {dtype}", x.cuda() / 3.3, quotient.to(dtype)
        truncated = torch.div(x.cuda(), 3.3, rounding_mode="trunc")
        yield f"div trunc {dtype}", truncated, quotient.trunc().to(dtype)
        y = torch.full_like(x, 0.1)
        expected = (x.float() / y.float()).to(dtype).trunc()
        truncated = torch.div(x.cuda(), y.cuda(), rounding_mode="trunc")
        yield f"div trunc of tensors {dtype}", truncated, expected


def _parameters() -> Iterator[tuple[str, Any, Any]]:
    for dtype in _HALVES:
        x = torch.tensor(_VALUES, dtype=dtype)
        limit = torch.tensor(0.1, dtype=dtype)
        passed = torch.nn.functional.threshold(x.cuda(), 0.1, 1.7)
        yield f"threshold {dtype}", passed, torch.where(x <= limit, torch.tensor(1.7).to(dtype), x)
        shrunk = torch.nn.functional.hardshrink(x.cuda(), 0.1)
        yield f"hardshrink {dtype}", shrunk, torch.where(x.abs() <= limit, 0, x)
        square = (x.float() * x.float()).to(dtype).float()
        yield f"pow 3 {dtype}", x.cuda() ** 3, (square * x.float()).to(dtype)
        yield f"pow -2 {dtype}", x.cuda() ** -2, (1 / square).to(dtype)


def _casts() -> Iterator[tuple[str, Any, Any]]:
    """Yield every code of each 8-bit float, and all 16-bit floats, converted both ways."""
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    for eight in _EIGHTS:
        small = codes.view(eight)
        for dtype in (torch.float64, torch.float32, *_HALVES, torch.bool, *_EIGHTS):
            yield f"{eight} to {dtype}", small.cuda().to(dtype), small.float().to(dtype)
        finite = small.float().isfinite() & (small.float().abs() < 2**31)
        for dtype in (torch.int32, torch.int64, torch.uint8):
            expected = small.float()[finite].to(torch.int64).to(dtype)
            yield f"{eight} to {dtype}", codes[finite].view(eight).cuda().to(dtype), expected
        for half, wider in zip(_HALVES, (torch.float32, torch.float64), strict=True):
            numbers = bits.view(half)
            for dtype in (half, wider):
                wide = numbers.to(dtype)
                yield f"{half} by {dtype} to {eight}", wide.cuda().to(eight), wide.float().to(eight)
        for dtype in (torch.bool, torch.uint8, torch.int64):
            numbers = torch.tensor((0, 1, 3, 100)).to(dtype)
            yield f"{dtype} to {eight}", numbers.cuda().to(eight), numbers.float().to(eight)


def _of_eight_bits() -> Iterator[tuple[str, Any, Any]]:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    for eight in _EIGHTS:
        small, turned = codes.view(eight), codes.flip(0).view(eight)
        numbers, other = small.float(), turned.float()
        yield f"eq {eight}", small.cuda() == turned.cuda(), numbers == other
        yield f"ne {eight}", small.cuda() != 1.7, numbers != torch.tensor(1.7).to(eight).float()
        yield f"isnan {eight}", small.cuda().isnan(), numbers.isnan()
        mask = numbers > 1
        chosen = torch.where(mask.cuda(), small.cuda(), turned.cuda())
        yield f"where {eight}", chosen, torch.where(mask, numbers, other).to(eight)
        index = torch.tensor((3, 1, 2))
        if eight != torch.float8_e8m0fnu:
            written, expected = small.cuda(), codes.clone()
            written[index.cuda()] = turned.cuda()[:3]
            expected[index] = codes.flip(0)[:3]
            yield f"index_put {eight}", written, expected.view(eight)
        yield f"index {eight}", small.cuda()[index.cuda()], codes[index].view(eight)
        yield (
            f"cat {eight}",
            torch.cat((small.cuda(), small.cuda())),
            torch.cat((codes, codes)).view(eight),
        )


if __name__ == "__main__":
    sys.exit(rows.check(_rows()))
