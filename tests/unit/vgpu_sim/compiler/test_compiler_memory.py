"""ld, st, parameters and variables: every row, width and hint, run on the interpreter."""

import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from vgpu_sim import compiler, isa
from vgpu_sim.compiler import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.compiler.lower.forms import Form
from vgpu_sim.compiler.lower.table import FORMS
from vgpu_sim.compiler.ptx import grammar
from vgpu_sim.isa import container

_WRITTEN = (("written", "global"), ("on", "global"))
DATA = np.random.default_rng(7).integers(0, 1 << 63, 32, dtype=np.uint64)


def _forms(opcode: str) -> list[object]:
    """Return an opcode's rows, except those of functions' parameters
    (``test_conformance_calls``) and of stores to peers (``test_conformance_clusters``).
    """
    own = re.compile(r"st(\{\.weak\})?\.param|st\.async|st\.bulk|::func")
    return [
        pytest.param(form, id=form.pattern)
        for form in FORMS
        if form.opcode == opcode and not own.search(form.pattern)
    ]


def _spellings(form: Form) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each type with each vector size, then each other optional word alone."""
    types = sorted(form.types)
    vectors: tuple[str | None, ...] = (None, "v2", "v4", "v8")
    optional = [slot for slot in form.slots if slot.optional and slot.name != "vec"]
    extras = [(slot.name, word) for slot in optional for word in sorted(slot.words)]
    for type_, vector, extra in itertools.product(types, vectors, [None, *extras]):
        bits = int(type_[1:]) * int((vector or "v1")[1:])
        is_global = ".global" in form.pattern or extra in (("space", "global"), *_WRITTEN)
        if vector is not None and "vec" not in {slot.name for slot in form.slots}:
            continue
        if bits > (256 if is_global else 128) or (type_ == "b128" and vector):
            continue
        words = {"type": type_}
        words |= {"vec": vector} if vector else {}
        words |= dict([extra]) if extra else {}
        for slot in form.slots:
            if not slot.optional and slot.name != "type":
                words[slot.name] = min(slot.words)
        ordered = {s.name: words[s.name] for s in form.slots if s.name in words}
        dotted = tuple(f".{word}" for word in ordered.values())
        if grammar.arrange_modifiers(form.opcode, dotted) is not None:  # not all of them are PTX
            yield ".".join((form.opcode, *ordered.values())), ordered


def _count(words: dict[str, str]) -> int:
    """Return how many 64-bit registers a spelling uses: one per element, two for 128 bits."""
    return 2 if words["type"] == "b128" else int(words.get("vec", "v1")[1:])


def _size(words: dict[str, str]) -> int:
    return min(int(words["type"][1:]) // 8, 8)


def _operand(words: dict[str, str], names: list[str]) -> tuple[str, str, str]:
    """Return the data operand, the code that fills it before a store, and the code that reads it
    after a load.
    """
    if words["type"] == "b128":
        return "%q", f"mov.b128 %q, {_vector(names)};", f"mov.b128 {_vector(names)}, %q;"
    return _vector(names), "", ""


def _extend(data: bytes, type_: str) -> int:
    return int.from_bytes(data, "little", signed=type_[0] == "s") & ((1 << 64) - 1)


def _vector(names: list[str]) -> str:
    return names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"


def _into(space: str, pointer: str, size: int) -> list[str]:
    """Copy memory into shared or local memory, and make the pointer point there."""
    return [
        f".{space} .align 16 .b8 tile[{size}]; .reg .b64 %copy<2>;",
        *(
            f"ld.global.v2.b64 {{%copy0, %copy1}}, [{pointer}+{at}];"
            f" st.{space}.v2.b64 [tile+{at}], {{%copy0, %copy1}};"
            for at in range(0, size, 16)
        ),
        f"mov.u64 {pointer}, tile;",
    ]


def _own_space(words: dict[str, str]) -> str:
    """Return the space of a spelling with memory of its own; empty for global or constant."""
    space = words.get("space", words.get("written", words.get("on", ""))).partition("::")[0]
    return space if space in ("shared", "local") else ""


@pytest.mark.parametrize("form", _forms("ld"))
def test_loads_extend_to_the_register(form: Form) -> None:
    """Loads into 64-bit registers; for parameters the block contains the test's data."""
    is_param = "param" in form.pattern
    policy = ", %policy" if form.operand_count == 3 else ""
    for spelling, words in _spellings(form):
        type_, count, size = words["type"], _count(words), _size(words)
        names = [f"%d{index}" for index in range(count)]
        at = max(16, count * size)
        where = f"[data+{at}]" if is_param else f"[%a+{at}]"
        data, _, after = _operand(words, names)
        body = [
            "ld.param.u64 %a, [source];" if not is_param else "",
            "ld.param.u64 %o, [out];",
            "mov.b64 %policy, 0;",
            *(_into(own, "%a", DATA.nbytes) if (own := _own_space(words)) else ()),
            f"{spelling} {data}, {where}{policy}; {after}",
            *(f"st.global.b64 [%o+{8 * index}], {name};" for index, name in enumerate(names)),
        ]
        registers = ".reg .b64 %a, %o, %policy, %d<8>; .reg .b128 %q;"
        parameters = ".param .u64 out, "
        parameters += ".param .align 16 .b8 data[256]" if is_param else ".param .u64 source"
        source = kernel("\n".join(body), parameters, registers=registers)
        module = compile_verified(source)
        if is_param:  # by value: numpy has no 256-byte scalar, so make one
            block = np.frombuffer(DATA.tobytes(), np.dtype("V256"))[0]
            (out,) = run(module, [np.zeros(8, np.uint64), block], block=(1, 1, 1))
        else:
            out, _ = run(module, [np.zeros(8, np.uint64), DATA], block=(1, 1, 1))
        raw = DATA.tobytes()[at:]
        wanted = [_extend(raw[i * size : (i + 1) * size], type_) for i in range(count)]
        assert [int(value) for value in out[:count]] == wanted, spelling


