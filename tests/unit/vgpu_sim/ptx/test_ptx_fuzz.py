"""Hostile input: for any bytes the parser quickly returns a tree or raises PtxSyntaxError."""

import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from vgpu_sim import compiler, isa
from vgpu_sim.compiler import InvalidPtxError, PtxError, PtxSyntaxError, linking
from vgpu_sim.compiler.errors import LinkError, UnsupportedPtxError
from vgpu_sim.compiler.lower import modules
from vgpu_sim.compiler.ptx import limits, parse, tree
from vgpu_sim.exec import cfg, jit
from vgpu_sim.exec.jit.ir import reducible
from vgpu_sim.isa import container, verify

EXAMPLES = Path(__file__).parents[4] / "examples"
HEAD = ".version 9.0\n.target sm_80\n.address_size 64\n"

# Texts with much syntax, so that mutations reach every part of the parser and of the lowering.
SEED = (
    HEAD
    + """
.file 1 "a.cu"
.const .align 8 .f64 table[2][2] = {{1.5, -2}, {0d4008000000000000}};
.global .u64 where[2] = {generic(table)+4, 0xFF(table)};
.extern .func (.param .b32 r) f (.param .align 8 .b8 a[8]);
.visible .entry k(.param .u64 .ptr .global .align 4 out, .param .f32 x) .maxntid 256, 1, 1
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .b16 %h; .reg .f32 %f<2>;
  .shared .align 4 .b8 s[16];
  ld.param.u64 %rd1, [out+0];
  ld.param.f32 %f1, [x];
  mov.u32 %r1, %tid.x;
  mad.lo.s32 %r2, %r1, (1 << 3) | 4, -7;
  { .reg .b32 %r1; L: setp.lt.and.s32 %p1|%p2, %r2, 0x10, !%p1; @!%p1 bra.uni L; }
  @%p2 cvt.rn.f32.s32 %f0, %r2;
  selp.f32 %f0, %f0, 0f3F800000, %p1;
  mov.b64 {%r3, %r4}, %rd1;
  st.global.v2.u32 [%rd1+-4], {%r3, 5};
  call (%r5), f, (%r4), P;
  tex.2d.v4.f32.f32 {%f0, _, %f1, _}, [where, {%f0, %f1}];
  P: .callprototype (.param .b32 _) _ (.param .b64 _);
  .loc 1 2 3
  ret;
}
"""
)
FRAGMENTS = [
    *("{", "}", "(", ")", "[", "]", "<", ">", ",", ";", ":", "+", "-", "!", "~", "@", "|", "?"),
    *("/*", "*/", "//", "\n", '"', "\\", "\0", "\r", "é", "#", "%", "$", "_", ".", "..", "::"),
    *("0x", "0f", "0d3", "0b", "1e9", "08", "9999999999999999999999", "1.", "-0x80000000"),
    *(".reg", ".entry", ".func", ".global", ".align", ".v4", ".u32", ".pred", ".section", ".loc"),
    *("%r1", "%tid.x", "ret", "call", "mov", "WARP_SZ", "generic(", "(.u64)", "@p", "%r<9>"),
]


def _parses_or_refuses(source: str | bytes) -> None:
    refusal = None
    try:
        assert isinstance(parse(source), tree.Module)
    except PtxSyntaxError as error:
        refusal = error
    if refusal is not None:
        assert min(refusal.line, refusal.column) >= 0
        assert refusal.message


def _compiles_or_refuses(source: str | bytes) -> None:
    try:
        module = compiler.compile_ptx(source, capability=(9, 0))
    except PtxError as error:
        refusal = error
    else:
        verify.check_module(module)
        return
    assert refusal.log().startswith("<ptx>:")
    if isinstance(refusal, InvalidPtxError):
        assert all(finding.line >= 1 and finding.message for finding in refusal.diagnostics)


