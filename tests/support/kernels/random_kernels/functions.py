"""Random kernels with functions and local arrays.

Functions have local arrays of their own (filled before they are read), loops and early returns.
They call the functions defined before them, also through pointers, and some are recursive to a
depth of a few calls. Indices of arrays are constants, the same in all threads, or data.
"""

from support.kernels.random_kernels import kernels
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.flow import Flow
from support.kernels.random_kernels.kernels import Kernel
from support.kernels.random_kernels.program import Program

_WORDS = 16  # of the kernel's own array; those of functions have 4
_BINARY = (
    "add.u32",
    "sub.u32",
    "mul.lo.u32",
    "xor.b32",
    "and.b32",
    "min.s32",
    "max.u32",
    "shl.b32",
)
_PROTOTYPE = ".callprototype (.reg .b32 _) _ (.reg .b32 _, .reg .b32 _);"
_LOADS = ("b32", "s16", "u8", "s8", "u32")
DECLARATIONS = (
    f" .local .align 16 .b8 mine[{4 * _WORDS}];",
    " .reg .b32 %place, %index, %turn; .reg .b64 %to, %other; .reg .pred %q;",
)
"""The declarations in the kernel that ``call`` and ``local`` need."""


def definitions(dice: Dice) -> list[str]:
    """Return some functions."""
    return [_function(dice, index) for index in range(dice.number(1, 4))]


def generate(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    dice = Dice(seed, 6)
    plain = kernels.generate(seed)
    functions = definitions(dice)
    program = Program(dice)
    kernels.prelude(program, plain.grid, plain.block)
    for _ in range(dice.number(2, 6)):
        kind = dice.number(0, 3)
        if kind == 0:
            Flow(program, dice.number(1, 5)).body()
        elif kind == 1:
            _loop(program, len(functions))
        elif kind == 2:
            call(program, len(functions))
        else:
            local(program)
    kernels.dump(program)
    head = kernels.header(program)
    entry = next(i for i, line in enumerate(head) if ".entry" in line)
    lines = [*head[:entry], *functions, *head[entry:], *DECLARATIONS, *program.declarations()]
    code = "\n".join([*lines, *program.lines, " ret;", "}", ""])
    return Kernel(seed, plain.grid, plain.block, plain.words, False, code)


def call(program: Program, functions: int) -> None:
    """Call one of the functions, directly or through a pointer."""
    dice = program.dice
    to, a, b = (program.register(32) for _ in range(3))
    name = f"f{dice.number(0, functions - 1)}"
    if dice.one_in(3):
        label = program.label()
        program.add(f"mov.u64 %to, {name};")
        program.add(f"mov.u64 %other, f{dice.number(0, functions - 1)};")
        program.add(f"selp.b64 %to, %to, %other, {program.predicate()};")
        program.add(f"{program.guard()}call ({to}), %to, ({a}, {b}), {label};")
        program.add(f"{label}: {_PROTOTYPE}")
        return
    program.add(f"{program.guard()}call{dice.pick(('', '.uni'))} ({to}), {name}, ({a}, {b});")


def _loop(program: Program, functions: int) -> None:
    """Emit a loop with a small trip count, which depends on data or the launch."""
    dice, label = program.dice, program.label()
    turn, limit, more = program.temporary(32), program.temporary(32), program.temporary(1)
    program.add(f"mov.b32 {turn}, 0;")
    program.add(f"and.b32 {limit}, {dice.pick(('%n', '%tid.x', program.register(32)))}, 3;")
    program.place(label)
    for _ in range(dice.number(1, 2)):
        dice.pick((call, lambda p, _: local(p)))(program, functions)
    program.add(f"add.u32 {turn}, {turn}, 1;")
    program.add(f"setp.le.u32 {more}, {turn}, {limit};")
    program.add(f"@{more} bra {label};")


def local(program: Program) -> None:
    """Emit an access to the kernel's array; an element without a store is zero."""
    dice = program.dice
    where = dice.pick(("constant", "launch", "data", "data"))
    width = dice.pick((1, 1, 2, 4))
    mask = _WORDS - width
    if where == "constant":
        place = f"mine+{4 * (dice.bits(8) & mask)}"
    else:
        index = "%n" if where == "launch" else dice.pick(("%tid.x", program.register(32)))
        program.add(f"and.b32 %index, {index}, {mask};")
        program.add("mov.u32 %place, mine;")
        program.add("mad.lo.u32 %place, %index, 4, %place;")
        place = "%place"
    registers = [f"%r{n}" for n in range(width)]
    data = registers[0] if width == 1 else "{" + ", ".join(registers) + "}"
    vector = "" if width == 1 else f".v{width}"
    if dice.one_in(2):
        program.add(f"{program.guard()}st.local{vector}.b32 [{place}], {data};")
    elif width == 1:
        program.add(f"{program.guard()}ld.local.{dice.pick(_LOADS)} {data}, [{place}];")
    else:
        program.add(f"{program.guard()}ld.local{vector}.b32 {data}, [{place}];")


def _function(dice: Dice, index: int) -> str:
    """Return a function of two words; it may call earlier functions, and itself."""
    x = [f"%x{n}" for n in range(4)]
    lines = [f".func (.reg .b32 res) f{index}(.reg .b32 a, .reg .b32 b)", "{"]
    lines += [" .reg .b32 %x<4>, %depth, %place; .reg .pred %p;"]
    lines += [" .local .align 16 .b8 own[16];"]
    lines += [" mov.b32 %x0, a; mov.b32 %x1, b; xor.b32 %x2, a, b;", " mov.b32 %x3, %tid.x;"]
    lines += [" st.local.v4.b32 [own], {%x0, %x1, %x2, %x3};", " mov.b32 res, %x2;"]
    if dice.one_in(3):
        lines += [f" setp.gt.u32 %p, %x0, {dice.bits(31)};", " @%p ret;"]
    for _ in range(dice.number(1, 4)):
        kind = dice.number(0, 3)
        to, one, other = dice.pick(x), dice.pick(x), dice.pick(x)
        if kind < 2:
            lines.append(f" {dice.pick(_BINARY)} {to}, {one}, {other};")
        elif kind == 2:
            lines.append(f" and.b32 %place, {one}, {dice.pick((3, 2))};")
            lines.append(" shl.b32 %place, %place, 2; mov.u32 %depth, own;")
            lines.append(" add.u32 %place, %place, %depth;")
            lines.append(f" ld.local.{dice.pick(_LOADS)} {to}, [%place];")
            lines.append(f" st.local.b32 [%place], {other};")
        elif index:
            guard = dice.pick(("", "@%p ", "@!%p "))
            lines.append(f" setp.lt.s32 %p, {one}, {dice.number(0, 64)};")
            lines.append(f" {guard}call ({to}), f{dice.number(0, index - 1)}, ({one}, {other});")
    if dice.one_in(2):
        lines += [" and.b32 %depth, b, 3;", " setp.eq.u32 %p, %depth, 0;", " @%p bra DONE;"]
        lines += [" sub.u32 %depth, %depth, 1;", f" call (%x1), f{index}, (%x0, %depth);"]
        lines += [" ld.local.b32 %x2, [own+8];", "DONE:"]
    lines += [f" add.u32 res, {dice.pick(x)}, {dice.pick(x)};", " ret;", "}"]
    return "\n".join(lines)
