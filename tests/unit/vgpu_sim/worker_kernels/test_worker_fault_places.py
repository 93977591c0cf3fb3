"""The place of a fault: the source line of a PTX line, and the thread of native code."""

import ctypes
import struct
from dataclasses import replace

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.hal.compute.abi import MESSAGE_BYTES, PTX_TEXT_BYTES, FaultKind
from vgpu_sim.hal.compute.ports import FaultedLaunch, FaultSite, NativeFault
from vgpu_sim.isa import EFFECTS
from vgpu_sim.worker.backends import jit_threads
from vgpu_sim.worker.faults import fault_detail, source_places

TEXT = """.version 8.0
.file 7 "other.cu" 1234, 99
.visible .entry first()
{
  mov.u32 %r1, 1;
  .loc 7 10 3
  /* .loc 7 11 1
     .loc 7 12 1 */
  mov.u32 %r1, 2; // .loc 7 13 1
  .loc\t1 20 0, function_name $L1, inlined_at 7 30 4
  mov.u32 %r1, 3;
  .loc 1 0 0
  mov.u32 %r1, 4;
  .loc 9 1 1
  mov.u32 %r1, 5;
}
.func second()
{
  mov.u32 %r1, 6;
}
\t.file\t1 "a b.cu"
"""


@pytest.mark.parametrize(
    ("statement", "source"),
    [
        ("1;", ""),
        ("2;", "other.cu:10:3"),
        ("3;", "a b.cu:20, inlined at other.cu:30:4"),
        ("4;", ""),
        ("5;", "file 9:1:1"),
        ("6;", ""),
    ],
)
def test_a_line_belongs_to_the_location_above_it(statement: str, source: str) -> None:
    (line,) = (n for n, text in enumerate(TEXT.split("\n"), 1) if f"%r1, {statement}" in text)
    found = source_places.add_source(FaultSite("first", line, "what"), TEXT)
    assert found.source == source
    assert found.text.startswith(f"mov.u32 %r1, {statement}")


@pytest.mark.parametrize("line", [-1, 0, 100])
def test_a_line_that_is_none_has_no_place(line: int) -> None:
    site = FaultSite("first", line, "what")
    assert source_places.add_source(site, TEXT) == site


@pytest.mark.parametrize("above", ["// src/*.cu", '.file 2 "src/*.cu"'])
def test_a_comment_does_not_begin_in_another_or_in_a_string(above: str) -> None:
    text = f'.file 1 "a.cu"\n{above}\n.loc 1 5 1\nmov.u32 %r1, 1; /* one */\n'
    found = source_places.add_source(FaultSite("f", 4, "what"), text)
    assert (found.source, found.text) == ("a.cu:5:1", "mov.u32 %r1, 1;")


def test_what_a_client_reads_is_bounded_and_printable() -> None:
    name = "\x1b[31m" + "é" * 1000
    text = f'.file 1 "{name}"\n.loc 1 5 1\n' + "mov.u32 \x07 %r1, 1; " * 100
    found = source_places.add_source(FaultSite("f", 3, "what"), text)
    assert "\x1b" not in found.source
    assert "\x07" not in found.text
    detail = fault_detail.record(found, (2, 3, 4))
    assert len(detail.source) < MESSAGE_BYTES
    assert len(detail.text) < PTX_TEXT_BYTES
    assert detail.source.decode().endswith("...")  # whole characters


KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .b64 %rd<6>; .reg .b32 %r<9>; .reg .pred %p<3>; .reg .f32 %f<3>;
    .shared .b32 tile[64];
    ld.param.u64 %rd0, [p];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
BODY
OUT:
    ret;
}
"""
GUARDED = """
    setp.ge.u32 %p1, %r4, %r0;
    @%p1 bra OUT;
    mul.wide.u32 %rd1, %r4, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
"""
LOOPED = """
    mov.u32 %r5, 0;
AGAIN:
    mad.lo.u32 %r6, %r5, 64, %r3;
    mul.wide.u32 %rd1, %r6, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p1, %r5, 100;
    @%p1 bra AGAIN;
"""
FROM_THE_TOP = """
    mul.wide.u32 %rd1, %r5, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
    add.u32 %r5, %r5, 8;
    bra TOP;
"""
TRAPPED = """
    setp.eq.u32 %p1, %r3, 0;
    @!%p1 bra ON;
    trap;
