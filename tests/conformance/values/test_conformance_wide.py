"""128-bit registers, vector registers and 32-byte accesses: both executors, all legal plans,
compared with Python.
"""

import re

import numpy as np
import pytest

from support.execution import prover
from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import InvalidPtxError, compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import MisalignedFault
from vgpu_sim.isa import Module, asm, container, disasm

BLOCK = 64
RANDOM = np.random.default_rng(9)


def _module(body: str, registers: str = "", target: str = "sm_100", version: str = "8.8") -> Module:
    """Return a kernel whose %from and %to are each thread's own 32 bytes of ``in`` and ``out``."""
    module = compile_ptx(
        f""".version {version}\n.target {target}\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u64 in)
        {{ .reg .b64 %out, %in, %from, %to, %rd<9>; .reg .b32 %t, %r<17>; .reg .pred %p<4>;
        .shared .align 16 .b8 tile[16]; .local .align 16 .b8 own[64];
        {registers}
        ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.u32 %t, %tid.x;
        mad.wide.u32 %from, %t, 32, %in; mad.wide.u32 %to, %t, 32, %out;
        {body} ret; }}""",
        capability=(10, 0),
    )
    assert module.refused == ()
    return module


def _run(module: Module, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the buffers ``out`` and ``in`` after a block of 64 threads."""
    function, shape = module.functions[0], (BLOCK, 1, 1)
    legal = list(jit.legal_plans(function, shape))
    plans = [None, *legal[:: max(1, len(legal) // 4)], legal[-1]]
    for plan in plans:
        assert prover.prove(compiler().emit_llvm(module, function, shape, plan)) > 0
    found = compare(module, [bytes(32 * BLOCK), data.tobytes()], (1, 1, 1), shape, plans)
    out, after = (np.frombuffer(one[: 32 * BLOCK], data.dtype).reshape(BLOCK, -1) for one in found)
    return out, after


def test_loads_and_stores_of_eight_words() -> None:
    data = RANDOM.integers(0, 1 << 32, (BLOCK, 8), dtype=np.uint32)
    body = """ld.global.v8.b32 {%r1, %r2, %r3, %r4, _, %r6, %r7, %r8}, [%from]; mov.u32 %r5, %t;
        st.global.v8.f32 [%to], {%r8, %r7, %r6, %r5, %r4, %r3, %r2, %r1};"""
    out, _ = _run(_module(body), data)
    want = data[:, ::-1].copy()
    want[:, 3] = np.arange(BLOCK)
    np.testing.assert_array_equal(out, want)


def test_loads_and_stores_of_four_long_words_of_some_threads() -> None:
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    body = """and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 1; mov.b64 %rd2, 5;
        mad.wide.u32 %rd5, %r1, 32, %in;
        @%p1 ld.global.nc.v4.u64 {%rd1, %rd2, %rd3, %rd4}, [%rd5];
        st.global.v4.b64 [%to], {%rd2, %rd2, %rd2, %t64};"""
    body = "cvt.u64.u32 %rd6, %t;" + body.replace("%t64", "%rd6")
    out, _ = _run(_module(body), data)
    for thread, row in enumerate(out.tolist()):
        second = int(data[1, 1]) if thread % 4 == 1 else 5
        assert row == [second, second, second, thread]


def test_thirty_two_bytes_are_aligned_to_as_many() -> None:
    body = "ld.global.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%from+16];"
    with pytest.raises(MisalignedFault, match="32"):
        _run(_module(body), np.zeros((BLOCK, 8), np.uint32))


@pytest.mark.parametrize(
    "access",
    [
        "ld.shared.v8.b32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [tile];",
        "ld.global.v8.b64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [%from];",
        "st.local.v4.f64 [own], {%rd1, %rd2, %rd3, %rd4};",
    ],
)
def test_thirty_two_bytes_are_global(access: str) -> None:
    with pytest.raises(InvalidPtxError):
        _module(access)


def test_thirty_two_bytes_by_generic_addresses() -> None:
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    body = """ld.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%from]; setp.lt.u32 %p1, %t, 40;
        @%p1 st.v4.b64 [%to], {%rd4, %rd3, %rd2, %rd1};"""
    out, _ = _run(_module(body), data)
    want = np.where(np.arange(BLOCK)[:, None] < 40, data[:, ::-1], 0)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("place", ["", ".global", ".shared", ".local"])
@pytest.mark.parametrize("type_", ["u8", "s8", "b8"])
def test_eight_bytes_in_any_space_and_for_any_target(type_: str, place: str) -> None:
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    registers = ", ".join(f"%h{i}" for i in range(8))
    turned = ", ".join(f"%h{7 - i}" for i in range(8))
    where = {".shared": "[%rd3]", ".local": "[%rd3]"}.get(place, "[%to+16]")
    own = "mov.b64 %rd3, own;" if place == ".local" else ""
    if place == ".shared":
        own = ".shared .align 16 .b8 all[1024]; mov.b64 %rd3, all; mad.wide.u32 %rd3, %t, 16, %rd3;"
    body = f"""{own} ld.global.v8.{type_} {{{registers}}}, [%from];
        st{place}.v8.{type_} {where}, {{{turned}}};
        ld{place}.v8.{type_} {{{registers}}}, {where};
        st.v8.{type_} [%to], {{{registers}}};"""
    out, _ = _run(_module(body, ".reg .b16 %h<8>;", target="sm_75"), data)
    np.testing.assert_array_equal(out.view("u1")[:, :8], data.view("u1")[:, 7::-1])


def test_thirty_two_bytes_need_their_target() -> None:
    with pytest.raises(InvalidPtxError, match="sm_100"):
        _module("ld.global.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%from];", target="sm_90")


def test_packing_moving_and_unpacking_128_bits() -> None:
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    body = """ld.global.b128 q0, [%from]; ld.global.v2.b64 {%rd1, %rd2}, [%from+16];
        mov.b128 q1, {%rd2, %rd1}; mov.b128 q2, q0; mov.b128 {%rd2, %rd1}, q2;
        mov.b128 q2, {%rd1, %rd2}; st.local.b128 [own+16], q1; ld.local.b128 q3, [own+16];
        st.global.b128 [%to], q2; st.b128 [%to+16], q3;"""
    out, _ = _run(_module(body, ".reg .b128 q<4>;"), data)
    np.testing.assert_array_equal(out, data[:, [1, 0, 3, 2]])


@pytest.mark.parametrize(
    ("type_", "dtype"), [("s32", "i4"), ("u32", "u4"), ("f32", "u4"), ("s8", "i1"), ("b64", "u8")]
)
def test_registers_of_128_bits_hold_narrower_values(type_: str, dtype: str) -> None:
    """As in all wider registers: signed integers are sign-extended, all others zero-extended."""
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    body = f"""mov.b128 q0, {{%rd3, %rd3}}; mov.b128 q1, q0;
        setp.lt.u32 %p1, %t, 40; @%p1 ld.global.v2.{type_} {{q0, q1}}, [%from];
        st.global.b128 [%to], q1; st.global.b64 [%to+16], q0;
        st.shared.v2.b32 [tile], {{q0, q1}}; ldu.global.{type_} q0, [%from];
        mov.b128 {{%rd1, %rd2}}, q0; st.global.b64 [%to+24], %rd2;"""
    out, _ = _run(_module("mov.b64 %rd3, 7;" + body, ".reg .b128 q<2>;"), data)
    first, second = (data.view(dtype)[:, place].astype("i8").view("u8") for place in (0, 1))
    high = [np.where(part.view("i8") < 0, ~np.uint64(0), np.uint64(0)) for part in (first, second)]
    if dtype == "u8":
        high = [np.zeros_like(part) for part in high]
    loaded = np.arange(BLOCK) < 40
    np.testing.assert_array_equal(out[:, 0], np.where(loaded, second, 7))
    np.testing.assert_array_equal(out[:, 1], np.where(loaded, high[1], 7))
    np.testing.assert_array_equal(out[:, 2], np.where(loaded, first, 7))
    np.testing.assert_array_equal(out[:, 3], high[0])


def test_no_other_instruction_reads_a_128_bit_register_as_narrower() -> None:
    for body in (
        "add.u64 %rd1, %rd1, q0;",
        "cvt.u64.u32 q0, %t;",
        "atom.exch.b64 q0, [%in], %rd1;",
        "ld.global.L2::cache_hint.b32 %t, [%from], q0;",
        "st.global.b32 [q0], %t;",
    ):
        with pytest.raises(InvalidPtxError, match="q0"):
            _module(body, ".reg .b128 q<2>;")


def test_exchanges_of_128_bits_form_a_chain() -> None:
    """Each thread receives the value that exactly one other has left, and the last value remains,
    in any order.
    """
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    for place in ("shared", "global"):
        where = "tile" if place == "shared" else "%in"
        body = f"""ld.global.b128 q0, [%from]; bar.sync 0; setp.eq.u32 %p1, %t, 0;
            mov.b128 q1, {{0, 0}}; @%p1 st.{place}.b128 [{where}], q1; bar.sync 0;
            atom.acq_rel.gpu.{place}.exch.b128 q2, [{where}], q0;
            st.global.b128 [%to], q2; bar.sync 0;
            ld.relaxed.cta.{place}.b128 q3, [{where}]; st.release.gpu.global.b128 [%to+16], q3;"""
        out, _ = _run(_module(body, ".reg .b128 q<4>;"), data)
        own = {tuple(row) for row in data[:, :2].tolist()}
        found = [tuple(row) for row in out[:, :2].tolist()]
        (last,) = {tuple(row) for row in out[:, 2:].tolist()}
        assert sorted([*found, last]) == sorted([(0, 0), *own])


def test_compare_and_swap_of_128_bits_compares_both_halves() -> None:
    data = np.zeros((BLOCK, 4), np.uint64)
    data[:, 0] = np.arange(BLOCK) % 3 == 0
    data[:, 1] = np.arange(BLOCK) % 2 == 0
    body = """mov.b128 q1, {1, 1}; cvt.u64.u32 %rd1, %t; mov.b128 q2, {%rd1, 7};
        atom.cas.b128 q0, [%from], q1, q2; st.global.b128 [%to], q0;"""
    body = body.replace("{1, 1}", "{%rd2, %rd2}").replace("{%rd1, 7}", "{%rd1, %rd3}")
    body = "mov.b64 %rd2, 1; mov.b64 %rd3, 7;" + body
    out, after = _run(_module(body, ".reg .b128 q<3>;"), data)
    np.testing.assert_array_equal(out[:, :2], data[:, :2])
    for thread, row in enumerate(after.tolist()):
        assert row[:2] == ([thread, 7] if thread % 6 == 0 else data[thread, :2].tolist())


def test_a_counter_of_128_bits_loses_no_increment() -> None:
    """Threads of several blocks add to it by compare and swap; the carry reaches the upper half."""
    module = _module(
        """ld.relaxed.gpu.global.b128 q0, [%in];
        AGAIN: mov.b128 {%rd1, %rd2}, q0; add.cc.u64 %rd1, %rd1, 1; addc.u64 %rd2, %rd2, 0;
        mov.b128 q1, {%rd1, %rd2}; atom.relaxed.gpu.global.cas.b128 q2, [%in], q0, q1;
        mov.b128 {%rd3, %rd4}, q2; mov.b128 {%rd5, %rd6}, q0; mov.b128 q0, q2;
        setp.ne.u64 %p1, %rd3, %rd5; @%p1 bra AGAIN; setp.ne.u64 %p1, %rd4, %rd6;
        @%p1 bra AGAIN;""",
        ".reg .b128 q<3>;",
    )
    start = (1 << 64) - 100
    data = np.array([start, 0] + [0] * (4 * BLOCK - 2), np.uint64)
    shape = (BLOCK, 1, 1)
    legal = list(compiler().legal_plans(module, shape))
    plans = [None, *legal[:: max(1, len(legal) // 3)]]
    _, after = compare(module, [bytes(32), data.tobytes()], (5, 1, 1), shape, plans)
    low, high = np.frombuffer(after, np.uint64)[:2].tolist()
    assert low | high << 64 == start + 5 * BLOCK


def test_pairs_survive_assembly_and_containers() -> None:
    body = "atom.exch.b128 q0, [%from], q1; atom.cas.b128 q0, [%from], q1, q0;"
    body += "ld.global.v8.b32 {%r1, %r2, _, %r4, %r5, %r6, %r7, %r8}, [%from];"
    module = _module(body, ".reg .b128 q<2>;")
    again = container.decode(container.encode(module))
    assert again.functions[0].code == module.functions[0].code
    text = disasm.disassemble(module)
    assert asm.assemble(text).functions[0].code == module.functions[0].code


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("mov.b64 %rd1, q0;", "'q0' is a 128-bit register"),
        ("mov.b128 {%rd1, %rd2}, {%rd2, %rd1};", "two 64-bit elements"),
        ("atom.add.b128 q0, [%from], q1;", "'.b128' cannot stand after 'atom.add'"),
        ("ld.global.b128 %rd1, [%from];", "a register of 128 bits"),
        ("add.f32 v, v, v;", "'v' is a vector"),
        ("add.f32 v.z, v.x, v.y;", "'v.z' is not declared"),
    ],
)
def test_invalid_uses_of_128_bit_registers(body: str, said: str) -> None:
    with pytest.raises(Exception, match=re.compile(said)):
        _module(body, ".reg .b128 q<2>; .reg .v2 .f32 v;")


def test_vectors_of_registers_whole_and_by_element() -> None:
    data = RANDOM.integers(-99, 99, (BLOCK, 8)).astype(np.float32)
    body = """ld.global.v4.f32 a, [%from]; ld.global.v4.f32 f1, [%from+16];
        add.f32 a.x, a.y, f1.w; mul.f32 f1.g, f1.b, a.z; mov.v4.f32 f0, {a.w, a.z, a.y, a.x};
        mov.v4.f32 {f0.x, f0.y, f0.z, f0.w}, {f0.y, f0.x, f0.w, f0.z}; mov.b64 %rd1, pair;
        mov.v2.b32 pair, {%t, %r1}; mov.b64 %rd1, pair; mov.b64 {pair.y, pair.x}, %rd1;
        mov.v4.u32 shape, %ntid; add.u32 pair.x, pair.y, shape.x; cvt.rn.f32.u32 f1.x, pair.x;
        st.global.v4.f32 [%to], f0; st.global.v4.f32 [%to+16], f1;"""
    registers = ".reg .v4 .f32 a, f<2>; .reg .v2 .b32 pair; .reg .v4 .u32 shape; mov.b32 %r1, 3;"
    out, _ = _run(_module(body, registers), data)
    a, b = data[:, :4].copy(), data[:, 4:].copy()
    a[:, 0] = a[:, 1] + b[:, 3]
    b[:, 1] = b[:, 2] * a[:, 2]
    b[:, 0] = np.arange(BLOCK) + BLOCK
    np.testing.assert_array_equal(out, np.hstack([a[:, [2, 3, 0, 1]], b]))


def test_strong_accesses_of_128_bits_to_a_threads_own_memory() -> None:
    """By the variable's name they need not be atomic: no other thread can observe half a store."""
    data = RANDOM.integers(0, 1 << 64, (BLOCK, 4), dtype=np.uint64)
    body = """ld.global.b128 %wide, [%from]; st.release.gpu.b128 [own+16], %wide;
        ld.acquire.gpu.b128 %wide, [own+16]; st.global.b128 [%to+16], %wide;
        ld.global.b128 %wide, [%from+16]; st.relaxed.sys.b128 [own+32], %wide;
        mov.b64 %rd0, own; add.u64 %rd0, %rd0, 32; ld.local.v2.b64 {%rd1, %rd2}, [%rd0];
        st.global.v2.b64 [%to], {%rd1, %rd2};"""
    out, _ = _run(_module(body, ".reg .b128 %wide;"), data)
    np.testing.assert_array_equal(out, np.roll(data, 2, axis=1))
