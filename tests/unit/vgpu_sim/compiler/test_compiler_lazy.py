"""Kernels compiled one at a time are those that compiling the whole file gives."""

import time

import pytest

from vgpu_sim.compiler import InvalidPtxError, PtxSyntaxError, compile_ptx, lazy
from vgpu_sim.compiler.ptx import limits
from vgpu_sim.compiler.ptx.kernel_index import index_kernels
from vgpu_sim.isa import Module

_HEAD = """//
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 4 .b8 table[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
.const .align 8 .u64 pointers[2] = {table, add};  /* { .entry */
.extern .shared .align 16 .b8 dynamic[];
.global .samplerref sampler = {filter_mode = nearest};
.func (.param .b32 r) add(.param .b32 a);
.func (.param .b32 r) own_state(.param .b32 a);
.extern .func undefined();
.global .u64 to_state = own_state;
.global .u64 to_undefined = undefined;
.global .u64 to_undefined_too = to_undefined;
"""
_FUNCTIONS = """
.func (.param .b32 r) add(.param .b32 a)
{
    .reg .b32 %x<3>;
    ld.param.b32 %x1, [a];
    { add.s32 %x2, %x1, 1; } // }
    st.param.b32 [r], %x2;
    ret;
}
.func (.param .b32 r) own_state(.param .b32 a)
{
    .global .b32 state;
    .reg .b32 %x<2>;
    ld.global.b32 %x1, [state];
    st.param.b32 [r], %x1;
    ret;
}
"""
_CALL = """
    {{
    .param .b32 p; .param .b32 q;
    st.param.b32 [p], %x1;
    call.uni (q), {0}, (p){1};
    ld.param.b32 %x2, [q];
    }}
"""


def _kernel(name: str, statements: str, more: str = "") -> str:
    return f"""
.visible .entry {name}(
    .param .u64 out  // )
)
.maxntid 64{more}
{{
    .reg .b32 %x<5>; .reg .b64 %d<5>; .reg .pred %p<2>;
    ld.param.u64 %d1, [out];
    mov.b32 %x1, %tid.x;
    {statements}
    st.global.b32 [%d1], %x1;
    ret;
}}
"""


_KERNELS = {
    "plain": _kernel("plain", 'mov.b32 %x2, 1; // "{'),
    "calls": _kernel("calls", _CALL.format("add", "")),
    "calls_state": _kernel("calls_state", _CALL.format("own_state", "")),
    "also_calls_state": _kernel("also_calls_state", _CALL.format("own_state", "")),
    "stores": _kernel("stores", "mov.u64 %d2, own_state; st.global.u64 [%d1+8], %d2;"),
    "indirect": _kernel(
        "indirect",
        "ld.const.u64 %d2, [pointers+8];\n"
        "prototype: .callprototype (.param .b32 _) _ (.param .b32 _);"
        + _CALL.format("%d2", ", prototype"),
    ),
    "has_variable": _kernel("has_variable", ".global .u32 mine; ld.global.b32 %x2, [mine];"),
    "has_image": _kernel(
        "has_image", "mov.b64 %d2, out; cvta.param.u64 %d2, %d2; ld.u32 %x2, [%d2];"
    ),
    "refused": _kernel("refused", "mov.b64 %d2, sampler;"),
    "reads_refused": _kernel("reads_refused", "ld.global.u64 %d2, [to_undefined_too];"),
    "reads_address": _kernel("reads_address", "ld.global.u64 %d2, [to_state];"),
    "prints": _kernel(
        "prints",
        "{ .param .b64 f; .param .b64 v; .param .b32 r; st.param.b64 [f], %d1; st.param.b64 [v],"
        " %d1; call.uni (r), vprintf, (f, v); }",
    ),
}
_PADDING = "\n//" + "." * lazy.LEAST_BYTES


def _text(*kernels: str) -> str:
    return _HEAD + _FUNCTIONS + "".join(kernels or _KERNELS.values()) + _PADDING


def _open(text: str) -> lazy.LazyFile:
    found = lazy.open_file(text.encode(), (8, 0))
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole() -> Module:
    return compile_ptx(_text(), capability=(8, 0), partial=True)


@pytest.fixture(scope="module")
def file() -> lazy.LazyFile:
    return _open(_text())


def test_an_index_has_the_kernels_and_everything_else_in_order() -> None:
    text = _text().encode()
    index = index_kernels(text)
    assert index is not None
    assert list(index.kernels) == list(_KERNELS)
    for name, span in index.kernels.items():
        assert text[span.start : span.end].decode() == _KERNELS[name].strip()
    functions = [text[part.start : part.end] for part in index.parts if part.body]
    assert [one.split()[4] for one in functions] == [b"add(.param"]
    assert b"own_state" in text[index.parts[-1].start : index.parts[-1].end]  # it has a variable


