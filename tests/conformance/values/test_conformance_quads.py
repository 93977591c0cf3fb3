"""mma.m8n8k4 of halves on both executors, against products of NumPy with fragments as in PTX ISA."""

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified
from support.oracles import matrix_oracle as oracle
from vgpu_sim.compiler import UnsupportedPtxError

_LANES = np.arange(32)
_UPPER = _LANES // 16 * 4


def _rows_of_a(layout: str, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of element i of A, for each lane."""
    if layout == "row":
        return _LANES % 4 + _UPPER, np.full(32, i)
    return i + _UPPER, _LANES % 4


def _rows_of_b(layout: str, i: int) -> tuple[np.ndarray, np.ndarray]:
    if layout == "row":
        return _LANES % 4, i + _UPPER
    return np.full(32, i), _LANES % 4 + _UPPER


def _rows_of_c(type_: str, i: int) -> tuple[np.ndarray, np.ndarray]:
    if type_ == "f16":
        return _LANES % 4 + _UPPER, np.full(32, i)
    return (_LANES & 1) + (i & 2) + _UPPER, (i & 4) + (_LANES & 2) + (i & 1)


def _source(left: str, right: str, total: str, given: str) -> str:
    def names(letter: str, count: int) -> str:
        return "{" + ", ".join(f"%{letter}{n}" for n in range(count)) + "}"

    count = 4 if total == "f16" else 8
    loads = "".join(f"ld.global.b32 %c{n}, [%p+{4 * n}];" for n in range(count))
    stores = "".join(f"st.global.b32 [%p+{4 * n}], %d{n};" for n in range(count))
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pf, .param .u64 pc)
{{
  .reg .b32 %a<2>, %b<2>, %c<8>, %d<8>, %t; .reg .b64 %f, %p;
  mov.u32 %t, %tid.x; ld.param.u64 %f, [pf]; ld.param.u64 %p, [pc];
  mad.wide.u32 %f, %t, 16, %f; mad.wide.u32 %p, %t, {4 * count}, %p;
  ld.global.v4.b32 {{%a0, %a1, %b0, %b1}}, [%f]; {loads}
  mma.sync.aligned.m8n8k4.{left}.{right}.{total}.f16.f16.{given}
    {names("d", count)}, {names("a", 2)}, {names("b", 2)}, {names("c", count)};
  {stores}
  ret;
}}
"""


@pytest.mark.parametrize("total", ["f16", "f32"])
@pytest.mark.parametrize("right", ["row", "col"])
@pytest.mark.parametrize("left", ["row", "col"])
@pytest.mark.parametrize("tame", [True, False])
def test_each_pair_of_quads_has_a_product(left: str, right: str, total: str, tame: bool) -> None:
    dice = np.random.default_rng([tame, left == "row", right == "row", total == "f16"])
    warps, each = 2, np.uint16 if total == "f16" else np.uint32
    quads = _LANES % 16 // 4
    factors = np.zeros((warps, 32, 8), np.uint16)
    sums, wanted = np.zeros((2, warps, 32, 8), each)
    for warp in range(warps):
        a = [oracle.patterns("f16", (8, 4), dice, tame) for _ in range(4)]
        b = [oracle.patterns("f16", (8, 4), dice, tame).T for _ in range(4)]
        c = [oracle.patterns(total, (8, 8), dice, tame) for _ in range(4)]
        d = [
            oracle.mma(oracle.values(x, "f16"), oracle.values(y, "f16"), z, "f16", total)
            for x, y, z in zip(a, b, c, strict=True)
        ]
        for i in range(4):
            (row, k), (depth, n) = _rows_of_a(left, i), _rows_of_b(right, i)
            factors[warp, :, i] = np.array(a).view(np.uint16)[quads, row, k]
            factors[warp, :, 4 + i] = np.array(b).view(np.uint16)[quads, depth, n]
        for i in range(8):
            row, column = _rows_of_c(total, i)
            sums[warp, :, i] = np.array(c).view(each)[quads, row, column]
            wanted[warp, :, i] = np.array(d).view(each)[quads, row, column]
    module = compile_verified(_source(left, right, total, total), (8, 0))
    block = (32 * warps, 1, 1)
    plans = [None, *list(compiler().legal_plans(module, block))[:1]]
    _, found = compare(module, [factors.tobytes(), sums.tobytes()], (1, 1, 1), block, plans)
    np.testing.assert_array_equal(np.frombuffer(found, each).reshape(wanted.shape), wanted)


@pytest.mark.parametrize(("total", "given"), [("f32", "f16"), ("f16", "f32")])
def test_sums_of_two_types_are_not_supported(total: str, given: str) -> None:
    with pytest.raises(UnsupportedPtxError):
        compile_verified(_source("row", "col", total, given), (8, 0))