@pytest.mark.parametrize("form", _forms("st"))
def test_stores_take_the_low_bytes_and_touch_nothing_else(form: Form) -> None:
    policy = ", %policy" if form.operand_count == 3 else ""
    for spelling, words in _spellings(form):
        count, size = _count(words), _size(words)
        names = [f"%d{index}" for index in range(count)]
        own, at = _own_space(words), max(16, count * size)
        data, before_it, _ = _operand(words, names)
        body = [
            "ld.param.u64 %a, [source]; ld.param.u64 %o, [out]; mov.b64 %policy, 0;",
            "mov.u64 %p, %o;",
            *(_into(own, "%p", 64) if own else ()),
            "add.s64 %p, %p, 48;",
            *(f"ld.global.b64 {name}, [%a+{8 * index}];" for index, name in enumerate(names)),
            f"{before_it} {spelling} [%p+{at - 48}], {data}{policy};",
        ]
        if own:
            body += (
                f"ld.{own}.b64 %a, [tile+{place}]; st.global.b64 [%o+{place}], %a;"
                for place in range(0, 64, 8)
            )
        registers = ".reg .b64 %a, %o, %p, %policy, %d<8>; .reg .b128 %q;"
        source = kernel("\n".join(body), ".param .u64 out, .param .u64 source", registers=registers)
        before = np.full(64, 0xEE, np.uint8)
        out, _ = run(source, [before, DATA], block=(1, 1, 1))
        wanted = before.copy()
        for index in range(count):
            low = np.frombuffer(DATA[index].tobytes()[:size], np.uint8)
            wanted[at + index * size : at + (index + 1) * size] = low
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


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("ld.relaxed.gpu.global.u32 %r, [%a];", "LD"),
        ("ld.acquire.sys.b32 %r, [%a];", "LD FENCE SYS"),
        ("ld.acquire.cta.shared.v2.u32 {%r, _}, [%s];", "LD FENCE CTA"),
        ("ld.global.acquire.gpu.L1::no_allocate.u32 %r, [%a];", "LD FENCE GPU"),
        ("ld.mmio.relaxed.sys.global.u32 %r, [%a];", "LD"),
        ("ld.mmio.acquire.sys.u32 %r, [%a];", "LD FENCE SYS"),
        ("st.relaxed.cluster.shared::cluster.u32 [%s], %r;", "ST"),
        ("st.release.gpu.global.u32 [%a], %r;", "FENCE ST GPU"),
        ("@%p st.release.sys.u32 [%a], %r;", "FENCE ST SYS"),
        ("st.mmio.release.sys.global.u32 [%a], %r;", "FENCE ST SYS"),
    ],
)
def test_ordered_accesses_are_volatile_with_a_fence(line: str, found: str) -> None:
    registers = ".reg .b64 %a; .reg .b32 %r, %s; .reg .pred %p;"
    code = compile_verified(kernel(line, registers=registers)).functions[0].code[:-1]
    *ops, scope = found.split() if "FENCE" in found else (found, "")
    assert [word.op.name for word in code] == ops
    assert {word.guard is not None for word in code} == {line.startswith("@")}
    for word in code:
        if word.op is isa.Op.FENCE:
            assert (word.order, word.scope.name) == (isa.Order.ACQ_REL, scope)
        else:
            assert word.volatile


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


