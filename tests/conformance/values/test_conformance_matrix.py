"""Matrix products: PTX's fragments and numpy's arithmetic, on the interpreter and the JIT."""

from collections.abc import Iterator

import numpy as np
import pytest

from support.execution import both_backends, prover
from support.execution.both_backends import compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel, run
from support.execution.warp_fragments import GRID, WARPS, plans_of, run_fragments
from support.oracles import matrix_oracle as oracle
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import MisalignedFault
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.planning.choose import choose
from vgpu_sim.exec.jit.target import dot_products, llvm
from vgpu_sim.isa import Module

pytestmark = pytest.mark.timeout(600)
Array = oracle.Array


def _mma(shape: str, a_type: str, b_type: str, total: str, words: str, *, tame: bool) -> None:
    rows, columns, depth = map(int, shape[1:].replace("n", " ").replace("k", " ").split())
    dice = np.random.default_rng(len(words) + depth)
    count = WARPS * GRID
    a = [oracle.patterns(a_type, (rows, depth), dice, tame) for _ in range(count)]
    b = [oracle.patterns(b_type, (depth, columns), dice, tame) for _ in range(count)]
    c = [oracle.patterns(total, (rows, columns), dice, tame) for _ in range(count)]
    wide = 64 if total == "f64" else 32
    fragments = {
        "a": [
            oracle.fragment(x, a_type, lambda t, i: oracle.place_in_a(a_type, rows, t, i))
            for x in a
        ],
        "b": [oracle.fragment(x, b_type, lambda t, i: oracle.place_in_b(b_type, t, i)) for x in b],
        "c": [oracle.fragment(x, total, oracle.place_in_c) for x in c],
    }
    arrays = {name: (np.array(found), wide) for name, found in fragments.items()}
    results = arrays["c"][0].shape[-1]
    instruction = f"mma.sync.aligned.{shape}.{words} {{d}}, {{a}}, {{b}}, {{c}};"
    found = run_fragments(instruction, arrays, results, wide)
    for x, y, z, registers in zip(a, b, c, found, strict=True):
        have = oracle.matrix_of(registers, total, (rows, columns))
        x, y = oracle.values(x, a_type), oracle.values(y, b_type)
        if total == "f64":
            want = oracle.doubles(x, y, z, words.rsplit(".", 1)[-1])
            np.testing.assert_array_equal(have, want)
            continue
        if a_type == "b1":
            logic = np.bitwise_xor if "xor" in words else np.bitwise_and
            want = logic(x[:, :, None], y[None]).sum(axis=1).astype(np.int64) + z
            np.testing.assert_array_equal(have, want.astype(np.int32))
            continue
        want = oracle.mma(x, y, z, a_type, total, "satfinite" in words)
        np.testing.assert_array_equal(
            have.view(f"u{have.itemsize}"), want.view(f"u{have.itemsize}")
        )


@pytest.mark.parametrize("tame", [True, False], ids=["numbers", "patterns"])
@pytest.mark.parametrize(
    ("shape", "a", "b", "total"),
    [
        ("m16n8k8", "f16", "f16", "f16"),
        ("m16n8k16", "f16", "f16", "f16"),
        ("m16n8k8", "f16", "f16", "f32"),
        ("m16n8k16", "f16", "f16", "f32"),
        ("m16n8k8", "bf16", "bf16", "f32"),
        ("m16n8k16", "bf16", "bf16", "f32"),
        ("m16n8k4", "tf32", "tf32", "f32"),
        ("m16n8k8", "tf32", "tf32", "f32"),
        ("m16n8k32", "e4m3", "e5m2", "f32"),
        ("m16n8k32", "e4m3", "e4m3", "f32"),
        ("m16n8k16", "e4m3", "e4m3", "f16"),
        ("m16n8k32", "e5m2", "e5m2", "f16"),
        ("m16n8k16", "e5m2", "e4m3", "f16"),
    ],
)
def test_floats(shape: str, a: str, b: str, total: str, tame: bool) -> None:
    _mma(shape, a, b, total, f"row.col.{total}.{a}.{b}.{total}", tame=tame)


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_doubles(shape: str) -> None:
    _mma(shape, "f64", "f64", "f64", "row.col.f64.f64.f64.f64", tame=True)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_roundings_of_doubles(rounding: str) -> None:
    _mma("m16n8k4", "f64", "f64", "f64", f"row.col.f64.f64.f64.f64.{rounding}", tame=True)


@pytest.mark.parametrize("clamp", ["", ".satfinite"])
@pytest.mark.parametrize(
    ("shape", "a", "b"),
    [
        ("m8n8k16", "s8", "u8"),
        ("m16n8k16", "u8", "s8"),
        ("m16n8k32", "s8", "s8"),
        ("m16n8k32", "u8", "u8"),
        ("m8n8k32", "s4", "s4"),
        ("m16n8k32", "u4", "s4"),
        ("m16n8k64", "s4", "u4"),
    ],
)
def test_integers(shape: str, a: str, b: str, clamp: str) -> None:
    _mma(shape, a, b, "s32", f"row.col{clamp}.s32.{a}.{b}.s32", tame=False)


