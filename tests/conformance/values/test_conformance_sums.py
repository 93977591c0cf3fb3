"""More sums than registers, and lanes that read rows word by word: both executors, all shapes."""

import numpy as np
import pytest

from support.execution.both_backends import compare
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.ir.ssa import Operation
from vgpu_sim.exec.jit.memory import adjacent_loads
from vgpu_sim.exec.jit.planning import partial_unrolling, sum_chains
from vgpu_sim.isa import Module, Op

_ROWS, _COLUMNS, _DEPTH = 4, 8, 4  # 64 threads fill 4 rows of 16
_BLOCK = (16, 4, 1)
_WORDS = _BLOCK[0] * _COLUMNS  # for a row of the second factor
_PLANS = [None, jit.Plan(16, 1), jit.Plan(8, 2)]


def _kernel(body: str) -> Module:
    """Return a product of 4 x 8 sums per thread; ``body`` is its round at %k (in bytes)."""
    sums = ", ".join(f"%s{n}" for n in range(_ROWS * _COLUMNS))
    zeros = "".join(f"mov.f32 %s{n}, 0f00000000;" for n in range(_ROWS * _COLUMNS))
    stores = "".join(f"st.global.f32 [%o+{4 * n}], %s{n};" for n in range(_ROWS * _COLUMNS))
    return compile_ptx(
        f""".version 8.6\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u64 in)
        {{ .reg .b64 %o, %i, %d; .reg .b32 %x, %y, %t, %a, %b, %k; .reg .pred %p, %q;
        .reg .f32 {sums}, %f, %l<4>, %r<8>;
        .shared .align 16 .b8 left[{_DEPTH * 64}]; .shared .align 16 .b8 right[{_DEPTH * _WORDS * 4}];
        ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %x, %tid.x; mov.u32 %y, %tid.y;
        mad.lo.u32 %t, %y, 16, %x; mul.wide.u32 %d, %t, 4; add.u64 %i, %i, %d;
        mov.u32 %a, left; shl.b32 %b, %t, 2; add.u32 %a, %a, %b; ld.global.f32 %f, [%i];
        st.shared.f32 [%a], %f; mov.u32 %a, right; add.u32 %a, %a, %b; mov.u32 %k, 0;
        fill: ld.global.f32 %f, [%i+256]; st.shared.f32 [%a], %f; add.u64 %i, %i, 256;
        add.u32 %a, %a, 256; add.u32 %k, %k, 256; setp.lt.u32 %q, %k, {_DEPTH * _WORDS * 4};
        @%q bra fill; {zeros} bar.sync 0; {body}
        mul.wide.u32 %d, %t, {4 * _ROWS * _COLUMNS}; add.u64 %o, %o, %d; {stores} ret; }}""",
        capability=(9, 0),
    )


def _round(depth: int) -> str:
    """Return one round, as clang emits it: ``depth`` rows after the addresses."""
    left, right = 4 * _ROWS * _BLOCK[1] * depth, 4 * _WORDS * depth
    factors = "".join(f"ld.shared.f32 %l{n}, [%a+{left + 4 * n}];" for n in range(_ROWS))
    row = "".join(f"ld.shared.f32 %r{n}, [%b+{right + 4 * n}];" for n in range(_COLUMNS))
    steps = "".join(
        f"fma.rn.f32 %s{_COLUMNS * i + j}, %l{i}, %r{j}, %s{_COLUMNS * i + j};"
        for i in range(_ROWS)
        for j in range(_COLUMNS)
    )
    return factors + row + steps


_BEGIN = f"""mov.u32 %a, left; mad.lo.u32 %a, %y, {4 * _ROWS}, %a;
    mov.u32 %b, right; mad.lo.u32 %b, %x, {4 * _COLUMNS}, %b;"""