ON:
"""
LOADED = """
    mul.wide.u32 %rd1, %r3, 4;
    add.u64 %rd2, %rd0, %rd1;
    ld.global.u32 %r5, [%rd2];
    mul.wide.u32 %rd3, %r5, 4;
    add.u64 %rd4, %rd0, %rd3;
    st.global.u32 [%rd4], %r4;
"""
FROM_SHARED = """
    ld.shared.u32 %r5, [tile];
    mul.wide.u32 %rd1, %r5, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
"""
FROM_FLOAT = """
    cvt.rn.f32.u32 %f1, %r3;
    cvt.rzi.u32.f32 %r5, %f1;
    mul.wide.u32 %rd1, %r5, 4096;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
"""
DATA = (ctypes.c_uint32 * 64)(*range(64))


def find(
    body: str,
    at: int | None,
    n: int = 64,
    block: int = 0,
    kind=FaultKind.ADDRESS,
    p=None,
    kernel: str = KERNEL,
    **others,
):
    """Search the thread that accesses byte ``at`` of the data.

    ``others`` are fields of the fault.
    """
    text = kernel.replace("BODY", body)
    if body == FROM_THE_TOP:  # a jump to the first instruction, and nothing after it
        text = text.replace("    ld.param.u64", "TOP:\n    ld.param.u64").replace("    ret;", "")
    module = compile_ptx(text, capability=(8, 0))
    function = module.function("k")
    begin = ctypes.addressof(DATA)
    words = [
        word
        for word, one in enumerate(function.code)
        if EFFECTS[one.op].writes and not EFFECTS[one.op].stops
    ]
    fault = NativeFault(
        pc=1,
        kind=kind,
        address=0 if at is None else begin + at,
        parameters=struct.pack("<QI", begin if p is None else p, n).ljust(64, b"\0"),
        mapped=((begin, ctypes.sizeof(DATA)),),
        aperture_base=begin - begin % (1 << 20),
        launch=FaultedLaunch((8, 1, 1), (64, 1, 1), block, 0, 0, 16, 0),
    )
    found = jit_threads.find(module, function, words, replace(fault, **others))
    return None if found is None else (found.thread, found.address - begin)


def test_the_thread_is_the_one_whose_access_holds_the_address() -> None:
    assert find(GUARDED, 4 * 70, n=100, block=1) == ((6, 0, 0), 280)
    assert find(GUARDED, 4 * 99 + 3, n=100, block=1) == ((35, 0, 0), 396)
    assert find(LOOPED, 4 * (64 * 5 + 9)) is None  # that thread faulted four iterations earlier
    assert find(LOOPED, 4 * (64 + 9)) == ((9, 0, 0), 292)


def test_no_thread_is_named_that_does_not_get_there() -> None:
    assert find(GUARDED, 4 * 100, n=100, block=1) is None  # others fault, but elsewhere
    assert find(GUARDED, 4 * 70, n=64, block=1) is None  # none passes the comparison
    assert find(GUARDED, 4 * 70, n=64, block=0) is None  # none faults


def test_a_jump_to_the_first_word_is_followed() -> None:
    assert find(FROM_THE_TOP, 4 * 64) == ((0, 0, 0), 256)


def test_a_thread_that_traps_elsewhere_is_not_followed_further() -> None:
    assert find(TRAPPED + GUARDED, 4 * 70, n=100, block=1) == ((6, 0, 0), 280)
    assert find(TRAPPED + GUARDED, 4 * 64, n=100, block=1) is None  # thread 0 has ended


def test_an_address_that_the_machine_lost_is_found_again() -> None:
    begin = ctypes.addressof(DATA)
    assert find(GUARDED, None, block=2, n=1000, p=0) == ((0, 0, 0), 512 - begin)


def test_loaded_values_count_and_unknown_ones_identify_no_thread() -> None:
    DATA[13] = 9999
    try:
        assert find(LOADED, 4 * 9999) == ((13, 0, 0), 4 * 9999)
    finally:
        DATA[13] = 13
    assert find(FROM_SHARED, 4 * 9999) is None
    assert find(FROM_FLOAT, 4096 * 5) is None


def test_a_misaligned_access_is_found_by_its_alignment() -> None:
    begin = ctypes.addressof(DATA)
    assert find(GUARDED, 2, kind=FaultKind.MISALIGNED, p=begin + 2) == ((0, 0, 0), 2)


PAIRS = """
    mul.wide.u32 %rd1, %r3, 8;
    add.u64 %rd2, %rd0, %rd1;
    st.global.v2.u32 [%rd2], {%r4, %r4};
