"""atom and red on the interpreter, compared with Python's integers and fractions."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from support.kernels import atomic_kernels as kernels
from vgpu_sim.exec.errors import AddressFault, MisalignedFault
from vgpu_sim.isa import Update
from vgpu_sim.isa.families import atomic

THREADS = 48


def _check(op: str, type_: str, where: str, *, red: bool = False, guard: str = "", used: int = 8,
           threads: int = THREADS) -> None:  # fmt: skip
    module = kernels.module(op, type_, where, red=red, guard=guard)
    shape = kernels.shape_of(type_)
    dtype = f"<u{shape.piece_bits // 8}"
    rng = np.random.default_rng(len(op) + used)
    indices = rng.integers(0, 1000, threads).astype("<u4")
    data = kernels.operands(type_, threads, 1)
    start = kernels.operands(type_, kernels.CELLS, 2)
    out = np.zeros((threads + kernels.CELLS, shape.pieces), dtype)
    arguments = [start.astype(dtype), indices, data.astype(dtype), out, np.uint32(used)]
    after, _, _, found = run(module, arguments, block=(threads, 1, 1))
    near = [{".shared": True, ".shared::cta": True, " ": True, "  ": t >= 20}.get(where, False)
            for t in range(threads)]  # fmt: skip
    places = [int(i) % used for i in indices]
    if guard:
        places = [p if p != 3 else -1 for p in places]
    outside = dict(enumerate(start.tolist()))
    inside = {100 + i: [0] * shape.pieces for i in range(kernels.CELLS)}
    cells = {**outside, **inside}
    keys = [p if p < 0 else p + 100 * n for p, n in zip(places, near, strict=True)]
    olds = kernels.apply_updates(op, type_, cells, keys, data, near, 7)
    wanted = [d if red or old is None else old for old, d in zip(olds, data.tolist(), strict=True)]
    assert found[:threads].tolist() == wanted
    assert after.tolist() == [cells[i] for i in range(kernels.CELLS)]
    assert found[threads:].tolist() == [cells[100 + i] for i in range(kernels.CELLS)]


@pytest.mark.parametrize("where", kernels.WHERE)
@pytest.mark.parametrize(("op", "type_"), kernels.SCALARS)
def test_atom(op: str, type_: str, where: str) -> None:
    _check(op, type_, where)
    _check(op, type_, where, guard="@%p", used=5)


@pytest.mark.parametrize(("op", "type_"), kernels.SCALARS)
def test_red(op: str, type_: str) -> None:
    if op not in ("exch", "cas"):
        _check(op, type_, ".global", red=True, used=3)


@pytest.mark.parametrize(("op", "type_"), kernels.VECTORS)
def test_vectors(op: str, type_: str) -> None:
    _check(op, type_, ".global")
    _check(op, type_, ".global", red=True, guard="@%p")


@pytest.mark.parametrize(("op", "type_"), kernels.SCALARS)
def test_many_lanes_on_one_address(op: str, type_: str) -> None:
    """With many lanes per address, associative updates are combined; others run in lane order."""
    _check(op, type_, ".shared", used=1, threads=96)
    _check(op, type_, ".global", used=2, threads=200)


def test_combined_updates_are_the_associative_ones() -> None:
    from vgpu_sim.exec.interp.families.atomic import _JOINABLE

    assert set(Update) - _JOINABLE == {
        Update.INC,
        Update.DEC,
        Update.CAS,
        Update.ARRIVE,
        Update.DROP,
        Update.TX,
    }
    assert set(atomic.ROWS[0].modifiers[1].codes) == set(Update)


def test_faults_precede_all_changes_of_memory() -> None:
    text = kernel(
        "ld.param.u64 %a, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, STEP, %a;"
        " atom.global.add.u32 %t, [%a], 1;",
        ".param .u64 p",
        registers=".reg .b64 %a; .reg .b32 %t;",
    )
    with pytest.raises(MisalignedFault):
        run(text.replace("STEP", "6"), [np.zeros(64, "<u4")])
    with pytest.raises(AddressFault):
        run(text.replace("STEP", "4"), [np.zeros(31, "<u4")])


def test_blocks_have_shared_cells_of_their_own() -> None:
    text = kernel(
        """ld.param.u64 %a, [p]; mov.u32 %x, sm; atom.shared.inc.u32 %y, [%x], 99;
        mov.u32 %t, %ctaid.x; shl.b32 %t, %t, 5; mov.u32 %x, %tid.x; add.u32 %t, %t, %x;
        mad.wide.u32 %a, %t, 4, %a; st.global.u32 [%a], %y;""",
        ".param .u64 p",
        registers=".reg .b64 %a; .reg .b32 %t, %x, %y; .shared .b32 sm;",
    )
    (found,) = run(compile_verified(text), [np.zeros(96, "<u4")], grid=(3, 1, 1))
    assert found.tolist() == [*range(32)] * 3
