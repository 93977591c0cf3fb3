"""Local memory: both executors, all legal plans; private to each thread, and bounded."""

import signal

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compare, compiler
from vgpu_sim.compiler import InvalidPtxError, compile_ptx
from vgpu_sim.exec import interp, jit
from vgpu_sim.exec.errors import AddressFault, MisalignedFault
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.hal.compute.address_map import LOCAL_REACH_BYTES, LOCAL_RESERVED_BYTES
from vgpu_sim.isa import Module

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _kernel(body: str, local: str = ".local .align 16 .b8 a[64];", values: int = 1) -> Module:
    """A kernel that stores ``values`` words %r0.. of each thread to its own place in ``out``."""
    stores = "".join(f"st.global.u32 [%out+{4 * n}], %r{n};\n" for n in range(values))
    module = compile_ptx(
        f"""{_HEAD}.visible .entry k(.param .u64 out, .param .u32 n)
        {{ {local}
        .reg .b64 %out, %at, %rd<16>; .reg .b32 %r<32>, %n, %t; .reg .b16 %h<8>; .reg .pred %p<4>;
        ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
        mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, {4 * values}; add.u64 %out, %out, %at;
        {body}
        {stores} ret; }}""",
        capability=(9, 0),
    )
    assert module.refused == ()
    return module


def _everywhere(module: Module, words: int, n: int = 5, block: int = 64) -> np.ndarray:
    shape = (block, 1, 1)
    plans = [None, *compiler().legal_plans(module, shape)]
    (out,) = compare(module, [bytes(4 * words * block)], (2, 1, 1), shape, plans, [n])
    for plan in plans:
        text = compiler().emit_llvm(module, module.functions[0], shape, plan)
        assert prover.prove(text) > 0
    return np.frombuffer(out, "<u4").reshape(block, words)


def test_constant_indices_become_registers() -> None:
    body = "st.local.u32 [a+4], %t; st.local.v2.u32 [a+8], {%n, %t}; ld.local.u64 %rd1, [a+8];"
    body += "ld.local.u32 %r0, [a+4]; cvt.u32.u64 %r1, %rd1; st.local.s8 [a+32], %r1;"
    body += "ld.local.s8 %r2, [a+32];"
    module = _kernel(body, values=3)
    assert module.functions[0].local_bytes == 64  # only [a+8] stays in memory
    assert _everywhere(module, 3, n=200)[7].tolist() == [7, 200, 0xFFFF_FFC8]
    alone = _kernel("st.local.u32 [a+4], %t; ld.local.u32 %r0, [a+4];")
    assert alone.functions[0].local_bytes == 0
    assert _everywhere(alone, 1)[:, 0].tolist() == list(range(64))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_each_thread_has_its_own_array(width: int) -> None:
    # a[t % 8] = t + 1 and a[n] (the same index in all threads) read back, other bytes zero
    type_, register = f"u{8 * width}", "%rd6" if width == 8 else "%r6"
    body = f"""mov.u64 %rd1, a; and.b32 %r1, %t, 7; mul.wide.u32 %rd2, %r1, {width};
        add.u64 %rd2, %rd1, %rd2; add.u32 %r6, %t, 1; cvt.u64.u32 %rd6, %r6;
        st.local.{type_} [%rd2], {register};
        mul.wide.u32 %rd3, %n, {width}; add.u64 %rd3, %rd1, %rd3;
        ld.local.{type_} {register}, [%rd3];
        {"cvt.u32.u64 %r6, %rd6;" if width == 8 else ""} mov.u32 %r0, %r6;
        ld.local.{type_} {register}, [%rd2];
        {"cvt.u32.u64 %r6, %rd6;" if width == 8 else ""} mov.u32 %r1, %r6;"""
    found = _everywhere(_kernel(body, values=2), 2, n=5)
    for thread, (shared_index, own) in enumerate(found.tolist()):
        assert own == thread + 1
        assert shared_index == (thread + 1 if thread % 8 == 5 else 0)


def test_vectors_and_narrow_stores_leave_their_neighbours_alone() -> None:
    body = """mov.u64 %rd1, a; and.b32 %r9, %n, 3; cvt.u64.u32 %rd2, %r9; add.u64 %rd2, %rd1, %rd2;
        st.local.v4.u32 [a], {0x11111111, 0x22222222, 0x33333333, 0x44444444};
        st.local.u8 [%rd2+4], %t; st.local.v2.u8 [a+8], {%t, 0xff}; st.local.u16 [a+14], %t;
        ld.local.v4.u32 {%r0, %r1, %r2, %r3}, [%rd1];"""
    found = _everywhere(
        _kernel(
            body.replace("%t", "%r20").replace(
                "mov.u64 %rd1, a;", "mov.u32 %r20, %t; mov.u64 %rd1, a;", 1
            ),
            values=4,
        ),
        4,
        n=6,
    )
    for thread, row in enumerate(found.tolist()):
        assert row == [
            0x11111111,
            0x22002222 | thread << 16,
            0x33330000 | 0xFF00 | thread,
            thread << 16 | 0x4444,
        ]


