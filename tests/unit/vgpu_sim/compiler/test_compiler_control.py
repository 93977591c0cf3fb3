"""Branches, guards, scopes, special registers and vectors as bits, run on the interpreter."""

import re

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from vgpu_sim import isa
from vgpu_sim.compiler import InvalidPtxError, PtxError, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.exec.errors import Trap
from vgpu_sim.isa import Literal, Op, Register

REGISTERS = ".reg .b32 %r<9>; .reg .b64 %o, %off, %w; .reg .b16 %h<4>; .reg .pred %p<4>;"
PROLOGUE = """
    ld.param.u64 %o, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %off, %r0, 4;
    add.s64 %o, %o, %off;
"""


def _per_lane(body: str, lanes: int = 32, dtype: type = np.uint32) -> list[int]:
    """Run ``body``, in which every lane stores 32 bits at %o."""
    source = kernel(PROLOGUE + body, ".param .u64 out", registers=REGISTERS)
    (out,) = run(source, [np.zeros(lanes, dtype)], block=(lanes, 1, 1))
    return [int(value) for value in out]


def test_loop_with_a_lane_dependent_count() -> None:
    got = _per_lane("""
        mov.u32 %r1, 0; mov.u32 %r2, 0;
        LOOP: setp.ge.u32 %p0, %r2, %r0;
        @%p0 bra DONE;
        add.u32 %r1, %r1, %r2; add.u32 %r2, %r2, 1;
        bra.uni LOOP;
        DONE: st.global.u32 [%o], %r1;
    """)
    assert got == [sum(range(lane)) for lane in range(32)]


def test_guards_true_and_negated_on_anything() -> None:
    got = _per_lane("""
        and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0;
        mov.u32 %r2, 7;
        @%p0 add.u32 %r2, %r2, 100;
        @!%p0 mov.u32 %r2, %ntid.x;
        @%p0 setp.gt.u32 %p0, %r0, 15;
        @!%p0 add.u32 %r2, %r2, 1000;
        @%p0 mov.b32 {%h0, %h1}, %r2;
        @%p0 mov.b32 %r2, {%h1, %h0};
        st.global.u32 [%o], %r2;
    """)
    for lane, value in enumerate(got):
        if lane % 2:
            assert value == 32 + 1000
        else:
            assert value == (107 << 16 if lane > 15 else 1107)


@pytest.mark.parametrize("end", ["ret", "ret.uni", "exit"])
def test_ended_lanes_are_inactive(end: str) -> None:
    got = _per_lane(f"""
        st.global.u32 [%o], 1; setp.lt.u32 %p0, %r0, 10; @%p0 {end}; st.global.u32 [%o], 2;
    """)
    assert got == [1] * 10 + [2] * 22


def test_griddepcontrol_does_nothing_as_grids_run_in_sequence() -> None:
    source = kernel("griddepcontrol.wait; griddepcontrol.launch_dependents;")
    assert [word.op for word in compile_verified(source).functions[0].code] == [Op.RET]


def test_code_may_run_off_the_end_and_branch_to_it() -> None:
    source = kernel("setp.eq.u32 %p0, 1, 1; @%p0 bra END; trap; END:", registers=REGISTERS)
    module = compile_verified(source.replace("ret;", ""))
    code = module.functions[0].code
    assert [i.op for i in code] == [Op.SETP, Op.BRA, Op.TRAP, Op.RET]
    assert code[1].target == 3
    run(module, [])


def test_trap() -> None:
    with pytest.raises(Trap) as caught:
        _per_lane("setp.eq.u32 %p0, %r0, 3; @%p0 trap;")
    assert caught.value.word == 5


def test_uniform_bit_and_lines_are_kept() -> None:
    body = "LOOP:\nbra.uni A;\nmembar.cta;\nA:\nbra LOOP;"
    function = compile_verified(kernel(body)).functions[0]
    branches = [word for word, one in enumerate(function.code) if one.op is Op.BRA]
    assert [function.code[word].uniform for word in branches] == [True, False]
    assert [function.lines[word] for word in branches] == [9, 12]