def test_the_seed_itself_is_ptx() -> None:
    assert len(parse(SEED).functions) == 2


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes(data: bytes) -> None:
    _parses_or_refuses(data)
    _parses_or_refuses(HEAD.encode() + data)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_mutations_of_ptx(data: st.DataObject) -> None:
    """Cut, repeat, and insert fragments of syntax anywhere; also compile the result."""
    sources = [SEED, (EXAMPLES / "saxpy.ptx").read_text()]
    text = data.draw(st.sampled_from(sources))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        piece = data.draw(
            st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=3), st.just(text[start:end] * 2))
        )
        text = text[:start] + piece + text[end:]
    _parses_or_refuses(text)
    _compiles_or_refuses(text)


MODIFIER = re.compile(r"(?<=[a-z0-9])\.[a-z][A-Za-z0-9_:]*")


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_mutations_of_modifiers(data: st.DataObject) -> None:
    """Change, drop, repeat and swap modifiers: the result is PTX, or is refused with its line."""
    text = data.draw(st.sampled_from([SEED, (EXAMPLES / "saxpy.ptx").read_text()]))
    for _ in range(data.draw(st.integers(1, 3))):
        places = [match.span() for match in MODIFIER.finditer(text)]
        start, end = data.draw(st.sampled_from(places))
        other = slice(*data.draw(st.sampled_from(places)))
        word = text[start:end]
        at = data.draw(st.integers(1, len(word)))
        letter = data.draw(st.sampled_from("abfnrsuxz0123468:._"))
        word = data.draw(
            st.sampled_from(
                [
                    *("", word * 2, word.upper(), text[other], word + text[other]),
                    *(word[:at] + letter + word[at:], word[: at - 1] + word[at:]),
                ]
            )
        )
        text = text[:start] + word + text[end:]
    _parses_or_refuses(text)
    _compiles_or_refuses(text)


@given(st.lists(st.sampled_from(SEED.split() + FRAGMENTS), max_size=60))
@settings(max_examples=200, deadline=None)
def test_words_in_any_order(words: list[str]) -> None:
    _compiles_or_refuses(HEAD + ".entry k() { .reg .b32 %r<9>; " + " ".join(words) + " }")


N = 20_000
LINEAR_N = 500


@pytest.mark.parametrize(
    "text",
    [
        ".entry k() { " + "{" * N,
        ".entry k() { mov.u32 a, " + "(" * N,
        ".entry k() { mov.u32 a, " + "-" * N + "1; }",
        ".entry k() { mov.u32 a, " + "(.u64)" * N + "1; }",
        ".entry k() { mov.u32 a, " + "1?" * N,
        ".entry k() { mov.u32 a, " + "1?1:" * N + "1; }",
        ".entry k() { mov.u32 a, " + "[" * N,
        ".entry k() { mov.u32 a, " + "{" * N,
        ".entry k() { call " + "(" * N,
        ".entry k() { mov.u32 a, " + "a[" * N,
        ".entry k() { mov.u32 a, " + "generic(" * N,
        ".global .u32 a = " + "{" * N,
        ".global .u32 a = " + "b = " * N,
        ".global .u8 a = " + "0xFF(" * N,
    ],
    ids=lambda text: text[-30:],
)
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    with pytest.raises(PtxSyntaxError, match=r"nest(ed)? deeper than (64|32|16)|operand"):
        parse(HEAD + text)


def test_thousands_of_nested_loops_compile() -> None:
    """Nesting without syntactic scopes: 10,000 backward branches inside each other."""
    count = 10_000
    heads = "".join(f"L{i}: add.u32 %r{i % 8}, %r{i % 8}, 1;\n" for i in range(count))
    tails = "".join(f"@%p0 bra L{i};\n" for i in reversed(range(count)))
    registers = ".reg .pred %p<1>; .reg .b32 %r<8>;"
    source = f"{HEAD}.entry k() {{ {registers}\n{heads}{tails}ret; }}"
    (function,) = compiler.compile_ptx(source, capability=(9, 0)).functions
    assert len(function.code) == 2 * count + 1


