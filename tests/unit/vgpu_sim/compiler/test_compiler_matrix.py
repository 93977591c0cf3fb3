"""Matrices in memory: ldmatrix, stmatrix, movmatrix and wmma against indexing in numpy."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from support.oracles import matrix_oracle as oracle
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.errors import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError

Array = oracle.Array
_ROW_BYTES = 48
_LANE = "mov.u32 %i, %laneid; ld.param.u64 %po, [p0]; ld.param.u64 %pi, [p1];"
_REGISTERS = """
.reg .b32 %i, %n, %s, %r<32>; .reg .f32 %f<16>; .reg .b16 %h<4>; .reg .f64 %g<16>;
.reg .b64 %po, %pi, %pa, %pb, %pc, %pd; .reg .pred %p;
"""

_B = "{%r4, %r5, %r6, %r7}"
_FOUR = f"{{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {_B}, {{%f4, %f5, %f6, %f7}},"


def _file(target: str, instruction: str) -> str:
    head = f".version 9.0\n.target sm_{target}\n.address_size 64\n"
    return f"{head}.visible .entry k()\n{{{_REGISTERS}\n{instruction}\nret;\n}}\n"


def _kernel(body: str, arrays: int, header: str = "") -> str:
    parameters = ", ".join(f".param .u64 p{n}" for n in range(arrays))
    return kernel(body, parameters, registers=_REGISTERS, header=header)


def _vector(first: int, count: int, letter: str = "r") -> str:
    return "{" + ", ".join(f"%{letter}{first + n}" for n in range(count)) + "}"


def _rows(count: int) -> Array:
    """Return matrices of eight by eight, one below the other, without two equal elements."""
    return np.arange(64 * count, dtype=np.uint16).reshape(8 * count, 8) * 7 + 3


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count: int, trans: str, space: str) -> None:
    matrices = _rows(count)
    memory = np.zeros((32, _ROW_BYTES // 2), np.uint16)
    order = np.random.default_rng(1).permutation(32)[: 8 * count]
    memory[order, :8] = matrices
    lanes = np.zeros(32, np.uint32)
    lanes[: 8 * count] = order * _ROW_BYTES  # no byte of the others is read
    where = "%s" if space else "%pc"
    body = f"""{_LANE} ld.param.u64 %pb, [p2];
    mad.wide.u32 %pa, %i, {_ROW_BYTES}, %pi; mad.lo.u32 %s, %i, {_ROW_BYTES}, 0;
    mov.u32 %r31, tile; add.u32 %s, %s, %r31;"""
    for place in range(0, _ROW_BYTES, 4):
        body += f"ld.global.b32 %n, [%pa+{place}]; st.shared.b32 [%s+{place}], %n;"
    body += f"""bar.warp.sync 0xffffffff;
    mad.wide.u32 %pb, %i, 4, %pb; ld.global.b32 %s, [%pb]; add.u32 %s, %s, %r31;
    cvt.u64.u32 %pc, %s; cvta.shared.u64 %pc, %pc;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}{space}.b16 {_vector(0, count)}, [{where}];
    mad.wide.u32 %pd, %i, {4 * count}, %po;"""
    body += "".join(f"st.global.b32 [%pd+{4 * n}], %r{n};" for n in range(count))
    text = _kernel(body, 3, f".shared .align 16 .b8 tile[{32 * _ROW_BYTES}];")
    out = run(text, [np.zeros((32, count, 2), np.uint16), memory, lanes])[0]
    for lane in range(32):
        for n in range(count):
            own = matrices[8 * n : 8 * n + 8]
            own = own.T if trans else own
            assert out[lane, n].tolist() == own[lane // 4, lane % 4 * 2 :][:2].tolist()


@pytest.mark.parametrize("bits", [4, 6])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_spreads_elements_of_fewer_bits(count: int, bits: int) -> None:
    dice = np.random.default_rng(bits)
    elements = dice.integers(0, 1 << bits, (8 * count, 16), np.uint8)
    memory = dice.integers(0, 256, (32, 16), np.uint8)  # what pads a row is not read
    for row, numbers in enumerate(elements):
        packed = sum(int(one) << (bits * n) for n, one in enumerate(numbers))
        memory[row, : 2 * bits] = np.frombuffer(packed.to_bytes(2 * bits, "little"), np.uint8)
    body = (
        f"""{_LANE} mad.wide.u32 %pa, %i, 16, %pi; mov.u32 %s, tile; mad.lo.u32 %s, %i, 16, %s;"""
    )
    for place in range(0, 16, 4):
        body += f"ld.global.b32 %n, [%pa+{place}]; st.shared.b32 [%s+{place}], %n;"
    form = "b4x16_p64" if bits == 4 else "b6x16_p32"
    body += f"""bar.warp.sync 0xffffffff;
    ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{form} {_vector(0, count)}, [%s];
    mad.wide.u32 %pd, %i, {4 * count}, %po;"""
    body += "".join(f"st.global.b32 [%pd+{4 * n}], %r{n};" for n in range(count))
    text = _kernel(body, 2, ".shared .align 16 .b8 tile[512];")
    out = run(text, [np.zeros((32, count, 4), np.uint8), memory])[0]
    for lane in range(32):
        for n in range(count):
            own = elements[8 * n + lane // 4, 4 * (lane % 4) : 4 * (lane % 4) + 4]
            np.testing.assert_array_equal(out[lane, n], own)


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_undoes_ldmatrix(count: int, trans: str) -> None:
    fragments = np.random.default_rng(2).integers(0, 1 << 16, (32, count, 2), np.uint16)
    body = f"""{_LANE} mad.wide.u32 %pa, %i, {4 * count}, %pi; mov.u32 %s, tile;"""
    body += "".join(f"ld.global.b32 %r{n}, [%pa+{4 * n}];" for n in range(count))
    body += f"""mad.lo.u32 %s, %i, 16, %s;
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%s], {_vector(0, count)};
    bar.warp.sync 0xffffffff; mad.wide.u32 %pd, %i, 16, %po;"""
    body += "".join(
        f"ld.shared.b32 %n, [%s+{p}]; st.global.b32 [%pd+{p}], %n;" for p in (0, 4, 8, 12)
    )
    text = _kernel(body, 2, ".shared .align 16 .b8 tile[512];")
    out = run(text, [np.zeros((32, 8), np.uint16), fragments])[0]
    for n in range(count):
        own = out[8 * n : 8 * n + 8]
        own = own.T if trans else own
        for lane in range(32):
            assert own[lane // 4, lane % 4 * 2 :][:2].tolist() == fragments[lane, n].tolist()


def test_movmatrix() -> None:
    matrix = _rows(1)
    body = f"""{_LANE} mad.wide.u32 %pa, %i, 4, %pi; ld.global.b32 %r0, [%pa];
    movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r0;
    mad.wide.u32 %pd, %i, 4, %po; st.global.b32 [%pd], %r0;"""
    out = run(_kernel(body, 2), [np.zeros_like(matrix), matrix])[0]
    np.testing.assert_array_equal(out, matrix.T)


_FACTORS = [
    (shape, factor)
    for factor in ("f16", "bf16", "s8", "u8")
    for shape in ("m16n16k16", "m32n8k16", "m8n32k16")
] + [("m16n16k8", "tf32"), ("m8n8k4", "f64"), ("m8n8k32", "s4"), ("m8n8k32", "u4")]
_COUNTS = {  # registers of A and B (PTX ISA, "Matrix Fragments for WMMA")
    "f16": {"m16n16k16": (8, 8), "m32n8k16": (8, 8), "m8n32k16": (8, 8)},
    "bf16": {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)},
    "s8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "u8": {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)},
    "tf32": {"m16n16k8": (4, 4)},
    "f64": {"m8n8k4": (1, 1)},
    "s4": {"m8n8k32": (1, 1)},
    "u4": {"m8n8k32": (1, 1)},
    "b1": {"m8n8k128": (1, 1)},
}


def _in_memory(matrix: Array, layout: str, stride: int, bits: int) -> Array:
    """Return a matrix's bytes, with rows or columns ``stride`` elements apart."""
    lines = matrix if layout == "row" else matrix.T
    padded = np.zeros((lines.shape[0], stride), lines.dtype)
    padded[:, : lines.shape[1]] = lines
    if bits >= 8:
        return padded
    each = 8 // bits
    numbers = (padded.astype(np.int64) & ((1 << bits) - 1)).reshape(len(lines), -1, each)
    return (numbers << (bits * np.arange(each))).sum(axis=-1).astype(np.uint8)