def test_scopes_redeclare_registers_and_labels() -> None:
    """Inner names hide outer ones of the same or another width; branches may leave a scope."""
    got = _per_lane("""
        mov.u32 %r1, 5;
        {
            .reg .b32 %r1; .reg .b64 %r2; .reg .pred %p0;
            mov.u32 %r1, 100;
            bra L;
            trap;
          L:
            {
                .reg .b16 %r1;
                mov.b16 %r1, -1;
                cvt.u64.u16 %r2, %r1;
                bra L2;
            }
            trap;
          L2:
            cvt.u32.u64 %r0, %r2;
            setp.ne.u32 %p0, %r1, 100;
            @%p0 trap;
        }
        bra L;
        trap;
        L: add.u32 %r1, %r1, %r0;
        st.global.u32 [%o], %r1;
    """)
    assert got == [0xFFFF + 5] * 32


def test_numbered_registers_are_found_by_any_split_of_their_name() -> None:
    body = "mov.u32 %r11, 1; mov.u32 %r111, 2; mov.u32 %q0, 3;"
    source = kernel(body, registers=".reg .b32 %r1<2>, %r11<2>, %q<1>;")
    assert len(compile_verified(source).functions[0].register_bits) == 3
    for name in ("%r12", "%r1", "%r112", "%q1", "%q00", "%q", "%r01"):
        with pytest.raises(InvalidPtxError, match="is not declared"):
            compile_verified(
                kernel(f"mov.u32 {name}, 1;", registers=".reg .b32 %r1<2>, %r11<2>, %q<1>;")
            )


def test_only_used_registers_get_an_index() -> None:
    source = kernel(
        "mov.f64 %d7, 0d0;".replace("0d0", "0d0000000000000000"),
        registers=".reg .f64 %d<100000000>;",
    )
    assert compile_verified(source).functions[0].register_bits == (64,)


def test_special_registers() -> None:
    names = [f"%{n}.{axis}" for n in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
    names += ["%laneid", "WARP_SZ"]
    stores = "".join(
        f"mov.u32 %r1, {name}; st.global.u32 [%o+{4 * i}], %r1;" for i, name in enumerate(names)
    )
    guard = """
        mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 3; @%p0 ret;
        mov.u32 %r1, %tid.y; setp.ne.u32 %p0, %r1, 1; @%p0 ret;
        mov.u32 %r1, %tid.z; setp.ne.u32 %p0, %r1, 2; @%p0 ret;
        mov.u32 %r1, %ctaid.x; setp.ne.u32 %p0, %r1, 1; @%p0 ret;
        mov.u32 %r1, %ctaid.y; setp.ne.u32 %p0, %r1, 0; @%p0 ret;
        mov.u32 %r1, %ctaid.z; setp.ne.u32 %p0, %r1, 4; @%p0 ret;
        ld.param.u64 %o, [out];
    """
    source = kernel(guard + stores, ".param .u64 out", registers=REGISTERS)
    (out,) = run(source, [np.zeros(14, np.uint32)], grid=(2, 3, 5), block=(5, 4, 3))
    lane = (3 + 5 * (1 + 4 * 2)) % 32
    assert out.tolist() == [3, 1, 2, 5, 4, 3, 1, 0, 4, 2, 3, 5, lane, 32]


def test_special_registers_as_operands_and_in_16_bits() -> None:
    got = _per_lane("""
        cvt.u64.u32 %w, %tid.x; cvt.u32.u64 %r1, %w;
        mov.u32 %r0, %tid.x; mad.lo.u32 %r1, %r0, 100, %r1;
        mov.u16 %h0, %tid.x; cvt.u32.u16 %r2, %h0; add.u32 %r1, %r1, %r2;
        st.global.u32 [%o], %r1;
    """)
    assert got == [102 * lane for lane in range(32)]


def test_vectors_as_bits() -> None:
    got = _per_lane("""
        mov.b64 %w, {%r0, 0x12345678};
        mov.b64 {%r1, %r2}, %w;
        mov.b64 {_, %h1, %h2, %h3}, %w;
        mov.b32 %r3, {%h3, %h2};
        mov.b64 %w, {%h3, %h1, 0xABCD, %h2};
        mov.b64 {%r4, %r5}, %w;
        xor.b32 %r2, %r2, %r1;
        xor.b32 %r2, %r2, %r3;
        xor.b32 %r4, %r4, %r5;
        xor.b32 %r2, %r2, %r4;
        st.global.u32 [%o], %r2;
    """)
    assert got == [lane ^ 0x12345678 ^ 0x56781234 ^ 0x1234 ^ 0x5678ABCD for lane in range(32)]


def test_vectors_of_bytes() -> None:
    """Elements that are declared as bytes, from all kinds of sources, and sinks."""
    source = kernel(
        """ld.param.u64 %o, [out];
        mov.b32 {%b0, %b1, _, %b3}, 0x84C3A291;
        mov.b32 %r0, {%b3, %b1, 0x7F, %b0};
        mov.b16 %h0, {%b1, %b0};
        mov.b16 {_, %b2}, %h0;
        cvt.u32.u16 %r1, %h0;
        cvt.s32.s8 %r2, %b3;
        mov.b32 %r3, {%b2, %b2, %b2, %b2};
        st.global.v4.u32 [%o], {%r0, %r1, %r2, %r3};""",
        ".param .u64 out",
        registers=".reg .b8 %b<4>; .reg .b16 %h<1>; .reg .b32 %r<4>; .reg .b64 %o;",
    )
    out = run(source, [np.zeros(4, np.uint32)], block=(1, 1, 1))[0]
    assert [hex(v) for v in out] == ["0x917fa284", "0x91a2", "0xffffff84", "0x91919191"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mov.b32 {%h, %h, %h, %h}, %r;", "'%h' is not an 8-bit register"),
        ("mov.b32 %r, {%b, %h, %b, %b};", "'%h' is not an 8-bit register"),
        ("mov.b32 %r, {%r, %b, %b, %b};", "'%r' is not an 8-bit register"),
        ("mov.b16 %h, {%b, %b, %b, %b};", "at least 8 bits"),
        ("mov.b32 %r, {%h, %h, %h};", "2 or 4 elements"),
        ("mov.u32 %r, {%h, %h};", "a .b type"),
        ("mov.b32 %r, {%h, _};", "this operand cannot be a part of .b32"),
    ],
)
def test_vectors_that_mov_does_not_take(text: str, reason: str) -> None:
    source = kernel(text, registers=".reg .b8 %b; .reg .b16 %h; .reg .b32 %r;")
    with pytest.raises(PtxError, match=reason):
        compile_verified(source)


