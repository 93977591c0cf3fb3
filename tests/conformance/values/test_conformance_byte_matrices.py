"""ldmatrix and stmatrix of bytes and of elements of 4 and 6 bits, and st.bulk, on both executors.

The expected places are those of CuTe's layouts, bit by bit: a thread and a value have a number, and
so has each bit of a row that a thread's address names.
"""

import numpy as np
import pytest

from support.execution.both_backends import compare
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.exec.errors import Trap

_BYTES, _LANES = 4, 32
_WORDS = 512


def _source(body: str) -> str:
    return f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 out)
{{
  .reg .b32 %t, %a, %r<4>; .reg .b64 %g, %o, %p, %n;
  .shared .align 16 .b8 own[2048];
  mov.u32 %t, %tid.x; ld.param.u64 %g, [given]; ld.param.u64 %o, [out];
  {body}
  ret;
}}
"""


_FILL = """mul.wide.u32 %p, %t, 64; add.u64 %g, %g, %p; mov.u32 %a, own; shl.b32 %r0, %t, 6;
  add.u32 %a, %a, %r0;
  """ + " ".join(
    f"ld.global.u32 %r1, [%g+{4 * n}]; st.shared.u32 [%a+{4 * n}], %r1;" for n in range(16)
)


def _run(body: str, data: bytes) -> np.ndarray:
    module = compile_verified(_source(body), (10, 0))
    found = compare(module, [data, bytes(4 * _WORDS)], (1, 1, 1), (_LANES, 1, 1), [None])
    return np.frombuffer(found[1], np.uint8)


def _bit(thread: tuple[int, int], byte: int, register: int, registers_stride: int) -> int:
    """Return the number of the first bit of a byte: strides of (4, 8) threads, then (2, 2) bytes."""
    t, g = thread
    return 256 * t + 8 * g + 128 * (byte % 2) + 64 * (byte // 2) + registers_stride * register


def _address_bits_of_load(row: int) -> int:
    """Return the number of the first bit of the row that a thread names: strides of (2, 2, 4, 2)."""
    return 128 * (row % 2) + 1024 * (row // 2 % 2) + 256 * (row // 4 % 4) + 2048 * (row // 16)


def _places_of_load(registers: int) -> list[tuple[int, int, int, int, int]]:
    rows = {_address_bits_of_load(row) + 8 * c: (row, c) for row in range(32) for c in range(16)}
    return [
        (lane, register, byte, *rows[_bit((lane % 4, lane // 4), byte, register, 1024)])
        for lane in range(_LANES)
        for register in range(registers)
        for byte in range(_BYTES)
    ]


def _element(row: bytes, column: int, width: int) -> int:
    return int.from_bytes(row, "little") >> width * column & ((1 << width) - 1)


@pytest.mark.parametrize("space", ["shared", "generic"])
@pytest.mark.parametrize(
    ("form", "width"), [("b8", 8), ("b8x16.b4x16_p64", 4), ("b8x16.b6x16_p32", 6)]
)
@pytest.mark.parametrize("count", [1, 2])
def test_square_matrices_are_loaded_transposed(
    space: str, form: str, width: int, count: int
) -> None:
    # The rows' addresses are 32 bytes apart and descend, so that each comes from its own lane.
    registers = ", ".join(f"%r{n}" for n in range(2 * count))
    where, word = ("%p", "") if space == "generic" else ("%a", ".shared")
    body = f"""{_FILL} bar.sync 0; sub.u32 %r0, 31, %t; shl.b32 %r0, %r0, 5;
      mov.u32 %a, own; add.u32 %a, %a, %r0; cvt.u64.u32 %p, %a; cvta.shared.u64 %p, %p;
      ldmatrix.sync.aligned.m16n16.x{count}.trans{word}.{form} {{{registers}}}, [{where}];
      mul.wide.u32 %p, %t, 16; add.u64 %o, %o, %p;
      """ + " ".join(f"st.global.u32 [%o+{4 * n}], %r{n};" for n in range(2 * count))
    data = np.random.default_rng(width).integers(0, 256, 2048, dtype=np.uint8).tobytes()
    got = _run(body, data)
    for lane, register, byte, row, column in _places_of_load(2 * count):
        at = 32 * (31 - row)
        assert got[16 * lane + 4 * register + byte] == _element(
            data[at : at + 16], column, width
        ), (lane, register, byte)


@pytest.mark.parametrize(("form", "width"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_narrow_rows_are_loaded_at_generic_addresses(form: str, width: int) -> None:
    body = f"""{_FILL} bar.sync 0; shl.b32 %r0, %t, 4; mov.u32 %a, own; add.u32 %a, %a, %r0;
      cvt.u64.u32 %p, %a; cvta.shared.u64 %p, %p;
      ldmatrix.sync.aligned.m8n16.x2.b8x16.{form} {{%r0, %r1}}, [%p];
      mul.wide.u32 %p, %t, 16; add.u64 %o, %o, %p;
      st.global.u32 [%o], %r0; st.global.u32 [%o+4], %r1;"""
    data = np.random.default_rng(width).integers(0, 256, 2048, dtype=np.uint8).tobytes()
    got = _run(body, data)
    for lane in range(_LANES):
        for matrix in range(2):
            at = 16 * (8 * matrix + lane // 4)
            for byte in range(_BYTES):
                column = 4 * (lane % 4) + byte
                expected = _element(data[at : at + 16], column, width)
                assert got[16 * lane + 4 * matrix + byte] == expected, (lane, matrix, byte)


@pytest.mark.parametrize("space", ["shared", "generic"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_bytes_are_stored_transposed(space: str, count: int) -> None:
    where, word = ("%p", "") if space == "generic" else ("%a", ".shared")
    registers = ", ".join(f"%r{n}" for n in range(count))
    read = " ".join(f"ld.global.u32 %r{n}, [%g+{4 * n}];" for n in range(4))
    copy = " ".join(
        f"ld.shared.u32 %r0, [%a+{4 * n}]; st.global.u32 [%o+{4 * n}], %r0;" for n in range(4)
    )
    body = f"""mul.wide.u32 %p, %t, 16; add.u64 %g, %g, %p; add.u64 %o, %o, %p; {read}
      shl.b32 %a, %t, 4; mov.u32 %r3, own; add.u32 %a, %a, %r3; ld.global.u32 %r3, [%g+12];
      st.shared.u64 [%a], 0; st.shared.u64 [%a+8], 0; bar.sync 0;
      cvt.u64.u32 %p, %a; cvta.shared.u64 %p, %p;
      stmatrix.sync.aligned.m16n8.x{count}.trans{word}.b8 [{where}], {{{registers}}};
      bar.sync 0; {copy}"""
    data = np.random.default_rng(count).integers(0, 256, 2048, dtype=np.uint8).tobytes()
    got = _run(body, data)
    expected = np.zeros(512, np.uint8)
    for lane in range(_LANES):
        for register in range(count):
            for byte in range(_BYTES):
                first = _bit((lane % 4, lane // 4), byte, register, 1024)
                expected[first // 8] = data[16 * lane + 4 * register + byte]
    assert got[:512].tolist() == expected.tolist()
    assert expected[128 * (count - 1) : 128 * count].any()


@pytest.mark.parametrize("form", ["st.bulk.weak.shared::cta [%a]", "st.bulk [%p]"])
@pytest.mark.parametrize("size", [0, 8, 1000])
def test_bulk_stores_write_zeros(form: str, size: int) -> None:
    body = f"""{_FILL} bar.sync 0; setp.ne.u32 %first, %t, 0; @%first bra DONE;
      mov.u32 %a, own; add.u32 %a, %a, 16; cvt.u64.u32 %p, %a; cvta.shared.u64 %p, %p;
      mov.u64 %n, {size}; {form}, %n, 0;
    DONE: bar.sync 0; mul.wide.u32 %p, %t, 64; add.u64 %o, %o, %p; mov.u32 %a, own;
      shl.b32 %r0, %t, 6; add.u32 %a, %a, %r0; """ + " ".join(
        f"ld.shared.u32 %r1, [%a+{4 * n}]; st.global.u32 [%o+{4 * n}], %r1;" for n in range(16)
    )
    body = ".reg .pred %first;" + body
    data = np.random.default_rng(size).integers(1, 256, 2048, dtype=np.uint8).tobytes()
    got = _run(body, data).tobytes()
    assert got == data[:16] + bytes(size) + data[16 + size :]


@pytest.mark.parametrize("size", [4, (16 << 20) + 8, 1 << 40])
def test_bulk_stores_of_an_illegal_size_end_the_kernel(size: int) -> None:
    body = f"mov.u32 %a, own; mov.u64 %n, {size}; st.bulk.shared::cta [%a], %n, 0;"
    module = compile_verified(_source(body), (10, 0))
    with pytest.raises(Trap):
        compare(module, [bytes(64), bytes(64)], (1, 1, 1), (1, 1, 1), [None])
