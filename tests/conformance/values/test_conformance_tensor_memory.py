"""tcgen05: allocation, accesses of each shape, copies, and what is refused or ends the kernel."""

from contextlib import closing

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.interpreted_ptx import compile_verified
from support.kernels.tensor_memory import (
    THREADS,
    Runs,
    check_hostile_words,
    end_well,
    module_of,
    source,
)
from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError, UnsupportedPtxError
from vgpu_sim.isa import TrapCause

_MMA = "tcgen05.mma.cta_group::1.kind::f16 [%d], %x1, %x2, %idesc, %p;"
_LEGAL = 1 << 4 | 2 << 17 | 8 << 24  # 128 x 16 x 16, f16 to f32
_DESCRIPTOR = 1 << 46 | 8 << 16 | 8 << 32
_MIXES = 0x9E3779B1  # a product with it has bits everywhere


def _list(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{n}" for n in range(first, first + count)) + "}"


def _place(shape: str, thread: int, register: int) -> tuple[int, int]:
    """Return the lane and column of a register, by the figures of PTX ISA."""
    if shape == "32x32b":
        return thread, register
    if shape == "16x64b":
        return thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2
    if shape == "16x128b":
        return thread // 4 + 8 * (register % 2), register // 2 * 4 + thread % 4
    inside = register % 4
    column = register // 4 * 8 + 2 * (thread % 4) + inside % 2
    return thread // 4 + 8 * (inside // 2), column


_COUNTS = {"32x32b": 16, "16x64b": 8, "16x128b": 4, "16x256b": 2}
_REGISTERS = {"32x32b": 16, "16x64b": 8, "16x128b": 8, "16x256b": 8}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", list(_COUNTS))
def test_shapes(shape: str, packed: bool) -> None:
    """Loads of a shape, of words that 32x32b stored, and of those that the shape stored."""
    count, number = _COUNTS[shape], _REGISTERS[shape]
    second = "" if shape == "32x32b" else "add.u32 %s, %own, 0x100000;"
    at = "%own" if shape == "32x32b" else "%s"
    load, store = (".pack::16b", ".unpack::16b") if packed else ("", "")
    fill = "".join(
        f"mad.lo.u32 %r{n}, %i, 64, {n}; mul.lo.u32 %r{n}, %r{n}, 0x9e3779b1;" for n in range(32)
    )
    body = f"""
      {fill} {second}
      tcgen05.st.sync.aligned.32x32b.x32.b32 [%own], {_list(0, 32)};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.{shape}.x{count}{load}.b32 {_list(100, number)}, [{at}];
      tcgen05.wait::ld.sync.aligned;
      tcgen05.st.sync.aligned.{shape}.x{count}{store}.b32 [{at}+32], {_list(100, number)};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x64.b32 {_list(160, 64)}, [%own];
      mad.wide.u32 %out, %i, 512, %out;
    """
    body += "".join(f"st.global.b32 [%out+{4 * n}], %r{100 + n};" for n in range(number))
    body += "".join(f"st.global.b32 [%out+{256 + 4 * n}], %r{160 + n};" for n in range(64))
    with closing(Runs(module_of(body), 512 * THREADS)) as runs:
        found, native = runs.interpret(), runs.execute()
    assert found is not None
    assert native is not None
    np.testing.assert_array_equal(native, found)
    have = found.reshape(THREADS, 128)
    thread, column = np.arange(THREADS)[:, None], np.arange(64)
    stored = ((thread * 64 + column) * 0x9E3779B1 & 0xFFFF_FFFF).astype(np.uint32)
    expected = np.where(column < 32, stored, 0).astype(np.uint32)
    for i in range(THREADS):
        for n in range(number):
            lane, column_ = _place(shape, i % 32, n)
            lane += i // 32 * 32 + (0 if shape == "32x32b" else 16)
            if packed:
                low, high = (int(stored[lane, 2 * column_ + odd]) & 0xFFFF for odd in range(2))
                assert have[i, n] == low | high << 16
                expected[lane, 32 + 2 * column_ : 34 + 2 * column_] = low, high
            else:
                assert have[i, n] == stored[lane, column_]
                expected[lane, 32 + column_] = stored[lane, column_]
    np.testing.assert_array_equal(have[:, 64:], expected)