def test_constants_take_the_form_of_their_type() -> None:
    got = _per_lane(
        """
        mov.f32 %r1, 0f40490FDB; mov.b32 %r2, 1.0; st.global.u32 [%o], %r1;
    """.replace("mov.b32 %r2, 1.0;", "add.f32 %r1, %r1, 1.5;")
    )
    assert got == [int(np.float32(np.float32(np.pi) + np.float32(1.5)).view(np.uint32))] * 32
    source = kernel(
        """mov.f64 %w, 1.5; mov.b64 %w, 0d3FF0000000000000; mov.f32 %r0, 0d3FF0000000000001;
        mov.b32 %r0, 0f3F800000; mov.u16 %h0, -2; mov.f32 %r0, -1e300; mov.s32 %r0, -0x80000000;""",
        registers=REGISTERS,
    )
    literals = [i.srcs[0] for i in compile_verified(source).functions[0].code[:-1]]
    assert literals == [
        isa.Literal(bits)
        for bits in (
            0x3FF8_0000_0000_0000,
            0x3FF0_0000_0000_0000,
            0x3F80_0000,
            0x3F80_0000,
            0xFFFE,
            0xFF80_0000,
            0x8000_0000,
        )
    ]


def test_any_constant_but_zero_is_a_true_predicate() -> None:
    got = _per_lane("""
        mov.pred %p0, 0; mov.pred %p1, 2; mov.u32 %r1, 0;
        @%p0 add.u32 %r1, %r1, 1; @%p1 add.u32 %r1, %r1, 4;
        st.global.u32 [%o], %r1;
    """)
    assert got == [4] * 32


