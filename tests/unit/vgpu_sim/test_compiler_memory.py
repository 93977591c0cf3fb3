"""ld, st, parameters and variables: every row, width and hint, run on the interpreter."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from interpreted_ptx import compile_verified, kernel, run

from vgpu_sim import isa
from vgpu_sim.compiler import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS

DATA = np.random.default_rng(7).integers(0, 1 << 63, 32, dtype=np.uint64)


def _forms(opcode: str) -> list[object]:
    return [pytest.param(form, id=form.pattern) for form in FORMS if form.opcode == opcode]


def _spellings(form: Form) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each type with each vector size, then each other optional word by itself."""
    types = sorted(form.types)
    vectors: tuple[str | None, ...] = (None, "v2", "v4")
    optional = [slot for slot in form.slots if slot.optional and slot.name != "vec"]
    extras = [(slot.name, word) for slot in optional for word in sorted(slot.words)]
    for type_, vector, extra in itertools.product(types, vectors, [None, *extras]):
        if int(type_[1:]) * int((vector or "v1")[1:]) > 128:
            continue
        words = {"type": type_}
        words |= {"vec": vector} if vector else {}
        words |= dict([extra]) if extra else {}
        for slot in form.slots:
            if not slot.optional and slot.name != "type":
                words[slot.name] = min(slot.words)
        ordered = {s.name: words[s.name] for s in form.slots if s.name in words}
        yield ".".join((form.opcode, *ordered.values())), ordered


def _extended(data: bytes, type_: str) -> int:
    return int.from_bytes(data, "little", signed=type_[0] == "s") & ((1 << 64) - 1)


