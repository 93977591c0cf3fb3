"""Random integer instructions beyond plain arithmetic."""

from collections.abc import Callable

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import Program

_PERMUTATIONS = ("", "", "", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16")


def _count(program: Program) -> str:
    """Return a position, length or count: most often a sensible constant."""
    dice = program.dice
    kind = dice.number(0, 3)
    if kind < 2:
        return str(dice.number(0, 32))
    return str(dice.pick((33, 63, 64, 200, 255, 256))) if kind == 2 else program.source(32)


def _kind(dice: Dice, letters: str) -> tuple[str, int]:
    bits = dice.pick((32, 32, 64))
    return f"{dice.pick(letters)}{bits}", bits


def bits(program: Program) -> None:
    """Emit bit fields, counts, searches, funnel shifts, permutations and truth tables."""
    dice, guard = program.dice, program.guard()
    name = dice.pick(("bfe", "bfi", "mask", "count", "find", "funnel", "prmt", "prmt", "lop3"))
    a, b, c, to = (*(program.source(32) for _ in range(3)), program.register(32))
    over = dice.pick(("clamp", "wrap"))
    match name:
        case "bfe":
            kind, width = _kind(dice, "us")
            operands = f"{program.source(width)}, {_count(program)}, {_count(program)}"
            text = f"bfe.{kind} {program.register(width)}, {operands};"
        case "bfi":
            kind, width = _kind(dice, "b")
            operands = f"{program.source(width)}, {program.source(width)}"
            operands += f", {_count(program)}, {_count(program)}"
            text = f"bfi.{kind} {program.register(width)}, {operands};"
        case "mask":
            szext = f"szext.{over}.{dice.pick('us')}32 {to}, {a}, {_count(program)};"
            text = dice.pick(
                (szext, f"bmsk.{over}.b32 {to}, {_count(program)}, {_count(program)};")
            )
        case "count":
            kind, width = _kind(dice, "b")
            opcode = dice.pick(("popc", "clz", "brev", "cnot"))
            to = program.register(width) if opcode in ("brev", "cnot") else to
            text = f"{opcode}.{kind} {to}, {program.source(width)};"
        case "find":
            kind, width = _kind(dice, "us")
            amount = dice.pick(("", ".shiftamt"))
            find = f"bfind{amount}.{kind} {to}, {program.source(width)};"
            offset = dice.pick(("0", "1", "3", "-1", "-2", program.source(32)))
            text = dice.pick((find, f"fns.b32 {to}, {a}, {_count(program)}, {offset};"))
        case "funnel":
            text = f"shf.{dice.pick('lr')}.{over}.b32 {to}, {a}, {b}, {_count(program)};"
        case "prmt":
            chosen = dice.pick((hex(dice.bits(16)), str(dice.number(0, 3)), c))
            text = f"prmt.b32{dice.pick(_PERMUTATIONS)} {to}, {a}, {b}, {chosen};"
        case _:
            table = dice.number(0, 255)
            text = f"lop3.b32 {to}, {a}, {b}, {c}, {table};"
            if dice.one_in(4):
                pair = f"{dice.pick((to, '_'))}|{program.predicate()}"
                last = f"{a}, {b}, {c}, {table}, {program.predicate()}"
                text = f"lop3.{dice.pick(('and', 'or'))}.b32 {pair}, {last};"
    program.add(guard + text)


def chain(program: Program) -> None:
    """Emit a carry chain: wide sums, differences and products, sometimes interrupted by a guard."""
    dice, (kind, width) = program.dice, _kind(program.dice, "us")
    subtracts = dice.one_in(3)
    length = dice.number(1, 4)
    for place in range(length):
        cc = "" if place and place == length - 1 and dice.one_in(2) else ".cc"
        carried = "c" if place or dice.one_in(6) else ""
        guard = program.guard()
        to, a, b = program.register(width), program.source(width), program.source(width)
        if subtracts:
            program.add(f"{guard}sub{carried}{cc}.{kind} {to}, {a}, {b};")
        elif dice.one_in(2):
            program.add(f"{guard}add{carried}{cc}.{kind} {to}, {a}, {b};")
        else:
            half, c = dice.pick(("lo", "hi")), program.source(width)
            program.add(f"{guard}mad{carried}.{half}{cc}.{kind} {to}, {a}, {b}, {c};")


def odd(program: Program) -> None:
    """Emit saturating, 24-bit and dot-product instructions."""
    dice, guard = program.dice, program.guard()
    a, b, c, to = (*(program.source(32) for _ in range(3)), program.register(32))
    sign, other, half = dice.pick("us"), dice.pick("us"), dice.pick(("lo", "hi"))
    bits = dice.pick((16, 32, 32, 64))
    wide = ", ".join(program.source(bits) for _ in range(3))
    text = dice.pick(
        (
            f"{dice.pick(('add', 'sub'))}.sat.s32 {to}, {a}, {b};",
            f"mad.hi.sat.s32 {to}, {a}, {b}, {c};",
            f"mul24.{half}.{sign}32 {to}, {a}, {b};",
            f"mad24.{half}.{sign}32 {to}, {a}, {b}, {c};",
            f"mad24.hi.sat.s32 {to}, {a}, {b}, {c};",
            f"sad.{sign}{bits} {program.register(bits)}, {wide};",
            f"{dice.pick(('min', 'max'))}.relu.s32 {to}, {a}, {b};",
            f"dp4a.{sign}32.{other}32 {to}, {a}, {b}, {c};",
            f"dp2a.{half}.{sign}32.{other}32 {to}, {a}, {b}, {c};",
        )
    )
    program.add(guard + text)


STATEMENTS: tuple[Callable[[Program], None], ...] = (*(bits,) * 3, *(odd,) * 2, chain)
