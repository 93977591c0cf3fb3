"""Device functions, inlined and called, recursive and through pointers: both executors,
all legal plans, compared with Python.
"""

from collections.abc import Callable

import numpy as np
import pytest

from support.execution import native_launch, prover
from support.execution.both_backends import Bench, compare, compiler
from support.fuzzers.fuzzing import trial
from support.kernels.random_kernels import functions
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.compiler.lower.stack import program
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import Trap
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.isa import EFFECTS, Module, Op, TrapCause, has_stack

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _module(functions: str, body: str, values: int = 1) -> Module:
    """Return a kernel that stores ``values`` words %r0.. of each thread to its own place in
    ``out``.
    """
    stores = "".join(f"st.global.u32 [%out+{4 * n}], %r{n};\n" for n in range(values))
    return compile_ptx(
        f"""{_HEAD}{functions}
        .visible .entry k(.param .u64 out, .param .u32 n)
        {{ .reg .b64 %out, %at, %rd<16>; .reg .b32 %r<32>, %n, %t; .reg .pred %p<4>;
        ld.param.u64 %out, [out]; ld.param.u32 %n, [n];
        mov.u32 %t, %tid.x; mul.wide.u32 %at, %t, {4 * values}; add.u64 %out, %out, %at;
        {body}
        {stores} ret; }}""",
        capability=(9, 0),
    )


def _run(module: Module, words: int = 1, n: int = 5, block: int = 64) -> list[list[int]]:
    shape = (block, 1, 1)
    legal = list(compiler().legal_plans(module, shape))
    plans = [None, *legal[::3], legal[-1]]
    (out,) = compare(module, [bytes(4 * words * block)], (2, 1, 1), shape, plans, [n])
    for plan in plans:
        text = compiler().emit_llvm(module, module.functions[0], shape, plan)
        assert prover.prove(text) > 0
    rows: list[list[int]] = np.frombuffer(out, "<u4").reshape(block, words).tolist()
    return rows


def _calls_are_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MAX_INLINE_STATEMENTS", 0)