def _vector(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _into_shared(pointer: str, size: int) -> list[str]:
    """Copy memory into shared memory, and let the pointer mean that instead."""
    return [
        f".shared .align 16 .b8 tile[{size}]; .reg .b64 %copy<2>;",
        *(
            f"ld.global.v2.b64 {{%copy0, %copy1}}, [{pointer}+{at}];"
            f" st.shared.v2.b64 [tile+{at}], {{%copy0, %copy1}};"
            for at in range(0, size, 16)
        ),
        f"mov.u64 {pointer}, tile;",
    ]


def _is_shared(words: dict[str, str]) -> bool:
    return words.get("space", words.get("written", "")).startswith("shared")


@pytest.mark.parametrize("form", _forms("ld"))
def test_loads_extend_to_the_register(form: Form) -> None:
    """Into 64-bit registers; of parameters too: the block then holds what else memory does."""
    is_param = "param" in form.pattern
    policy = ", %policy" if form.operand_count == 3 else ""
    for spelling, words in _spellings(form):
        type_, count = words["type"], int(words.get("vec", "v1")[1:])
        size = int(type_[1:]) // 8
        names = [f"%d{index}" for index in range(count)]
        where = "[data+16]" if is_param else "[%a+16]"
        body = [
            "ld.param.u64 %a, [source];" if not is_param else "",
            "ld.param.u64 %o, [out];",
            "mov.b64 %policy, 0;",
            *(_into_shared("%a", DATA.nbytes) if _is_shared(words) else ()),
            f"{spelling} {_vector(names)}, {where}{policy};",
            *(f"st.global.b64 [%o+{8 * index}], {name};" for index, name in enumerate(names)),
        ]
        registers = ".reg .b64 %a, %o, %policy, %d<4>;"
        parameters = ".param .u64 out, "
        parameters += ".param .align 16 .b8 data[256]" if is_param else ".param .u64 source"
        source = kernel("\n".join(body), parameters, registers=registers)
        module = compile_verified(source)
        if is_param:  # by value: numpy has no 256-byte scalar, so make one
            block = np.frombuffer(DATA.tobytes(), np.dtype("V256"))[0]
            (out,) = run(module, [np.zeros(4, np.uint64), block], block=(1, 1, 1))
        else:
            out, _ = run(module, [np.zeros(4, np.uint64), DATA], block=(1, 1, 1))
        raw = DATA.tobytes()[16:]
        wanted = [_extended(raw[i * size : (i + 1) * size], type_) for i in range(count)]
        assert [int(value) for value in out[:count]] == wanted, spelling


@pytest.mark.parametrize("form", _forms("st"))
def test_stores_take_the_low_bytes_and_touch_nothing_else(form: Form) -> None:
    policy = ", %policy" if form.operand_count == 3 else ""
    for spelling, words in _spellings(form):
        type_, count = words["type"], int(words.get("vec", "v1")[1:])
        size = int(type_[1:]) // 8
        names = [f"%d{index}" for index in range(count)]
        is_shared = _is_shared(words)
        body = [
            "ld.param.u64 %a, [source]; ld.param.u64 %o, [out]; mov.b64 %policy, 0;",
            "mov.u64 %p, %o;",
            *(_into_shared("%p", 64) if is_shared else ()),
            "add.s64 %p, %p, 32;",
            *(f"ld.global.b64 {name}, [%a+{8 * index}];" for index, name in enumerate(names)),
            f"{spelling} [%p+-16], {_vector(names)}{policy};",
        ]
        if is_shared:
            body += (
                f"ld.shared.b64 %a, [tile+{at}]; st.global.b64 [%o+{at}], %a;"
                for at in range(0, 64, 8)
            )
        registers = ".reg .b64 %a, %o, %p, %policy, %d<4>;"
        source = kernel("\n".join(body), ".param .u64 out, .param .u64 source", registers=registers)
        before = np.full(64, 0xEE, np.uint8)
        out, _ = run(source, [before, DATA], block=(1, 1, 1))
        wanted = before.copy()
        for index in range(count):
            low = np.frombuffer(DATA[index].tobytes()[:size], np.uint8)
            wanted[16 + index * size : 16 + (index + 1) * size] = low
        np.testing.assert_array_equal(out, wanted, spelling)


def test_qualifiers_reach_the_instruction() -> None:
    body = """
        ld.param.u64 %a, [p];
        ld.global.nc.f32 %r, [%a];
        ld.volatile.global.u32 %r, [%a];
        ld.u32 %r, [%a];
        st.volatile.u32 [%a], %r;
        ld.global.L1::no_allocate.L2::128B.b32 %r, [%a+-4];
    """
    source = kernel(body, ".param .u64 p", registers=".reg .b64 %a; .reg .b32 %r;")
    accesses = compile_verified(source).functions[0].code[1:6]
    assert [i.read_only for i in accesses] == [True, False, False, False, False]
    assert [i.volatile for i in accesses] == [False, True, False, True, False]
    assert [i.space.name for i in accesses] == ["GLOBAL", "GLOBAL", "GENERIC", "GENERIC", "GLOBAL"]
    assert accesses[4].displacement == -4


def test_a_load_may_overwrite_its_address_and_skip_elements() -> None:
    body = """
        ld.param.u64 %a, [p]; ld.param.u64 %o, [q];
        ld.global.v2.u64 {%a, %b}, [%a];
        st.global.v2.b64 [%o], {%b, %a};
        ld.global.v4.u32 {_, %x, _, %y}, [%o];
        st.global.v4.b32 [%o+16], {%y, 7, %x, -1};
    """
    registers = ".reg .b64 %a, %b, %o; .reg .b32 %x, %y;"
    source = kernel(body, ".param .u64 p, .param .u64 q", registers=registers)
    first = np.array([0x1111_2222_3333_4444, 0x5555_6666_7777_8888], np.uint64)
    _, out = run(source, [first, np.zeros(8, np.uint32)], block=(1, 1, 1))
    words = [0x7777_8888, 0x5555_6666, 0x3333_4444, 0x1111_2222]
    assert out.tolist() == [*words, words[3], 7, words[1], 0xFFFF_FFFF]


def test_32_bit_address_registers_are_zero_extended() -> None:
    source = kernel("mov.b32 %r, 0x80000000; ld.global.u32 %r, [%r+4];", registers=".reg .b32 %r;")
    widen, load = compile_verified(source).functions[0].code[1:3]
    assert (widen.op, widen.type, widen.source_type) == (
        isa.Op.CVT,
        isa.DataType.U64,
        isa.DataType.U32,
    )
    assert load.srcs == widen.dsts
    assert load.displacement == 4


@pytest.mark.parametrize(
    ("parameters", "layout"),
    [
        (".param .u8 a, .param .u64 b, .param .u16 c", [(0, 1, 1), (8, 8, 8), (16, 2, 2)]),
        (
            ".param .u32 a, .param .align 8 .b8 b[24], .param .f32 c",
            [(0, 4, 4), (8, 24, 8), (32, 4, 4)],
        ),
        (".param .b8 a[3], .param .f64 b", [(0, 3, 1), (8, 8, 8)]),
        (".param .u32 a, .param .v4 .f32 b", [(0, 4, 4), (16, 16, 16)]),
        (".param .align 16 .b8 a[4], .param .align 16 .b8 b[4]", [(0, 4, 16), (16, 4, 16)]),
        (".param .b32 a[2][3]", [(0, 24, 4)]),
        (".param .u8 a, .param .align 2 .b32 b", [(0, 1, 1), (2, 4, 2)]),
    ],
)
def test_parameter_layout_is_the_abi(parameters: str, layout: list[tuple[int, int, int]]) -> None:
    function = compile_verified(kernel("", parameters)).functions[0]
    assert [(p.offset, p.size, p.align) for p in function.parameters] == layout
    assert function.parameter_bytes == layout[-1][0] + layout[-1][1]


def test_pointer_parameters_say_their_space() -> None:
    parameters = (
        ".param .u64 a, .param .u64 .ptr .global .align 16 b, .param .u64 .ptr.align 1 c,"
        ".param .u64 .ptr .const d"
    )
    spaces = [
        p.pointer_space for p in compile_verified(kernel("", parameters)).functions[0].parameters
    ]
    assert spaces == [None, isa.Space.GLOBAL, isa.Space.GENERIC, isa.Space.CONST]


def test_4096_bytes_of_parameters_and_no_more() -> None:
    compile_verified(kernel("", ".param .b8 p[4096]"))
    with pytest.raises(UnsupportedPtxError, match="4097 bytes of parameters"):
        compile_verified(kernel("", ".param .b8 p[4096], .param .b8 q"))


@pytest.mark.parametrize("where", ["[p+4]", "[p+-4]", "[q]", "[p+0x100000000]"])
def test_parameter_accesses_stay_inside_their_parameter(where: str) -> None:
    source = kernel(f"ld.param.u64 %a, {where};", ".param .u64 p", registers=".reg .b64 %a;")
    with pytest.raises(InvalidPtxError):
        compile_verified(source)


def test_variables_are_placed_initialised_and_addressed() -> None:
    header = """
        .global .u8 first = 1;
        .global .align 16 .u32 numbers[3] = {1, 2, 0xFFFFFFFF};
        .const .f64 table[2][2] = {{1.5, -2.25}, {0d4008000000000000}};
        .visible .global .v2 .f32 pair = {0f3F800000, 1.5};
        .global .s16 list[] = {-1, 1+2*3, 7};
        .global .b8 room[64];
        .global .u8 rows[2][3] = {{1}, {2, 3}};
    """
    body = """
        ld.param.u64 %o, [out];
        ld.global.u32 %r, [numbers+8]; st.global.u32 [%o], %r;
        mov.u64 %a, numbers; ld.global.u32 %r, [%a+4]; st.global.u32 [%o+4], %r;
        cvta.const.u64 %a, table; ld.f64 %d, [%a+16]; st.global.f64 [%o+8], %d;
        ld.const.f64 %d, [table+24]; st.global.f64 [%o+16], %d;
        mov.u64 %a, pair+4; ld.u32 %r, [%a]; st.global.u32 [%o+24], %r;
        ld.global.s16 %r, [list]; st.global.u32 [%o+28], %r;
        st.global.u8 [room+63], %r;
    """
    registers = ".reg .b64 %o, %a, %d; .reg .b32 %r;"
    module = compile_verified(kernel(body, ".param .u64 out", registers=registers, header=header))
    placed = {v.name: (v.offset, v.size, v.space.name) for v in module.variables}
    assert placed == {
        "first": (0, 1, "GLOBAL"),
        "numbers": (16, 12, "GLOBAL"),
        "table": (32, 32, "CONST"),
        "pair": (64, 8, "GLOBAL"),
        "list": (72, 6, "GLOBAL"),
        "room": (78, 64, "GLOBAL"),
        "rows": (142, 6, "GLOBAL"),
    }
    assert module.variables[-1].initial == bytes([1, 0, 0, 2, 3])
    (out,) = run(module, [np.zeros(32, np.uint8)], block=(1, 1, 1))
    assert out.view(np.uint32)[:2].tolist() == [0xFFFF_FFFF, 2]
    assert out.view(np.float64)[1:3].tolist() == [3.0, 0.0]
    assert out.view(np.float32)[6] == 1.5
    assert out.view(np.int32)[7] == -1


def test_parameters_have_names_of_their_own() -> None:
    source = kernel("", ".param .u64 a, .param .u32 b,\n  .param .u32 a, .param .u32 b")
    with pytest.raises(InvalidPtxError) as caught:
        compile_verified(source)
    line = source[: source.index("  .param .u32 a")].count("\n") + 1
    assert [(d.line, d.column, d.message) for d in caught.value.diagnostics] == [
        (line, 15, "'a' is declared twice"),
        (line, 30, "'b' is declared twice"),
    ]


@pytest.mark.parametrize(
    ("declaration", "error", "message"),
    [
        (".global .u64 a = b;", UnsupportedPtxError, "an address as initial value"),
        (".global .u8 a = 0xFF(b);", UnsupportedPtxError, "an address as initial value"),
        (".extern .global .u32 a;", UnsupportedPtxError, ".extern variable 'a'"),
        (".shared .u32 a = 1;", InvalidPtxError, "a shared variable has no initial value"),
        (".shared .u32 a[];", InvalidPtxError, "a shared array has a size, or is .extern"),
        (".shared .align 2048 .u32 a;", UnsupportedPtxError, "alignment of more than 1024"),
        (".extern .shared .u32 a[4];", UnsupportedPtxError, "a shared variable of another module"),
        (".shared .u32 a; .global .u32 a;", InvalidPtxError, "declared twice"),
        (".global .attribute(.managed) .u32 a;", UnsupportedPtxError, "attribute .managed"),
        (".global .align 1024 .u32 a;", UnsupportedPtxError, "alignment of more than 512"),
        (".global .b8 a[0x1000000001];", UnsupportedPtxError, "bytes of variables"),
        (".global .texref a;", UnsupportedPtxError, ".texref"),
        (".global .u32 a<4>;", UnsupportedPtxError, "numbered family"),
        (".global .f32 a = 1;", UnsupportedPtxError, "an integer constant as .f32"),
        (".global .u32 a; .global .u32 a;", InvalidPtxError, "declared twice"),
        (".global .u32 a[2] = {1, 2, 3};", InvalidPtxError, "more than 2 initial values"),
        (".global .u32 a[2] = 1;", InvalidPtxError, "initialised by a list"),
        (".global .u32 a = {1};", InvalidPtxError, "an array or a vector"),
        (".global .u32 a[];", InvalidPtxError, "needs an initial value"),
        (".global .u32 a[2][] = {{1}, {2}};", InvalidPtxError, "only the first dimension"),
        (".const .b8 a[65537];", InvalidPtxError, "65537 bytes of .const"),
    ],
)
def test_variables_that_cannot_be(declaration: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        compile_verified(kernel("", header=declaration))
    assert message in str(caught.value)


def test_an_initial_value_cannot_be_blown_up() -> None:
    huge = ".global .u8 a[2][0x20000000] = {{1}, {2}};"
    with pytest.raises(UnsupportedPtxError, match="an initial value of more than"):
        compile_verified(kernel("", header=huge))


@pytest.mark.parametrize(
    ("declaration", "align", "size"),
    [(".global .align 512 .u32 a;", 512, 4), (".const .b8 a[65536];", 1, 65536)],
)
def test_variables_reach_their_limits(declaration: str, align: int, size: int) -> None:
    (variable,) = compile_verified(kernel("", header=declaration)).variables
    assert (variable.align, variable.size) == (align, size)