@pytest.mark.parametrize(
    ("version", "target", "limit"),
    [
        ("8.5", "sm_80", 32764),
        ("8.1", "sm_70", 32764),
        ("8.0", "sm_90", 4352),
        ("8.5", "sm_61", 4352),
    ],
)
def test_bytes_of_parameters(version: str, target: str, limit: int) -> None:
    def source(size: int) -> str:
        text = kernel("", f".param .b8 p[{size}], .param .b8 q")
        return text.replace("9.4", version).replace("sm_100a", target)

    assert compile_verified(source(limit - 1)).functions[0].parameter_bytes == limit
    with pytest.raises(InvalidPtxError, match=f"the parameters have {limit + 1} bytes"):
        compile_verified(source(limit))


def test_initial_values_with_addresses() -> None:
    header = """
        .global .align 8 .u64 places[6] = {table, table+12, generic(table), generic(table)+4, 7};
        .const .align 4 .u32 table[4] = {1, 2, 3};
        .global .align 8 .b8 bytes[12] = {0, 0xFF(table), 0xFF00(table), 0xFF0000(generic(table)+4),
            0xFF000000(table), 0xFF00000000(table), 0xFF0000000000(table), 0xFF(1000 + 546),
            0xFF00(131187), -1};
        .global .u16 half = 0xFFFF00(table + 1);
        .global .u64 own = own;
    """
    body = """
        ld.param.u64 %o, [out];
        mov.u64 %a, table; st.global.u64 [%o], %a;
    """
    copied = "".join(
        f"ld.global.u64 %a, [places+{8 * i}]; st.global.u64 [%o+{8 * i + 8}], %a;" for i in range(6)
    ) + "".join(f"ld.global.u8 %a, [bytes+{i}]; st.global.u8 [%o+{56 + i}], %a;" for i in range(12))
    rest = """
        ld.global.u16 %a, [half]; st.global.u16 [%o+68], %a;
        ld.global.u64 %a, [own]; st.global.u64 [%o+72], %a; mov.u64 %a, own; st.global.u64 [%o+80], %a;
    """
    text = kernel(
        body + copied + rest, ".param .u64 out", registers=".reg .u64 %o, %a;", header=header
    )
    module = compile_verified(text)
    assert container.decode(container.encode(module)) == module
    (out,) = run(module, [np.zeros(11, np.uint64)])
    table = int(out[0])
    assert out[1:7].tolist() == [table, table + 12, table, table + 4, 7, 0]
    data = out[7:].tobytes()
    address, moved = table.to_bytes(8, "little"), (table + 4).to_bytes(8, "little")
    assert data[:7] == bytes([0, address[0], address[1], moved[2], *address[3:6]])
    assert data[7:12] == bytes([(1546 & 0xFF), (131187 >> 8 & 0xFF), 255, 0, 0])
    assert int.from_bytes(data[12:14], "little") == (table + 1) >> 8 & 0xFFFF
    assert out[9] == out[10]


