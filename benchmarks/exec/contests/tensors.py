"""Matrix products by ``wgmma`` with factors from TMA, of all types, and warp-specialised."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.exec.contest import (
    NATIVE,
    Array,
    Buffers,
    Call,
    Contest,
    Launch,
    Problem,
    Rival,
    TensorMap,
    Work,
    near,
    same,
)
from benchmarks.exec.tensor import copies, products
from benchmarks.exec.tensor.products import BF16, E4M3, F16, S8, Type

_TRITON, _ATTENTION_ROWS = "$TESSERA_TRITON_PTX/attention", 128  # of triton_kernels.py
NUMPY = "NumPy with OpenBLAS"
OPENBLAS, OF_BF16, PLAIN_TWIN = "OpenBLAS", "bf16, same kernel", "plain twin"
_ORDER, _TINY = 2048, 256
_TAGS = frozenset({"tensor"})
_MAP_TYPES = {"bf16": 9, "f16": 6, "e4m3": 0, "s8": 0}  # CUtensorMapDataType; bytes are UINT8


def has_amx() -> bool:
    """Return whether the cores have tiles for bf16, which the goals depend on."""
    return " amx_bf16" in Path("/proc/cpuinfo").read_text()


def _brain(values: Array) -> tuple[Array, Array]:
    codes = (values.view(np.uint32) >> 16).astype(np.uint16)
    return codes, (codes.astype(np.uint32) << 16).view(np.float32)


def _half(values: Array) -> tuple[Array, Array]:
    codes = values.astype(np.float16)
    return codes, codes.astype(np.float32)


def _small(values: Array) -> tuple[Array, Array]:
    """Return codes of E4M3 with exponents from -3 to 0."""
    codes = (values * 32).astype(np.uint8) + np.uint8(32)
    return codes, np.ldexp(1 + (codes & 7) / 8, (codes >> 3).astype(int) - 7).astype(np.float32)


def _byte(values: Array) -> tuple[Array, Array]:
    codes = (values * 255 - 128).astype(np.int8)
    return codes, codes.astype(np.float32)


_CODES: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "bf16": _brain,
    "f16": _half,
    "e4m3": _small,
    "s8": _byte,
}


def _launch(kind: Type, a: str, b: str, order: int, specialised: bool) -> Launch:
    box = kind.depth, products.ROWS
    maps = (TensorMap(name, _MAP_TYPES[kind.name], box, products.LINE_BYTES) for name in (a, b))
    numbers = np.uint32(order), np.uint32(order // kind.depth)
    return Launch(
        "product",
        (order // products.COLUMNS, order // products.ROWS, 1),
        (products.threads(specialised), 1, 1),
        (*maps, "c", *numbers),
        products.SHARED_BYTES,
    )


def _product(
    kind: Type, tiny: bool, *, specialised: bool = False, rival: tuple[str, Type] | None = None
) -> Problem:
    order, random = _TINY if tiny else _ORDER, np.random.default_rng(50)
    drawn = [random.random((order, order), np.float32) for _ in range(2)]
    (a, left), (b, right) = (_CODES[kind.name](values) for values in drawn)
    sums = np.int32 if kind.sums == "s32" else np.float32
    buffers = {"a": a, "b": b, "left": left, "right": right, "c": np.zeros((order, order), sums)}
    buffers["blas"] = np.zeros((order, order), np.float32)
    rivals = {}
    if rival is not None:
        name, rival_type = rival
        # Same values: those of E4M3 are values of bf16.
        buffers["a2"], buffers["b2"] = (_CODES[rival_type.name](v)[0] for v in (left, right))
        names = ("a", "b") if rival_type is kind else ("a2", "b2")
        launch = _launch(rival_type, *names, order, False)
        rivals[name] = Rival(products.source(rival_type, False), (launch,))
    exact = left.astype(np.float64) @ right.T

    def check(results: Buffers) -> None:
        if results["blas"].any():  # OpenBLAS's, which has sums of f32 for all types
            near(results["blas"], exact, "OpenBLAS", relative=1e-3, absolute=1e-6 * order * 128**2)
        elif sums is np.int32:
            same(results["c"], exact.astype(np.int64), "c")
        else:
            near(results["c"], exact, "c", relative=1e-3)

    def blas(own: Buffers) -> Work:
        def once() -> None:
            np.matmul(own["left"], own["right"].T, out=own["blas"])

        return once

    return Problem(
        buffers,
        (_launch(kind, "a", "b", order, specialised),),
        check,
        libraries={OPENBLAS: blas},
        ptx=products.source(kind, specialised),
        rivals=rivals,
    )


def _copies(blocks: int, each: int, tensor: bool) -> Problem:
    pieces = blocks * each
    a = np.random.default_rng(51).integers(0, 256, (pieces * copies.LINES, 128), np.uint8)
    expected_words = np.ascontiguousarray(a[copies.LINES - 1 :: copies.LINES]).view(np.uint32)[:, 0]
    box = copies.LINE_BYTES, copies.LINES
    source = TensorMap("a", _MAP_TYPES["s8"], box, 0) if tensor else "a"

    def check(results: Buffers) -> None:
        same(results["words"], expected_words, "words")

    return Problem(
        {"a": a, "words": np.zeros(pieces, np.uint32)},
        (Launch("copy", (blocks, 1, 1), (32, 1, 1), (source, "words", np.uint32(each))),),
        check,
        Call("copy", ("a", "words", np.int32(pieces))),
        ptx=copies.source(tensor),
    )


def _attention(heads: int, n: int) -> Problem:
    depth, random = 64, np.random.default_rng(52)
    q, k, v = (random.standard_normal((heads, n, depth)).astype(np.float16) for _ in range(3))
    wide = {f"{name}32": x.astype(np.float32) for name, x in zip("qkv", (q, k, v), strict=True)}
    facts_file = Path(os.path.expandvars(f"{_TRITON}.json"))
    # Without the file there is no PTX either, and the contender is reported as missing.
    facts = json.loads(facts_file.read_text()) if facts_file.exists() else {"threads": 1}
    scale = np.float32(np.log2(np.e) / depth**0.5)
    none = np.uint64(0)  # Triton's two buffers for its own use
    launch = Launch(
        "attention",
        (-(-n // _ATTENTION_ROWS), heads, 1),
        (facts["threads"], 1, 1),
        ("q", "k", "v", "o", np.int32(n), scale, none, none),
        facts.get("shared", 0),
    )

    def compute(q: Array, k: Array, v: Array, out: Array) -> None:
        for head in range(heads):
            scores = q[head] @ k[head].T
            scores *= q.dtype.type(scale)
            scores -= scores.max(axis=1, keepdims=True)
            np.exp2(scores, out=scores)
            np.matmul(scores, v[head], out=out[head])
            out[head] /= scores.sum(axis=1, keepdims=True)

    exact = np.zeros((heads, n, depth))
    compute(*(x.astype(np.float64) for x in (q, k, v)), exact)

    def check(results: Buffers) -> None:
        near(results["o"], exact, "o", relative=1e-2, absolute=2e-3)

    def blas(own: Buffers) -> Work:
        return lambda: compute(own["q32"], own["k32"], own["v32"], own["o"])

    return Problem(
        {"q": q, "k": k, "v": v, "o": np.zeros((heads, n, depth), np.float32), **wide},
        (launch,),
        check,
        libraries={NUMPY: blas},
    )


def _contest(name: str, make: Callable[[bool], Problem], goals: dict[str, float | None]) -> Contest:
    return Contest(name, "", make, goals, work=(2 * _ORDER**3 * 1e-9, "GFLOP"), tags=_TAGS)


_AMX = has_amx()
CONTESTS = (
    _contest("wgmma-bf16", lambda tiny: _product(BF16, tiny), {OPENBLAS: 2.0 if _AMX else 0.5}),
    _contest("wgmma-f16", lambda tiny: _product(F16, tiny), {OPENBLAS: 0.6}),
    _contest("wgmma-int8", lambda tiny: _product(S8, tiny), {OPENBLAS: 4.0 if _AMX else None}),
    _contest(
        "wgmma-fp8",
        lambda tiny: _product(E4M3, tiny, rival=(OF_BF16, BF16)),
        {OF_BF16: 1 / 1.3, OPENBLAS: None},
    ),
    _contest(
        "warp-specialised",
        lambda tiny: _product(BF16, tiny, specialised=True, rival=(PLAIN_TWIN, BF16)),
        {PLAIN_TWIN: 1 / 1.15, OPENBLAS: None},
    ),
    Contest(
        "flash-attention",
        _TRITON,
        lambda tiny: _attention(*((1, 256) if tiny else (8, 1024))),
        {NUMPY: 1.5},
        work=(4 * 8 * 1024**2 * 64 * 1e-9, "GFLOP"),
        tags=_TAGS,
    ),
    *(
        Contest(
            name,
            "../tensor/tma_copy",
            lambda tiny, tensor=tensor: _copies(*((4, 2) if tiny else (64, 64)), tensor),
            {NATIVE: 0.9},
            work=(64 * 64 * copies.PIECE_BYTES * 1e-9, "GB"),
            tags=_TAGS,
        )
        for name, tensor in (("tma-bulk", False), ("tma-tensor", True))
    ),
)