@pytest.fixture(params=["in line", "jumps"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select one of both lowerings of calls that need not be jumps."""
    if request.param == "jumps":
        _calls_are_jumps(monkeypatch)
    return str(request.param)


_STRUCT = """
.func (.param .align 8 .b8 result[24]) turn(.param .align 8 .b8 s[24], .param .b32 by)
{ .reg .b64 %x; .reg .b32 %a, %b, %k; .reg .b16 %h;
  ld.param.u64 %x, [s]; ld.param.v2.u32 {%a, %b}, [s+8]; ld.param.u32 %k, [by];
  ld.param.u16 %h, [s+18];
  add.u32 %a, %a, %k; st.param.v2.u32 [result], {%b, %a}; st.param.b64 [result+8], %x;
  st.param.b32 [result+16], %k; st.param.u16 [result+20], %h; st.param.u8 [result+22], %k; ret; }
"""


@pytest.mark.usefixtures("how")
def test_structures_by_value_and_a_narrow_field() -> None:
    body = """{ .param .align 8 .b8 s[24]; .param .b32 by; .param .align 8 .b8 back[24];
        cvt.u64.u32 %rd1, %t; st.param.b64 [s], %rd1; st.param.u32 [s+8], 100;
        st.param.u32 [s+12], %n; st.param.u32 [s+16], 0xABCD1234; st.param.b32 [by], %t;
        call.uni (back), turn, (s, by);
        ld.param.u32 %r0, [back]; ld.param.u32 %r1, [back+4]; ld.param.u64 %rd2, [back+8];
        cvt.u32.u64 %r2, %rd2; ld.param.u16 %r3, [back+20]; ld.param.s8 %r4, [back+22]; }"""
    found = _run(_module(_STRUCT, body, 5), 5, n=9, block=256)
    for t, row in enumerate(found):
        narrow = (t & 0xFF) - (256 if t & 0x80 else 0)
        assert row == [9, 100 + t, t, 0xABCD, narrow & 0xFFFF_FFFF]


def test_inlined_scalars_cost_only_moves() -> None:
    function = """.func (.param .b32 func_retval0) twice(.param .b32 p)
        { .reg .b32 %a; ld.param.b32 %a, [p]; shl.b32 %a, %a, 1; st.param.b32 [func_retval0], %a;
          ret; }"""
    body = """{ .param .b32 p0; st.param.b32 [p0], %t; .param .b32 r;
        call.uni (r), twice, (p0); ld.param.b32 %r0, [r]; }"""
    module = _module(function, body)
    used = {instruction.op for instruction in module.functions[0].code}
    assert used <= {Op.LD, Op.S2R, Op.MUL, Op.ADD, Op.MOV, Op.SHL, Op.ST, Op.RET}
    assert module.functions[0].local_bytes == 0
    assert _run(module) == [[2 * t] for t in range(64)]


@pytest.mark.usefixtures("how")
def test_registers_constants_sinks_and_several_results() -> None:
    function = """
        .func (.reg .u32 q, .reg .u32 r) divide(.reg .u32 a, .reg .u32 b)
        { div.u32 q, a, b; rem.u32 r, a, b; ret; }
        .func (.reg .f32 s) mean(.reg .f32 a, .reg .f32 b)
        { add.f32 s, a, b; mul.f32 s, s, 0f3F000000; ret; }"""
    body = """.reg .f32 %f; call (%r0, %r1), divide, (%t, 7); call (_, %r2), divide, (%n, %r0);
        cvt.rn.f32.u32 %f, %t; call (%f), mean, (%f, 3.0); cvt.rzi.u32.f32 %r3, %f;"""
    body = body.replace("(%n, %r0)", "(%n, 4)")
    found = _run(_module(function, body, 4), 4, n=23)
    assert found == [[t // 7, t % 7, 3, (t + 3) // 2] for t in range(64)]


@pytest.mark.usefixtures("how")
def test_calls_under_a_guard_and_returns_in_the_middle() -> None:
    function = """.func (.reg .u32 r) collatz(.reg .u32 x)
        { .reg .u32 %odd; .reg .pred %p; mov.u32 r, 0;
          LOOP: setp.le.u32 %p, x, 1; @%p ret; and.b32 %odd, x, 1; setp.eq.u32 %p, %odd, 0;
          @%p shr.u32 x, x, 1; @!%p mad.lo.u32 x, x, 3, 1; add.u32 r, r, 1; bra LOOP; }"""
    body = """mov.u32 %r0, 77; and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 0;
        @%p1 call (%r0), collatz, (%t); @!%p1 call (%r1), collatz, (27);"""

    def steps(x: int) -> int:
        count = 0
        while x > 1:
            x, count = (3 * x + 1 if x % 2 else x // 2), count + 1
        return count

    found = _run(_module(function, body, 2), 2)
    assert found == [[77, 111] if t % 2 else [steps(t), 0] for t in range(64)]


@pytest.mark.usefixtures("how")
def test_each_function_has_its_own_carry() -> None:
    """It is zero at entry; its final value is not the caller's (PTX ISA 9.7.2: CC.CF)."""
    function = """.func (.reg .u32 r) add(.reg .u32 a)
        { .reg .u32 %x; addc.cc.u32 %x, a, 0; addc.u32 r, %x, 10; ret; }"""
    body = """add.cc.u32 %r9, -1, 1; call (%r0), add, (%t); addc.u32 %r1, 0, 0;
        add.cc.u32 %r9, 1, 1; call (%r2), add, (-1); addc.u32 %r3, 0, 0;"""
    found = _run(_module(function, body, 4), 4)
    assert found == [[t + 10, 1, 9, 0] for t in range(64)]


_FIB = """.func (.reg .u32 r) fib(.reg .u32 n)
    { .reg .u32 %a, %b; .reg .pred %p; setp.lt.u32 %p, n, 2; @%p bra BASE;
      sub.u32 %a, n, 1; call (%a), fib, (%a); sub.u32 %b, n, 2; call (%b), fib, (%b);
      add.u32 r, %a, %b; ret; BASE: mov.u32 r, n; ret; }"""


def _fib(n: int) -> int:
    return n if n < 2 else _fib(n - 1) + _fib(n - 2)


def test_recursion_to_different_depths_per_thread() -> None:
    module = _module(_FIB, "and.b32 %r1, %t, 7; call (%r0), fib, (%r1);")
    assert has_stack(module.functions[0])
    assert _run(module) == [[_fib(t % 8)] for t in range(64)]


def test_mutually_recursive_functions_with_local_arrays() -> None:
    functions = """
        .func (.param .b32 r) odd(.param .b32 n);
        .func (.param .b32 r) even(.param .b32 n)
        { .local .align 4 .b8 a[16]; .reg .b32 %n, %v, %i; .reg .b64 %p; .reg .pred %q;
          ld.param.b32 %n, [n]; mov.u64 %p, a; and.b32 %i, %n, 3; mad.wide.u32 %p, %i, 4, %p;
          st.local.u32 [%p], %n; mov.u32 %v, 1; setp.eq.u32 %q, %n, 0; @%q bra DONE;
          { .param .b32 x; .param .b32 y; sub.u32 %v, %n, 1; st.param.b32 [x], %v;
            call.uni (y), odd, (x); ld.param.b32 %v, [y]; }
          ld.local.u32 %i, [%p]; mad.lo.u32 %v, %v, 3, %i;
          DONE: st.param.b32 [r], %v; ret; }
        .func (.param .b32 r) odd(.param .b32 n)
        { .reg .b32 %n, %v; .reg .pred %q; ld.param.b32 %n, [n]; mov.u32 %v, 2;
          setp.ne.u32 %q, %n, 0;
          @%q { .param .b32 x; .param .b32 y; }
        }"""
    functions = functions.replace(
        "@%q { .param .b32 x; .param .b32 y; }\n        }",
        """@!%q bra DONE; { .param .b32 x; .param .b32 y; sub.u32 %v, %n, 1; st.param.b32 [x], %v;
            call.uni (y), even, (x); ld.param.b32 %v, [y]; } setp.gt.u32 %q, %n, 4;
          selp.u32 %n, 100, %n, %q; add.u32 %v, %v, %n; DONE: st.param.b32 [r], %v; ret; }""",
    )

    def even(n: int) -> int:
        return 1 if n == 0 else odd(n - 1) * 3 + n

    def odd(n: int) -> int:
        return 2 if n == 0 else even(n - 1) + (100 if n > 4 else n)

    body = """{ .param .b32 x; .param .b32 y; and.b32 %r1, %t, 15; st.param.b32 [x], %r1;
        call.uni (y), even, (x); ld.param.b32 %r0, [y]; }"""
    assert _run(_module(functions, body)) == [[even(t % 16) & 0xFFFF_FFFF] for t in range(64)]


_POINTERS = """
.func (.reg .u32 r) plus(.reg .u32 a, .reg .u32 b) { add.u32 r, a, b; ret; }
.func (.reg .u32 r) times(.reg .u32 a, .reg .u32 b) { mul.lo.u32 r, a, b; ret; }
.func (.reg .u32 r) other(.reg .u32 a) { mov.u32 r, a; ret; }
.func (.reg .u32 r) fold(.reg .b64 f, .reg .u32 n)
{ .reg .u32 %a; .reg .pred %p; .reg .b64 %o; mov.u64 %o, other; mov.u32 r, 1;
  setp.eq.u32 %p, n, 0; @%p ret;
  sub.u32 %a, n, 1; call (%a), fold, (f, %a);
  call (r), f, (%a, n), proto; ret;
  proto: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _); }
"""


@pytest.mark.usefixtures("how")
def test_calls_through_pointers_that_differ_between_threads() -> None:
    body = """mov.u64 %rd1, plus; mov.u64 %rd2, times; and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 1;
        selp.b64 %rd3, %rd1, %rd2, %p1; and.b32 %r8, %t, 7; call (%r0), fold, (%rd3, %r8);
        call (%r1), %rd3, (%t, 3), targets; targets: .calltargets times, plus;"""

    def compute_expected(t: int) -> list[int]:
        apply: Callable[[int, int], int] = (lambda a, b: a + b) if t & 1 else (lambda a, b: a * b)
        total = 1
        for k in range(1, t % 8 + 1):
            total = apply(total, k)
        return [total, apply(t, 3)]

    assert _run(_module(_POINTERS, body, 2), 2) == [compute_expected(t) for t in range(64)]


def test_tables_of_functions_in_memory() -> None:
    functions = _POINTERS + ".const .u64 table[3] = { plus, 0, times };\n"
    body = """mov.u64 %rd1, table; and.b32 %r9, %t, 2; mul.wide.u32 %rd2, %r9, 8;
        add.u64 %rd1, %rd1, %rd2; ld.const.u64 %rd3, [%rd1]; call (%r0), %rd3, (%t, 5), two;
        two: .callprototype (.reg .u32 _) _ (.reg .u32 _, .reg .u32 _);"""
    module, block = _module(functions, body), (64, 1, 1)
    (table,) = module.variables
    buffers = [bytes(256), table.initial.ljust(table.size, b"\0")]
    out, _ = compare(module, buffers, (1, 1, 1), block, [None, jit.Plan(1, 1)], symbols=1)
    expected = [t * 5 if t & 2 else t + 5 for t in range(64)]
    assert np.frombuffer(out, "<u4").tolist() == expected


def test_a_barrier_and_an_exit_within_functions() -> None:
    functions = """.shared .align 4 .b8 tile[256];
        .func (.reg .u32 r) swap(.reg .u32 t, .reg .u32 v)
        { .reg .b64 %a; .reg .u32 %o; mov.u64 %a, tile; mad.wide.u32 %a, t, 4, %a;
          st.shared.u32 [%a], v; bar.sync 0; xor.b32 %o, t, 63; mov.u64 %a, tile;
          mad.wide.u32 %a, %o, 4, %a; ld.shared.u32 r, [%a]; bar.sync 0; ret; }
        .func leave(.reg .u32 t) { .reg .pred %p; setp.gt.u32 %p, t, 40; @%p exit; ret; }"""
    body = """mul.lo.u32 %r1, %t, 3; call (%r0), swap, (%t, %r1); st.global.u32 [%out], %r0;
        call leave, (%t); mov.u32 %r0, 5;"""
    found = _run(_module(functions, body))
    assert found == [[3 * (63 - t)] if t > 40 else [5] for t in range(64)]


def test_an_indexed_branch_with_doubled_targets() -> None:
    body = """rem.u32 %r1, %t, 6; mov.u32 %r0, 0; setp.lt.u32 %p1, %t, 60;
        @%p1 brx.idx %r1, table; mov.u32 %r0, 9; bra.uni END;
        table: .branchtargets A, B, A, C, B, END;
        A: add.u32 %r0, %r0, 1; B: add.u32 %r0, %r0, 10; bra END; C: mov.u32 %r0, 500; END:"""
    results = {0: 11, 1: 10, 2: 11, 3: 500, 4: 10, 5: 0}
    found = _run(_module("", body))
    assert found == [[results[t % 6]] if t < 60 else [9] for t in range(64)]


@pytest.mark.usefixtures("how")
def test_memory_of_the_stack_lasts_until_the_function_returns() -> None:
    functions = """.func (.reg .u32 r) sum(.reg .u32 n)
        { .reg .b64 %p, %q, %s; .reg .u32 %i; .reg .pred %c; mul.wide.u32 %s, n, 4;
          alloca.u64 %p, %s, 16; mov.u32 %i, 0; mov.u64 %q, %p;
          FILL: st.local.u32 [%q], %i; add.u64 %q, %q, 4; add.u32 %i, %i, 1;
          setp.lt.u32 %c, %i, n; @%c bra FILL; mov.u32 r, 0;
          SUM: sub.u64 %q, %q, 4; ld.local.u32 %i, [%q]; add.u32 r, r, %i;
          setp.gt.u64 %c, %q, %p; @%c bra SUM; ret; }"""
    body = """.reg .u32 %before, %after; and.b32 %r1, %t, 63; add.u32 %r1, %r1, 1;
        stacksave.u32 %before; call (%r0), sum, (%r1); mov.u32 %r2, 0;
        AGAIN: call (%r3), sum, (500); add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 9; @%p1 bra AGAIN;
        stacksave.u32 %after; sub.u32 %r1, %after, %before; alloca.u32 %r4, 24;
        stackrestore.u32 %before; stacksave.u32 %after; sub.u32 %r2, %after, %before;"""
    found = _run(_module(functions, body, 4), 4)
    assert found == [[t * (t + 1) // 2, 0, 0, 500 * 499 // 2] for t in range(64)]


def test_names_that_are_weak_forward_or_aliases() -> None:
    functions = """.func (.reg .u32 r) later(.reg .u32 a);
        .weak .func (.reg .u32 r) first(.reg .u32 a) { call (r), later, (a); ret; }
        .visible .func (.reg .u32 r) later(.reg .u32 a) { add.u32 r, a, 2; ret; }
        .alias also, later; .func stop() .noreturn { trap; }"""
    body = """call (%r0), first, (%t); call (%r1), also, (%r0); setp.gt.u32 %p1, %n, 9;
        @%p1 call stop;"""
    assert _run(_module(functions, body, 2), 2) == [[t + 2, t + 4] for t in range(64)]


@pytest.mark.parametrize(
    ("functions", "body", "cause", "error"),
    [
        (_FIB.replace("2; @%p", "0; @%p"), "call (%r0), fib, (%t);", TrapCause.STACK, 714),
        (
            _POINTERS,
            "cvt.u64.u32 %rd1, %n; call (%r0), fold, (%rd1, 3);",
            TrapCause.FUNCTION,
            718,
        ),
        (
            _POINTERS,
            "mov.u64 %rd1, other; call (%r0), fold, (%rd1, 3);",
            TrapCause.FUNCTION,
            718,
        ),
        ("", "brx.idx %n, list; list: .branchtargets A, A; A:", TrapCause.TARGET, 719),
        ("", "alloca.u64 %rd1, 5000; cvt.u32.u64 %r0, %rd1;", TrapCause.STACK, 714),
        ("", "alloca.u64 %rd1, -8; cvt.u32.u64 %r0, %rd1;", TrapCause.STACK, 714),
    ],
)
@pytest.mark.parametrize("plan", [jit.Plan(16, 2), jit.Plan(1, 1)])
def test_errors_that_end_a_context(
    functions: str, body: str, cause: TrapCause, error: int, plan: jit.Plan
) -> None:
    module, block = _module(functions, body), (64, 1, 1)
    function = module.functions[0]
    bench = Bench(bytes(256))
    try:
        parameters = native_launch.pack(function.parameters, 12, [bench.addresses()[0], 77])
        with pytest.raises(Trap) as raised:
            bench.interpret(module, (1, 1, 1), block, parameters)
        word = raised.value.word
        assert (function.code[word].cause, function.code[word].op) == (cause, Op.TRAP)
        loaded = compiler().load(compiler().compile(module, function, block, plan))
        launch = native_launch.context(
            bench.aperture, (1, 1, 1), block, local_bytes=local_bytes(function)
        )
        ended = native_launch.run(loaded, launch, parameters, [(0, 1)])
        assert (ended.status, ended.signal) == (error, 0)
    finally:
        bench.close()


@pytest.mark.parametrize("seed", [1, 3, 8])
@pytest.mark.usefixtures("how")
def test_random_functions_and_arrays(seed: int) -> None:
    """A share of ``make fuzz calls=1``: the text itself, the interpreter and the JIT agree."""
    report = trial.examine(functions.generate(seed), plan_count=1)
    assert not report.findings
    assert not report.unordered
    assert report.runs >= 2


def test_a_fault_in_a_function_has_its_line() -> None:
    module = _module(
        ".func touch(.reg .u64 p)\n{\nst.global.u32 [p], 1;\nret;\n}", "call touch, (%out);"
    )
    function = module.functions[0]
    stores = [w for w, i in enumerate(function.code) if EFFECTS[i.op].writes]
    assert function.lines[stores[0]] == 6