def _switch(count: int) -> isa.Module:
    targets = ", ".join(f"L{i}" for i in range(count))
    ways = "".join(f"L{i}: add.u32 %r1, %r1, {i}; bra.uni END;\n" for i in range(count))
    source = f"""{HEAD}.entry k() {{ .reg .b32 %r<8>; mov.u32 %r1, %tid.x;
    T: .branchtargets {targets};\nbrx.idx %r1, T;\n{ways}END: ret; }}"""
    return compiler.compile_ptx(source, capability=(9, 0))


def test_a_switch_of_ten_thousand_ways_compiles() -> None:
    """10,000 ways compile to verified ISA that the JIT does not refuse, and 500 to the JIT's LLVM
    IR.
    """
    (function,) = _switch(10_000).functions
    assert len(function.code) > 20_000
    assert not list(jit.refusals(function))
    module = _switch(500)
    text = jit.Compiler().emit_llvm(module, module.functions[0], (64, 1, 1))
    assert text.count("br i1") >= 500


def _is_linear(work: Callable[[int], None], constant_s: float) -> bool:
    """Return whether eight times the size takes less than 24 times as long, in one of three
    attempts.
    """
    few, many = [], []
    for _ in range(3):
        for count, seconds in ((LINEAR_N, few), (8 * LINEAR_N, many)):
            start = time.process_time()
            work(count)
            seconds.append(time.process_time() - start)
        if min(many) < 24 * min(few) + constant_s:
            return True
    return False


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        (".entry k() { mov.u32 a, ", "1+", "1; }"),
        (".entry k() { mov.u32 a, {", "b, ", "c}; }"),
        (".entry k() { ", "mov.u32 a, b; ", "}"),
        (".entry k() { ", "{ } ", "}"),
        (".entry k() { ", "L: ", "}"),
        (".entry k() { ", ".reg .b32 r<5>; ", "}"),
        (".global .u32 a[] = {", "1, ", "2};"),
        ("/*", "*", "*/"),
        ("", "/**/", ""),
        (".section .s {", ".source_begin.source_end ", "}"),
        ("//", "/*", ""),
        ('.file 1 "', "\\\\", '"'),
        ("", "\n", ""),
        (".section .s {", ".b8 1 ", "}"),
    ],
)
def test_time_is_linear_in_size(before: str, repeated: str, after: str) -> None:
    """Eight times the input takes about eight times as long; a quadratic parser would take 64."""

    def read(count: int) -> None:
        parse(HEAD + before + repeated * count + after)

    assert _is_linear(read, 0.02)


def test_sources_that_do_not_end_are_refused_in_linear_time() -> None:
    """A word that may begin a source must not cause a search of the remaining text for its end."""

    def read(count: int) -> None:
        with pytest.raises(PtxSyntaxError):
            parse(HEAD + ".source_begin " * count)

    assert _is_linear(read, 0.02)


def test_size_caps() -> None:
    with pytest.raises(PtxSyntaxError, match="token is too long"):
        parse(HEAD + ".global .u32 " + "a" * (limits.MAX_IDENTIFIER_CHARACTERS + 1) + ";")
    with pytest.raises(PtxSyntaxError, match="token is too long"):
        parse(HEAD + ".global .u32 a = " + "1" * 100_000 + ";")
    with pytest.raises(PtxSyntaxError, match="longer than"):
        parse(" " * (limits.MAX_SOURCE_CHARACTERS + 1))


def test_initial_values_cost_what_is_written() -> None:
    """The cost depends on the written values, not on the declared size, and padding is bounded."""
    entry = ".entry k() { .reg .b64 %d; mov.u64 %d, g; ret; }"
    text = HEAD + ".func f() { ret; }\n.global .u64 g[1000000000] = {1, f};" + entry
    module = compiler.compile_ptx(text, capability=(9, 0))
    assert len(module.variables[0].initial) <= 16
    padded = "".join(f".global .u8 p{i}[2][30000000] = {{{{1}}, {{1}}}};\n" for i in range(100))
    module = compiler.compile_ptx(
        HEAD + padded + ".entry k() { ret; }", capability=(9, 0), partial=True
    )
    assert sum(len(variable.initial) for variable in module.variables) < 1 << 26
    assert len(module.refused) == 99
    assert "bytes of initial values" in module.refused[0].reasons[0].message