def test_a_definition_replaces_its_declaration() -> None:
    header = """
        .extern .global .u32 a; .extern .global .u32 a; .visible .global .u32 a = 3;
        .weak .global .u32 b = 4; .common .global .u32 c[2];
    """
    module = compile_verified(kernel("", header=header))
    assert [(v.name, v.initial, v.size) for v in module.variables] == [
        ("a", b"\3", 4),
        ("b", b"\4", 4),
        ("c", b"", 8),
    ]


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
        (".global .u64 a = b;", InvalidPtxError, "'b' is not declared"),
        (".global .u8 a = 0xFF(b);", InvalidPtxError, "'b' is not declared"),
        (".global .u8 a = 0xFF0F(a);", InvalidPtxError, "a mask must select adjacent bits"),
        (".global .u8 a = 0xFFF(a);", InvalidPtxError, "a mask of 12 bits cannot initialise a .u8"),
        (".global .u8 a = 0(4);", InvalidPtxError, "a mask must select at least one bit"),
        (".global .u32 a = a;", UnsupportedPtxError, "an address as the initial value of a .u32"),
        (".global .f64 a = a;", UnsupportedPtxError, "an address as the initial value of a .f64"),
        (".global .u64 a = k;", UnsupportedPtxError, "the address of function 'k'"),
        (".shared .u32 s; .global .u64 a = s;", UnsupportedPtxError, "of .shared variable 's'"),
        (
            ".extern .global .u32 a = 1;",
            InvalidPtxError,
            "an .extern variable cannot have an initial",
        ),
        (
            ".common .global .u32 a = 1;",
            InvalidPtxError,
            "a .common variable cannot have an initial",
        ),
        (".common .const .u32 a;", InvalidPtxError, "a .common variable must be in .global space"),
        (".extern .global .u32 a;", UnsupportedPtxError, ".extern variable 'a'"),
        (".shared .u32 a = 1;", InvalidPtxError, "a shared variable cannot have an initial value"),
        (".shared .u32 a[];", InvalidPtxError, "a shared array must have a size or be .extern"),
        (".shared .u32 a; .global .u32 a;", InvalidPtxError, "declared twice"),
        (
            ".const .attribute(.managed) .u32 a;",
            InvalidPtxError,
            ".managed can be used only for .global variables",
        ),
        (".global .align 2097152 .u32 a;", UnsupportedPtxError, "alignment of more than 1048576"),
        (".global .b8 a[0x1000000001];", UnsupportedPtxError, "bytes of variables"),
        (".global .samplerref a = {filter_mode = nearest};", UnsupportedPtxError, ".samplerref"),
        (".global .u32 a<4>;", UnsupportedPtxError, "a parameterized variable name"),
        (
            ".global .f32 a = 1;",
            InvalidPtxError,
            "the initial value of a .f32 cannot be an integer",
        ),
        (
            ".global .u32 a[2] = {1, 2.0};",
            InvalidPtxError,
            "the initial value of a .u32 cannot be a float",
        ),
        (".global .f16 a = 2.0;", InvalidPtxError, "the initial value of a .f16 cannot be a float"),
        (".global .u32 a; .global .u32 a;", InvalidPtxError, "declared twice"),
        (".global .u32 a[2] = {1, 2, 3};", InvalidPtxError, "more than 2 initial values"),
        (".global .u32 a[2] = 1;", InvalidPtxError, "initialised by a list"),
        (".global .u32 a = {1};", InvalidPtxError, "an array or a vector"),
        (".global .u32 a[];", InvalidPtxError, "needs an initial value"),
        (".global .u32 a[2][] = {{1}, {2}};", InvalidPtxError, "only the first dimension"),
        (".const .b8 a[65537];", InvalidPtxError, ".const variables have 65537 bytes"),
    ],
)
def test_variables_that_cannot_be(declaration: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        compile_verified(kernel("", header=declaration))
    assert message in str(caught.value)


def test_an_initial_value_cannot_be_blown_up() -> None:
    huge = ".global .u8 a[2][0x20000000] = {{1}, {2}};"
    with pytest.raises(UnsupportedPtxError, match="bytes of initial values"):
        compile_verified(kernel("", header=huge))


@pytest.mark.parametrize(
    ("declaration", "align", "size"),
    [(".global .align 512 .u32 a;", 512, 4), (".const .b8 a[65536];", 1, 65536)],
)
def test_variables_reach_their_limits(declaration: str, align: int, size: int) -> None:
    (variable,) = compile_verified(kernel("", header=declaration)).variables
    assert (variable.align, variable.size) == (align, size)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("ld.global", "CA"),
        ("ld.global.ca", "CA"),
        ("ld.global.cg", "CG"),
        ("ld.global.cs", "CS"),
        ("ld.global.lu", "LU"),
        ("ld.global.cv", "CV"),
        ("ld.cg", "CG"),
        ("ld.global.nc.L1::no_allocate", "CG"),
        ("ld.global.L1::evict_first", "CS"),
        ("ld.global.L1::evict_last", "CA"),
    ],
)
def test_a_load_keeps_what_it_says_of_caches(written: str, kept: str) -> None:
    source = (
        ".version 8.5\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.param.u64 %rd0, [p];\n"
        f"{written}.u32 %r0, [%rd0];\nst.global.u32 [%rd0+4], %r0;\nret;\n}}\n"
    )
    (function,) = compiler.compile_ptx(source, capability=(8, 0)).functions
    (found,) = (
        one for one in function.code if one.op is isa.Op.LD and one.space is not isa.Space.PARAM
    )
    assert found.cache is isa.Cache[kept]