@pytest.mark.parametrize("logic", ["xor", "and"])
@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
def test_bits(shape: str, logic: str) -> None:
    _mma(shape, "b1", "b1", "s32", f"row.col.s32.b1.b1.s32.{logic}.popc", tame=False)


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_matrices_go_through_shared_memory(trans: str) -> None:
    """stmatrix, ldmatrix and movmatrix return what was stored, transposed."""
    dice = np.random.default_rng(3)
    words = dice.integers(0, 1 << 32, (WARPS * GRID, 32, 2), np.uint32)
    threads = 32 * WARPS
    body = f"""
    mov.u32 %i, %tid.x; mov.u32 %n, %ctaid.x; mad.lo.u32 %n, %n, {threads}, %i;
    ld.param.u64 %pi, [p1]; mad.wide.u32 %pi, %n, 8, %pi;
    ld.global.b32 %r0, [%pi]; ld.global.b32 %r1, [%pi+4];
    mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s;
    stmatrix.sync.aligned.m8n8.x2{trans}.shared.b16 [%s], {{%r0, %r1}};
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r2, %r3}}, [%s];
    movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r3;
    ld.param.u64 %po, [p0]; mad.wide.u32 %po, %n, 8, %po;
    st.global.b32 [%po], %r2; st.global.b32 [%po+4], %r3;"""
    registers = ".reg .b32 %i, %n, %s, %r<4>; .reg .b64 %pi, %po;"
    parameters = ".param .u64 p0, .param .u64 p1"
    header = f".shared .align 16 .b8 tile[{16 * threads}];"
    module = compile_verified(kernel(body, parameters, registers=registers, header=header))
    buffers = [bytes(words.nbytes), words.tobytes()]
    found = compare(module, buffers, (GRID, 1, 1), (threads, 1, 1), plans_of(module))
    have = np.frombuffer(found[0], "<u4").reshape(words.shape)
    for before, after in zip(words, have, strict=True):
        for n, turned in ((0, bool(trans)), (1, not trans)):
            want, got = (
                np.ascontiguousarray(lanes[:, n]).view(np.uint16).reshape(8, 8)
                for lanes in (before, after)
            )
            np.testing.assert_array_equal(got, want.T if turned else want)