def test_setp_without_first_destination() -> None:
    got = _per_lane("""
        setp.lt.u32 _|%p1, %r0, 9; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%o], %r1;
    """)
    assert got == [0] * 9 + [1] * 23


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("add.u32 %r0, %r1;", InvalidPtxError, "add takes 3 operands"),
        ("add.u32 %r0, %o, 1;", InvalidPtxError, "'%o' has 64 bits, but .u32 needs 32"),
        ("add.u32 %w, %r1, 1;", InvalidPtxError, "'%w' has 64 bits, but .u32 needs 32"),
        ("add.u64 %r0, %w, 1;", InvalidPtxError, "'%r0' has 32 bits, but .u64 needs 64"),
        ("cvt.u64.u32 %r0, %r1;", InvalidPtxError, "'%r0' has 32 bits, but .u64 needs at least 64"),
        ("add.u32 %p0, %r1, 1;", InvalidPtxError, "'%p0' is a predicate"),
        ("add.u32 %r0, %p0, 1;", InvalidPtxError, "'%p0' is a predicate"),
        ("add.u32 %nope, %r1, 1;", InvalidPtxError, "'%nope' is not declared"),
        ("add.u32 5, %r1, 1;", InvalidPtxError, "destination is not a register"),
        ("add.u32 %tid.x, %r1, 1;", InvalidPtxError, "'%tid' is read-only"),
        ("st.global.u8 [%o], %p0;", InvalidPtxError, "predicate"),
        ("cvt.u64.u32 %w, %h0;", InvalidPtxError, "'%h0' has 16 bits, but .u32 needs at least 32"),
        ("shl.b64 %w, %w, %w;", InvalidPtxError, "'%w' has 64 bits, but .u32 needs 32"),
        ("@%r0 ret;", InvalidPtxError, "'%r0' is not a predicate"),
        ("@%nope ret;", InvalidPtxError, "'%nope' is not a predicate"),
        ("bra NOWHERE;", InvalidPtxError, "label 'NOWHERE' is not defined"),
        ("bra 5;", InvalidPtxError, "expected a label"),
        ("A: A: ret;", InvalidPtxError, "label 'A' is declared twice"),
        (".reg .b32 %r0, %r0;", InvalidPtxError, "'%r0' is declared twice"),
        ("setp.lt.b32 %p0, %r0, 1;", InvalidPtxError, "cannot stand after"),
        ("setp.lo.s32 %p0, %r0, 1;", InvalidPtxError, "cannot stand after"),
        ("setp.equ.u32 %p0, %r0, 1;", InvalidPtxError, "cannot stand after"),
        ("setp.eq.ftz.u32 %p0, %r0, 1;", InvalidPtxError, "cannot stand after"),
        ("setp.eq.u32 %p0|%p0, %r0, 1;", UnsupportedPtxError, "one predicate for both"),
        ("cvt.rn.u64.u32 %w, %r0;", InvalidPtxError, "cannot stand after"),
        ("cvt.f32.s32 %r0, %r0;", InvalidPtxError, "cannot stand after"),
        ("cvt.u32.f32 %r0, %r0;", InvalidPtxError, "cannot stand after"),
        ("cvt.f32.f64 %r0, %w;", InvalidPtxError, "cannot stand after"),
        ("cvt.rn.f64.f32 %w, %r0;", InvalidPtxError, "cannot stand after"),
        ("cvt.ftz.u32.u64 %r0, %w;", InvalidPtxError, "cannot stand after"),
        ("ld.global.v2.u32 %r0, [%o];", InvalidPtxError, "expected a vector of 2"),
        ("ld.global.v2.u32 {%r0}, [%o];", InvalidPtxError, "expected 2 elements"),
        ("ld.global.v2.u32 {%r0, %r0}, [%o];", UnsupportedPtxError, "one register for two"),
        ("ld.global.u32 %r0, %o;", InvalidPtxError, "expected an address"),
        ("ld.global.u32 %r0, [%o+0x80000000];", InvalidPtxError, "does not fit 32 bits"),
        ("ld.global.u32 %r0, [%o-0x80000001];", InvalidPtxError, "does not fit 32 bits"),
        ("ld.global.u32 %r0, [nope];", InvalidPtxError, "'nope' is not declared"),
        ("mov.u32 %r0, nope;", InvalidPtxError, "'nope' is not declared"),
        ("mov.u32 %r0, %o.x;", InvalidPtxError, "no component 'x'"),
        ("frobnicate.u32 %r0, %r1;", InvalidPtxError, "'frobnicate' is not an instruction"),
        ("add %r0, %r1, %r2;", InvalidPtxError, "'add' needs a further modifier"),
        ("sqrt.f32 %r0, %r1;", InvalidPtxError, "'.f32' cannot stand after 'sqrt'"),
        ("ld.shared.v4.u64 {%o, %w, %off, _}, [%o];", InvalidPtxError, "cannot stand after"),
        ("call f, (%r0);", InvalidPtxError, "'f' is not declared"),
        (
            "mov.u32 %r0, %perctamemorysize;",
            UnsupportedPtxError,
            "special register '%perctamemorysize'",
        ),
        ("mov.u64 %w, k;", UnsupportedPtxError, "taking the address of function 'k'"),
        ("X: mov.u64 %w, X;", UnsupportedPtxError, "taking the address of label 'X'"),
        ("mov.f32 %r0, 1;", InvalidPtxError, "this constant cannot be read as .f32"),
        ("mov.f64 %w, 0f3F800000;", UnsupportedPtxError, "constant of 32 bits as a .f64 operand"),
        (".reg .v2 .b128 %x;", UnsupportedPtxError, "a register of type .v2.b128"),
        (".reg .v4 .f64 %v;", UnsupportedPtxError, "a register of type .v4.f64"),
    ],
)
def test_what_cannot_be_lowered(body: str, error: type[Exception], message: str) -> None:
    source = kernel(f"\n{body}", ".param .u64 out", registers=REGISTERS)
    with pytest.raises(error) as caught:
        compile_verified(source)
    diagnostics = caught.value.diagnostics  # type: ignore[attr-defined]
    assert message in diagnostics[0].message
    assert diagnostics[0].line == 9
    assert diagnostics[0].text in " ".join(body.split()) + ";"