def test_huge_declarations_cost_nothing() -> None:
    text = """
    .entry k() { .reg .b32 %r<4294967295>; .reg .b32 %q<999999999999>; mov.u32 %r4294967294, 1;
    mov.u32 %q0, 2; ret; }
    """
    start = time.process_time()  # registering each name would never end
    with pytest.raises(PtxError, match="not declared"):
        compiler.compile_ptx(HEAD + text.replace("%q0", "%q999999999999"), capability=(9, 0))
    assert time.process_time() - start < 60


@pytest.mark.parametrize(
    "statement",
    [
        ".shared .u32 s{};",
        "bar.sync {};",
        ".reg .b128 q{};",
        "mov.u32 %r1, {};",
        "L{0}: bra L{0};",
        "{{ .reg .b32 %r<9>; mov.u32 %r1, {}; }}",
    ],
)
def test_compiling_takes_linear_time(statement: str) -> None:
    """Refusals too: each is found and reported without another search of the file."""

    def compile_count(count: int) -> None:
        body = "\n".join(statement.format(i) for i in range(count))
        _compiles_or_refuses(f"{HEAD}.entry k() {{ .reg .b32 %r<9>;\n{body}\n}}")

    assert _is_linear(compile_count, 0.05)


def test_text_that_no_encoding_takes_is_replaced() -> None:
    module = compiler.compile_ptx(HEAD + "// \ud800\n.entry k() { ret; }", capability=(9, 0))
    assert container.decode(container.encode(module)) == module


_FUNCTION = ".func f{0}() {{ .reg .b32 %r<2>; add.u32 %r1, %r1, {0}; {1} ret; }}\n"


def _chain(count: int, *, kernel: bool, forward: bool = False) -> str:
    calls = ["", *(f"call f{i};" for i in range(count - 1))]
    functions = [_FUNCTION.format(i, call) for i, call in enumerate(calls)]
    declared = "".join(f".func f{i}();\n" for i in range(count)) if forward else ""
    entry = f".entry k() {{ call f{count - 1}; ret; }}" if kernel else ""
    return HEAD + declared + "".join(reversed(functions) if forward else functions) + entry


