"""Cases of matrix products whose sums reveal order, width and rounding."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.lanes import HEAD

Words = NDArray[np.uint32]
_WARPS = 64
# spelling, kind of the operands, registers of A, B, C per lane, kind of C
_PRODUCTS = (
    ("m16n8k16.row.col.f32.f16.f16.f32", "f16", 4, 2, 4, "f32"),
    ("m16n8k8.row.col.f32.f16.f16.f32", "f16", 2, 1, 4, "f32"),
    ("m16n8k16.row.col.f16.f16.f16.f16", "f16", 4, 2, 2, "f16"),
    ("m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", 4, 2, 4, "f32"),
    ("m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", 4, 2, 4, "f32"),
    ("m16n8k4.row.col.f32.tf32.tf32.f32", "tf32", 2, 1, 4, "f32"),
    ("m16n8k32.row.col.f32.e4m3.e4m3.f32", "e4m3", 4, 2, 4, "f32"),
    ("m16n8k32.row.col.f32.e5m2.e5m2.f32", "e5m2", 4, 2, 4, "f32"),
    ("m8n8k4.row.col.f64.f64.f64.f64", "f64", 2, 2, 4, "f64"),
    ("m16n8k16.row.col.f64.f64.f64.f64", "f64", 16, 8, 8, "f64"),
)
_GROUPS = (
    ("m64n8k16.f32.f16.f16", "f16", "f32", 4, 16),
    ("m64n8k16.f16.f16.f16", "f16", "f16", 2, 16),
    ("m64n8k16.f32.bf16.bf16", "bf16", "f32", 4, 16),
    ("m64n8k8.f32.tf32.tf32", "tf32", "f32", 4, 8),
    ("m64n8k32.f32.e4m3.e4m3", "e4m3", "f32", 4, 32),
    ("m64n8k32.f32.e5m2.e5m2", "e5m2", "f32", 4, 32),
)


def _floats(dice: np.random.Generator, kind: str, words: int, style: int) -> Words:
    """Return numbers of a kind in words; ``style`` selects how far exponents spread."""
    per = {"f16": 2, "bf16": 2, "e4m3": 4, "e5m2": 4, "tf32": 1, "f32": 1}
    if kind == "f64":
        spread = (2, 8, 30, 60)[style]
        wide = dice.normal(size=words // 2) * 2.0 ** dice.integers(-spread, spread + 1, words // 2)
        return wide.view(np.uint32)
    count = words * per[kind]
    signs = dice.integers(0, 2, count)
    fraction, exponent, bias = {
        "f16": (10, 5, 15), "bf16": (7, 8, 127), "tf32": (23, 8, 127), "f32": (23, 8, 127),
        "e4m3": (3, 4, 7), "e5m2": (2, 5, 15),
    }[kind]  # fmt: skip
    spread = min((1, 4, 9, 14)[style], bias - 1)
    exponents = dice.integers(-spread, spread + 1, count) + bias
    fractions = dice.integers(0, 1 << fraction, count)
    if style == 3:
        fractions *= dice.integers(0, 2, count)
    if kind == "tf32":
        fractions &= ~0x1FFF
    bits = signs << (fraction + exponent) | exponents << fraction | fractions
    if style:
        bits *= dice.integers(0, 5, count) > 0
    size = {1: "<u4", 2: "<u2", 4: "u1"}[per[kind]]
    return bits.astype(size).view(np.uint32)


def _operands(
    kind: str, sum_kind: str, sizes: tuple[int, int, int], lanes: int, seed: int
) -> bytes:
    dice, rows = np.random.default_rng(seed), []
    per = _WARPS // 4
    for style in range(4):
        for _ in range(per * 32 // lanes):
            row = [
                _floats(dice, kind, lanes * sizes[0], style).reshape(lanes, -1),
                _floats(dice, kind, lanes * sizes[1], style).reshape(lanes, -1),
                _floats(dice, sum_kind, lanes * sizes[2], style).reshape(lanes, -1),
            ]
            rows.append(np.concatenate(row, axis=1))
    return np.concatenate(rows).astype("<u4").tobytes()


def _text(body: str, total: int, results: int, start: int, threads: int, head: str = "") -> str:
    """Return a kernel that loads ``total`` words and stores ``results`` of them from ``start``."""
    loads = " ".join(f"ld.global.b32 %v{n}, [%g+{4 * n}];" for n in range(total))
    stores = " ".join(f"st.global.b32 [%o+{4 * n}], %v{start + n};" for n in range(results))
    return (
        f"{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n{head}"
        f".reg .b32 %v<{total}>, %i, %n, %s; .reg .b64 %g, %o, %x, %f<64>;\n"
        f"mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %i, %n, {threads}, %i;\n"
        f"ld.param.u64 %g, [p0]; mad.wide.u32 %g, %i, {4 * total}, %g;\n"
        f"ld.param.u64 %o, [p1]; mad.wide.u32 %o, %i, {4 * results}, %o;\n{loads}\n{body}\n"
        f"{stores}\nret;\n}}\n"
    )


def _finish(
    name: str, text: str, data: bytes, results: int, threads: int, lanes: int, store: Store
) -> dict[str, Any]:
    return {
        "id": name, "group": "sums", "ptx": text, "entry": "k",
        "grid": [lanes // threads, 1, 1], "block": [threads, 1, 1], "params": bytes(16).hex(),
        "buffers": [[store.add(data), 0], [4 * results * lanes, 0]],
        "relocs": [["p", 0, 0, 0], ["p", 8, 1, 0]], "out": [1],
    }  # fmt: skip


def _list(start: int, count: int, kind: str = "v") -> str:
    return "{" + ", ".join(f"%{kind}{start + n}" for n in range(count)) + "}"


def cases(store: Store) -> Iterator[dict[str, Any]]:
    """Return products of a warp, then of a warpgroup with A in registers."""
    for seed, (name, kind, a, b, c, sum_kind) in enumerate(_PRODUCTS):
        if kind == "f64":
            halves = (a + b + c) // 2
            moves = " ".join(f"mov.b64 %f{n}, {{%v{2 * n}, %v{2 * n + 1}}};" for n in range(halves))
            ends = " ".join(
                f"mov.b64 {{%v{2 * n}, %v{2 * n + 1}}}, %f{n};" for n in range((a + b) // 2, halves)
            )
            d = _list((a + b) // 2, c // 2, "f")
            factors = f"{_list(0, a // 2, 'f')}, {_list(a // 2, b // 2, 'f')}"
            core = f"mma.sync.aligned.{name} {d}, {factors}, {d};"
            body = f"{moves} {core} {ends}"
        else:
            d = _list(a + b, c)
            body = f"mma.sync.aligned.{name} {d}, {_list(0, a)}, {_list(a, b)}, {d};"
        data = _operands(kind, sum_kind, (a, b, c), 32, seed)
        text = _text(body, a + b + c, c, a + b, 32)
        yield _finish(f"sums/mma.{name}", text, data, c, 32, 32 * _WARPS, store)
    for seed, (name, kind, sum_kind, c, k) in enumerate(_GROUPS):
        # lanes 0 to 63 of the block bring B: 256 bytes, two matrices of 8 rows of 16 bytes
        head = ".shared .align 1024 .b8 tile[1024];\n"
        total = 4 + 1 + c
        scales = "p, 1, 1" if k in (8, 32) else "p, 1, 1, 0"
        body = (
            ".reg .pred p, q; mov.u32 %n, %tid.x; setp.lt.u32 q, %n, 64; mov.u32 %s, tile;"
            " shl.b32 %i, %n, 2; add.u32 %i, %i, %s; @q st.shared.b32 [%i], %v4; bar.sync 0;"
            " fence.proxy.async; shr.u32 %s, %s, 4; cvt.u64.u32 %x, %s;"
            " or.b64 %x, %x, 0x1000080000; setp.eq.u32 p, 0, 0;"
            " wgmma.fence.sync.aligned;"
            f" wgmma.mma_async.sync.aligned.{name} {_list(5, c)}, {_list(0, 4)}, %x, {scales};"
            " wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
        )
        data = _operands(kind, sum_kind, (4, 1, c), 128, 50 + seed)
        text = _text(body, total, c, 5, 128, head)
        yield _finish(f"sums/wgmma.{name}", text, data, c, 128, 32 * _WARPS, store)