@pytest.mark.parametrize(
    "unusual",
    [
        ".entry a() { /* ",
        ".entry a() { ret; ",
        ".entry a() { } .entry a() { }",
        '.entry a() .pragma "x"; { }',
        '.entry a() { .pragma "x\n; }',
        "/* é */",
        ".alias a, b;",
        "}",
        ".extern .entry a();",
    ],
)
def test_text_of_an_unusual_form_has_no_index(unusual: str) -> None:
    assert index_kernels((_HEAD + unusual).encode()) is None


def test_a_file_of_too_many_parts_has_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_INDEXED", 64)
    for piece in (".entry k%d(){}", ".func f%d(){}"):
        many = "".join(piece % i for i in range(limits.MAX_INDEXED + 2))
        assert index_kernels(many.encode()) is None
        assert index_kernels(many[: len(many) // 2].rpartition(".")[0].encode()) is not None


def test_the_index_of_hostile_text_takes_linear_time() -> None:
    for piece in ("{", "/*", "/", ".entry a", '"', ".func f {", ".global .b8 a[]={1,"):
        text = (_HEAD + piece * (1_000_000 // len(piece))).encode()
        begin = time.process_time()
        index_kernels(text)
        assert time.process_time() - begin < 5


@pytest.mark.parametrize("name", _KERNELS)
def test_a_kernel_is_the_same_as_in_the_whole_file(
    name: str, file: lazy.LazyFile, whole: Module
) -> None:
    alone = file.compile(name)
    refused = [one for one in whole.refused if one.name == name]
    assert [one for one in alone.refused if one.is_kernel] == refused
    assert [one.name for one in alone.functions] == ([] if refused else [name])
    if not refused:
        assert alone.functions[0] == whole.function(name)


def test_variables_of_the_file_have_the_same_places_and_values(
    file: lazy.LazyFile, whole: Module
) -> None:
    count = len(file.shared.variables)
    assert {"table", "pointers", "own_state.0.state", "tessera.area"} <= {
        one.name for one in file.shared.variables
    }
    known = {one.name: one for one in whole.variables}
    for one in file.shared.variables:
        if one.name in ("table", "pointers", "tessera.area"):
            assert one == known[one.name]
    for name in ("has_variable", "has_image"):
        own = file.compile(name).variables[count:]
        assert own
        assert all(one.offset >= file.shared.segment_bytes for one in own)
    assert file.compile("calls_state").variables[count:] == ()
    assert [one.name for one in file.shared.refused] == [
        "sampler",
        "to_undefined",
        "to_undefined_too",
    ]


def test_a_container_of_one_kernel_keeps_its_lines(file: lazy.LazyFile) -> None:
    text, source = _text().split("\n"), file.compile("calls").source.split("\n")
    line = next(i for i, one in enumerate(text) if "call.uni (q), add" in one)
    assert source[line] == text[line]
    assert "ld.param.b32 %x1, [a];" in "\n".join(source)
    assert "own_state" not in "\n".join(source)


def test_a_long_chain_of_functions_takes_linear_time() -> None:
    count = 1500
    calls = ["", *(f"call f{i};" for i in range(count - 1))]
    chain = [f".func f{i}() {{ {call} ret; }}\n" for i, call in enumerate(calls)]
    text = _HEAD + "".join(chain) + _KERNELS["plain"] + _kernel("k", f"call f{count - 1};")
    found = _open(text + _PADDING)
    begin = time.process_time()
    (function,) = found.compile("k").functions
    assert time.process_time() - begin < 20
    assert function.name == "k"


def test_errors_outside_of_functions_are_found_when_the_file_is_opened() -> None:
    broken = _text().replace(".const .align 8 .u64", ".const .align 8 .u65")
    with pytest.raises(PtxSyntaxError) as caught:
        _open(broken)
    with pytest.raises(PtxSyntaxError) as same:
        compile_ptx(broken, capability=(8, 0))
    assert caught.value.diagnostics == same.value.diagnostics


@pytest.mark.parametrize(
    ("kind", "broken"),
    [(PtxSyntaxError, "mov.b32 %x2 1;"), (InvalidPtxError, "mov.b32 %undeclared, 1;")],
)
def test_errors_in_a_kernel_are_found_when_it_is_compiled(
    kind: type[Exception], broken: str
) -> None:
    text = _text(_KERNELS["plain"], _kernel("broken", broken))
    found = _open(text)
    assert found.compile("plain").functions
    with pytest.raises(kind) as caught:
        found.compile("broken")
    with pytest.raises(kind) as same:
        compile_ptx(text, capability=(8, 0))
    assert str(caught.value) == str(same.value)


@pytest.mark.parametrize(
    "text",
    [
        _text(_KERNELS["plain"]),  # one kernel: nothing is saved
        _HEAD + "".join(_KERNELS.values()),  # small
        _text(*_KERNELS.values(), ".func plain() { ret; }"),
        _text(*_KERNELS.values(), ".global .b32 calls;"),
        _text(*_KERNELS.values(), ".global .u64 p = plain;"),
    ],
)
def test_other_files_are_left_to_the_whole_compiler(text: str) -> None:
    assert lazy.open_file(text.encode(), (8, 0)) is None