def test_an_extern_shared_variable_with_a_size_is_reserved() -> None:
    header = ".extern .shared .u32 a[5]; .extern .shared .u32 b; .extern .shared .align 8 .b8 c[];"
    body = "st.shared.u32 [a], 1; st.shared.u32 [b], 2; st.shared.u32 [c], 3;"
    function = compile_verified(kernel(body, header=header)).functions[0]
    assert function.shared_bytes == 24


def test_a_module_states_which_kernels_may_read_a_reference() -> None:
    """A kernel may read what it names, what functions name that it calls, and what pointers to
    functions lead to. A local variable hides a reference of its name.
    """
    header = """
.global .texref direct; .global .texref called; .global .texref pointed; .global .surfref unused;
.func use_called() { .reg .b64 %h; mov.u64 %h, called; ret; }
.func use_pointed() { .reg .b64 %h; mov.u64 %h, pointed; ret; }
.func between() { call use_called; ret; }
.visible .entry none() { .reg .b64 direct; mov.u64 direct, 0; ret; }
.visible .entry names() { .reg .b64 %h; mov.u64 %h, direct; ret; }
.visible .entry calls() { call between; ret; }
.visible .entry takes() { .reg .b64 %f; mov.u64 %f, use_pointed; ret; }
.visible .entry jumps(.param .u64 f) { .reg .b64 %f; ld.param.u64 %f, [f];
  to: .callprototype _ (); call %f, to; ret; }
"""
    module = compile_verified(kernel("", header=header))
    stated = [one.name.removeprefix("tessera.reads.") for one in module.variables]
    assert sorted(name for name in stated if "." in name and "tessera" not in name) == [
        "calls.called",
        "jumps.pointed",
        "names.direct",
        "takes.pointed",
    ]
