"""The grammar of PTX: syntax trees, and errors with their positions."""

from typing import Any

import pytest

from vgpu_sim.compiler import PtxSyntaxError
from vgpu_sim.compiler.ptx import parse, tree
from vgpu_sim.compiler.ptx.lexer import Kind, tokenize

HEAD = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n"


def _module(text: str) -> tree.Module:
    return parse(HEAD + text)


def _body(text: str) -> tuple[tree.Statement, ...]:
    (function,) = _module(f".entry k()\n{{\n{text}\n}}").functions
    assert function.body is not None
    return function.body.statements


def _instruction(text: str) -> tree.Instruction:
    (statement,) = _body(text)
    assert isinstance(statement, tree.Instruction)
    return statement


def _operand(text: str) -> tree.Operand:
    (operand,) = _instruction(f"bra {text};").operands
    return operand


def _name(text: str, component: str = "", column: int = 5) -> tree.Name:
    return tree.Name(text, 6, column, component)


def test_file_level_directives() -> None:
    module = _module("""
        .file 1 "a.cu"
        .file 2 "b.cu", 1700000000, 42
        .pragma "nounroll", "x";
        .alias f, g;
        .loc 1 2 3
        @@DWARF old style
        .section .debug_str { info: .b8 104,105,0 .b32 info+4 .b64 a-b .b8 0 }
        .section .debug_loc { }
        ;
    """)
    assert module.version == (9, 0)
    assert module.address_size == 64
    assert module.targets[0].options == ("sm_90a", "debug")
    assert [(f.index, f.name) for f in module.files] == [(1, "a.cu"), (2, "b.cu")]
    assert module.pragmas[0].strings == ("nounroll", "x")
    assert (module.aliases[0].name, module.aliases[0].aliasee) == ("f", "g")
    assert [s.name for s in module.sections] == [".debug_str", ".debug_loc"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", tree.Integer(0)),
        ("017", tree.Integer(15)),
        ("0x1F", tree.Integer(31)),
        ("0b101", tree.Integer(5)),
        ("42U", tree.Integer(42, unsigned=True)),
        ("0xFFFFFFFFFFFFFFFF", tree.Integer((1 << 64) - 1, unsigned=True)),
        ("-5", tree.Integer(-5)),
        ("WARP_SZ", tree.Integer(32)),
        ("0f3F800000", tree.Float(0x3F800000, 32)),
        ("0F3f800000", tree.Float(0x3F800000, 32)),
        ("0dBFF0000000000000", tree.Float(0xBFF0000000000000, 64)),
        ("1.5", tree.Float(0x3FF8000000000000, 0)),
        ("-2e3", tree.Float(0xC09F400000000000, 0)),
        ("-0f3F800000", tree.Float(0xBF800000, 32)),
        ("1+2*3", tree.Integer(7)),
        ("(1+2)*3", tree.Integer(9)),
        ("10-2-3", tree.Integer(5)),
        ("-7/2", tree.Integer(-3)),
        ("-7 % 2", tree.Integer(-1)),
        ("-1 >> 1", tree.Integer(-1)),
        ("(.u64)(-1) >> 60", tree.Integer(15, unsigned=True)),
        ("0xFFFFFFFFFFFFFFFF > -1", tree.Integer(0)),
        ("-1 < 1", tree.Integer(1)),
        ("-1 < 1U", tree.Integer(0)),
        ("1 << 3 | 4 & ~4 ^ 1", tree.Integer(9)),
        ("5 << 0", tree.Integer(5)),
        ("-5 >> 63", tree.Integer(-1)),
        ("!5 + !0", tree.Integer(1)),
        ("1 && 0 || 1", tree.Integer(1)),
        ("2 && 0", tree.Integer(0)),
        ("0 && 2", tree.Integer(0)),
        ("2 && 4", tree.Integer(1)),
        ("0 || 0", tree.Integer(0)),
        ("0 || 2", tree.Integer(1)),
        ("1 ? 2 ? 3 : 4 : 5", tree.Integer(3)),
        ("0 ? 2 : 0 ? 4 : 5", tree.Integer(5)),
        ("3 == 3 != 0", tree.Integer(1)),
        *((f"{a} <= 1", tree.Integer(int(a <= 1))) for a in (0, 1, 2)),
        *((f"{a} >= 1", tree.Integer(int(a >= 1))) for a in (0, 1, 2)),
        *((f"{a} < 1", tree.Integer(int(a < 1))) for a in (0, 1, 2)),
        *((f"{a} > 1", tree.Integer(int(a > 1))) for a in (0, 1, 2)),
        ("0x7FFFFFFFFFFFFFFF + 1", tree.Integer(-(1 << 63))),
    ],
)
def test_constant_expressions_are_folded(text: str, wanted: tree.Operand) -> None:
    assert _operand(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%r1", _name("%r1")),
        ("%tid.x", _name("%tid", "x")),
        ("$L_1", _name("$L_1")),
        ("d", _name("d")),
        ("_", tree.Sink()),
        ("sym+4", tree.Offset(_name("sym"), 4)),
        ("sym-4+1", tree.Offset(_name("sym"), -3)),
        ("8+sym", tree.Offset(_name("sym", column=7), 8)),
        ("a[3]", tree.Element(_name("a"), tree.Integer(3))),
        ("!p", tree.Not(_name("p", column=6))),
        ("-%r1", tree.Negated(_name("%r1", column=6))),
        ("%r1.b0", _name("%r1", "b0")),
        ("p|_", tree.Pair(_name("p"), tree.Sink())),
        ("(p)|q", tree.Pair(_name("p", column=6), _name("q", column=9))),
        ("{a, _, 5}", tree.Vector((_name("a", column=6), tree.Sink(), tree.Integer(5)))),
        ("{a}|p", tree.Pair(tree.Vector((_name("a", column=6),)), _name("p", column=9))),
        ("[a]", tree.Memory((_name("a", column=6),))),
        ("[a+-4]", tree.Memory((tree.Offset(_name("a", column=6), -4),))),
        ("[a+4]", tree.Memory((tree.Offset(_name("a", column=6), 4),))),
        ("[0x10]", tree.Memory((tree.Integer(16),))),
        (
            "[t, {x, 1}]",
            tree.Memory(
                (_name("t", column=6), tree.Vector((_name("x", column=10), tree.Integer(1))))
            ),
        ),
        (
            "[t, s, {x}]",
            tree.Memory(
                (
                    _name("t", column=6),
                    _name("s", column=9),
                    tree.Vector((_name("x", column=13),)),
                )
            ),
        ),
    ],
)
def test_operands(text: str, wanted: tree.Operand) -> None:
    assert _operand(text) == wanted