def test_generic_addresses_of_local_and_of_global_memory() -> None:
    body = """mov.u64 %rd1, a; cvta.local.u64 %rd2, %rd1; and.b32 %r9, %t, 7;
        mul.wide.u32 %rd3, %r9, 4; add.u64 %rd4, %rd2, %rd3; st.u32 [%rd4], %t;
        st.global.u32 [%out], 77; setp.gt.u32 %p1, %t, %n;
        selp.b64 %rd5, %rd4, %out, %p1; ld.u32 %r0, [%rd5];
        cvta.to.local.u64 %rd6, %rd4; ld.local.u32 %r1, [%rd6];
        @%p1 st.u32 [%rd5], 5; ld.local.u32 %r2, [%rd6];"""
    found = _everywhere(_kernel(body, values=3), 3, n=20)
    for thread, row in enumerate(found.tolist()):
        local = thread > 20
        assert row == [thread if local else 77, thread, 5 if local else thread]


def test_a_generic_address_of_any_of_three_memories() -> None:
    body = """.shared .align 4 .b8 tile[512]; st.global.u32 [%out], 0;
        mov.u64 %rd1, a; cvta.local.u64 %rd2, %rd1;
        mov.u64 %rd3, tile; cvta.shared.u64 %rd3, %rd3; mul.wide.u32 %rd4, %t, 4;
        add.u64 %rd3, %rd3, %rd4; rem.u32 %r9, %t, 3; setp.eq.u32 %p1, %r9, 0;
        setp.eq.u32 %p2, %r9, 1; selp.b64 %rd5, %rd2, %rd3, %p1; selp.b64 %rd5, %out, %rd5, %p2;
        mul.lo.u32 %r8, %t, 5; st.u32 [%rd5], %r8; ld.local.u32 %r0, [a]; mov.u64 %rd6, tile;
        add.u64 %rd6, %rd6, %rd4; ld.shared.u32 %r1, [%rd6]; ld.global.u32 %r2, [%out];
        ld.u32 %r3, [%rd5];"""
    found = _everywhere(_kernel(body, values=4), 4)
    for thread, row in enumerate(found.tolist()):
        wanted = [0, 0, 0, 5 * thread]
        wanted[{0: 0, 1: 2, 2: 1}[thread % 3]] = 5 * thread
        assert row == wanted


def test_divergent_loops_and_barriers() -> None:
    body = """mov.u64 %rd1, a; and.b32 %r9, %t, 15; mov.u32 %r8, 0;
        LOOP: mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd1, %rd2; add.u32 %r7, %r8, %t;
        st.local.u32 [%rd2], %r7; add.u32 %r8, %r8, 1; setp.le.u32 %p1, %r8, %r9; @%p1 bra LOOP;
        bar.sync 0;
        mov.u32 %r0, 0; mov.u32 %r8, 0;
        SUM: mul.wide.u32 %rd2, %r8, 4; add.u64 %rd2, %rd1, %rd2; ld.local.u32 %r7, [%rd2];
        add.u32 %r0, %r0, %r7; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 16; @%p1 bra SUM;"""
    found = _everywhere(_kernel(body), 1)[:, 0].tolist()
    assert found == [sum(k + t for k in range(t % 16 + 1)) for t in range(64)]


@pytest.mark.parametrize("size", [5, 6, 7, 9])
def test_threads_of_waiting_groups_share_no_word(size: int) -> None:
    # The first byte and the last one, whose word may be adjacent to another group's.
    body = """mov.u64 %rd1, a; cvt.u64.u32 %rd2, %n; add.u64 %rd3, %rd1, %rd2;
        st.local.u8 [%rd3], %t; add.u32 %r1, %t, 100; st.local.u8 [%rd1], %r1; bar.sync 0;
        ld.local.u8 %r0, [%rd3]; ld.local.u8 %r1, [%rd1];"""
    module = _kernel(body, local=f".local .align 1 .b8 a[{size}];", values=2)
    found = _everywhere(module, 2, n=size - 1)
    assert found.tolist() == [[thread, thread + 100] for thread in range(64)]


def test_large_frames_begin_as_zeros_in_every_block() -> None:
    body = """mov.u64 %rd1, a; mul.wide.u32 %rd2, %t, 64; add.u64 %rd2, %rd1, %rd2;
        ld.local.u32 %r0, [%rd2]; st.local.u32 [%rd2], 9;"""
    module = _kernel(body, local=".local .align 4 .b8 a[4100];")
    assert _everywhere(module, 1)[:, 0].tolist() == [0] * 64


