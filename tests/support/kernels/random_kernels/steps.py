"""Numbers with a constant step from lane to lane, up to wrapping around all values, and uses of
them.

A number is a base that all lanes share, perhaps with low bits that are zero, plus a step per
lane: the compiler represents it as a scalar and a distance. It is compared, truncated, widened,
and used as an index.
"""

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import TABLE_WORDS, Program

_LANES = ("%tid.x", "%tid.x", "%thread", "%laneid", "%tid.y")
_SHARED = ("%n", "%m", "%ctaid.x", "%ntid.x")
_JOINED = ("add.u", "add.s", "sub.s", "or.b", "xor.b")
_RELATIONS = ("lt", "le", "gt", "ge", "eq", "ne")


def steps(program: Program) -> None:
    """Emit one such number, and one or two uses of it."""
    dice = program.dice
    bits = dice.pick((32, 32, 32, 32, 16, 64))
    number = _number(program, bits)
    for _ in range(dice.number(1, 2)):
        dice.pick((_compared, _compared, _cut, _extended, _chosen, _chosen))(program, number, bits)
    program.add(f"mov.b{bits} {program.register(bits)}, {number};")


def _number(program: Program, bits: int) -> str:
    dice = program.dice
    number = _special(program, dice.pick(_LANES), bits)
    program.add(f"mul.lo.u{bits} {number}, {number}, {_step(dice, bits)};")
    if dice.one_in(4):
        return number
    shared = _special(program, dice.pick(_SHARED), bits)
    for _ in range(dice.pick((0, 1, 2, 2))):
        any_shift = dice.number(0, bits - 1)
        how = dice.pick(("shl.b", "shl.b", "and.b", "mul.lo.s"))
        shift = dice.pick((any_shift, bits // 2))
        operand = {"shl.b": shift, "and.b": -1 << shift}.get(how, _step(dice, bits))
        program.add(f"{how}{bits} {shared}, {shared}, {operand};")
    program.add(f"{dice.pick(_JOINED)}{bits} {number}, {shared}, {number};")
    return number


def _special(program: Program, name: str, bits: int) -> str:
    """Return a register of that width that holds a special register's number."""
    register = program.temporary(bits)
    program.add(f"cvt.u{bits}.u32 {register}, {name};")
    return register


def _step(dice: Dice, bits: int) -> int:
    """Return a step; half of them wrap around within some lanes."""
    odd = dice.pick((1, 1, 1, 1, 3, 5, -1, 17))
    shift = bits - dice.number(2, 6) if dice.one_in(2) else dice.number(0, bits - 4)
    return odd << shift & (1 << bits) - 1


def _limit(program: Program, bits: int) -> str:
    """Return a limit for comparisons: near a power of two, random, or uniform."""
    dice = program.dice
    kind = dice.number(0, 5)
    if kind == 0:
        return _special(program, dice.pick(_SHARED), bits)
    if kind == 1:
        return program.source(bits)
    value = dice.pick((0, 0, 1, 1, 3, 7)) << dice.number(0, bits - 1)
    value += dice.pick((0, 0, 0, -1, 1))
    return hex(value & (1 << bits) - 1)


def _condition(program: Program, number: str, bits: int) -> str:
    """Return a predicate that is a comparison of the number, perhaps with another predicate."""
    dice, found = program.dice, program.temporary(1)
    operands = [number, _limit(program, bits)]
    if operands[1][0] == "%" and dice.one_in(3):
        operands.reverse()
    how, more = dice.pick(_RELATIONS), ""
    if dice.one_in(4):
        how, more = f"{how}.{dice.pick(('and', 'or'))}", f", {program.predicate()}"
    program.add(f"setp.{how}.{dice.pick('us')}{bits} {found}, {', '.join(operands)}{more};")
    return found


def _compared(program: Program, number: str, bits: int) -> None:
    """Emit an addition or a branch that depends on a comparison of the number."""
    dice, condition = program.dice, _condition(program, number, bits)
    register = program.register(32)
    if dice.one_in(2):
        program.add(f"@{condition} add.u32 {register}, {register}, {dice.number(1, 4095)};")
        return
    end = program.label()
    program.add(f"@{condition} bra {end};")
    program.add(f"mad.lo.u32 {register}, {program.source(32)}, 3, {dice.number(1, 4095)};")
    program.place(end)


def _cut(program: Program, number: str, bits: int) -> None:
    """Extract or mask some of the number's bits."""
    dice, to = program.dice, program.register(bits)
    shift = dice.number(0, bits - 1)
    if bits != 16 and dice.one_in(3):
        count = dice.number(0, bits)
        program.add(f"bfe.{dice.pick('us')}{bits} {to}, {number}, {shift}, {count};")
        return
    mask = dice.pick((-1 << shift, (1 << shift) - 1, 0xFF << shift)) & (1 << bits) - 1
    how, by = dice.pick((("shr.u", shift), ("shr.s", shift), ("and.b", hex(mask))))
    program.add(f"{how}{bits} {to}, {number}, {by};")


def _extended(program: Program, number: str, bits: int) -> None:
    """Extend the number to more bits, shifted so that the upper ones are visible."""
    dice = program.dice
    sign = dice.pick("us")
    if bits == 64:
        program.add(f"mul.hi.{sign}64 {program.register(64)}, {number}, {_step(dice, 64)};")
        return
    wide = program.temporary(64)
    if bits == 32 and dice.one_in(2):
        program.add(f"mul.wide.{sign}32 {wide}, {number}, {_step(dice, 32)};")
    else:
        program.add(f"cvt.{dice.pick('us')}64.{sign}{bits} {wide}, {number};")
    program.add(f"shr.{dice.pick('us')}64 {program.register(64)}, {wide}, {dice.number(0, 40)};")


def _chosen(program: Program, number: str, bits: int) -> None:
    """Load an element of the table at the number as index, or at another index near a limit."""
    dice, chosen = program.dice, program.temporary(bits)
    condition, other = _condition(program, number, bits), _limit(program, bits)
    operands = [number, other]
    if dice.one_in(2):
        operands.reverse()
    program.add(f"selp.b{bits} {chosen}, {', '.join(operands)}, {condition};")
    program.add(f"shr.u{bits} {chosen}, {chosen}, {dice.number(0, bits - 1)};")
    index, address = program.temporary(32), program.temporary(64)
    program.add(f"cvt.u32.u{bits} {index}, {chosen};")
    program.add(f"and.b32 {index}, {index}, {TABLE_WORDS - 1};")
    program.add(f"mad.wide.u32 {address}, {index}, 4, %table;")
    program.add(f"ld.global.b32 {program.register(32)}, [{address}];")