def test_every_reason_is_reported_and_invalid_ones_alone_when_there_are_some() -> None:
    newer = (
        "frobnicate; twiddle.f16 %h0, %h0, %h0; wiggle.approx.f32 %r0, %r1; add.u32 %r0, %nope, 1;"
    )
    both = kernel(newer, registers=REGISTERS).replace("9.4", "99.7")
    with pytest.raises(InvalidPtxError) as invalid:
        compile_verified(both)
    assert len(invalid.value.diagnostics) == 1
    with pytest.raises(UnsupportedPtxError) as unsupported:
        compile_verified(both.replace("%nope", "1"))
    found = [d.text.strip(";").split(".")[0] for d in unsupported.value.diagnostics]
    assert found == ["frobnicate", "twiddle", "wiggle"]


def test_newer_files_may_use_opcodes_that_are_not_known() -> None:
    source = kernel("frobnicate.u32 %r0, %r1;", registers=REGISTERS).replace("9.4", "99.7")
    with pytest.raises(UnsupportedPtxError, match="'frobnicate' is not supported yet"):
        compile_verified(source)


@pytest.mark.parametrize(
    ("directives", "required", "maximum"),
    [
        ("", None, None),
        (".reqntid 8, 4", (8, 4, 1), None),
        (".maxntid 1024, 1, 1", None, (1024, 1, 1)),
        (".reqntid 32 .maxntid 32, 1, 1 .maxnreg 32 .minnctapersm 2", (32, 1, 1), (32, 1, 1)),
        (".maxntid 32 .maxclusterrank 8", None, (32, 1, 1)),
        ('.pragma "x"; .maxnctapersm 1', None, None),
    ],
)
def test_directives_of_kernels(directives: str, required: object, maximum: object) -> None:
    source = kernel("").replace("()", f"()\n{directives}")
    function = compile_verified(source).functions[0]
    assert (function.required_block, function.maximum_block) == (required, maximum)


@pytest.mark.parametrize(
    ("directives", "cluster", "most"),
    [
        ("", None, 0),
        (".maxclusterrank 8", None, 8),
        (".explicitcluster .maxclusterrank 4", (0, 0, 0), 4),
        (".explicitcluster", (0, 0, 0), 0),
        (".reqnctapercluster 2", (2, 1, 1), 0),
        (".explicitcluster .reqnctapercluster 2, 4, 2", (2, 4, 2), 0),
    ],
)
def test_kernels_require_clusters(directives: str, cluster: object, most: int) -> None:
    function = compile_verified(kernel("").replace("()", f"()\n{directives}")).functions[0]
    assert (function.required_cluster, function.maximum_cluster) == (cluster, most)


