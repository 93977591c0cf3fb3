"""Sequences, complex special values, types of out=, and refusals on the device, as CUDA has them.

Expected values are those that GPUs print, or follow from PyTorch's CUDA source.
"""

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import rows
import torch

_INF, _NAN = math.inf, math.nan
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
# A function, its argument, and what a GPU returns; a sign of a zero part counts.
_COMPLEX: tuple[tuple[str, complex, complex], ...] = (
    ("sin", complex(_INF, 0), complex(_NAN, 0)),
    ("sin", complex(0, _INF), complex(0, _INF)),
    ("sin", complex(_INF, _INF), complex(_NAN, _INF)),
    ("sinh", complex(_INF, 0), complex(_INF, 0)),
    ("sinh", complex(0, _INF), complex(0, _NAN)),
    ("sinh", complex(-_INF, _NAN), complex(-_INF, _NAN)),
    ("cos", complex(0, _INF), complex(_INF, 0)),
    ("cos", complex(_INF, _INF), complex(_INF, _NAN)),
    ("cosh", complex(-_INF, 0), complex(_INF, 0)),
    ("cosh", complex(0, _NAN), complex(_NAN, 0)),
    ("cosh", complex(_INF, _INF), complex(_INF, _NAN)),
    ("tanh", complex(_INF, _INF), complex(1, 0)),
    ("tanh", complex(-_INF, 1), complex(-1, 0)),
    ("tanh", complex(_NAN, 0), complex(_NAN, 0)),
    ("tan", complex(0, _INF), complex(0, 1)),
    ("exp", complex(-_INF, _INF), complex(0, 0)),
    ("exp", complex(_INF, _INF), complex(_INF, _NAN)),
    ("exp", complex(_INF, 0), complex(_INF, 0)),
    ("exp", complex(_NAN, 0), complex(_NAN, 0)),
    ("exp2", complex(-_INF, _INF), complex(0, 0)),
    ("sqrt", complex(1, _INF), complex(_INF, _INF)),
    ("sqrt", complex(_NAN, -_INF), complex(_INF, -_INF)),
    ("sqrt", complex(-_INF, 1), complex(0, _INF)),
    ("sqrt", complex(-_INF, _NAN), complex(_NAN, _INF)),
    ("sqrt", complex(_INF, -1), complex(_INF, -0.0)),
    ("rsqrt", complex(0, -_INF), complex(0, 0)),
    ("rsqrt", complex(4, 0), complex(0.5, 0)),
    ("sigmoid", complex(-_INF, 1), complex(0, 0)),
    ("asinh", complex(_NAN, -_INF), complex(-_INF, _NAN)),
    ("acos", complex(_INF, _NAN), complex(_NAN, _INF)),
    ("log", complex(0, 0), complex(-_INF, 0)),
    ("log", complex(_INF, _NAN), complex(_INF, _NAN)),
)


def _rows() -> Iterator[rows.Row]:
    yield from _sequences()
    yield from _complex()
    yield from _out_types()
    yield from _refusals()
    yield from _scaled()


def _sequences() -> Iterator[rows.Row]:
    printed = torch.tensor((3, 2, 1, 0, 0, 0, 0, -1, -2, -3))
    yield "linspace printed", torch.linspace(3.7, -3, 10, dtype=torch.int64, device="cuda"), printed
    for count in (99, 1000, 1799, 4095):
        for steps in (3, 8, 16, 64, 100):
            ends = torch.linspace(0, count - 1, steps, dtype=torch.long, device="cuda")[[0, -1]]
            yield f"linspace 0 to {count - 1}", ends, torch.tensor((0, count - 1))
    for dtype in _INTEGERS:
        result = torch.linspace(0.9, 100.9, 5, dtype=dtype, device="cuda")
        yield f"linspace {dtype}", result, torch.tensor((0, 25, 50, 75, 100)).to(dtype)
        result = torch.logspace(0.9, 3.9, 2, base=2.0, dtype=dtype, device="cuda")
        yield f"logspace {dtype}", result, torch.tensor((1, 8)).to(dtype)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64):
        for first, last, steps in ((0.0004, 0, 204), (-1, 1, 101), (-3.3, 7.7, 37), (5, 0, 7)):
            ends = torch.linspace(first, last, steps, dtype=dtype, device="cuda")[[0, -1]]
            yield f"linspace {dtype} to {last}", ends, torch.tensor((first, last), dtype=dtype)
    # Multiplication and addition are one operation.
    index = torch.arange(1000, dtype=torch.float64)
    step, first = torch.tensor((0.1, 0.3)).double()
    result = torch.arange(0.3, 100.25, 0.1, device="cuda")
    yield "arange", result, (first + index * step).float()


def _complex() -> Iterator[rows.Row]:
    for name, argument, expected in _COMPLEX:
        for dtype in (torch.complex64, torch.complex128):
            x = torch.tensor((argument,), dtype=dtype, device="cuda")
            value = torch.tensor((expected,), dtype=dtype)
            yield f"{name} of {argument} {dtype}", getattr(torch, name)(x), value
    none = torch.empty(0, dtype=torch.complex64, device="cuda")
    yield "mean of none", none.mean(), torch.tensor(complex(_NAN, 0))