_LOOP = f"""{_BEGIN} mov.u32 %k, 0; round: {_round(0)} add.u32 %a, %a, 64;
    add.u32 %b, %b, {4 * _WORDS}; add.u32 %k, %k, 1; setp.ne.u32 %p, %k, {_DEPTH};
    @%p bra round;"""
_STRAIGHT = _BEGIN + "".join(map(_round, range(_DEPTH)))


@pytest.mark.parametrize("body", [_LOOP, _STRAIGHT], ids=["loop", "straight"])
def test_products_of_more_sums_than_registers(body: str) -> None:
    random = np.random.default_rng(3)
    left, right = random.random((_DEPTH, 16), "f4"), random.random((_DEPTH, _WORDS), "f4")
    threads = _BLOCK[0] * _BLOCK[1]
    buffers = [bytes(threads * 4 * _ROWS * _COLUMNS), left.tobytes() + right.tobytes()]
    out, _ = compare(_kernel(body), buffers, (1, 1, 1), _BLOCK, _PLANS)
    found = np.frombuffer(out, "f4").reshape(4, 16, _ROWS, _COLUMNS)
    factors = left.reshape(_DEPTH, 4, _ROWS).astype("f8"), right.reshape(_DEPTH, 16, _COLUMNS)
    assert np.allclose(found, np.einsum("kyi,kxj->yxij", *factors), rtol=1e-5)


def test_rounds_of_loops_with_known_trips_are_in_one_block() -> None:
    form = ssa.build(_kernel(_LOOP).functions[0])
    before = sum(_steps(form, block) for block in form.blocks)
    partial_unrolling.unroll(form)
    assert (before, max(_steps(form, b) for b in form.blocks)) == (32, 32 * _DEPTH)


def test_loops_with_unknown_trips_are_unchanged() -> None:
    form = ssa.build(_kernel(_LOOP.replace(f"%k, {_DEPTH};", "%k, %y;")).functions[0])
    partial_unrolling.unroll(form)
    assert max(_steps(form, block) for block in form.blocks) == 32


def test_sums_are_completed_a_register_file_at_a_time() -> None:
    form = ssa.build(_kernel(_LOOP).functions[0])
    partial_unrolling.unroll(form)
    analysis = analyse(form, jit.Plan(16, 2).geometry(_BLOCK), assume_guards=True)
    block = max(form.blocks, key=lambda index: _steps(form, index))
    nodes = form.blocks[block].nodes
    ordered = sum_chains.reorder(analysis, nodes, 32)
    assert ordered is not None
    assert set(ordered) == set(nodes)
    assert len(ordered) == len(nodes)
    open_, most = set(), 0
    last = {n.instruction.dsts[0]: n for n in ordered if _is_step(n)}
    for node in ordered:
        if isinstance(node, Operation) and _is_step(node):
            open_.add(node.instruction.dsts[0])
            most = max(most, len(open_))
            if last[node.instruction.dsts[0]] is node:
                open_.discard(node.instruction.dsts[0])
    assert most == 8  # two vectors: half of the registers


@pytest.mark.parametrize(
    ("between", "together"), [("", [_COLUMNS]), ("st.shared.f32 [%b+8], %l0;", [])]
)
def test_words_of_a_row_are_loaded_together(between: str, together: list[int]) -> None:
    body = _LOOP.replace("ld.shared.f32 %r3", f"{between} ld.shared.f32 %r3")
    form = ssa.build(_kernel(body).functions[0])
    analysis = analyse(form, jit.Plan(16, 1).geometry(_BLOCK), assume_guards=True)
    block = max(form.blocks, key=lambda index: _steps(form, index))
    found = adjacent_loads.find_load_groups(analysis, block, form.blocks[block].nodes)
    assert [len(loads) for loads in found.values()] == together


def _is_step(node: object) -> bool:
    return isinstance(node, Operation) and node.instruction.op is Op.FMA


def _steps(form: ssa.SsaFunction, block: int) -> int:
    return sum(_is_step(node) for node in form.blocks[block].nodes)