def test_a_grid_counts_clusters() -> None:
    directives = ".blocksareclusters .reqnctapercluster 2 .reqntid 32"
    text = kernel("").replace("()", f"()\n{directives}")
    assert compile_verified(text).functions[0].counts_clusters
    assert not compile_verified(kernel("")).functions[0].counts_clusters


@pytest.mark.parametrize(
    ("directives", "error", "message"),
    [
        (
            ".reqnctapercluster 17",
            InvalidPtxError,
            "the number of blocks in .reqnctapercluster must be 1",
        ),
        (
            ".reqnctapercluster 2, 0",
            InvalidPtxError,
            "the number of blocks in .reqnctapercluster must be 1",
        ),
        (
            ".maxclusterrank 4 .reqnctapercluster 2",
            InvalidPtxError,
            ".maxclusterrank and .reqnctapercluster exclude each other",
        ),
        (".maxclusterrank 0", InvalidPtxError, ".maxclusterrank must be at least 1"),
        (
            ".blocksareclusters .reqntid 32",
            InvalidPtxError,
            ".blocksareclusters needs .reqnctapercluster",
        ),
        (".minperctamemory 64", UnsupportedPtxError, "directive .minperctamemory is not"),
        (".noreturn", UnsupportedPtxError, "directive .noreturn is not supported yet"),
        (".reqntid 0", InvalidPtxError, "the number of threads in .reqntid must be 1 to 1024"),
        (
            ".maxntid 1024, 2",
            InvalidPtxError,
            "the number of threads in .maxntid must be 1 to 1024",
        ),
        (".maxntids 8", PtxSyntaxError, "unknown directive of a function, found '.maxntids'"),
    ],
)
def test_directives_that_cannot_be_kept(
    directives: str, error: type[PtxError], message: str
) -> None:
    source = kernel("").replace("()", f"()\n  {directives}")
    with pytest.raises(error) as caught:
        compile_verified(source)
    (finding,) = caught.value.diagnostics
    assert finding.message.startswith(message)
    assert (finding.line, finding.column) == (source[: source.index(directives)].count("\n") + 1, 3)


def test_a_driver_function_may_be_declared_without_its_result() -> None:
    """Compilers declare vprintf so, if the program ignores how many values it has printed."""
    declared = ".extern .func vprintf(.param .b64 text, .param .b64 values);\n"
    source = kernel(
        ".param .b64 a; .param .b64 b; st.param.b64 [a], 0; st.param.b64 [b], 0;"
        " call.uni vprintf, (a, b);"
    )
    module = compile_verified(source.replace(".visible .entry", declared + ".visible .entry"))
    assert not module.refused
    with pytest.raises(InvalidPtxError, match="has 0 results, but the call has 1"):
        compile_verified(
            source.replace(".visible .entry", declared + ".visible .entry").replace(
                "call.uni vprintf", ".param .b32 n; call.uni (n), vprintf"
            )
        )


_FUNCTIONS = """.func (.reg .u32 r) f (.reg .u32 a) { mov.u32 r, a; ret; }
.func (.param .b32 r) by (.param .align 4 .b8 a[8]) { ret; }
.extern .func cudaDeviceSynchronize; .extern .func __cudaCDP2Memcpy3DAsync;
.extern .func g; .alias h, g; .alias i, nothing;"""


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("call g;", UnsupportedPtxError, "function 'g', which the module does not define,"),
        ("call (%r0), f, (%r1, %r2);", InvalidPtxError, "'f' has 1 arguments, but the call has 2"),
        ("call cudaDeviceSynchronize;", UnsupportedPtxError, "dynamic parallelism (function 'cuda"),
        ("call __cudaCDP2Memcpy3DAsync;", UnsupportedPtxError, "dynamic parallelism (function '__"),
        ("call f, (%r1);", InvalidPtxError, "'f' has 1 results, but the call has 0"),
        ("call (%r0), f, (%o);", InvalidPtxError, "'%o' has 64 bits"),
        ("call (%p0), f, (%r1);", InvalidPtxError, "'%p0' is a predicate"),
        (".param .b32 x; .param .b32 y; call (x), by, (y);", InvalidPtxError, "'a' has 8 bytes"),
        (
            ".param .b32 x; call (x), by, (%r1);",
            InvalidPtxError,
            "for 'a' must be a .param variable",
        ),
        (".param .b32 x; call (%r0), f, (x);", InvalidPtxError, "for 'a' must be a register"),
        (".param .b32 x; st.param.b64 [x], %o;", InvalidPtxError, "outside of parameter 'x'"),
        (
            "call (%r0), %o, (%r1);",
            InvalidPtxError,
            "needs the label of a .callprototype or .calltargets",
        ),
        ("call (%r0), %o, (%r1), L; L:", InvalidPtxError, "is not the label of a .callprototype"),
        ("brx.idx %r0, L; L:", InvalidPtxError, "'L' is not the label of a .branchtargets"),
        ("mov.u64 %o, g;", UnsupportedPtxError, "taking the address of function 'g'"),
        ("alloca.u64 %o, %o, 3;", InvalidPtxError, "a power of two"),
    ],
)
def test_calls_that_fit_no_function(call: str, error: type[Exception], message: str) -> None:
    header = _FUNCTIONS.partition(".alias i")[0]
    with pytest.raises(error, match=re.escape(message)):
        compile_verified(kernel(call, ".param .u64 out", registers=REGISTERS, header=header))


