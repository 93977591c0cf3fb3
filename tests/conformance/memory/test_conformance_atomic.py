"""atom and red: native code agrees with the interpreter, and accesses no other memory."""

import functools

import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from support.kernels import atomic_kernels as kernels
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit

_BLOCK = (64, 1, 1)
_PLANS = (jit.Plan(16, 4), jit.Plan(8, 1), jit.Plan(1, 1))


@functools.lru_cache(maxsize=8)
def _prove(text: str) -> int:
    """Prove a text once: several spellings of one address have the same."""
    return prover.prove(text)


def _check(op: str, type_: str, where: str, *, red: bool = False, guard: str = "", used: int = 8,
           plans: tuple[jit.Plan, ...] = _PLANS) -> None:  # fmt: skip
    module = kernels.module(op, type_, where, red=red, guard=guard)
    shape, threads = kernels.shape_of(type_), _BLOCK[0]
    dtype = f"<u{shape.piece_bits // 8}"
    indices = np.random.default_rng(used).integers(0, 1000, threads).astype("<u4")
    buffers = [
        kernels.operands(type_, kernels.CELLS, 4).astype(dtype).tobytes(),
        indices.tobytes(),
        kernels.operands(type_, threads, 3).astype(dtype).tobytes(),
        bytes((threads + kernels.CELLS) * shape.bytes),
    ]
    for plan in plans:
        text = compiler().emit_llvm(module, module.functions[0], _BLOCK, plan)
        assert _prove(text) >= 4
    compare(module, buffers, (1, 1, 1), _BLOCK, plans, extra=(used,))


@pytest.mark.parametrize("where", kernels.WHERE)
@pytest.mark.parametrize(("op", "type_"), kernels.SCALARS)
def test_atom(op: str, type_: str, where: str) -> None:
    _check(op, type_, where, guard="@%p")
    _check(op, type_, where, used=1, plans=_PLANS[:1])


@pytest.mark.parametrize("where", kernels.WHERE)
@pytest.mark.parametrize(("op", "type_"), kernels.SCALARS)
def test_red(op: str, type_: str, where: str) -> None:
    if op not in ("exch", "cas"):
        _check(op, type_, where, red=True, used=1, plans=_PLANS[:2])


@pytest.mark.parametrize(("op", "type_"), kernels.VECTORS)
def test_vectors(op: str, type_: str) -> None:
    _check(op, type_, ".global", guard="@%p", plans=_PLANS[:1])
    _check(op, type_, ".global", red=True, plans=_PLANS[2:])


_SHAPED = {
    "one for all": ("mov.u32 %i, 0;", (64, 1, 1)),
    "one for a row": ("mov.u32 %i, %tid.y;", (16, 4, 1)),
    "one for a half row": ("mov.u32 %i, %tid.x; shr.u32 %i, %i, 3;", (16, 2, 1)),
    "neighbours": ("mov.u32 %i, %tid.x;", (64, 1, 1)),
    "every other": ("mov.u32 %i, %tid.x; shl.b32 %i, %i, 1;", (32, 1, 1)),
}