@pytest.mark.parametrize(("kernel", "forward"), [(True, False), (False, False), (False, True)])
def test_chains_of_functions_take_linear_time(kernel: bool, forward: bool) -> None:
    """A function is lowered once to find its errors, not once for each of its callers."""

    def compile_count(count: int) -> None:
        compiler.compile_ptx(_chain(count // 5, kernel=kernel, forward=forward), capability=(9, 0))

    assert _is_linear(compile_count, 0.05)


def test_errors_in_a_function_are_found_without_a_caller() -> None:
    wrong = ".func g() { mov.u32 a, b; ret; }\n"
    for rest in ("", ".func h() { call g; ret; }", ".entry k() { call g; ret; }"):
        with pytest.raises(InvalidPtxError, match="'b' is not declared"):
            compiler.compile_ptx(HEAD + wrong + rest, capability=(9, 0))


@pytest.mark.parametrize(("functions", "depth"), [(47, 60), (47, 3), (90, 60)])
def test_calls_inside_deep_scopes_compile(functions: int, depth: int) -> None:
    """Inlined calls inside scopes inside calls: Python's stack is large enough for all of them."""
    inside = "{" * depth + " call f{0}; " + "}" * depth
    calls = ["", *(inside.replace("{0}", str(i)) for i in range(functions - 1))]
    text = "".join(_FUNCTION.format(i, call) for i, call in enumerate(calls))
    entry = f".entry k() {{ {inside.replace('{0}', str(functions - 1))} ret; }}"
    (kernel,) = compiler.compile_ptx(HEAD + text + entry, capability=(9, 0)).functions
    assert len(kernel.code) > functions


def test_a_module_has_so_many_kernels_and_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel contains the code of the functions that it calls, so a short file can require any
    amount of code.
    """
    many = HEAD + "".join(f".entry k{i}() {{ ret; }}\n" for i in range(1500))
    module = compiler.compile_ptx(many, capability=(9, 0))
    assert container.decode(container.encode(module)) == module
    monkeypatch.setattr(modules, "MAXIMUM_FUNCTIONS", 1499)
    with pytest.raises(UnsupportedPtxError, match="more than 1499 kernels"):
        compiler.compile_ptx(many, capability=(9, 0), partial=True)
    body = "add.u32 %r1, %r1, 1;\n" * 100
    shared = f".func f() {{ .reg .b32 %r<2>;\n{body} ret; }}\n"
    monkeypatch.setattr(modules, "MAXIMUM_MODULE_WORDS", 5_000)
    kernels = "".join(f".entry k{i}() {{ call f; ret; }}\n" for i in range(500))
    lower, lowered = modules.lower_function, []

    def count_lowered(function: tree.Function, *rest: Any) -> isa.Function | None:
        lowered.append(function)
        return lower(function, *rest)

    monkeypatch.setattr(modules, "lower_function", count_lowered)
    with pytest.raises(UnsupportedPtxError, match="more than 5000 instructions"):
        compiler.compile_ptx(HEAD + shared + kernels, capability=(9, 0), partial=True)
    assert len(lowered) <= 50  # lowering stops early, before all 500 are lowered


def test_linking_takes_linear_time_and_so_much_text() -> None:
    def link_files(count: int) -> None:
        text = "// " + "x" * 97 + "\n"
        files = [linking.Input(f"{i}.ptx", HEAD + text * (count // 4)) for i in range(32)]
        linking.link(files, (9, 0))

    assert _is_linear(link_files, 0.05)
    blank = " " * (limits.MAX_SOURCE_CHARACTERS // 2)
    with pytest.raises(LinkError, match="characters in all"):
        linking.link([linking.Input(name, HEAD + blank) for name in "ab"], (9, 0))


@pytest.mark.parametrize("statement", ["bar.sync 0;", "shfl.sync.idx.b32 %r1, %r1, 3, 31, -1;"])
def test_generating_code_takes_linear_time(statement: str) -> None:
    def generate(count: int) -> None:
        body = f"{statement} add.u32 %r1, %r1, 1;\n" * (count // 4)
        text = f"{HEAD}.entry k() {{ .reg .b32 %r<9>; mov.u32 %r1, %tid.x;\n{body}ret; }}"
        module = compiler.compile_ptx(text, capability=(9, 0))
        jit.Compiler().emit_llvm(module, module.functions[0], (64, 1, 1))

    assert _is_linear(generate, 0.1)


def test_branches_to_anywhere_are_refused_before_they_take_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = []
    find = reducible._components

    def count_components(graph: cfg.Cfg, region: set[int]) -> Iterable[set[int]]:
        looked_at.append(len(region))
        return find(graph, region)

    count = 1200
    body = "".join(f"L{i}: @%p1 bra L{i * 7919 % count};\n" for i in range(count))
    text = f"{HEAD}.entry k() {{ .reg .pred %p<2>;\n{body}ret; }}"
    (function,) = compiler.compile_ptx(text, capability=(9, 0)).functions
    monkeypatch.setattr(reducible, "_components", count_components)
    monkeypatch.setattr(reducible, "MAX_LOOKS", 1 << 15)
    (refusal,) = jit.refusals(function)
    assert "nest too deep" in refusal.what
    assert 0 < sum(looked_at) <= reducible.MAX_LOOKS