def test_an_instruction_with_everything() -> None:
    found = _instruction("@!%p1 setp.lt.and.ftz.f32 %p2|%p3, %f1, 0f00000000, !%p4;")
    assert found.guard is not None
    assert (found.guard.predicate.text, found.guard.negated) == ("%p1", True)
    assert (found.opcode, found.modifiers) == ("setp", (".lt", ".and", ".ftz", ".f32"))
    assert len(found.operands) == 4
    assert (found.line, found.column) == (6, 1)


def test_modifiers_with_colons_digits_and_blanks() -> None:
    assert _instruction("ld .global.L2::128B.v4 .u32 {a,b,c,d}, [e];").modifiers == (
        ".global",
        ".L2::128B",
        ".v4",
        ".u32",
    )
    assert _instruction("tex.2d.v4.f32.f32 {a,b,c,d}, [t, {x, y}];").modifiers[0] == ".2d"


def test_calls() -> None:
    call = _instruction("call (r), %fp, (a, 5, b), proto;")
    first, callee, arguments, prototype = call.operands
    assert isinstance(first, tree.Arguments)
    assert isinstance(arguments, tree.Arguments)
    assert len(arguments.elements) == 3
    assert isinstance(callee, tree.Name)
    assert isinstance(prototype, tree.Name)
    assert _instruction("call.uni f;").operands[0] == tree.Name("f", 6, 10)


def test_statements_of_a_body() -> None:
    statements = _body("""
        .reg .pred %p<3>, q;
        .reg .v4 .f32 v;
        .shared .align 16 .b8 s[4][8];
        .local .b32 x, y;
        .param .b32 retval0;
        .pragma "nounroll";
        .loc 1 2 3, function_name $L+4, inlined_at 1 5 6
        P: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn;
        T: .branchtargets A, B;
        .calltargets f, g;
        A: { .reg .u32 %r; B: ret; };;
    """)
    kinds = [type(statement).__name__ for statement in statements]
    assert kinds == [
        *("Registers", "Registers", "Variable", "Variable", "Variable", "Variable"),
        *("Pragma", "Location", "Label", "CallPrototype", "Label"),
        *("BranchTargets", "BranchTargets", "Label", "Block"),
    ]
    predicates: Any = statements[0]
    assert [(n.name, n.count) for n in predicates.names] == [("%p", 3), ("q", None)]
    shared: Any = statements[2]
    assert (shared.space, shared.align, shared.dimensions) == (tree.Space.SHARED, 16, (4, 8))
    prototype: Any = statements[9]
    assert prototype.parameters[1].dimensions == (16,)
    assert prototype.directives[0].name == ".noreturn"