def test_invalid_callees_are_reported_at_the_call() -> None:
    with pytest.raises(InvalidPtxError, match="'nothing' is not a function"):
        compile_verified(kernel("", header=_FUNCTIONS))
    with pytest.raises(InvalidPtxError, match="'k' is defined twice"):
        compile_verified(kernel("") + ".entry k() { ret; }")


def test_32_bit_addressing_is_refused_explicit_or_implicit() -> None:
    for line, said in (
        (".address_size 32", "a 32-bit .address_size"),
        ("", "a missing .address_size"),
    ):
        with pytest.raises(UnsupportedPtxError, match=said):
            compile_verified(kernel("").replace(".address_size 64", line))


def test_limits_of_the_binary_are_refused_not_overrun() -> None:
    many = "".join(f"mov.u32 %r{index}, 1;" for index in range(32768))
    with pytest.raises(UnsupportedPtxError, match="more than 32767 registers"):
        compile_verified(kernel(many, registers=".reg .b32 %r<40000>;"))
    many = "".join(f"mov.u32 %r0, {index};" for index in range(32768))
    with pytest.raises(UnsupportedPtxError, match="more than 32767 constants"):
        compile_verified(kernel(many, registers=".reg .b32 %r<1>;"))


@pytest.mark.parametrize("duration", ["0", "1000000", "%r0"])
def test_nanosleep(duration: str) -> None:
    function = compile_verified(
        kernel(f"nanosleep.u32 {duration};", registers=REGISTERS)
    ).functions[0]
    assert [i.op for i in function.code] == [Op.NANOSLEEP, Op.RET]
    want = Literal(int(duration)) if duration.isdigit() else Register(0)
    assert function.code[0].srcs == (want,)


@pytest.mark.parametrize(
    "line",
    [
        "nanosleep.u32 1000001;",
        "nanosleep.u32 -1;",
        "nanosleep.u64 %w;",
        "nanosleep.u32 %p0;",
        "nanosleep.u32;",
        "nanosleep %r0;",
    ],
)
def test_what_is_no_nanosleep(line: str) -> None:
    with pytest.raises(InvalidPtxError):
        compile_verified(kernel(line, registers=REGISTERS))


_LAUNCH = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 status) %s();
.visible .entry child(.param .u32 n) { ret; }
.visible .entry parent()
{
    .reg .b64 %%d;
    .param .b32 out;
    mov.u64 %%d, child;
    call (out), %s, ();
    ret;
}
"""


def test_a_kernel_s_address_is_its_descriptor_where_kernels_launch():
    for name in ("cudaGetLastError", "__cudaCDP2GetLastError", "__cudaCDP2GetLastError_ptsz"):
        module = compile_verified(_LAUNCH % (name, name))
        sizes = {variable.name: variable.size for variable in module.variables}
        assert sizes.items() >= {"tessera.launches": 8, "tessera.kernel.child": 32}.items()
    with pytest.raises(UnsupportedPtxError, match="taking the address of function 'child'"):
        compile_verified(_LAUNCH % ("other", "other"))
