"""A file is refused if its .target or .version lacks one of its instructions."""

import pytest

from vgpu_sim.compiler import Diagnostic, InvalidPtxError, PtxSyntaxError, compile_ptx
from vgpu_sim.compiler.ptx import grammar
from vgpu_sim.compiler.ptx.grammar import requirements, rows, tables

REGISTERS = ".reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .b128 %q<2>; .reg .pred %p<3>;"


def _messages(body: str, target: str, version: str, header: str = "") -> list[str]:
    """Return the messages with which the file is refused."""
    source = (
        f".version {version}\n.target {target}\n.address_size 64\n{header}\n"
        f".entry k() {{\n{REGISTERS}\n{body}\nret; }}\n"
    )
    number = target[3:].rstrip("af")
    capability = int(number[:-1]), int(number[-1])
    found: tuple[Diagnostic, ...] = ()
    try:
        compile_ptx(source, capability=capability, partial=True)
    except InvalidPtxError as error:
        found = error.diagnostics
    line = source[: source.index(body)].count("\n") + 1
    assert {one.line for one in found} <= {line, 4}
    return [one.message for one in found]


@pytest.mark.parametrize(
    ("body", "least", "below"),
    [
        ("dp4a.s32.s32 %r0, %r1, %r2, %r3;", ("sm_61", "5.0"), "sm_60"),
        ("redux.sync.add.s32 %r0, %r1, -1;", ("sm_80", "7.0"), "sm_75"),
        ("elect.sync %r0|%p0, -1;", ("sm_90", "8.0"), "sm_89"),
        ("activemask.b32 %r0;", ("sm_30", "6.2"), "sm_21"),
        ("match.any.sync.b32 %r0, %r1, -1;", ("sm_70", "6.0"), "sm_61"),
        ("fma.rn.bf16 %h0, %h1, %h2, %h3;", ("sm_80", "7.0"), "sm_75"),
        ("add.rn.bf16 %h0, %h1, %h2;", ("sm_90", "7.8"), "sm_89"),
        ("add.f16 %h0, %h1, %h2;", ("sm_53", "4.2"), "sm_52"),
        ("add.rn.f32x2 %d0, %d1, %d2;", ("sm_100", "8.6"), "sm_90"),
        ("cvt.rn.bf16x2.f32 %r0, %r1, %r2;", ("sm_80", "7.0"), "sm_75"),
        ("mov.b128 %q0, %q1;", ("sm_70", "8.3"), "sm_61"),
        ("ld.relaxed.gpu.global.u32 %r0, [%d0];", ("sm_70", "6.0"), "sm_61"),
        ("ld.global.L1::no_allocate.u32 %r0, [%d0];", ("sm_70", "7.4"), "sm_61"),
        ("atom.global.add.f64 %d0, [%d1], %d2;", ("sm_60", "5.0"), "sm_53"),
        ("atom.relaxed.cluster.global.add.u32 %r0, [%d1], %r2;", ("sm_90", "7.8"), "sm_89"),
        ("fence.sc.gpu;", ("sm_70", "6.0"), "sm_61"),
        ("nanosleep.u32 %r0;", ("sm_70", "6.3"), "sm_61"),
        ("mov.u32 %r0, %cluster_ctarank;", ("sm_90", "7.8"), "sm_89"),
        ("mov.u32 %r0, %aggr_smem_size;", ("sm_90", "8.1"), "sm_89"),
        ("cp.async.ca.shared.global [%r0], [%d0], 4;", ("sm_80", "7.0"), "sm_75"),
        ("mbarrier.try_wait.shared.b64 %p0, [%r0], %d0;", ("sm_90", "7.8"), "sm_89"),
    ],
)
def test_the_least_target_and_version(body: str, least: tuple[str, str], below: str) -> None:
    target, version = least
    assert _messages(body, target, version) == []
    (message,) = _messages(body, below, "9.4")
    assert f"needs .target {target} or newer, the file's .target is {below}" in message
    major, minor = map(int, version.split("."))
    older = f"{major}.{minor - 1}" if minor else f"{major - 1}.9"
    (message,) = _messages(body, target, older)
    assert f"needs PTX {version}, the file's .version is {older}" in message