def test_functions_and_their_directives() -> None:
    module = _module("""
        .visible .entry a(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 q[24])
          .maxntid 256, 1, 1 .minnctapersm 2 .maxnreg 64 .pragma "x";
          .reqnctapercluster 2 .explicitcluster .blocksareclusters .maxclusterrank 8
        { ret; }
        .weak .func (.param .b32 r, .reg .f32 s) f (.param .b8 v[]) .noreturn
        { ret; }
        .extern .func g;
        .func .attribute(.unified(1, 2)) h() ;
    """)
    a, f, g, h = module.functions
    assert (a.is_entry, a.linkage, a.name) == (True, tree.Linkage.VISIBLE, "a")
    assert a.parameters[0].pointer == tree.Pointer(tree.Space.GLOBAL, 16)
    assert (a.parameters[1].align, a.parameters[1].dimensions) == (8, (24,))
    assert [(d.name, d.arguments) for d in a.directives][:2] == [
        (".maxntid", (256, 1, 1)),
        (".minnctapersm", (2,)),
    ]
    assert (f.is_entry, f.linkage, len(f.returns)) == (False, tree.Linkage.WEAK, 2)
    assert f.parameters[0].dimensions == (None,)
    assert (g.body, h.body) == (None, None)
    assert h.attributes == (tree.Attribute(".unified", (1, 2)),)


def test_variables() -> None:
    module = _module("""
        .visible .global .align 4 .u32 a = 5, b;
        .const .v4 .f32 c = {1.0, 0f3F800000, -2.5, 0d0000000000000000};
        .global .u8 d[2][3] = {{1, 2}, {3}}, e[] = {0xFF(a), 0xFF00(a+4)};
        .global .u64 f[3] = {a, b+8, generic(a)+4};
        .extern .shared .align 16 .b8 g[];
        .global .attribute(.managed) .u32 h;
        .global .samplerref s = { addr_mode_0 = clamp_to_edge, filter_mode = nearest };
        .tex .u32 t; .global .texref u; .common .global .u32 w<4>;
    """)
    by_name = {v.name: v for v in module.variables}
    assert by_name["a"].initial == tree.Integer(5)
    assert (by_name["b"].align, by_name["b"].initial) == (4, None)
    assert by_name["c"].vector == ".v4"
    assert by_name["d"].initial == tree.ValueList(
        (
            tree.ValueList((tree.Integer(1), tree.Integer(2))),
            tree.ValueList((tree.Integer(3),)),
        )
    )
    masks: Any = by_name["e"].initial
    assert [m.mask for m in masks.elements] == [0xFF, 0xFF00]
    addresses: Any = by_name["f"].initial
    assert [type(x).__name__ for x in addresses.elements] == ["Name", "Offset", "GenericAddress"]
    assert by_name["g"].dimensions == (None,)
    assert by_name["h"].attributes[0].name == ".managed"
    fields: Any = by_name["s"].initial
    assert [field.name for field in fields.elements] == ["addr_mode_0", "filter_mode"]
    assert (by_name["w"].linkage, by_name["w"].count) == (tree.Linkage.COMMON, 4)


def test_a_table_of_numbers_is_one_token_with_the_same_values() -> None:
    numbers = [0, 255, 256, 999_999_999, *range(1, 20)]
    plain, other = ", ".join(map(str, numbers)), ",\n".join(map(str, numbers))
    source = f".global .u32 a[] = {{{plain}}}, b[] = {{ {other} }}, c[] = {{{plain}, 010}};"
    module = _module(source + "\n.global .u32 d;")
    wanted = tuple(map(tree.Integer, numbers))
    a, b, c, d = module.variables
    assert a.initial == b.initial == tree.ValueList(wanted)
    assert c.initial == tree.ValueList((*wanted, tree.Integer(8)))
    assert d.line == a.line + len(numbers)
    kinds = [token.kind for token in tokenize(source)]
    assert kinds.count(Kind.NUMBERS) == 2


