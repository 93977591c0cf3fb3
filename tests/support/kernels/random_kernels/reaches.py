"""Random kernels that access memory in every form at addresses from random arithmetic.

They are compiled, not run, because their addresses are hostile. Half of them call functions.
"""

from support.kernels.random_kernels import arithmetic, functions, kernels
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.flow import Flow
from support.kernels.random_kernels.kernels import Kernel
from support.kernels.random_kernels.program import Program

_GLOBAL = (
    "ld{s}.b32 %r0, [{a}];",
    "ld{s}.v4.b32 {{%r0, %r1, %r2, %r3}}, [{a}];",
    "ld{s}.s8 %r1, [{a}];",
    "ld.volatile{s}.b64 %d1, [{a}];",
    "st{s}.b32 [{a}], %r1;",
    "st{s}.v2.b64 [{a}], {{%d1, %d2}};",
    "st{s}.b8 [{a}], %r2;",
    "atom{s}.add.u32 %r0, [{a}], %r1;",
    "atom{s}.cas.b64 %d1, [{a}], %d1, %d2;",
    "atom{s}.exch.b32 %r1, [{a}], %r2;",
    "atom{s}.min.s32 %r1, [{a}], %r2;",
    "atom{s}.add.f32 %r1, [{a}], %r2;",
    "red{s}.add.u64 [{a}], %d1;",
    "red{s}.or.b32 [{a}], %r1;",
)
_ONLY_GLOBAL = (
    "ld.global.nc.b32 %r0, [{a}];",
    "prefetch.global.L2 [{a}];",
    "cp.async.ca.shared.global [%near], [{a}], 4;",
    "cp.async.cg.shared.global [%near], [{a}], 16;",
    "cp.async.ca.shared.global [%near], [{a}], 8, %r1;",
)
_SHARED = (
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r0, %r1, %r2, %r3}}, [{a}];",
    "cp.async.ca.shared.global [{a}], [%table], 4;",
)
_PRODUCT = (
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {{%e0, %e1, %e2, %e3}}, "
    "{{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%e0, %e1, %e2, %e3}};"
)


_SPARSE = (
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%e0, %e1, %e2, %e3}}, "
    "{{%r0, %r1}}, {{%r2, %r3}}, {{%e0, %e1, %e2, %e3}}, %r4, 2;"
)


def generate(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    dice = Dice(seed, 8)
    plain = kernels.generate(seed)
    block = dice.pick(((64, 1, 1), (32, 4, 1), (7, 3, 1), (32, 1, 1)))
    called = functions.definitions(dice) if dice.one_in(2) else []
    program = Program(dice)
    kernels.prelude(program, plain.grid, block)
    program.add("mov.u32 %near, tile;")
    for _ in range(dice.number(1, 4)):
        if dice.one_in(4):
            Flow(program, dice.number(1, 5)).body()
        for _ in range(dice.number(0, 4)):
            dice.pick(arithmetic.STATEMENTS)(program)
        if called and dice.one_in(2):
            dice.pick((functions.call, lambda p, _: functions.local(p)))(program, len(called))
        _access(program, whole_warps=block[0] == 32)
    kernels.dump(program)
    head = kernels.header(program)
    entry = next(i for i, line in enumerate(head) if ".entry" in line)
    declared = [" .reg .b32 %near, %far; .reg .f32 %e<4>; .shared .align 16 .b8 tile[64];"]
    declared += [*functions.DECLARATIONS, *program.declarations()]
    lines = [*head[:entry], *called, *head[entry:], *declared, *program.lines, " ret;", "}", ""]
    return Kernel(seed, plain.grid, block, plain.words, True, "\n".join(lines))


def _access(program: Program, *, whole_warps: bool) -> None:
    dice = program.dice
    space = dice.pick((".global", ".global", "", "", ".shared", ".local"))
    wide = program.temporary(64)
    program.add(f"{dice.pick(('add', 'sub', 'mul.lo'))}.s64 {wide}, {_term(program)}, %d1;")
    if dice.one_in(2):
        program.add(
            f"mad.wide.{dice.pick('us')}32 {wide}, {program.source(32)}, 4, {_term(program)};"
        )
    displacement = dice.pick((0, 0, 4, 16, -16, 1 << 20, -(1 << 31), (1 << 31) - 16))
    address = f"{wide}+{displacement}"
    forms = _GLOBAL
    if space == ".global":
        forms = (*_GLOBAL, *_ONLY_GLOBAL)
    elif space in (".shared", ".local"):
        program.add(f"cvt.u32.u64 %far, {wide};")
        address = f"%far+{displacement}"
        forms = _GLOBAL if space == ".shared" else _GLOBAL[:7]
        if space == ".shared" and whole_warps:
            forms = (*forms, *_SHARED)
    form = dice.pick(forms)
    guard = "" if ".aligned" in form or not dice.one_in(3) else f"@{program.predicate()} "
    program.add(guard + form.format(s=space, a=address))
    if ".aligned" in form:
        program.add(dice.pick((_PRODUCT, _SPARSE)).format())
        program.add("mov.b32 %r0, %e0;")


def _term(program: Program) -> str:
    return program.dice.pick(("%table", "%out", "%w", program.register(64)))
