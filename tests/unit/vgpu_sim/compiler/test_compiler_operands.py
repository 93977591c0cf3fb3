"""A file is refused if operands do not match their form, whether or not the form is supported."""

import pytest

from vgpu_sim.compiler import Diagnostic, InvalidPtxError, compile_ptx
from vgpu_sim.compiler.legality.signatures import signatures
from vgpu_sim.compiler.ptx import grammar
from vgpu_sim.compiler.ptx.grammar.tables import statements

REGISTERS = (
    ".reg .u16 %h<4>; .reg .b16 %c<4>; .reg .u32 %r<4>; .reg .b32 %b<4>; .reg .f32 %f<4>;"
    " .reg .u64 %d<4>; .reg .f64 %e<4>; .reg .f16 %k<4>; .reg .pred %p<3>; .reg .v2 .u32 %v;"
    " .shared .align 16 .b8 own[64]; .local .align 16 .b8 stack[64];"
)


def _refusal(line: str, target: str = "sm_90") -> str:
    source = (
        f".version 9.4\n.target {target}\n.address_size 64\n.global .align 16 .b8 all[64];\n"
        f".visible .entry k(.param .u64 given) {{\n{REGISTERS}\n{line}\nret; }}\n"
    )
    found: tuple[Diagnostic, ...] = ()
    try:
        compile_ptx(source, capability=(9, 0), partial=True)
    except InvalidPtxError as error:
        found = error.diagnostics
    assert {one.line for one in found} <= {7}
    return found[0].message if found else ""


@pytest.mark.parametrize(
    "line",
    [
        "add.u32 %r0, %b1, 5;",
        "add.f32 %f0, %b1, 0f3F800000;",
        "and.b32 %f0, %f1, %r1;",
        "setp.lt.u32 %p0|_, %r0, %r1;",
        "ld.global.u8 %r0, [%d0];",
        "ld.global.b32 %f0, [all+4];",
        "ld.u32 %r0, [own];",
        "ld.v2.u32 %v, [%d0];",
        "mov.b64 %d0, %v;",
        "mov.u32 %v.x, %v.y;",
        "st.global.u64 [%d0], %d1 + 8;",
        "cvt.u64.u32 %d0, %tid.x;",
        "add.f32.rn %f0, %f1, %f2;",  # assemblers accept modifiers in any order
        "add.sat.sat.s32 %r0, %r1, %r2;",
        "bar.sync 15, 64;",
        "mbarrier.arrive.shared::cta.b64 _, [own];",
    ],
)
def test_what_fits_is_taken(line: str) -> None:
    assert _refusal(line) == ""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("add.u32 %r0, %f1, 5;", "'%f1' is of type .f32, which cannot be used as .u32"),
        ("add.u32 %r0, %d1, 5;", "'%d1' has 64 bits, but .u32 needs 32"),
        ("add.u32 %r0, %r1;", "add takes 3 operands here"),
        ("add.u32 %r0, %r1, 1.0;", "a floating-point constant cannot be read as .u32"),
        ("add.f32 %f0, %f1, 1;", "an integer constant cannot be read as .f32"),
        ("add.u32 %r0, %r1, %tid.x;", "special register '%tid' can be read only by mov"),
        ("add.u32 %r0, %r1, all;", "'all' is not a register"),
        ("add.u32 %r0, %r1, %nothing;", "'%nothing' is not declared"),
        ("add.u32 5, %r1, %r2;", "the destination is not a register"),
        ("add.u32 _, %r1, %r2;", "the destination is not a register"),
        ("add.u32 %r0, %p1, %r2;", "'%p1' is a predicate, not a number"),
        ("add.f16 %k0, %h1, %k2;", "'%h1' is of type .u16, which cannot be used as .f16"),
        ("mul.u32.wide %d0, %r1, %r2;", "'.u32' cannot stand after 'mul'"),
        ("ld.global.u32 %f0, [%d0];", "'%f0' is of type .f32, which cannot be used as .u32"),
        ("ld.global.u32 %r0, [%e0];", "'%e0' cannot hold an address"),
        (
            "ld.global.u32 %r0, [own];",
            "the variable is in .shared space, but the instruction names .global",
        ),
        ("ld.global.u32 %r0, %d0;", "expected an address in brackets"),
        ("ld.global.v2.u32 {%r0, %r1, %r2}, [%d0];", "expected 2 elements, found 3"),
        ("ld.global.v2.u32 {_, _}, [%d0];", "at least one element of the vector must not be '_'"),
        ("selp.f32 %f0, %f1, %f2, %r3;", "'%r3' is not a predicate"),
        ("mov.u32 %r0, %f1;", "'%f1' is of type .f32, which cannot be used as .u32"),
        ("mov.u64 %d0, %tid.x;", "'%tid' has 32 bits and cannot be read as .u64"),
        ("bar.sync 16;", "barrier 16 does not exist; barriers are numbered 0 to 15"),
        (
            "bar.sync 0, 33;",
            "a barrier's thread count must be a multiple of 32, at most 1024 and not 0; found 33",
        ),
        ("st.param.u64 [given], %d0;", "'given' is neither an argument nor a result"),
        ("mapa.u64 %d0, %f1, %r2;", "'%f1' has 32 bits, but .u64 needs 64"),
        # of forms that are not supported, too
        ("prefetchu.L1 [%nothing];", "'%nothing' is not declared"),
        ("st.bulk.shared::cta [own], %d0, 0;", "needs .target sm_100 or newer"),
        ("elect.sync %r0, -1;", "elect.sync needs the destination pair d|p"),
    ],
)
def test_what_does_not_fit_refuses_the_file(line: str, message: str) -> None:
    assert message in _refusal(line)


def test_every_row_of_the_table_is_of_an_instruction_and_can_be_read() -> None:
    opcodes = {name for name, stated in statements().items() if any(o.operands for o in stated)}
    assert opcodes <= grammar.instructions().keys()
    for opcode in opcodes:
        for words in ((), ("u32",), ("u32", "u32"), ("f32", "f16"), ("b32", "b32", "b32")):
            try:
                signatures(opcode, words)
            except IndexError:  # the row has more types than these
                continue