def _wmma(shape: str, factor: str, totals: tuple[str, str], layouts: str, pad: int) -> None:
    """Check d = a x b + c; ``totals`` are the types of d and c, ``layouts`` r and c for a, b, c, d."""
    rows, columns, depth = map(int, shape[1:].replace("n", " ").replace("k", " ").split())
    dice = np.random.default_rng(depth + pad)
    sizes = {"a": (rows, depth), "b": (depth, columns), "c": (rows, columns), "d": (rows, columns)}
    types = {"a": factor, "b": factor, "c": totals[1], "d": totals[0]}
    matrices = {name: oracle.patterns(types[name], sizes[name], dice, True) for name in "abc"}
    matrices["d"] = np.zeros((rows, columns), oracle.NUMPY[totals[0]])
    words = {
        name: {"r": "row", "c": "col"}[word] for name, word in zip("abcd", layouts, strict=True)
    }
    strides = {name: sizes[name][words[name] == "row"] + pad for name in "abcd"}
    held = dict.fromkeys("abcd", "r")
    counts = dict(zip("ab", _COUNTS[factor][shape], strict=True))
    for name in "cd":
        counts[name] = rows * columns // 32 // (2 if types[name] == "f16" else 1)
        held[name] = {"f32": "f", "f64": "g"}.get(types[name], "r")
    if factor == "f64":
        held |= {"a": "g", "b": "g"}
    first = {"a": 0, "b": 8, "c": 16, "d": 24}
    first |= {name: 8 * (name == "d") for name in "cd" if held[name] == "f"}
    if factor == "f64":
        first = {"a": 0, "b": 1, "c": 2, "d": 4}
    names = {name: _vector(first[name], counts[name], held[name]) for name in "abcd"}
    body = [f"ld.param.u64 %p{name}, [p{place}];" for place, name in enumerate("dabc")]

    def stride(name: str) -> str:
        return f", {strides[name]}" if pad else ""

    for name in "abc":
        place = f"[%p{name}]{stride(name)}"
        word = f"wmma.load.{name}.sync.aligned.{words[name]}.{shape}.global.{types[name]}"
        body.append(f"{word} {names[name]}, {place};")
    spelled = ".".join(totals)
    if factor != "f16":
        spelled = f"{totals[0]}.{factor}.{factor}.{totals[1]}"
    word = f"wmma.mma.sync.aligned.{words['a']}.{words['b']}.{shape}.{spelled}"
    if factor == "b1":
        word = f"wmma.mma.and.popc.sync.aligned.row.col.{shape}.{spelled}"
    body.append(f"{word} {', '.join(names[name] for name in 'dabc')};")
    word = f"wmma.store.d.sync.aligned.{words['d']}.{shape}.{totals[0]}"
    body.append(f"{word} [%pd], {names['d']}{stride('d')};")
    bits = {name: oracle.bits_of(types[name]) for name in "abcd"}
    given = {n: _in_memory(matrices[n], words[n], strides[n], bits[n]) for n in "abcd"}
    out = run(_kernel("\n".join(body), 4), [given[name] for name in "dabc"])[0]
    x, y = oracle.values(matrices["a"], factor), oracle.values(matrices["b"], factor)
    if factor == "f64":
        want = x @ y + matrices["c"]
        have = out[:, : want.shape[1]] if words["d"] == "row" else out[:, : want.shape[0]].T
        np.testing.assert_allclose(have, want, rtol=1e-13, atol=1e-13)
        return
    if factor == "b1":
        x, y = x.astype(np.int64), y.astype(np.int64)
    if factor == "bf16":
        want = oracle.paired_product(x, y, matrices["c"])
    else:
        want = oracle.product(x, y, matrices["c"], "s32" if totals[0] == "s32" else "f32")
    want = want.astype(oracle.NUMPY[totals[0]])
    np.testing.assert_array_equal(out, _in_memory(want, words["d"], strides["d"], bits["d"]))


