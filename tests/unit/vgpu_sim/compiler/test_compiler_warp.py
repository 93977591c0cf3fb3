"""Lowering of warp collectives, and forms of them that are not PTX."""

import pytest

from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.compiler.errors import InvalidPtxError, PtxSyntaxError
from vgpu_sim.isa import Instruction, Literal, Op, Predicate, Register
from vgpu_sim.isa.disasm import render_instruction

_REGISTERS = ".reg .b32 %a, %b, %d; .reg .b64 %w; .reg .pred %p, %q; .reg .f32 %f;"


def _lower(line: str, version: str = "8.6", target: str = "sm_100a") -> tuple[Instruction, ...]:
    text = (
        f".version {version}\n.target {target}\n.address_size 64\n"
        f".entry k()\n{{\n{_REGISTERS}\n{line}\nret;\n}}\n"
    )
    return compile_verified(text, (10, 0)).functions[0].code[:-1]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shfl.sync.bfly.b32 %d|%p, %a, 16, 31, -1;", ["SHFL.BFLY.B32 r1|p0, r0, {16, 31}, 0xffffffff"]),
        ("shfl.sync.up.b32 %d, %a, %b, %b, %a;", ["SHFL.UP.B32 r2, r0, {r1, r1}, r0"]),
        ("@%p shfl.sync.idx.b32 _|%p, %a, %b, 7, 1;", ["@p0 SHFL.IDX.B32 r2|p0, r0, {r1, 7}, 1"]),
        ("shfl.sync.down.b32 %f, %f, 1, 31, -1;", ["SHFL.DOWN.B32 r0, r0, {1, 31}, 0xffffffff"]),
        ("vote.sync.ballot.b32 %d, !%p, %a;", ["NOT.PRED p1, p0", "VOTE.BALLOT.B32 r1, p1, r0"]),
        ("vote.sync.uni.pred %p, 1, -1;", ["VOTE.UNI.PRED p0, 1, 0xffffffff"]),
        ("match.any.sync.b64 %d, %w, %a;", ["MATCH.ANY.B64 r2, r0, r1"]),
        ("match.all.sync.b32 %d|%p, %a, -1;", ["MATCH.ALL.B32 r1|p0, r0, 0xffffffff"]),
        ("match.all.sync.b32 %d, %a, -1;", ["MATCH.ALL.B32 r1, r0, 0xffffffff"]),
        ("redux.sync.min.abs.NaN.f32 %f, %f, -1;", ["REDUX.MIN.ABS.NAN.F32 r0, r0, 0xffffffff"]),
        ("redux.sync.add.s32 %d, %a, %b;", ["REDUX.ADD.S32 r2, r0, r1"]),
        ("activemask.b32 %d;", ["ACTIVEMASK r0"]),
        ("elect.sync _|%p, -1;", ["ELECT r0|p0, 0xffffffff"]),
        ("bar.warp.sync %a;", ["BAR_WARP r0"]),
        ("bar.red.popc.u32 %d, 0, !%p;", ["NOT.PRED p1, p0", "BAR_RED.POPC.UNI.U32 r0, 0, 0, p1"]),
        (
            "barrier.cta.red.or.pred %p, %a, 64, %q;",
            ["BAR_RED.OR.PRED p1, r0, 64, p0"],
        ),
    ],
)  # fmt: skip
def test_forms_are_lowered_to_these_instructions(line: str, words: list[str]) -> None:
    found = [" ".join(render_instruction(i).split()) for i in _lower(line)]
    assert found == words


@pytest.mark.parametrize(
    "line",
    ["shfl.down.b32 %d|%p, %a, 1, 31;", "vote.any.pred %p, %q;", "vote.ballot.b32 %d, !%q;"],
)
def test_forms_without_sync_are_for_old_targets_and_the_lanes_that_are_there(line: str) -> None:
    for version, target in (("8.6", "sm_61"), ("6.3", "sm_70")):
        *_, mask, word = _lower(line, version, target)
        assert mask.op is Op.ACTIVEMASK
        assert word.srcs[-1] == mask.dsts[0]
    with pytest.raises(InvalidPtxError, match=r"needs a \.target older than sm_70"):
        _lower(line, "6.4", "sm_70")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("match.any.sync.b32 %d|%p, %a, -1;", "match.any cannot have a second destination"),
        ("elect.sync %d, -1;", "elect.sync needs the destination pair"),
        ("shfl.sync.down.b32 %d, %a, 1, 31;", "shfl takes 5 operands here"),
        ("shfl.sync.down.b32 %w, %a, 1, 31, -1;", "'%w' has 64 bits"),
        ("vote.sync.all.pred %p, %a, -1;", "'%a' is not a predicate"),
        ("bar.red.and.pred %p, 0, 33, %q;", "must be a multiple of 32"),
        ("bar.red.and.pred %p, 16, %q;", "barrier 16 does not exist"),
        ("bar.warp.sync;", "bar takes 1 operands here"),
    ],
)
def test_invalid_ptx_is_refused(line: str, message: str) -> None:
    with pytest.raises(InvalidPtxError, match=message):
        _lower(line)


@pytest.mark.parametrize(
    "line",
    [
        "redux.sync.xor.u32 %d, %a, -1;",
        "redux.sync.add.f32 %f, %f, -1;",
        "match.any.sync.u32 %d, %a, -1;",
        "shfl.sync.down.u32 %d, %a, 1, 31, -1;",
        "vote.sync.ballot.pred %p, %q, -1;",
        "bar.red.xor.pred %p, 0, %q;",
        "activemask.u32 %d;",
    ],
)
def test_a_form_that_ptx_does_not_have_is_a_syntax_error(line: str) -> None:
    with pytest.raises(PtxSyntaxError):
        _lower(line)


def test_operands_keep_their_places() -> None:
    (word,) = _lower("shfl.sync.idx.b32 %d|%p, %a, %b, 0x1c1f, 3;")
    assert word.dsts == (Register(2), Predicate(0))
    assert word.srcs == (Register(0), Register(1), Literal(0x1C1F), Literal(3))


@pytest.mark.parametrize("version", ["8.6", "99.7"])  # nvcc 13.5 writes a newer one than is known
def test_modifiers_may_come_in_any_order(version: str) -> None:
    """As in CUB's radix sort."""
    line = "vote.ballot.sync.b32 %d, %p, -1;"
    (found,) = _lower(line, version)
    assert (found,) == _lower("vote.sync.ballot.b32 %d, %p, -1;")
