"""Several PTX files as one module: the definition that a name denotes, and files that cannot be
linked.
"""

import numpy as np
import pytest

from support.execution.interpreted_ptx import run
from vgpu_sim.compiler import InvalidPtxError
from vgpu_sim.compiler.errors import LinkError
from vgpu_sim.compiler.linking import Input, check, link, split_files
from vgpu_sim.isa import Module, container
from vgpu_sim.isa.verify import check_module

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _link(*texts: str) -> Module:
    inputs = [Input(f"{name}.ptx", HEAD + text) for name, text in zip("abcd", texts, strict=False)]
    module = link(inputs, (9, 0))
    check_module(module)
    return module


def _reader(kernel: str, variable: str) -> str:
    return f"""
.visible .entry {kernel}(.param .u64 out)
{{
    .reg .b64 %d; .reg .b32 %r;
    ld.param.u64 %d, [out]; ld.global.u32 %r, [{variable}]; st.global.u32 [%d], %r; ret;
}}
"""


def _value(module: Module, kernel: str) -> int:
    (out,) = run(module, [np.zeros(1, np.uint32)], name=kernel, block=(1, 1, 1))
    return int(out[0])


def test_an_extern_variable_is_what_another_file_defines() -> None:
    module = _link(
        ".extern .global .u32 x;" + _reader("k", "x"), ".visible .global .align 4 .u32 x = 7;"
    )
    assert [v.name for v in module.variables] == ["x"]
    assert _value(module, "k") == 7


def test_names_without_linkage_are_each_files_own() -> None:
    own = ".global .u32 x = {};.global .u64 p = x;"
    module = _link(own.format(1) + _reader("k", "x"), own.format(2) + _reader("l", "x"))
    assert (_value(module, "k"), _value(module, "l")) == (1, 2)
    assert len({v.name for v in module.variables}) == 4
    assert len({r.name for v in module.variables for r in v.relocations}) == 2


def test_a_name_inside_hides_the_files_own() -> None:
    shadow = ".visible .entry l() { .reg .b32 x; mov.b32 x, 1; ret; }"
    module = _link(".global .u32 x = 1;" + _reader("k", "x"), ".global .u32 x = 2;" + shadow)
    assert _value(module, "k") == 1


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        (".weak .global .u32 x = 1;", ".visible .global .u32 x = 2;", 2),
        (".visible .global .u32 x = 2;", ".weak .global .u32 x = 1;", 2),
        (".weak .global .u32 x = 1;", ".weak .global .u32 x = 3;", 1),
        (".common .global .u32 x;", ".weak .global .u32 x = 3;", 3),
        (".common .global .u32 x;", ".common .global .u32 x;", 0),
    ],
)
def test_which_of_several_definitions_counts(first: str, second: str, value: int) -> None:
    reader = ".extern .global .u32 x;" + _reader("k", "x")
    module = _link(reader, first, second)
    assert len(module.variables) == 1
    assert _value(module, "k") == value


_CALL = """
.visible .entry k(.param .u64 out)
{{
    .reg .b64 %d<3>; .reg .b32 %r<3>;
    ld.param.u64 %d1, [out];
    {{ .param .b32 a; .param .b32 r; mov.b32 %r1, 5; st.param.b32 [a], %r1; {} ld.param.b32 %r2, [r]; }}
    add.u32 %r2, %r2, 30;
    st.global.u32 [%d1], %r2; ret;
}}
"""
_STORE = "{{ .reg .b32 %r; ld.param.{0} %r, [a]; {1}ret; }}"


@pytest.mark.parametrize(
    ("declared", "call", "defined", "value"),
    [
        (  # a result that the definition does not have, as numba declares void functions
            ".extern .func (.param .b32 r) f(.param .b32 a);",
            "call.uni (r), f, (a);",
            ".visible .func f(.param .b32 a)" + _STORE.format("b32", ""),
            30,
        ),
        (  # a result that is not declared
            ".extern .func f(.param .b32 a);",
            "call.uni f, (a); st.param.b32 [r], 2;",
            ".visible .func (.param .b32 r) f(.param .b32 a)"
            + _STORE.format("b32", "st.param.b32 [r], %r; "),
            32,
        ),
        (  # other types of the same size
            ".extern .func (.param .u32 r) f(.param .f32 a);",
            "call.uni (r), f, (a);",
            ".visible .func (.param .align 4 .b8 r[4]) f(.param .align 4 .b8 a[4])"
            + _STORE.format("b32", "st.param.b32 [r], %r; "),
            35,
        ),
    ],
)
def test_declarations_of_functions_need_not_agree_in_everything(
    declared: str, call: str, defined: str, value: int
) -> None:
    assert _value(_link(declared + _CALL.format(call), defined), "k") == value