@pytest.mark.parametrize("layouts", ["rccr", "crrc"])
@pytest.mark.parametrize("pad", [0, 32])
@pytest.mark.parametrize(("shape", "factor"), _FACTORS)
def test_wmma(shape: str, factor: str, pad: int, layouts: str) -> None:
    if factor[1:] == "4":
        layouts = "rc" + layouts[2:]
    total = {"f16": "f32", "bf16": "f32", "tf32": "f32", "f64": "f64"}.get(factor, "s32")
    _wmma(shape, factor, (total, total), layouts, pad)


@pytest.mark.parametrize("totals", [("f16", "f16"), ("f32", "f16"), ("f16", "f32")])
@pytest.mark.parametrize("layouts", ["rrrr", "cccc"])
def test_wmma_with_halves_as_accumulators(totals: tuple[str, str], layouts: str) -> None:
    for shape in ("m16n16k16", "m32n8k16", "m8n32k16"):
        _wmma(shape, "f16", totals, layouts, 16)


def test_wmma_of_bits() -> None:
    _wmma("m8n8k128", "b1", ("s32", "s32"), "rcrc", 0)


def _compiles(statement: str) -> None:
    compile_verified(_kernel(statement, 1))


@pytest.mark.parametrize(
    "statement",
    [
        f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {_vector(0, 4, 'f')}, {_vector(0, 3)},"
        f" {_vector(4, 2)}, {_vector(4, 4, 'f')};",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r0}, [%s];",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0, %r1, %r2}, [%s];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r0}, [%pa];",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r0, [%s];",
        f"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {_vector(0, 4, 'f')}, {_vector(0, 2)},"
        f" %r2, {_vector(4, 4, 'f')};",
        f"wmma.load.a.sync.aligned.row.m16n16k16.f16 {_vector(0, 4)}, [%pa], %s;",
    ],
)
def test_refused(statement: str) -> None:
    with pytest.raises((InvalidPtxError, PtxSyntaxError)):
        _compiles(statement)