@pytest.fixture
def _without_dots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Generate code as for a CPU without dot product instructions."""
    monkeypatch.setattr(dot_products, "native_pairs", lambda: False)
    monkeypatch.setattr(dot_products, "native_bytes", lambda: False)
    both_backends._loaded.cache_clear()
    yield
    both_backends._loaded.cache_clear()


@pytest.mark.usefixtures("_without_dots")
@pytest.mark.parametrize("tame", [True, False], ids=["numbers", "patterns"])
def test_pairs_without_dot_product_instructions(tame: bool) -> None:
    _mma("m16n8k16", "bf16", "bf16", "f32", "row.col.f32.bf16.bf16.f32", tame=tame)


@pytest.mark.usefixtures("_without_dots")
def test_bytes_without_dot_product_instructions() -> None:
    _mma("m16n8k32", "s8", "u8", "s32", "row.col.s32.s8.u8.s32", tame=False)


def _products(threads: int, chain: int) -> tuple[Module, list[bytes]]:
    """Return a kernel with two products of each A, in a loop, whose factors come from shared
    memory.
    """
    mma = (
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f{0}, %f{1}, %f{2}, %f{3}}},"
        " {{%r0, %r1, %r2, %r3}}, {{%r{4}, %r{5}}}, {{%f{0}, %f{1}, %f{2}, %f{3}}};"
    )
    products = mma.format(0, 1, 2, 3, 4, 5) + mma.format(4, 5, 6, 7, 6, 7)
    zeros = " ".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(8))
    body = f"""
    mov.u32 %i, %tid.x; ld.param.u64 %pi, [p1]; mad.wide.u32 %pi, %i, 16, %pi;
    mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s; {zeros}
    mov.u32 %n, 0;
    AGAIN:
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%pi];
    st.shared.v4.b32 [%s], {{%r0, %r1, %r2, %r3}};
    bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [%s];
    ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%r4, %r5, %r6, %r7}}, [%s];
    bar.warp.sync 0xffffffff;
    {products * chain}
    add.u32 %n, %n, 1; add.u64 %pi, %pi, {16 * threads};
    setp.lt.u32 %p, %n, 3;
    @%p bra AGAIN;
    ld.param.u64 %po, [p0]; mad.wide.u32 %po, %i, 32, %po;
    st.global.v4.f32 [%po], {{%f0, %f1, %f2, %f3}};
    st.global.v4.f32 [%po+16], {{%f4, %f5, %f6, %f7}};"""
    registers = ".reg .b32 %i, %n, %s, %r<8>; .reg .f32 %f<8>; .reg .b64 %pi, %po; .reg .pred %p;"
    header = f".shared .align 16 .b8 tile[{16 * threads}];"
    parameters = ".param .u64 p0, .param .u64 p1"
    module = compile_verified(kernel(body, parameters, registers=registers, header=header))
    dice = np.random.default_rng(threads)
    factors = oracle.patterns("bf16", (3 * threads * 8,), dice, True)
    return module, [bytes(32 * threads), factors.tobytes()]


@pytest.mark.parametrize("threads", [32, 64, 48])
def test_products_in_a_loop(threads: int) -> None:
    """Blocks may end within a warp: the missing lanes hold zeros."""
    module, buffers = _products(threads, 1)
    block = (threads, 1, 1)
    legal = list(compiler().legal_plans(module, block))
    plans = [None, jit.Plan(1, 1), *legal[-2:]]
    for plan in plans:
        text = compiler().emit_llvm(module, module.functions[0], block, plan)
        assert prover.prove(text) > 0
    compare(module, buffers, (1, 1, 1), block, plans)


def _staged_products(threads: int) -> tuple[Module, list[bytes]]:
    """Return a kernel whose warps multiply factors that others stored to shared memory, after
    barriers.
    """
    body = f"""
    mov.u32 %i, %tid.x; ld.param.u64 %pi, [p1]; mad.wide.u32 %pi, %i, 16, %pi;
    add.u32 %m, %i, 32; rem.u32 %m, %m, {threads};
    mov.u32 %s, tile; mad.lo.u32 %w, %i, 16, %s; mad.lo.u32 %s, %m, 16, %s;
    {" ".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(4))}
    mov.u32 %n, 0;
    AGAIN:
    ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%pi];
    st.shared.v4.b32 [%w], {{%r0, %r1, %r2, %r3}};
    bar.sync 0;
    ld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%s];
    bar.sync 0;
    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}},
        {{%r0, %r1, %r2, %r3}}, {{%r1, %r2}}, {{%f0, %f1, %f2, %f3}};
    add.u32 %n, %n, 1; add.u64 %pi, %pi, {16 * threads};
    setp.lt.u32 %p, %n, 3;
    @%p bra AGAIN;
    ld.param.u64 %po, [p0]; mad.wide.u32 %po, %i, 16, %po;
    st.global.v4.f32 [%po], {{%f0, %f1, %f2, %f3}};"""
    registers = ".reg .b32 %i, %m, %n, %s, %w, %r<4>; .reg .f32 %f<4>; .reg .b64 %pi, %po;"
    header = f".shared .align 16 .b8 tile[{16 * threads}];"
    parameters = ".param .u64 p0, .param .u64 p1"
    source = kernel(body, parameters, registers=registers + ".reg .pred %p;", header=header)
    dice = np.random.default_rng(threads)
    factors = oracle.patterns("bf16", (3 * threads * 8,), dice, True)
    return compile_verified(source), [bytes(16 * threads), factors.tobytes()]


@pytest.mark.parametrize("threads", [32, 64, 128])
def test_a_first_launch_multiplies_by_whole_warps_behind_barriers(threads: int) -> None:
    """Lane by lane would be legal as well, but hundreds of times as slow."""
    module, buffers = _staged_products(threads)
    block = (threads, 1, 1)
    (first,) = compiler().first_tier(module, block)
    assert first.geometry(block).span % 32 == 0
    compare(module, buffers, (1, 1, 1), block, [None, first, jit.Plan(1, 1)])


def test_a_row_that_is_not_aligned_is_a_fault_on_the_interpreter() -> None:
    body = (
        "mov.u32 %i, %tid.x; mad.lo.u32 %i, %i, 8, 0;"
        " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%i];"
    )
    header = ".shared .align 16 .b8 tile[512];"
    source = kernel(body, "", registers=".reg .b32 %i, %r<1>;", header=header)
    with pytest.raises(MisalignedFault):
        run(source, [])


def test_many_products_keep_groups_of_a_warp() -> None:
    """Lane by lane they would be hundreds of times as slow; inlined, megabytes of code."""
    module, _ = _products(128, 200)
    form = ssa.build(module.functions[0])
    plan = choose(form, (128, 1, 1), 512)
    assert plan.width * plan.vectors == 32
    text = compiler().emit_llvm(module, module.functions[0], (128, 1, 1))
    assert text.count("vdpbf16ps") + text.count("dpbf16ps.512(") < 200
    assert len(text) < (4_000_000 if llvm.vector_bits() == 512 else 6_000_000)