_JOINED = "atom.{}.add.u32 red.{}.add.u32 atom.{}.add.u64 red.{}.min.s32 red.{}.and.b32"
_JOINED += " red.{}.or.b64 red.{}.max.s64 atom.{}.xor.b64 red.{}.max.u32"
_APART = "atom.{}.add.u32 red.{}.min.s32 atom.{}.inc.u32"


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize(
    ("shape", "form"),
    [
        (shape, form)
        for shape in _SHAPED
        for form in (_JOINED if shape.startswith("one for all") else _APART).split()
    ],
)
def test_addresses_whose_shape_is_known(form: str, space: str, shape: str) -> None:
    """Lanes with one address are combined, in every plan and under every kind of mask.

    Barriers separate the instructions: between them only the order of lanes is guaranteed.
    """
    index, block = _SHAPED[shape]
    opcode, bits = form.format(space), form[-2:]
    to, size = "%x, " if form.startswith("atom") else "", int(bits) // 8
    threads = block[0] * block[1]
    text = kernel(
        f"""
        ld.param.u64 %c, [pc]; ld.param.u64 %v, [pv]; ld.param.u64 %o, [po]; ld.param.u32 %n, [pn];
        mov.u32 %t, %tid.y; mov.u32 %s, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %t, %t, %s, %i;
        mad.wide.u32 %v, %t, {size}, %v; mad.wide.u32 %o, %t, 32, %o;
        ld.global.b{bits} %y, [%v]; mov.b{bits} %x, %y; {index}
        mov.u32 %s, sm; mad.lo.u32 %s, %i, {size}, %s; mad.wide.u32 %c, %i, {size}, %c;
        setp.lt.u32 %p, %t, %n; setp.gt.u32 %q, %n, 9; setp.gt.u32 %r, %n, 100;
        {opcode} {to}[{"%c" if space == "global" else "%s"}], %y; st.global.b{bits} [%o], %x; bar.sync 0;
        @%p {opcode} {to}[{"%c" if space == "global" else "%s"}], 5; st.global.b{bits} [%o+8], %x; bar.sync 0;
        @%q {opcode} {to}[{"%c" if space == "global" else "%s"}], %y; bar.sync 0;
        @%r {opcode} {to}[{"%c" if space == "global" else "%s"}], %y;
        st.global.b{bits} [%o+16], %x; bar.sync 0;
        ld.shared.b{bits} %x, [%s]; st.global.b{bits} [%o+24], %x;
        """,
        ".param .u64 pc, .param .u64 pv, .param .u64 po, .param .u32 pn",
        registers=f".reg .b64 %c, %v, %o; .reg .b32 %t, %i, %s, %n; .reg .b{bits} %x, %y;"
        " .reg .pred %p, %q, %r; .shared .align 16 .b8 sm[1024];",
    )
    module = compile_verified(text)
    legal = [plan for plan in compiler().legal_plans(module, block) if plan.versioned]
    plans = [None, legal[len(legal) // 2], legal[0]]
    cells = np.random.default_rng(1).integers(0, 256, 1024, np.uint8).tobytes()
    values = np.random.default_rng(2).integers(0, 256, threads * size, np.uint8).tobytes()
    compare(module, [cells, values, bytes(32 * threads)], (1, 1, 1), block, plans, extra=(21,))
    assert prover.prove(compiler().emit_llvm(module, module.functions[0], block, None))


_MEETINGS = {
    "a lane's number": "shfl.sync.idx.b32 %x, %t, %own, 31, {all};",
    "a value": "shfl.sync.up.b32 %x, %own, 1, 0, {all};",
    "a vote": "setp.gt.u32 %p, %own, 2; vote.sync.ballot.b32 %x, %p, {all};",
    "a match": "match.any.sync.b32 %x, %own, {all};",
    "a sum": "redux.sync.add.u32 %x, %own, {all};",
    "a barrier": "and.b32 %x, %own, 0; add.u32 %x, %x, 3; bar.sync %x;",
    "a barrier behind a branch": "setp.gt.u32 %p, %own, 5; @%p bra OUT; bar.warp.sync {all}; OUT:",
}


@pytest.mark.parametrize("threads", [7, 32])
@pytest.mark.parametrize("body", _MEETINGS.values(), ids=_MEETINGS)
def test_lanes_synchronise_by_the_values_they_find(body: str, threads: int) -> None:
    # Each lane updates a word of its own, so its former value is known: the lane modulo four.
    every = (1 << threads) - 1
    source = f""".version 8.0
        .target sm_80
        .address_size 64
        .visible .entry k(.param .u64 out)
        {{ .reg .b64 %out, %at; .reg .b32 %t, %x, %own; .reg .pred %p;
        .shared .align 4 .b8 tile[128]; .reg .b32 %tile;
        ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, 4;
        add.u64 %at, %out, %at; mov.u32 %tile, tile; mad.lo.u32 %tile, %t, 4, %tile;
        and.b32 %x, %t, 3; st.shared.u32 [%tile], %x; atom.shared.add.u32 %own, [%tile], 1;
        {body.format(all=every)} st.global.u32 [%at], %x; ret; }}"""
    module, block = compile_ptx(source, capability=(9, 0)), (threads, 1, 1)
    assert module.refused == ()
    plans = [None, *compiler().legal_plans(module, block)]
    compare(module, [bytes(4 * threads)], (2, 1, 1), block, plans)


@pytest.mark.parametrize("update", ["add.u32", "max.u32", "xor.b32"])
@pytest.mark.parametrize("away", [0, 4096, -(1 << 20)])
def test_addresses_below_a_named_variable(away: int, update: str) -> None:
    """Lanes' addresses are sign-extended one by one, even if two lanes have the same address."""
    module = compile_ptx(
        f""".version 8.0\n.target sm_80\n.address_size 64
    .visible .entry k(.param .u64 out, .param .u64 in)
    {{ .shared .align 4 .b8 cells[4096]; .reg .b64 %o, %a, %w; .reg .b32 %t, %x, %c, %b;
      ld.param.u64 %o, [out]; ld.param.u64 %a, [in]; mov.u32 %t, %tid.x; mul.wide.u32 %w, %t, 4;
      add.s64 %a, %a, %w; add.s64 %o, %o, %w; ld.global.u32 %x, [%a]; mov.u32 %b, cells;
      shl.b32 %c, %x, 2; add.u32 %c, %c, %b; sub.u32 %c, %c, {away}; add.u32 %x, %x, %t;
      red.shared.{update} [%c+{away}], %x; bar.sync 0; shl.b32 %c, %t, 2; add.u32 %c, %c, %b;
      ld.shared.u32 %x, [%c]; st.global.u32 [%o], %x; ret; }}""",
        capability=(8, 0),
    )
    for seed, places in enumerate((64, 9, 1)):
        places_of_lanes = np.random.default_rng(seed).integers(0, places, 64).astype("<u4")
        for plan in (*_PLANS, jit.Plan(4, 2)):
            text = compiler().emit_llvm(module, module.functions[0], _BLOCK, plan)
            assert prover.prove(text)
        buffers = [bytes(4 * 64), places_of_lanes.tobytes()]
        compare(module, buffers, (1, 1, 1), _BLOCK, (*_PLANS, jit.Plan(4, 2)))