@pytest.mark.parametrize(
    "statement",
    [
        f"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16 {_vector(0, 8, 'f')}, {_vector(0, 2)},"
        f" {_vector(2, 2)}, {_vector(4, 4)};",
    ],
)
def test_not_supported_yet(statement: str) -> None:
    with pytest.raises(UnsupportedPtxError):
        _compiles(statement)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("80", f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {_FOUR} METADATA, 0;"),
        (
            "120a",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::mxf8f6f4.block_scale"
            f".f32.e2m1.e2m1.f32.ue8m0 {_FOUR} METADATA, 0, {{%r9}}, {{0, 0}}, {{%r10}}, {{0, 0}};",
        ),
        (
            "90a",
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}, %pa, %pb,"
            " METADATA, 0, 1, 1, 1, 0, 0;",
        ),
    ],
)
def test_metadata_of_sparse_products_may_have_braces(target: str, text: str) -> None:
    capability = (int(target.rstrip("a")) // 10, int(target.rstrip("a")) % 10)
    plain, braced = (
        compile_ptx(_file(target, text.replace("METADATA", spelled)), capability=capability)
        for spelled in ("%r8", "{%r8}")
    )
    assert braced.functions[0].code == plain.functions[0].code


def test_only_products_of_doubles_have_a_rounding() -> None:
    text = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.rn {_FOUR.replace(_B, '{%r4, %r5}')}"
    with pytest.raises(InvalidPtxError, match="rn"):
        compile_ptx(_file("80", text.rstrip(", ") + ";"), capability=(8, 0))


@pytest.mark.parametrize(
    "statement",
    [
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 %r8, [%r9];",
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], %r8;",
        "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%pa], 96;",
        "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%pa], 1024;",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 0;",
        "tcgen05.cp.cta_group::1.128x256b.b6x16_p32.b8x16 [%r8], %pa;",
        "tcgen05.cp.cta_group::1.b4x16_p64.128x256b.b8x16 [%r8], %pa;",
    ],
)
def test_operands_of_tensor_memory_that_are_refused(statement: str) -> None:
    with pytest.raises(InvalidPtxError):
        compile_ptx(_file("100a", statement), capability=(10, 0))


def test_formats_of_copies_to_tensor_memory_may_have_words_between() -> None:
    apart = "tcgen05.cp.cta_group::1.b8x16.128x256b.b6x16_p32 [%r8], %pa;"
    together = "tcgen05.cp.cta_group::1.128x256b.b8x16.b6x16_p32 [%r8], %pa;"
    codes = [
        compile_ptx(_file("100a", text), capability=(10, 0)).functions[0].code
        for text in (apart, together)
    ]
    assert codes[0] == codes[1]
