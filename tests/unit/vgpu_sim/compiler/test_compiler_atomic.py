"""atom, red, fence and membar: supported forms and their lowering."""

import pytest

from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.compiler.errors import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.isa import DataType, Instruction, Literal, Op, Order, Scope, Space, Update

_REGISTERS = """
    .reg .b64 %a, %d<9>, %policy; .reg .b32 %s, %r<9>; .reg .b16 %h<20>; .reg .pred %p;
    .shared .align 16 .b8 sm[64];
"""


def _words(line: str) -> tuple[Instruction, ...]:
    text = kernel(f"ld.param.u64 %a, [p];\n{line}", ".param .u64 p", registers=_REGISTERS)
    module = compile_verified(text.replace("sm_80", "sm_90"))
    return module.functions[0].code[1:-1]


@pytest.mark.parametrize(
    ("line", "op", "type_", "space", "update"),
    [
        ("atom.global.add.u32 %r1, [%a], %r2;", Op.ATOM, "U32", "GLOBAL", "ADD"),
        ("atom.add.release.gpu.global.u64 %d1, [%a], %d2;", Op.ATOM, "U64", "GLOBAL", "ADD"),
        ("atom.acq_rel.sys.global.cas.b32 %r1, [%a], %r2, %r3;", Op.ATOM, "B32", "GLOBAL", "CAS"),
        ("atom.cas.relaxed.cta.b64 %d1, [%a], %d2, 5;", Op.ATOM, "B64", "GENERIC", "CAS"),
        ("atom.shared::cta.exch.b64 %d1, [%s], %d2;", Op.ATOM, "B64", "SHARED", "EXCH"),
        ("atom.shared::cluster.or.b32 %r1, [sm], 3;", Op.ATOM, "B32", "SHARED", "OR"),
        ("atom.global.cas.b16 %h1, [%a], %h2, %h3;", Op.ATOM, "B16", "GLOBAL", "CAS"),
        ("atom.global.max.L2::cache_hint.s64 %d1, [%a], %d2, %policy;",
         Op.ATOM, "S64", "GLOBAL", "MAX"),
        ("atom.add.noftz.bf16 %h1, [%a], %h2;", Op.ATOM, "BF16", "GENERIC", "ADD"),
        ("@%p red.shared.inc.u32 [%s], 7;", Op.RED, "U32", "SHARED", "INC"),
        ("red.release.gpu.global.add.s32 [%a], %r1;", Op.RED, "S32", "GLOBAL", "ADD"),
        ("red.global.add.L2::cache_hint.f64 [%a], %d1, %policy;", Op.RED, "F64", "GLOBAL", "ADD"),
        ("atom.global.dec.u32 _, [%a], %r2;", Op.ATOM, "U32", "GLOBAL", "DEC"),
    ],
)  # fmt: skip
def test_one_word(line: str, op: Op, type_: str, space: str, update: str) -> None:
    (word,) = (one for one in _words(line) if one.op in (Op.ATOM, Op.RED))
    found = (word.op, word.type.name, word.space.name, word.update)
    assert found == (op, type_, space, Update[update])
    assert (word.guard is not None) == line.startswith("@")


def test_a_displacement_is_added_first() -> None:
    add, word = _words("atom.global.add.u32 %r1, [%a+-8], %r2;")
    assert (add.op, add.type, add.srcs[1]) == (Op.ADD, DataType.U64, Literal((1 << 64) - 8))
    assert word.srcs[0] == add.dsts[0]
    add, word = _words("red.shared.add.u32 [%s+12], %r2;")
    assert (add.op, add.type, add.srcs[1]) == (Op.ADD, DataType.U32, Literal(12))
    (word,) = _words("red.shared.add.u32 [sm+12], %r2;")
    assert word.srcs[0] == Literal(12)


@pytest.mark.parametrize(("count", "type_"), [(2, "F16"), (4, "BF16"), (8, "F16")])
def test_vectors(count: int, type_: str) -> None:
    first, second = ([f"%h{begin + i}" for i in range(count)] for begin in (0, 10))
    line = f"global.max.noftz.v{count}.{type_.lower()}"
    (word,) = _words(f"atom.{line} {{{', '.join(first)}}}, [%a], {{{', '.join(second)}}};")
    assert (word.vector, word.type.name, len(word.dsts), len(word.srcs)) == (
        (count, type_, count, count + 1)
    )
    (word,) = _words(f"red.{line} [%a], {{{', '.join(second)}}};")
    assert (word.op, word.vector, word.dsts) == (Op.RED, count, ())
    (word,) = _words(f"atom.{line} _, [%a], {{{', '.join(second)}}};")
    assert (word.op, word.vector, len(word.dsts)) == (Op.ATOM, count, count)