@pytest.mark.parametrize(
    ("body", "on", "not_on"),
    [
        ("wgmma.fence.sync.aligned;", ["sm_90a"], ["sm_90", "sm_80", "sm_100a"]),
        (
            "tcgen05.wait::ld.sync.aligned;",
            ["sm_100a", "sm_100f", "sm_101a", "sm_103a", "sm_110f"],
            ["sm_100", "sm_90a", "sm_120a"],
        ),
        ("shfl.up.b32 %r0, %r1, 1, 0;", ["sm_30", "sm_61"], ["sm_70", "sm_90a"]),
        ("vote.ballot.b32 %r0, %p0;", ["sm_30", "sm_61"], ["sm_70", "sm_90a"]),
        ("redux.sync.min.f32 %r0, %r1, -1;", ["sm_100a", "sm_100f"], ["sm_100", "sm_90", "sm_120"]),
        ("setmaxnreg.inc.sync.aligned.u32 64;", ["sm_90a", "sm_110f"], ["sm_90", "sm_100"]),
        ("tcgen05.shift.cta_group::1.down [%r0];", ["sm_100a", "sm_107a"], ["sm_100f", "sm_110f"]),
        (
            "tcgen05.mma.cta_group::1.kind::i8 [%r0], %d0, %d1, %r1, %p0;",
            ["sm_100a", "sm_110a"],
            ["sm_100f", "sm_103a", "sm_110f"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::f16.ashift [%r0], [%r2], %d1, %r1, %p0;",
            ["sm_100a", "sm_100f", "sm_110f"],
            ["sm_100", "sm_120a"],
        ),
        (
            "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r0], %d0, %d1, %r1,"
            " [%r2], [%r3], %p0;",
            ["sm_100a", "sm_103a", "sm_107a"],
            ["sm_100f", "sm_103f", "sm_110f"],
        ),
        (
            "tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r0], %d0, %d1,"
            " [%r1], %r1, [%r2], [%r3], %p0;",
            ["sm_100a", "sm_110a"],
            ["sm_100f", "sm_110f"],
        ),
        (
            "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32 [%r0], %d0, %d1,"
            " [%r1], %r1, [%r2], [%r3], %p0;",
            ["sm_100a", "sm_100f", "sm_110f"],
            [],
        ),
        (
            "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r0], {%r1};",
            ["sm_100a", "sm_120f"],
            ["sm_90a", "sm_100"],
        ),
    ],
)
def test_targets_that_are_not_ordered(body: str, on: list[str], not_on: list[str]) -> None:
    for target in on:
        assert _messages(body, target, "9.4") == [], target
    for target in not_on:
        assert len(_messages(body, target, "9.4")) == 1, target


@pytest.mark.parametrize(
    "words",
    [
        "m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue4m3",
        "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3",
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::2X.f32.e4m3.e2m1.f32.ue8m0",
        "m16n8k32.row.col.kind::f8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0",
    ],
)
def test_kinds_scales_and_vectors_that_do_not_go_together(words: str) -> None:
    factors = "{%r0, %r1, %r2, %r3}, {%r4, %r5}"
    line = f"mma.sync.aligned.{words} %d0, {factors}, %d0, %r6, {{0, 0}}, %r7, {{0, 0}};"
    source = f".version 9.4\n.target sm_120a\n.address_size 64\n.entry k() {{\n{line}\nret; }}"
    with pytest.raises(PtxSyntaxError):
        compile_ptx(source, capability=(12, 0), partial=True)


def test_instructions_without_sync_ran_on_sm_70_before_ptx_6_4() -> None:
    assert _messages("vote.all.pred %p0, %p1;", "sm_70", "6.3") == []
    (message,) = _messages("vote.all.pred %p0, %p1;", "sm_70", "6.4")
    assert message.startswith("vote.all.pred needs a .target older than sm_70")


def test_an_uncalled_function_is_checked_too() -> None:
    header = ".func f() { redux.sync.add.s32 %r0, %r1, -1; ret; }"
    assert len(_messages("ret;", "sm_75", "8.0", header)) == 1


def test_every_line_of_the_tables_is_about_words_that_its_instruction_has() -> None:
    known = grammar.instructions()
    for opcode, stated in tables.statements().items():
        assert opcode in known, opcode
        for line in stated:
            words = [word for word in line.words if not word.startswith("#")]
            applies = requirements.parse_condition(words)
            for wanted in applies.wanted:
                assert any(_knows(known, opcode, word) for word in wanted), (opcode, line)
            named = {one for word in words if word[0] not in "!.$" for one in word.split("|")}
            named -= {one for one in named if one.endswith("*")}
            for word in (*named, *applies.absent, *applies.end):
                assert _knows(known, opcode, word), (opcode, word)
    assert requirements._specials().keys() <= grammar.SPECIAL_REGISTERS.keys()


def _knows(known: dict[str, tuple[rows.Row, ...]], opcode: str, word: str) -> bool:
    return any(form.knows(word) for form in known[opcode])