"""
TILE = """
    mul.lo.u32 %r5, %r3, 8;
    st.shared.v2.u32 [%r5], {%r4, %r4};
"""


@pytest.mark.parametrize(
    ("pieces", "thread"),
    [
        ([(0, 256)], 32),
        ([(0, 257)], 32),
        ([(0, 264)], 33),
        ([(0, 255)], 31),
        ([(0, 252)], 31),
        ([(0, 248)], 31),
        ([(0, 100), (100, 156)], 32),
        ([(100, 156), (0, 100)], 32),
        ([(0, 101), (100, 156)], 32),
        ([(0, 100), (101, 155)], 12),
        ([(0, 100), (104, 152)], 12),
        ([(4, 252)], 0),
        ([], 0),
    ],
)
def test_an_access_is_right_if_pieces_of_memory_hold_all_of_it(
    pieces: list[tuple[int, int]], thread: int
) -> None:
    """Thread i stores eight bytes at 8 i; the first store that is not entirely in memory has
    faulted.
    """
    begin = ctypes.addressof(DATA)
    mapped = tuple((begin + at, size) for at, size in pieces)
    assert find(PAIRS, None, mapped=mapped) == ((thread, 0, 0), 8 * thread)
    assert find(PAIRS, 8 * thread, mapped=mapped) == ((thread, 0, 0), 8 * thread)


@pytest.mark.parametrize(
    ("room", "thread"), [(256, 32), (257, 32), (255, 31), (249, 31), (248, 31), (264, 33), (0, 0)]
)
def test_an_access_to_shared_memory_is_right_if_the_block_has_all_of_it(
    room: int, thread: int
) -> None:
    at = 8 * thread - ctypes.addressof(DATA)  # addresses of shared memory count from 0
    assert find(TILE, at, shared=True, shared_bytes=room) == ((thread, 0, 0), at)
    assert find(TILE, at - 8, shared=True, shared_bytes=room) is None
    assert find(TILE, at + 7, shared=True, shared_bytes=room) == ((thread, 0, 0), at)


ROUND = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .b64 %rd<6>; .reg .b32 %r<9>;
AGAIN:
    ld.param.u64 %rd0, [p];
    mad.lo.u32 %r5, %r6, 1024, %r3;
    mov.u32 %r3, %tid.x;
    mul.wide.u32 %rd1, %r5, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r4;
    add.u32 %r6, %r6, 1;
    bra AGAIN;
}
"""


def test_a_branch_to_the_first_instruction_is_followed() -> None:
    assert find("", 4 * (1024 + 5), kernel=ROUND) == ((5, 0, 0), 4 * (1024 + 5))


def test_a_thread_that_traps_ends_there() -> None:
    """No instruction may follow a trap, and the thread must not be followed to one that does."""
    last = KERNEL.replace("OUT:\n    ret;", "    ret;\nOUT:\n    trap;")
    assert find(GUARDED, 4 * 70, n=60, kernel=last) is None  # four threads trap
    assert find(GUARDED, 4 * 70, n=100, block=1, kernel=last) == ((6, 0, 0), 280)
    passed = "mad.lo.u32 %r4, %r3, 4, 0;\n    setp.lt.u32 %p2, %r3, 20;\n    @%p2 trap;" + GUARDED
    assert find(passed, 4 * 76, n=1000) is None  # thread 19 has trapped
    assert find(passed, 4 * 80, n=1000) == ((20, 0, 0), 320)


def test_the_search_is_no_longer_for_threads_that_lead_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of many threads executes several instructions before it depends on an unknown value."""
    monkeypatch.setattr(jit_threads, "_LONGEST_S", 0.0)
    begun: list[int] = []
    run = jit_threads._Search.run

    def count_run(search: jit_threads._Search, number: int) -> jit_threads.Found | None:
        begun.append(number)
        return run(search, number)

    monkeypatch.setattr(jit_threads._Search, "run", count_run)
    assert find(FROM_SHARED, 4 * 9999) is None
    assert len(begun) <= 1


def test_the_search_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "AGAIN:\n    add.u32 %r5, %r5, 1;\n    bra AGAIN;\n    st.global.u32 [%rd0], %r4;"
    monkeypatch.setattr(jit_threads, "_LONGEST_S", 0.05)
    assert find(endless, 4 * 9999) is None