def test_pairs_are_updated_by_halves() -> None:
    (word,) = [w for w in _words("atom.add.noftz.f16x2 %r1, [%a], %r2;") if w.op is Op.ATOM]
    assert (word.vector, word.type) == (2, DataType.F16)
    line = "red.global.min.noftz.v4.bf16x2 [%a], {%r1, %r2, %r3, %r4};"
    (word,) = [w for w in _words(line) if w.op is Op.RED]
    assert (word.vector, word.type) == (8, DataType.BF16)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("atom.global.add.s64 %d1, [%a], %d2;", "cannot stand after"),
        ("atom.global.inc.s32 %r1, [%a], %r2;", "cannot stand after"),
        ("atom.global.min.f32 %r1, [%a], %r2;", "cannot stand after"),
        ("atom.global.exch.u32 %r1, [%a], %r2;", "cannot stand after"),
        ("atom.global.and.b16 %h1, [%a], %h2;", "cannot stand after"),
        ("atom.global.min.noftz.f16x2 %r1, [%a], %r2;", "needs a further modifier"),
        ("atom.global.add.f16x2 %r1, [%a], %r2;", "needs a further modifier"),
        ("atom.global.add.noftz.f32 %r1, [%a], %r2;", "cannot stand after"),
        ("atom.global.add.v8.f32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%a], %r2;",
         "cannot stand after"),
        ("atom.global.add.v2.u32 {%r1, %r2}, [%a], {%r3, %r4};", "cannot stand after"),
        ("atom.global.min.v2.f32 {%r1, %r2}, [%a], {%r3, %r4};", "cannot stand after"),
        ("red.shared.add.v2.f32 [%s], {%r3, %r4};", "cannot stand after"),
        ("atom.global.add.v2.f32 %r1, [%a], {%r3, %r4};", "a vector of 2 elements"),
        ("red.global.add.v2.f32 [%a], {%r3, _};", "expected a register"),
        ("red.global.add.v2.f32 [%a], _;", "expected a"),
        ("atom.global.add.u32 %r1, [%a], %r2, %r3;", "takes 3 operands"),
        ("atom.global.cas.b32 %r1, [%a], %r2;", "takes 4 operands"),
        ("atom.global.add.L2::cache_hint.u32 %r1, [%a], %r2;", "takes 4 or 5 operands"),
        ("atom.global.add.u32 %r1, [sm], %r2;", "the variable is in .shared space"),
        ("atom.global.add.u32 %d1, [%a], %r2;", "64 bits"),
        ("red.global.exch.b32 [%a], %r2;", "exch"),
        ("atom.const.add.u32 %r1, [%a], %r2;", "const"),
        ("atom.sc.global.add.u32 %r1, [%a], %r2;", "sc"),
        ("atom.global.exch.b128 %d1, [%a], %d2;", "a register of 128 bits"),
    ],
)  # fmt: skip
def test_invalid_ptx(line: str, message: str) -> None:
    with pytest.raises((InvalidPtxError, UnsupportedPtxError), match=message):
        _words(line)


@pytest.mark.parametrize(
    ("line", "order", "scope"),
    [
        ("membar.cta;", "SC", "CTA"),
        ("membar.gl;", "SC", "GPU"),
        ("membar.sys;", "SC", "SYS"),
        ("fence.sc.cluster;", "SC", "CLUSTER"),
        ("fence.acq_rel.gpu;", "ACQ_REL", "GPU"),
        ("fence.gpu;", "ACQ_REL", "GPU"),
        ("fence.acquire.sys;", "ACQ_REL", "SYS"),
        ("fence.release.cta;", "ACQ_REL", "CTA"),
        ("fence.acquire.sync_restrict::shared::cluster.cluster;", "ACQ_REL", "CLUSTER"),
        ("fence.mbarrier_init.release.cluster;", "ACQ_REL", "CLUSTER"),
        ("fence.proxy.alias;", "ACQ_REL", "SYS"),
        ("fence.proxy.async;", "ACQ_REL", "SYS"),
        ("fence.proxy.async.shared::cta;", "ACQ_REL", "SYS"),
    ],
)
def test_fences(line: str, order: str, scope: str) -> None:
    (word,) = _words(line)
    assert (word.op, word.order, word.scope) == (Op.FENCE, Order[order], Scope[scope])


def test_the_space_is_the_one_that_is_written() -> None:
    spaces = [_words(f"red{s}.add.u32 [%a], 1;")[0].space for s in ("", ".global")]
    assert spaces == [Space.GENERIC, Space.GLOBAL]