def test_halves_of_the_warp_at_two_columns() -> None:
    body = (
        """
      add.u32 %r0, %i, 1000; add.u32 %r1, %i, 2000;
      tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%own], 7, {%r0, %r1};
      tcgen05.wait::st.sync.aligned;
      tcgen05.ld.sync.aligned.32x32b.x16.b32 """
        + f"{_list(16, 16)}, [%own];"
    )
    body += "mad.wide.u32 %out, %i, 64, %out;"
    body += "".join(f"st.global.b32 [%out+{4 * n}], %r{16 + n};" for n in range(16))
    with closing(Runs(module_of(body), 64 * THREADS)) as runs:
        found, native = runs.interpret(), runs.execute()
    expected = np.zeros((THREADS, 16), np.uint32)
    for i in range(THREADS):
        lane, first = i // 32 * 32 + i % 16, 7 * (i % 32 // 16)
        expected[lane, first : first + 2] = 1000 + i, 2000 + i
    for one in (found, native):
        np.testing.assert_array_equal(one, expected.reshape(-1))


def _widened(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Return rows of 16 bytes, of 16 elements of ``bits`` from their first bit on, as bytes: four
    bits are in the middle of a byte, six at its low end.
    """
    found = np.zeros((len(words), 16), np.uint8)
    for row, data in zip(found, words, strict=True):
        number = int.from_bytes(data.tobytes(), "little")
        row[:] = [(number >> bits * n & (1 << bits) - 1) << (6 - bits) for n in range(16)]
    return found.view(np.uint32)


@pytest.mark.parametrize(
    ("formats", "bits"), [("", 8), (".b8x16.b4x16_p64", 4), (".b8x16.b6x16_p32", 6)]
)
@pytest.mark.parametrize(
    ("shape", "rows", "chunks", "quarters"),
    [
        ("128x256b", 128, 2, (0, 1, 2, 3)),
        ("128x128b", 128, 1, (0, 1, 2, 3)),
        ("64x128b.warpx2::02_13", 64, 1, (0, 1, 0, 1)),
        ("64x128b.warpx2::01_23", 64, 1, (0, 0, 1, 1)),
        ("32x128b.warpx4", 32, 1, (0, 0, 0, 0)),
    ],
)
def test_copies(
    shape: str, rows: int, chunks: int, quarters: tuple[int, ...], formats: str, bits: int
) -> None:
    """Rows of 16 bytes: those of the second chunk follow after all rows of the first."""
    fill = "".join(
        f"mad.lo.u32 %r{n}, %i, 8, {n}; mul.lo.u32 %r{n}, %r{n}, {_MIXES}; mad.lo.u32 %s, %i, 32, {4 * n};"
        f" mov.u32 %r9, tile; add.u32 %s, %s, %r9; st.shared.b32 [%s], %r{n};"
        for n in range(8)
    )
    body = f"""
      {fill} bar.sync 0;
      @%first tcgen05.cp.cta_group::1.{shape}{formats} [%ta], %x1;
      bar.sync 0;
      tcgen05.ld.sync.aligned.32x32b.x8.b32 {_list(16, 8)}, [%own];
      mad.wide.u32 %out, %i, 32, %out;
    """
    body += "".join(f"st.global.b32 [%out+{4 * n}], %r{16 + n};" for n in range(8))
    descriptor = 1 << 46 | 8 << 32 | (16 * rows >> 4) << 16
    with closing(Runs(module_of(body), 32 * THREADS)) as runs:
        found, native = runs.interpret(descriptor), runs.execute(descriptor)
    tile = np.arange(THREADS * 8, dtype=np.uint32) * np.uint32(_MIXES)
    if formats:
        tile = _widened(tile.reshape(-1, 4), bits).reshape(-1)
    expected = np.zeros((THREADS, 8), np.uint32)
    for lane in range(THREADS):
        row = quarters[lane // 32] * 32 + lane % 32
        for chunk in range(chunks):
            at = 4 * (row + rows * chunk)
            expected[lane, 4 * chunk : 4 * chunk + 4] = tile[at : at + 4]
    for one in (found, native):
        np.testing.assert_array_equal(one, expected.reshape(-1))


def test_a_copy_of_four_rows() -> None:
    """Each row is 32 bytes, of the first lane of a quarter."""
    body = f"""
      mov.u32 %r9, tile; mad.lo.u32 %s, %i, 4, %r9; st.shared.b32 [%s], %i; bar.sync 0;
      @%first tcgen05.cp.cta_group::1.4x256b [%ta], %x1;
      bar.sync 0;
      tcgen05.ld.sync.aligned.32x32b.x8.b32 {_list(16, 8)}, [%own];
      mad.wide.u32 %out, %i, 32, %out;
    """
    body += "".join(f"st.global.b32 [%out+{4 * n}], %r{16 + n};" for n in range(8))
    descriptor = 1 << 46 | 8 << 32 | 4 << 16
    with closing(Runs(module_of(body), 32 * THREADS)) as runs:
        found, native = runs.interpret(descriptor), runs.execute(descriptor)
    expected = np.zeros((THREADS, 8), np.uint32)
    for row in range(4):
        expected[32 * row] = [4 * row + n % 4 + 16 * (n // 4) for n in range(8)]
    for one in (found, native):
        np.testing.assert_array_equal(one, expected.reshape(-1))


def test_a_shift_moves_the_rows_of_one_quarter() -> None:
    """Eight columns of 31 lanes go to the next lane; the first lane keeps its words."""
    body = f"""
      add.u32 %r0, %i, 1000;
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%own+7], {{%r0}};
      tcgen05.st.sync.aligned.32x32b.x1.b32 [%own+8], {{%r0}};
      tcgen05.wait::st.sync.aligned; bar.sync 0;
      add.u32 %r1, %ta, 0x200000;
      @%first tcgen05.shift.down.cta_group::1 [%r1];
      bar.sync 0;
      tcgen05.ld.sync.aligned.32x32b.x2.b32 {_list(16, 2)}, [%own+7];
      mad.wide.u32 %out, %i, 8, %out; st.global.v2.b32 [%out], {_list(16, 2)};
    """
    with closing(Runs(module_of(body), 8 * THREADS)) as runs:
        found, native = runs.interpret(), runs.execute()
    lane = np.arange(THREADS, dtype=np.uint32)
    shifted = np.where((lane > 32) & (lane < 64), lane - 1, lane)
    expected = np.stack([shifted + 1000, lane + 1000], 1).astype(np.uint32)
    for one in (found, native):
        np.testing.assert_array_equal(one, expected.reshape(-1))


_DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
_ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s],"
_LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0},"


@pytest.mark.parametrize(
    ("body", "ends_well"),
    [
        (f"{_LD} [%own+63];", True),
        (f"{_LD} [%own+64];", False),
        (f"{_LD} [%own+511];", False),
        (f"{_LD} [%ta];", False),  # lanes of warp 0, from all warps
        (f"add.u32 %own, %own, 0x10000; {_LD} [%own];", False),
        ("tcgen05.st.sync.aligned.16x64b.x32.b32 [%own], " + _list(0, 32) + ";", True),
        (f"@%w0 {_DEALLOC} %ta, 64;", True),
        (f"@%w0 {_DEALLOC} %ta, 32;", False),
        (f"@%w0 {_DEALLOC} %ta, 64; @%w0 {_DEALLOC} %ta, 64;", False),
        (f"@%w0 {_DEALLOC} %ta, 64; bar.sync 0; {_LD} [%own];", False),
        (f"@%w0 {_ALLOC} 256; @%w0 {_ALLOC} 128; @%w0 {_ALLOC} 64;", True),
        (f"mov.b32 %r0, 48; @%w0 {_ALLOC} %r0;", False),
        ("@%first tcgen05.shift.cta_group::1.down [%ta+56];", True),
        ("@%first tcgen05.shift.cta_group::1.down [%ta+57];", False),
        ("add.u32 %s, %ta, 0x100000; @%first tcgen05.shift.cta_group::1.down [%s];", False),
        ("add.u32 %s, %ta, 0x800000; @%first tcgen05.shift.cta_group::1.down [%s];", False),
        (f"mov.b32 %r0, 16; @%w0 {_ALLOC} %r0;", False),
        (f"mov.b32 %r0, 1024; @%w0 {_ALLOC} %r0;", False),
        (f"@%w0 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; @%w0 {_ALLOC} 32;",
         False),
    ],
)  # fmt: skip
def test_what_ends_the_kernel(body: str, ends_well: bool) -> None:
    with closing(Runs(module_of(body), 64)) as runs:
        found = [runs.interpret() is not None, runs.execute() is not None]
    assert found == [ends_well] * 2


def test_an_allocation_waits_for_columns() -> None:
    """Warp 1 waits for all columns, until warp 0 has freed its own."""
    body = f"""
      setp.eq.u32 %p, %warp, 1;
      @%p {_ALLOC} 512;
      @%w0 nanosleep.u32 1000; @%w0 {_DEALLOC} %ta, 64;
      bar.sync 0; st.global.b32 [%out], 5;
    """
    with closing(Runs(module_of(body), 64)) as runs:
        for found in (runs.interpret(), runs.execute()):
            assert found is not None
            assert found[0] == 5


@pytest.mark.parametrize(
    ("words", "ends_well"),
    [
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 0), True),
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL | 4, 0), False),  # sparse
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL | 1 << 7, 0), False),  # f16 x bf16
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL & ~(63 << 17), 0), False),  # no columns
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL | 1 << 17, 0), False),  # 24 columns of 128 rows
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL + (1 << 24), 0), False),  # 144 rows
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 49), False),  # columns 49 to 64
        ((_DESCRIPTOR, _DESCRIPTOR, _LEGAL, 0x100000), False),  # lane 16
        ((1 << 62, _DESCRIPTOR, _LEGAL, 0), False),  # a descriptor of wgmma
        ((_DESCRIPTOR | 3 << 61, _DESCRIPTOR, _LEGAL, 0), False),  # no swizzle mode
        ((_DESCRIPTOR | 0x3FFF, _DESCRIPTOR, _LEGAL, 0), False),  # outside shared memory
        ((_DESCRIPTOR, _DESCRIPTOR | 0x3FFF << 32, _LEGAL, 0), False),
    ],
)
def test_descriptors_that_end_the_kernel(words: tuple[int, ...], ends_well: bool) -> None:
    assert end_well(module_of(f"@%first {_MMA}"), words) == [ends_well] * 2


def test_hostile_descriptors_end_only_the_kernel() -> None:
    """TESSERA_HOSTILE_TENSORS sets how many."""
    module = module_of(f"@%first {_MMA}")
    check_hostile_words(module, _DESCRIPTOR, _LEGAL, seed=11, count=400)


_SPARSE = _LEGAL | 4


@pytest.mark.parametrize(
    ("statement", "idesc", "metadata", "ends_well"),
    [
        ("kind::f16 [%d], %x1, %x2, [%meta], %idesc, %p;", _SPARSE | 3, 60, True),
        ("kind::f16 [%d], %x1, %x2, [%meta], %idesc, %p;", _SPARSE, 64, False),  # column 64
        ("kind::f16 [%d], %x1, %x2, [%meta], %idesc, %p;", _SPARSE, 0x100000, False),  # lane 16
        ("kind::f16 [%d], %x1, %x2, [%meta], %idesc, %p;", _LEGAL, 0, False),  # dense
        ("kind::i8 [%d], %x1, %x2, [%meta], %idesc, %p;", _SPARSE | 2 << 4, 62, False),
        ("kind::i8 [%d], %x1, %x2, [%meta], %idesc, %p;", (_SPARSE | 2 << 4) & ~16, 62, True),
        ("kind::i8 [%d], %x1, %x2, [%meta], %idesc, %p;", (_SPARSE | 2 << 4) & ~16, 63, False),
        ("kind::i8 [%d], %x1, %x2, [%meta], %idesc, %p;", (_SPARSE | 2 << 4 | 1) & ~16, 0, False),
    ],
)
def test_metadata_that_ends_the_kernel(
    statement: str, idesc: int, metadata: int, ends_well: bool
) -> None:
    body = f"add.u32 %s, %ta, {metadata}; @%first tcgen05.mma.sp.cta_group::1.{statement}"
    module = module_of(body.replace("%meta", "%s"))
    assert end_well(module, (_DESCRIPTOR, _DESCRIPTOR, idesc, 0)) == [ends_well] * 2


@pytest.mark.parametrize(
    ("idesc", "cause"), [(8, TrapCause.TENSOR_SATURATION), (64, TrapCause.TENSOR_OPERAND)]
)
def test_saturation_ends_the_kernel_by_a_cause_of_its_own(idesc: int, cause: TrapCause) -> None:
    module = module_of(f"@%first {_MMA.replace('kind::f16', 'kind::i8')}")
    integers = (_LEGAL | 2 << 4) & ~16
    assert end_well(module, (_DESCRIPTOR, _DESCRIPTOR, integers, 0)) == [True] * 2
    words = _DESCRIPTOR, _DESCRIPTOR, integers | idesc, 0
    assert end_well(module, words) == [False] * 2
    with closing(Runs(module, 64)) as runs:
        assert runs.cause_of_trap(*words) is cause


_INTEGERS = _MMA.replace("kind::f16", "kind::i8").replace("%idesc", "%r0")


@pytest.mark.parametrize(
    "body",
    [
        _INTEGERS.replace("%r0", "8"),
        f"mov.b32 %r0, 8; {_INTEGERS}",
        f"@%first mov.u32 %r0, 24; again: {{ {_INTEGERS} }} @%w0 bra again;",
    ],
)
def test_saturation_in_a_constant_descriptor_is_refused(body: str) -> None:
    with pytest.raises(UnsupportedPtxError, match=r"i8 with bit 3 \(saturation\)"):
        module_of(body)


def test_saturation_in_a_constant_descriptor_of_a_function_is_refused() -> None:
    function = f"""
      .func f() {{
        .reg .b32 %d, %r0; .reg .b64 %x1, %x2; .reg .pred %p; mov.b32 %r0, 8; {_INTEGERS} ret;
      }}
    """
    with pytest.raises(UnsupportedPtxError, match=r"i8 with bit 3 \(saturation\)"):
        compile_verified(source("call f;").replace(".visible", f"{function} .visible", 1), (10, 0))


@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %r0, 16;",
        "mov.b32 %r0, 8; @%w0 mov.b32 %r0, 16;",
        "mov.b32 %r0, 8; mov.b64 {%r0, %r1}, %x1;",
        "mov.b32 %r1, 8; xor.b32 %r0, %r1, 24;",
    ],
)
def test_a_descriptor_that_may_be_another_value_is_tested_later(body: str) -> None:
    module_of(f"{body} {_INTEGERS}")


@pytest.mark.parametrize(
    ("zeros", "ends_well"), [(1 << 39, True), (1 << 36, False), (1 << 56, False)]
)
def test_zero_columns_that_end_the_kernel(zeros: int, ends_well: bool) -> None:
    statement = _MMA.replace(".cta", ".ws.cta").replace("%p;", f"%p, {zeros};")
    words = _DESCRIPTOR, _DESCRIPTOR, _LEGAL & ~(63 << 17) | 8 << 17, 0
    assert end_well(module_of(f"@%first {statement}"), words) == [ends_well] * 2


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        (_MMA.replace("kind::f16", "kind::i8").replace("%p;", "%p, 3;"), "scale-input-d exists"),
        (_MMA.replace("group::1", "group::2"), r"tcgen05 of \.cta_group::1 and \.cta_group::2"),
        (_MMA.replace("%p;", "%p, 16;"), "from 0 to 15"),
        (_MMA.replace("f16", "f16.ashift"), "only for A in tensor memory"),
        (
            _MMA.replace("f16 [%d], %x1", "f16.ashift.collector::a::use [%d], [%ta]"),
            r"\.ashift does not take",
        ),
        ("tcgen05.ld.sync.aligned.16x256b.x64.b32 %r0, [%own];", "more than 128 registers"),
        ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r0}, [%own];", "vector of 2 registers"),
    ],
)
def test_refused(statement: str, reason: str) -> None:
    with pytest.raises((InvalidPtxError, PtxSyntaxError), match=reason):
        module_of(statement)


@pytest.mark.parametrize(
    ("target", "capability"), [("sm_100", (10, 0)), ("sm_90a", (9, 0)), ("sm_120a", (12, 0))]
)
def test_other_targets_have_no_tensor_memory(target: str, capability: tuple[int, int]) -> None:
    with pytest.raises(InvalidPtxError, match=r"needs \.target"):
        module_of(_MMA, target, capability)
