"""Shared variables and barriers: the layout of variables, the lowering of bar and barrier."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from vgpu_sim.compiler.errors import InvalidPtxError
from vgpu_sim.exec.errors import AddressFault
from vgpu_sim.isa import EFFECTS, Literal, Op, Register, Space

pytestmark = pytest.mark.timeout(120)


def _addresses(header: str, body: str, names: str) -> tuple[list[int], int]:
    """Return the addresses of shared variables, and the bytes of shared memory."""
    moves = "".join(f"mov.u32 %r, {name};" for name in names.split())
    module = compile_verified(kernel(f"{body}\n{moves}", registers=".reg .b32 %r;", header=header))
    (function,) = module.functions
    found = [i.srcs[0] for i in function.code if i.op is Op.MOV]
    assert all(isinstance(source, Literal) for source in found)
    return [source.bits for source in found], function.shared_bytes  # type: ignore[union-attr]


def test_used_variables_are_laid_out_in_order_and_aligned() -> None:
    header = ".shared .b8 a[3]; .shared .b8 never[4000]; .visible .shared .align 16 .f64 b[2];"
    body = ".shared .b8 c; .shared .v4 .f32 d; .shared .b32 unused[9];"
    assert _addresses(header, body, "a b c d b+4") == ([0, 16, 32, 48, 20], 64)


def test_arrays_of_the_launch_begin_together_after_all_others() -> None:
    header = ".extern .shared .align 16 .b8 x[]; .extern .shared .f64 y[]; .shared .b8 a[5];"
    assert _addresses(header, "", "x y a") == ([16, 16, 0], 16)
    assert _addresses(header, "", "y a") == ([8, 0], 8)
    assert _addresses(header, "", "x") == ([0], 0)


def test_inner_scopes_have_variables_of_their_own() -> None:
    body = """
        .shared .b32 a;
        { .shared .b32 a; mov.u32 %r, a; { .reg .b32 a; mov.u32 %r, a; } }
        mov.u32 %r, a;
    """
    module = compile_verified(kernel(body, registers=".reg .b32 %r;"))
    sources = [i.srcs[0] for i in module.functions[0].code if i.op is Op.MOV]
    assert sources == [Literal(4), Register(1), Literal(0)]


@pytest.mark.parametrize("size", [48 << 10, (48 << 10) + 1])
def test_a_block_has_a_maximum_of_shared_memory(size: int) -> None:
    text = kernel("mov.u32 %r, a;", registers=".reg .b32 %r;", header=f".shared .b8 a[{size}];")
    if size <= 48 << 10:
        assert compile_verified(text).functions[0].shared_bytes == size
        return
    with pytest.raises(InvalidPtxError, match="the shared variables have 49153 bytes"):
        compile_verified(text)


@pytest.mark.parametrize(
    ("spelling", "op", "srcs", "aligned"),
    [
        ("bar.sync 3", Op.BAR_SYNC, (Literal(3), Literal(0)), True),
        ("bar.cta.sync 3, 64", Op.BAR_SYNC, (Literal(3), Literal(64)), True),
        ("bar.arrive 3, 64", Op.BAR_ARRIVE, (Literal(3), Literal(64)), True),
        ("bar.cta.arrive 15, 1024", Op.BAR_ARRIVE, (Literal(15), Literal(1024)), True),
        # Not the register itself: if it holds 16, no barrier is meant.
        ("barrier.sync %r", Op.BAR_SYNC, (Register(1), Literal(0)), False),
        ("barrier.sync.aligned %r", Op.BAR_SYNC, (Register(1), Literal(0)), True),
        ("barrier.cta.sync %r, %r", Op.BAR_SYNC, (Register(0), Register(0)), False),
        ("barrier.cta.arrive 0, %r", Op.BAR_ARRIVE, (Literal(0), Register(0)), False),
        ("barrier.arrive.aligned 0, 32", Op.BAR_ARRIVE, (Literal(0), Literal(32)), True),
    ],
)
def test_barriers(spelling: str, op: Op, srcs: tuple[object, ...], aligned: bool) -> None:
    text = kernel(f"mov.u32 %r, 0; {spelling};", registers=".reg .b32 %r;")
    code = compile_verified(text).functions[0].code
    (word,) = (word for word in code if word.op in (Op.BAR_SYNC, Op.BAR_ARRIVE))
    assert (word.op, word.srcs, word.uniform) == (op, srcs, aligned)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("bar.sync 16;", "barrier 16 does not exist; barriers are numbered 0 to 15"),
        (
            "bar.sync 0, 33;",
            "a barrier's thread count must be a multiple of 32, at most 1024 and not 0; found 33",
        ),
        ("bar.arrive 0, 0;", "not 0; found 0"),
        ("bar.arrive 0;", "bar takes 2 operands here"),
        ("bar.sync %w;", "'%w' has 64 bits, but .u32 needs 32"),
        (
            "st.global.u32 [tile], 1;",
            "the variable is in .shared space, but the instruction names .global",
        ),
        ("mov.u16 %h, tile;", "an address has 64 bits"),
        ("cvta.global.u64 %w, tile;", "the variable is not in .global space"),
        ("add.u32 %r, tile, 1;", "'tile' is not a register"),
    ],
)
def test_invalid_ptx(statement: str, message: str) -> None:
    registers = ".reg .b16 %h; .reg .b32 %r; .reg .b64 %w; .shared .b32 tile[4];"
    with pytest.raises(InvalidPtxError, match=message):
        compile_verified(kernel(statement, registers=registers))


def test_a_tile_by_all_kinds_of_addresses() -> None:
    """Access by 32-bit and 64-bit addresses, by name, by generic addresses and back: all reach the
    same words.
    """
    body = """
        ld.param.u64 %o, [out];
        mov.u32 %t, %tid.x;
        shl.b32 %a, %t, 2;
        mov.u32 %b, tile;
        add.u32 %a, %a, %b;
        st.shared.u32 [%a], %t;
        bar.sync 0;
        xor.b32 %b, %a, 4;
        cvt.u64.u32 %w, %b;
        ld.shared.u32 %x, [%w];
        cvta.shared.u64 %g, %w;
        ld.u32 %y, [%g];
        cvta.to.shared.u64 %w, %g;
        ld.volatile.shared.u32 %z, [%w];
        add.u32 %x, %x, %y;
        add.u32 %x, %x, %z;
        ld.shared.u32 %y, [tile+8];
        mad.lo.u32 %x, %y, 1000, %x;
        mad.wide.u32 %o, %t, 4, %o;
        st.global.u32 [%o], %x;
    """
    registers = ".reg .b32 %t, %a, %b, %x, %y, %z; .reg .b64 %o, %w, %g;"
    text = kernel(
        f".shared .b32 pad[2]; .shared .align 8 .b32 tile[64];\n ld.shared.u32 %x, [pad];{body}",
        ".param .u64 out",
        registers=registers,
    )
    (out,) = run(text, [np.zeros(64, np.uint32)], block=(64, 1, 1))
    assert (out == 2000 + 3 * (np.arange(64) ^ 1)).all()


def test_static_shared_memory_has_bounds() -> None:
    text = kernel("st.shared.u32 [tile+16], 1;", registers=".shared .b32 tile[4];")
    with pytest.raises(AddressFault):
        run(text, [], block=(1, 1, 1))


@pytest.mark.parametrize(
    "statement",
    [
        "atom.add.u32 %a, [v], %a;",
        "red.max.u32 [v+4], %a;",
        "atom.cas.b128 %wide, [v], %wide, %wide;",
        "atom.shared.exch.b128 _, [v], %wide;",
        "mbarrier.init.b64 [v], 12;",
        "mbarrier.arrive.b64 %l, [v+8];",
        "mbarrier.test_wait.b64 %p, [v], %l;",
        "mbarrier.inval.b64 [v];",
        "cp.async.mbarrier.arrive.b64 [v];",
        "ldmatrix.sync.aligned.m8n8.x1.b16 {%a}, [v];",
        "stmatrix.sync.aligned.m8n8.x1.b16 [v], {%a};",
    ],
)
def test_a_shared_variables_name_says_the_space_where_the_instruction_does_not(statement) -> None:
    registers = """.reg .b32 %a; .reg .b64 %l; .reg .b128 %wide; .reg .pred %p;
        .shared .align 128 .b8 v[256];"""
    function = compile_verified(kernel(statement, registers=registers)).functions[0]
    reached = {word.space for word in function.code if EFFECTS[word.op].accesses}
    assert reached == {Space.SHARED}


@pytest.mark.parametrize("space", ["shared", "local", "global"])
def test_hints_take_variables_of_any_space(space: str) -> None:
    body = "prefetch.L1 [v]; discard.L2 [v], 128; applypriority.L2::evict_normal [v], 128;"
    module = compile_verified(kernel(body, registers=f".{space} .align 128 .b8 v[256];"))
    assert [word.op for word in module.functions[0].code] == [Op.RET]


def test_updates_by_a_shared_variables_name_reach_it() -> None:
    body = """
        ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
        atom.add.u32 %a, [v], 3; red.max.u32 [v+4], %t; bar.sync 0;
        ld.shared.v2.u32 {%a, %t}, [v]; st.global.v2.u32 [%o], {%a, %t};
    """
    registers = ".reg .b32 %t, %a; .reg .b64 %o; .shared .align 8 .b32 v[2];"
    text = kernel(body, ".param .u64 out", registers=registers)
    (out,) = run(text, [np.zeros(2, np.uint32)], block=(40, 1, 1))
    assert out.tolist() == [120, 39]