def test_comments_and_ends_of_input() -> None:
    module = parse(
        b"// caf\xe9 \xff\n/* three\n\nlines */ " + HEAD.encode() + b".entry k(){ret;}\0\0"
    )
    assert (module.functions[0].line, module.targets[0].line) == (7, 5)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "must begin with '.version', found the end of the file"),
        ("ELF", 1, 1, "must begin with '.version', found 'ELF'"),
        (".version 9", 1, 10, "expected a version such as 9.0"),
        (".version 9e1", 1, 10, "expected a version such as 9.0"),
        (".version 9.0\n", 2, 1, "expected a '.target' directive"),
        (".version 9.0\n.entry k() {}", 2, 1, "expected a '.target' directive before"),
        (HEAD + "/* x", 4, 1, "comment is not closed"),
        (HEAD + "x /* y", 4, 1, "expected a declaration or a directive"),  # the first of two errors
        (HEAD + " .source_begin x", 4, 2, "'.source_begin' is not closed"),
        (HEAD + '.file 1 "x\n"', 4, 9, "string is not closed"),
        (HEAD + "#define X", 4, 1, "preprocessor"),
        (HEAD + ".global .u32 x = 12abc;", 4, 18, "malformed number '12abc'"),
        (HEAD + ".global .u32 x = 08;", 4, 18, "malformed octal number 08"),
        (HEAD + ".global .u32 x = 0x10000000000000000;", 4, 18, "does not fit 64 bits"),
        (HEAD + ".global .u32 x = 1e999;", 4, 18, "too large"),
        (HEAD + ".global .u32 x = 1/0;", 4, 19, "division by zero"),
        (HEAD + ".global .u32 x = 1<<64;", 4, 19, "shift count"),
        (HEAD + ".global .u32 x = 1.0+1;", 4, 21, "floating-point"),
        (HEAD + ".global .u32 x = a*2;", 4, 19, "must be constants"),
        (HEAD + ".global .u33 x;", 4, 9, "unknown type or specifier, found '.u33'"),
        (HEAD + ".global x;", 4, 9, "expected a type, found 'x'"),
        (HEAD + ".global .align 3 .u32 x;", 4, 16, "power of two"),
        (HEAD + ".address_size 48", 4, 15, "expected the address size 32 or 64"),
        (HEAD + ".entry k() .maxntid 1,2,3,4 {}", 4, 12, "wrong number of arguments"),
        (HEAD + ".entry k() .frob {}", 4, 12, "unknown directive of a function"),
        (HEAD + ".entry k()", 4, 11, "expected a function body or ';', found the end"),
        (HEAD + ".entry k() { add.u32 %r1 }", 4, 26, "expected ';', found '}'"),
        (HEAD + ".entry k() { ld.u32 %r1, []; }", 4, 28, "expected an address"),
        (HEAD + ".entry k() { ret; ", 4, 19, "expected a statement, found the end"),
        (HEAD + ".entry k() { .frob; }", 4, 14, "unknown directive in a function"),
        (HEAD + ".entry k() { 5; }", 4, 14, "expected a statement, found '5'"),
        (HEAD + ".entry k() { mov.u32 %r1, é; }", 4, 27, "unexpected character 'é'"),
        (HEAD + "\0.entry", 4, 1, "unexpected character"),
        (HEAD + "\n\n  .frob", 6, 3, "expected a declaration or a directive"),
        (HEAD + ".section .x { ( }", 4, 15, "expected debug data"),
    ],
)
def test_syntax_errors_say_where(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(PtxSyntaxError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize(
    ("directive", "most"),
    [
        *((name, 3) for name in ("maxntid", "reqntid", "reqnctapercluster")),
        *((name, 1) for name in ("maxnreg", "minnctapersm", "maxnctapersm", "maxclusterrank")),
        *((name, 1) for name in ("minperctamemory", "abi_preserve", "abi_preserve_control")),
    ],
)
def test_a_directive_takes_up_to_so_many_numbers(directive: str, most: int) -> None:
    def entry(count: int) -> str:
        return HEAD + f".entry k() .{directive} {', '.join('2' * count)} {{}}"

    parse(entry(1))
    parse(entry(most))
    with pytest.raises(PtxSyntaxError, match="wrong number of arguments"):
        parse(entry(most + 1))


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (".global .u32 a = {open}1{close};", 31),  # the expression itself counts as one level
        (".global .u32 a = {{{open}1{close}}};", 31),
    ],
)
def test_expressions_nest_as_deep_as_the_limit_says(text: str, most: int) -> None:
    parse(HEAD + text.format(open="(" * most, close=")" * most))
    with pytest.raises(PtxSyntaxError, match="nest deeper than 32"):
        parse(HEAD + text.format(open="(" * (most + 1), close=")" * (most + 1)))


@pytest.mark.parametrize(
    "term", ["1", "~1", "(1)", "(.u64)1", "(.u64)~1", "(1 ? 2 : 3)", "(1 * 2)", "- -1"]
)
def test_earlier_expressions_do_not_change_the_depth_limit(term: str) -> None:
    """Otherwise the limit would refuse long expressions, or no longer apply after them."""
    before = HEAD + ".global .u32 a = " + f"{term} + " * 40
    parse(f"{before}{'(' * 30}1{')' * 30};")  # in an expression, on the right of an operator
    with pytest.raises(PtxSyntaxError, match="nest deeper than 32"):
        parse(f"{before}{'(' * 31}1{')' * 31};")
