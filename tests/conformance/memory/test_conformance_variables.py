"""Variables of a module that are not plain .global ones: banks of constant memory, local and managed
variables, tables with functions that a module does not define; both executors, all legal plans."""

import re

import pytest

from support.execution.thread_words import BLOCK, module, run
from vgpu_sim.compiler import InvalidPtxError


def test_banks_of_constant_memory() -> None:
    variables = """.const[2] .b32 two = 77; .const .align 8 .b32 none[2] = {5, 6}; .const[0] .b32 zero = 8;
        .extern .const[3] .b32 third[]; .extern .const[3] .b64 again[];"""
    body = """ld.const[2].b32 %r0, [two]; ld.const.b32 %r1, [none+4]; add.u32 %r0, %r0, %r1;
        ld.const[0].v2.b32 {%r2, %r3}, [none]; ld.const[0].b32 %r4, [zero]; add.u32 %r0, %r0, %r4;
        mov.b64 %rd1, third; mov.b64 %rd2, again; setp.eq.u64 %p, %rd1, %rd2;
        ld.const[3].b32 %r5, [%rd1+65532]; selp.u32 %r1, 1, 0, %p; add.u32 %r1, %r1, %r5;"""
    made = module(variables, body)
    assert {v.size for v in made.variables if v.name in ("third", "again")} == {64 << 10}
    assert run(made) == [[77 + 6 + 8, 1]] * BLOCK


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (".const[11] .b32 x;", "must be 0 to 10"),
        (".const[1] .b8 x[65537];", "the limit is 65536"),
        (".extern .const[1] .b32 x;", "an array without a size"),
        (".const .attribute(.managed) .b32 x;", ".managed can be used only for .global variables"),
    ],
)
def test_invalid_constant_and_managed_variables(variables: str, said: str) -> None:
    with pytest.raises(InvalidPtxError, match=re.escape(said)):
        module(variables, "mov.b32 %r0, 0; mov.b32 %r1, 0;")


def test_each_bank_has_its_own_memory() -> None:
    variables = ".const[1] .b8 a[40000]; .const[2] .b8 b[40000]; .const .b8 c[40000];"
    assert len(module(variables, "mov.b32 %r0, 0; mov.b32 %r1, 0;").variables) == 3


def test_a_local_variable_of_the_module_is_private_to_each_thread() -> None:
    """The kernel, an inlined function and a recursive one at any depth access the same variable."""
    variables = """.local .align 4 .b8 own[16];
        .func (.reg .u32 r) get(.reg .u32 i)
        { .reg .b64 %a; mov.b64 %a, own; mad.wide.u32 %a, i, 4, %a; ld.local.u32 r, [%a]; ret; }
        .func count(.reg .u32 n)
        { .reg .b32 %x; .reg .pred %p; setp.eq.u32 %p, n, 0; @%p ret;
          ld.local.u32 %x, [own+12]; add.u32 %x, %x, n; st.local.u32 [own+12], %x;
          sub.u32 %x, n, 1; call count, (%x); ret; }"""
    body = """ld.local.u32 %r2, [own+4]; add.u32 %r2, %r2, %t; st.local.u32 [own+4], %r2;
        call (%r0), get, (1); and.b32 %r3, %t, 7; call count, (%r3); call (%r1), get, (3);"""
    found = run(module(variables, body))
    assert found == [[t, sum(range(t % 8 + 1))] for t in range(BLOCK)]


def test_a_local_variable_that_stays_in_registers() -> None:
    body = "st.local.u32 [own+4], %t; ld.local.u32 %r0, [own+4]; mov.u32 %r1, 0;"
    made = module(".local .align 4 .b8 own[16];", body)
    assert made.functions[0].local_bytes == 0
    assert run(made) == [[t, 0] for t in range(BLOCK)]


def test_managed_and_unified_variables_are_global_ones() -> None:
    variables = """.visible .global .attribute(.managed) .align 8 .b32 m[2] = {3, 4};
        .global .attribute(.unified(19, 95)) .b32 u = 9;"""
    body = "ld.global.u32 %r0, [m+4]; ld.global.u32 %r1, [u]; add.u32 %r1, %r1, %r0;"
    assert run(module(variables, body)) == [[4, 13]] * BLOCK


def test_a_table_of_virtual_functions_with_one_that_has_no_body() -> None:
    variables = """.extern .func __cxa_pure_virtual();
        .func (.reg .u32 r) seven() { mov.u32 r, 7; ret; }
        .global .align 8 .u64 table[3] = {__cxa_pure_virtual, seven, 0};"""
    body = """ld.global.u64 %rd1, [table+8]; call (%r0), %rd1, (), proto; mov.u32 %r1, 1;
        proto: .callprototype (.reg .u32 _) _ ();"""
    assert run(module(variables, body)) == [[7, 1]] * BLOCK