@pytest.mark.parametrize(
    ("access", "fault", "interpreted"),
    [
        ("ld.local.u32 %r0, [%rd1+64];", signal.SIGSEGV, AddressFault),
        ("ld.local.u32 %r0, [%rd1+-4];", signal.SIGSEGV, AddressFault),
        ("st.local.u32 [%rd2], %t;", signal.SIGSEGV, AddressFault),  # in a group of one lane
        ("ld.local.u32 %r0, [%rd1+2];", signal.SIGSEGV, MisalignedFault),
        ("st.local.u8 [%rd3], %r1;", signal.SIGSEGV, AddressFault),
    ],
)
@pytest.mark.parametrize("plan", [jit.Plan(16, 2), jit.Plan(1, 1), jit.Plan(16, 1)])
def test_accesses_beyond_a_threads_own_bytes_fault(
    access: str, fault: int, interpreted: type[Exception], plan: jit.Plan
) -> None:
    body = f"""mov.u64 %rd1, a; setp.eq.u32 %p1, %t, 13; selp.u32 %r9, 64, 0, %p1; mov.u32 %r1, %t;
        cvt.u64.u32 %rd2, %r9; add.u64 %rd2, %rd1, %rd2; cvt.u64.u32 %rd3, %n;
        mul.lo.u64 %rd3, %rd3, 0x10000000; add.u64 %rd3, %rd1, %rd3; {access} ld.local.u32 %r10, [%rd1];
        add.u32 %r0, %r0, %r10;"""
    module, block = _kernel(body), (64, 1, 1)
    function = module.functions[0]
    bench = Bench(bytes(256))
    try:
        parameters = native_launch.pack(function.parameters, 12, [bench.addresses()[0], 5])
        with pytest.raises(interpreted):
            bench.interpret(module, (1, 1, 1), block, parameters)
        loaded = compiler().load(compiler().compile(module, function, block, plan))
        launch = native_launch.context(
            bench.aperture, (1, 1, 1), block, local_bytes=local_bytes(function)
        )
        assert native_launch.run(loaded, launch, parameters, [(0, 1)]).signal == fault
    finally:
        bench.close()


# As the only group, and in groups that run in turn.
@pytest.mark.parametrize("wait", ["", "bar.sync 0;"])
@pytest.mark.parametrize(
    "access", ["ld.local.u32 %r0, [%rd1+16];", "st.local.v2.u32 [2], {%n, %t};"]
)
def test_kernels_without_local_memory_fault_in_its_window(access: str, wait: str) -> None:
    module, block = _kernel(f"cvt.u64.u32 %rd1, %n; {wait} {access}", local=""), (64, 1, 1)
    function = module.functions[0]
    assert local_bytes(function) == 0
    bench = Bench(bytes(256))
    try:
        parameters = native_launch.pack(function.parameters, 12, [bench.addresses()[0], 0])
        with pytest.raises((AddressFault, MisalignedFault)):
            bench.interpret(module, (1, 1, 1), block, parameters)
        launch = native_launch.context(bench.aperture, (1, 1, 1), block)
        for plan in (jit.Plan(16, 1), jit.Plan(1, 1)):
            loaded = compiler().load(compiler().compile(module, function, block, plan))
            ended = native_launch.run(loaded, launch, parameters, [(0, 1)])
            # In the reservation for local memory, whose lowest addresses are excluded.
            assert ended.signal == signal.SIGSEGV
            assert ended.address > LOCAL_RESERVED_BYTES + LOCAL_REACH_BYTES
    finally:
        bench.close()


def test_more_local_memory_than_a_thread_can_have_is_invalid() -> None:
    with pytest.raises(InvalidPtxError, match="524292 bytes of local memory"):
        _kernel("mov.u64 %rd1, a;", local=".local .b32 a[131073];")


def test_rejections_name_invalid_local_variables() -> None:
    for local, words in (
        (".local .b32 a[];", "the array needs a size"),
        (".extern .local .b32 a;", "cannot be .extern"),
    ):
        with pytest.raises(InvalidPtxError, match=words):
            _kernel("", local=local)


def test_the_interpreter_allocates_local_memory_for_resident_lanes_only() -> None:
    module = _kernel(
        "mov.u64 %rd1, a; st.local.u32 [%rd1], %t; ld.local.u32 %r0, [%rd1];",
        local=".local .b8 a[65536];",
    )
    memory = interp.BufferMemory(4096, bytearray(4 * 64))
    parameters = (4096).to_bytes(8, "little") + bytes(4)
    interp.run(module, module.functions[0], (4096, 1, 1), (64, 1, 1), parameters, memory)


def test_lanes_find_their_own_values_at_one_generic_address() -> None:
    """A uniform generic address in local memory refers to a different place in each lane."""
    body = """mov.u64 %rd1, a; cvta.local.u64 %rd2, %rd1; st.local.u64 [a], %out;
        st.local.u32 [%rd1+8], %t; ld.u64 %rd3, [%rd2]; setp.eq.u64 %p1, %rd3, 0;
        mov.u32 %r0, 7; @%p1 bra ONWARD; ld.u32 %r0, [%rd2+8]; ONWARD:"""
    found = _everywhere(_kernel(body), 1)
    assert found[:, 0].tolist() == list(range(64))