def test_declarations_of_variables_may_have_other_types_of_the_same_size() -> None:
    text = ".extern .global .align 4 .b32 x;" + _reader("k", "x")
    assert _value(_link(text, ".visible .global .u32 x = 7;"), "k") == 7


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            (".extern .global .u32 x;" + _reader("k", "x"), ""),
            "error : Undefined reference to 'x' in 'a.ptx'",
        ),
        (
            (".visible .global .u32 x;", ".visible .global .u32 x;"),
            "error : Multiple definition of 'x' in 'b.ptx', first defined in 'a.ptx'",
        ),
        (
            (".visible .entry k() { ret; }", ".visible .entry k() { ret; }"),
            "error : Multiple definition of 'k' in 'b.ptx', first defined in 'a.ptx'",
        ),
        (
            (".extern .global .u64 x;" + _reader("k", "x"), ".visible .global .u32 x;"),
            "error : 'x' is declared with another type in 'a.ptx' than in 'b.ptx'",
        ),
        (
            (
                ".extern .func f(); .visible .entry k() { call f; ret; }",
                ".visible .func f(.param .b32 a) { ret; }",
            ),
            "error : 'f' is declared with another type in 'a.ptx' than in 'b.ptx'",
        ),
        (
            (".extern .func f(); .visible .entry k() { call f; ret; }", ""),
            "error : Undefined reference to 'f' in 'a.ptx'",
        ),
    ],
)
def test_what_cannot_be_linked(texts: tuple[str, str], message: str) -> None:
    with pytest.raises(LinkError) as caught:
        _link(*texts)
    assert [one.message for one in caught.value.diagnostics] == [message]


def test_unused_declarations_need_no_definition() -> None:
    module = _link(".extern .global .u32 x; .extern .func f();", ".visible .entry k() { ret; }")
    assert [function.name for function in module.functions] == ["k"]


def test_shared_memory_of_the_launch_is_one_for_all_files() -> None:
    text = ".extern .shared .align 16 .b8 s[]; .visible .entry {}() {{ .reg .b32 %r; mov.b32 %r, s; ret; }}"
    module = _link(text.format("k"), text.format("l"))
    assert [function.name for function in module.functions] == ["k", "l"]


def test_declared_shared_variables_of_one_name_are_one_with_the_greatest_alignment() -> None:
    text = ".shared .u32 own; .extern .shared .align {} .b8 s[{}]; .visible .entry {}() {{ .reg .b32 %r; mov.b32 %r, own; mov.b32 %r, s; ret; }}"
    for size, whole in (("", [16, 16]), ("24", [40, 28])):
        module = _link(text.format(4, size, "k"), text.format(16, size, "l"))
        assert [function.shared_bytes for function in module.functions] == whole
    for sizes in (("16", "64"), ("", "64"), ("64", "")):
        with pytest.raises(LinkError, match=r"'s' is declared with another type in 'b\.ptx'"):
            _link(*(text.format(4, size, name) for size, name in zip(sizes, "kl", strict=True)))


def test_messages_name_the_file_and_its_line() -> None:
    with pytest.raises(InvalidPtxError) as caught:
        _link("", ".visible .entry k() {\nmov.b32 %x, 1;\nret; }")
    (found,) = caught.value.diagnostics
    assert found.message == "'%x' is not declared (b.ptx, line 5)"
    later = HEAD.replace("sm_80", "sm_90a") + ".entry k() {\npmevent 1;\nret; }"
    module = link([Input("a", HEAD), Input("b", later)], (9, 0))
    (refused,) = module.refused
    assert refused.reasons[0].message.endswith("is not supported yet (b, line 5)")
    assert module.required_capability == (9, 0)


def test_a_linked_module_can_be_linked_again() -> None:
    first = _link(
        ".extern .global .u32 x; .visible .global .u32 x = 5;",
        _reader("k", "y").replace(".visible", ".extern .global .u32 y;.visible", 1),
        ".visible .global .u32 y = 6;",
    )
    kept = container.decode(container.encode(first))
    again = split_files("first", kept.source)
    assert [one.name for one in again] == ["a.ptx", "b.ptx", "c.ptx"]
    second = link(
        [*again, Input("d", HEAD + ".extern .global .u32 x;" + _reader("l", "x"))], (9, 0)
    )
    assert (_value(second, "k"), _value(second, "l")) == (6, 5)


def test_a_file_is_checked_by_itself() -> None:
    check(Input("a", HEAD + ".extern .global .u32 x;" + _reader("k", "x")), (9, 0))
    with pytest.raises(InvalidPtxError):
        check(Input("a", HEAD + ".visible .entry k() { frobnicate; }"), (9, 0))