def _error(compute: Callable[[], Any]) -> str:
    """Return the type of the error that a call raises, or the type of its result."""
    try:
        result = compute()
    except Exception as err:
        return type(err).__name__
    return str(result.dtype) if isinstance(result, torch.Tensor) else "accepted"


def _out_types() -> Iterator[rows.Row]:
    x = torch.arange(12.0, device="cuda").reshape(3, 4)
    place = torch.zeros(3, 1, dtype=torch.int64, device="cuda")

    def new(dtype: Any) -> Any:
        return torch.empty(0, dtype=dtype, device="cuda")

    wide, narrow = torch.float64, torch.int32
    pair = (new(wide), new(torch.int64))
    refused: dict[str, Callable[[], Any]] = {
        "aminmax": lambda: torch.aminmax(x, dim=1, out=(new(wide), new(wide))),
        "max": lambda: torch.max(x, 1, out=pair),
        "max index": lambda: torch.max(x, 1, out=(new(torch.float32), new(narrow))),
        "sort": lambda: torch.sort(x, out=pair),
        "topk": lambda: torch.topk(x, 2, out=(new(torch.float32), new(narrow))),
        "argmax": lambda: torch.argmax(x, 1, out=new(narrow)),
        "gather": lambda: torch.gather(x, 1, place, out=new(wide)),
        "index_select": lambda: torch.index_select(x, 0, place[0], out=new(wide)),
        "median": lambda: torch.median(x, 1, out=pair),
        "kthvalue": lambda: torch.kthvalue(x, 1, 1, out=pair),
        "mode": lambda: torch.mode(x, 1, out=pair),
        "nonzero": lambda: torch.nonzero(x, out=new(narrow)),
        "searchsorted": lambda: torch.searchsorted(x[0], x[0], out=new(torch.float32)),
        "bucketize": lambda: torch.bucketize(x[0], x[0], out=new(narrow)),
        "inv": lambda: torch.linalg.inv(torch.eye(3, device="cuda"), out=new(wide)),
        "masked_select": lambda: torch.masked_select(x, x > 1, out=new(wide)),
        "tril": lambda: torch.tril(x, out=new(wide)),
        "amax": lambda: torch.amax(x, 1, out=new(wide)),
        "any": lambda: torch.any(x, 1, out=new(torch.float32)),
    }
    for name, compute in refused.items():
        yield f"out= of {name}", _error(compute), "RuntimeError"
    accepted: dict[str, Callable[[], Any]] = {
        "torch.int32": lambda: torch.sum(x, 1, out=new(narrow)),
        "torch.int16": lambda: torch.cumsum(x, 1, out=new(torch.int16)),
        "torch.float64": lambda: torch.cat((x, x), out=new(wide)),
        "torch.float32": lambda: torch.eq(x, 1, out=new(torch.float32)),
        "torch.uint8": lambda: torch.all(x, 1, out=new(torch.uint8)),
        "torch.bfloat16": lambda: torch.add(x, 1, out=new(torch.bfloat16)),
    }
    for dtype, compute in accepted.items():
        yield f"out= of {dtype}", _error(compute), dtype
    total = torch.sum(x + 0.6, 1, out=new(narrow))
    yield "sum in int32", total, torch.tensor((6, 22, 38), dtype=narrow)


def _refusals() -> Iterator[rows.Row]:
    x = torch.ones(4, device="cuda")
    small = x.to(torch.float8_e4m3fn)
    refused: dict[str, Callable[[], Any]] = {
        "bitwise_left_shift": lambda: torch.bitwise_left_shift(x, x),
        "bitwise_right_shift": lambda: torch.bitwise_right_shift(x, 2),
        "gcd": lambda: torch.gcd(x, x),
        "float8 add": lambda: small + small,
        "float8 sum": lambda: small.sum(),
        "float8 abs": lambda: small.abs(),
        "erfinv of complex": lambda: torch.erfinv(x.to(torch.complex64)),
    }
    for name, compute in refused.items():
        yield name, _error(compute), "NotImplementedError"


def _scaled() -> Iterator[rows.Row]:
    """Yield products of matrices of 8-bit floats; the sums are exact."""
    first = (torch.arange(32 * 64).reshape(32, 64) % 5 - 2).to(torch.float8_e4m3fn)
    second = (torch.arange(48 * 64).reshape(48, 64) % 7 - 3).to(torch.float8_e4m3fn)
    exact = first.float() @ second.float().t()
    of_rows, of_columns = torch.full((32, 1), 0.5), torch.full((1, 48), 4.0)
    of_rows[3], of_columns[0, 5] = 2.0, 0.25
    bias = torch.ones(48, dtype=torch.bfloat16)
    for a, b in ((torch.tensor(2.0), torch.tensor(0.5)), (of_rows, of_columns)):
        for added in (None, bias):
            result = torch._scaled_mm(
                first.cuda(),
                second.cuda().t(),
                scale_a=a.cuda(),
                scale_b=b.cuda(),
                bias=None if added is None else added.cuda(),
                out_dtype=torch.bfloat16,
            )
            expected = exact * a * b + (0 if added is None else added.float())
            yield f"scaled product {tuple(a.shape)}", result, expected.to(torch.bfloat16)


if __name__ == "__main__":
    sys.exit(rows.check(_rows()))
