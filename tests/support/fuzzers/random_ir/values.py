"""Random values of a scalar type: trees of operations on variables and constants.

They have no undefined behaviour: shift counts are below the width, divisors are odd and, in
signed divisions, positive.
"""

from support.fuzzers.random_ir import scalars
from support.fuzzers.random_ir.conversions import convert
from support.fuzzers.random_ir.frames import Array, Frame, Typed

_COMPARED = ("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge")
_ORDERED: tuple[str, ...] = (
    "oeq",
    "one",
    "olt",
    "ole",
    "ogt",
    "oge",
    "ueq",
    "une",
    "ult",
    "ule",
    "ugt",
    "uge",
)
_ORDERED += ("ord", "uno")
_BITWISE = ("and", "or", "xor")
_PLAIN = ("add", "sub", "mul", *_BITWISE)
_PAIRS = ("smin", "smax", "umin", "umax", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat")


def value(frame: Frame, kind: str, depth: int) -> str:
    """Write a random value of a type, a tree of at most ``depth`` levels; return its name."""
    dice = frame.dice
    if depth <= 0 or dice.percent(25):
        if dice.percent(25):
            return frame.constant(kind)
        held = kind if kind in frame.variables else frame.pick_kind()
        return convert(frame, held, load(frame, held), kind)
    if dice.percent(12):
        other = frame.pick_kind()
        return convert(frame, other, value(frame, other, depth - 1), kind)
    if dice.percent(8):
        chosen = condition(frame, depth - 1)
        a, b = (value(frame, kind, depth - 1) for _ in range(2))
        return frame.value(f"select i1 {chosen}, {kind} {a}, {kind} {b}")
    for source in frame.sources:
        found = source(frame, depth - 1) if dice.percent(10) else None
        if found is not None:
            return convert(frame, *found, kind)
    return (_integer if scalars.is_integer(kind) else _number)(frame, kind, depth - 1)


def load(frame: Frame, kind: str) -> str:
    """Load a variable of the type ``kind``."""
    how = "load volatile" if frame.dice.percent(4) else "load"
    return frame.value(f"{how} {kind}, ptr {frame.pick_variable(kind)}")


def condition(frame: Frame, depth: int) -> str:
    """Write a random ``i1``."""
    dice, kind = frame.dice, frame.pick_kind()
    if dice.percent(15):
        return load(frame, "i1")
    a, b = (value(frame, kind, depth) for _ in range(2))
    if scalars.is_integer(kind):
        return frame.value(f"icmp {dice.pick(_COMPARED)} {kind} {a}, {b}")
    return frame.value(f"fcmp {dice.pick(_ORDERED)} {kind} {a}, {b}")


def element(frame: Frame, array: Array, depth: int) -> str:
    """Return a pointer to a random element, sometimes through a select with another array: then its
    memory is known only at run time.
    """
    dice = frame.dice
    alike = [a for a in frame.arrays if a.kind == array.kind and a != array]
    alike = [a for a in alike if a.writable or not array.writable]
    at = _indexed(frame, array, depth)
    if not alike or not dice.percent(40):
        return at
    chosen, other = condition(frame, depth), _indexed(frame, dice.pick(alike), depth)
    return frame.value(f"select i1 {chosen}, ptr {at}, ptr {other}")


def _indexed(frame: Frame, array: Array, depth: int) -> str:
    index = frame.value(f"and i32 {value(frame, 'i32', depth)}, {array.count - 1}")
    wide = frame.value(f"zext i32 {index} to i64")
    if array.stride > 1:
        wide = frame.value(f"mul i64 {wide}, {array.stride}")
    return frame.value(f"getelementptr {array.kind}, ptr {array.name}, i64 {wide}")


def of_an_array(frame: Frame, depth: int) -> Typed | None:
    """Load a random element of an array that the function can access."""
    if not frame.arrays:
        return None
    array = frame.dice.pick(frame.arrays)
    return array.kind, frame.value(f"load {array.kind}, ptr {element(frame, array, depth)}")


def _two(frame: Frame, kind: str, depth: int) -> tuple[str, str]:
    return value(frame, kind, depth), value(frame, kind, depth)


def _binary(frame: Frame, operation: str, kind: str, depth: int) -> str:
    a, b = _two(frame, kind, depth)
    return frame.value(f"{operation} {kind} {a}, {b}")


# --- integers ---


def _integer(frame: Frame, kind: str, depth: int) -> str:
    dice, width = frame.dice, scalars.bits(kind)
    if width == 1:
        if dice.one_in(2):
            return condition(frame, depth)
        return _binary(frame, dice.pick(_BITWISE), kind, depth)
    makers = (
        [_arithmetic] * 6 + [_three_ways] + [_shift] * 2 + [_of_two] * 2 + [_funnel] + [_of_one] * 2
    )
    if width <= 64:
        makers += [_quotient] * 2 + [_overflow] * 2
    if width in (8, 16, 32):
        makers += [_high_half] * 2
    return dice.pick(makers)(frame, kind, depth)


def _arithmetic(frame: Frame, kind: str, depth: int) -> str:
    return _binary(frame, frame.dice.pick(_PLAIN), kind, depth)


def _shift(frame: Frame, kind: str, depth: int) -> str:
    width, operation = scalars.bits(kind), frame.dice.pick(("shl", "lshr", "ashr"))
    a, b = _two(frame, kind, depth)
    if width & (width - 1):
        by = frame.value(f"urem {kind} {b}, {width}")
    else:
        by = frame.value(f"and {kind} {b}, {width - 1}")
    return frame.value(f"{operation} {kind} {a}, {by}")


def _quotient(frame: Frame, kind: str, depth: int) -> str:
    dice, what = frame.dice, frame.dice.pick(("div", "rem"))
    a = value(frame, kind, depth)
    if dice.percent(30) and scalars.bits(kind) > 7:
        return frame.value(
            f"{dice.pick('us')}{what} {kind} {a}, {dice.pick((1, 3, 5, 7, 10, 100))}"
        )
    b = value(frame, kind, depth)
    signed = dice.one_in(2)
    if signed:
        b = frame.value(f"lshr {kind} {b}, 1")
    odd = frame.value(f"or {kind} {b}, 1")
    return frame.value(f"{'s' if signed else 'u'}{what} {kind} {a}, {odd}")


def _of_two(frame: Frame, kind: str, depth: int) -> str:
    a, b = _two(frame, kind, depth)
    return frame.call(kind, f"llvm.{frame.dice.pick(_PAIRS)}.{kind}", (kind, a), (kind, b))


def _three_ways(frame: Frame, kind: str, depth: int) -> str:
    """Emit a three-way comparison of two values of any integer type: -1, 0 or 1."""
    kinds = [k for k in frame.variables if scalars.is_integer(k) and k != "i1"]
    compared = frame.dice.pick(kinds)
    a, b = _two(frame, compared, depth)
    name = f"llvm.{frame.dice.pick('su')}cmp.{kind}.{compared}"
    return frame.call(kind, name, (compared, a), (compared, b))


def _funnel(frame: Frame, kind: str, depth: int) -> str:
    three = [(kind, value(frame, kind, depth)) for _ in range(3)]
    return frame.call(kind, f"llvm.fsh{frame.dice.pick('lr')}.{kind}", *three)


def _of_one(frame: Frame, kind: str, depth: int) -> str:
    names = ["ctpop", "bitreverse", "ctlz", "cttz", "abs"]
    names += ["bswap"] if scalars.bits(kind) % 16 == 0 else []
    name = frame.dice.pick(names)
    flags = [("i1", "false")] if name in ("ctlz", "cttz", "abs") else []  # defined for every number
    return frame.call(kind, f"llvm.{name}.{kind}", (kind, value(frame, kind, depth)), *flags)


def _overflow(frame: Frame, kind: str, depth: int) -> str:
    names = ["sadd", "uadd", "ssub", "usub"]
    names += ["smul", "umul"] if kind in ("i8", "i16", "i32") else []
    a, b = _two(frame, kind, depth)
    name, pair = frame.dice.pick(names), f"{{{kind}, i1}}"
    both = frame.call(pair, f"llvm.{name}.with.overflow.{kind}", (kind, a), (kind, b))
    result = frame.value(f"extractvalue {pair} {both}, 0")
    over = frame.value(f"extractvalue {pair} {both}, 1")
    return frame.value(f"select i1 {over}, {kind} {frame.constant(kind)}, {kind} {result}")


def _high_half(frame: Frame, kind: str, depth: int) -> str:
    width, wide = scalars.bits(kind), f"i{2 * scalars.bits(kind)}"
    extend = frame.dice.pick(("zext", "sext"))
    a, b = (frame.value(f"{extend} {kind} {v} to {wide}") for v in _two(frame, kind, depth))
    product = frame.value(f"mul {wide} {a}, {b}")
    by = frame.dice.pick((width, width - 1, width // 2))
    high = frame.value(f"{frame.dice.pick(('lshr', 'ashr'))} {wide} {product}, {by}")
    return frame.value(f"trunc {wide} {high} to {kind}")


# --- floats ---


def _number(frame: Frame, kind: str, depth: int) -> str:
    dice, suffix = frame.dice, f"f{scalars.bits(kind)}"
    drawn = dice.number(0, 11)
    if drawn < 6:
        return _binary(frame, dice.pick(("fadd", "fsub", "fmul", "fdiv")), kind, depth)
    if drawn < 7:
        return frame.value(f"fneg {kind} {value(frame, kind, depth)}")
    if drawn < 10:
        name = dice.pick(("fabs", "floor", "ceil", "trunc", "rint", "round", "roundeven", "sqrt"))
        return frame.call(kind, f"llvm.{name}.{suffix}", (kind, value(frame, kind, depth)))
    if drawn < 11 and kind != "half":  # machines without arithmetic on halves round it twice
        three = [(kind, value(frame, kind, depth)) for _ in range(3)]
        return frame.call(kind, f"llvm.fma.{suffix}", *three)
    a, b = _two(frame, kind, depth)
    if dice.one_in(3):  # the sign of a NaN is undefined
        nan = frame.value(f"fcmp uno {kind} {b}, {b}")
        b = frame.value(f"select i1 {nan}, {kind} {frame.constant(kind)}, {kind} {b}")
        return frame.call(kind, f"llvm.copysign.{suffix}", (kind, a), (kind, b))
    name = dice.pick(("minimum", "maximum"))
    return frame.call(kind, f"llvm.{name}.{suffix}", (kind, a), (kind, b))
