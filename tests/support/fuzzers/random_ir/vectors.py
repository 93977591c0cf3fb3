"""Scalar values computed with short vectors: composed, computed with, compared, and split."""

from support.fuzzers.random_ir import scalars
from support.fuzzers.random_ir.frames import Frame, Typed
from support.fuzzers.random_ir.values import value

_KINDS: tuple[tuple[str, int], ...] = (
    ("i32", 2),
    ("i8", 4),
    ("i16", 2),
    ("float", 4),
    ("half", 2),
    ("i64", 2),
    ("i16", 4),
)
_KINDS += (("i8", 2), ("float", 2), ("i32", 4), ("i1", 4), ("i8", 8), ("half", 4), ("double", 2))
_REDUCTIONS = ("add", "mul", "and", "or", "xor", "smin", "smax", "umin", "umax")
_PAIRS = ("smin", "smax", "umin", "umax", "sadd.sat", "usub.sat")


def element(frame: Frame, depth: int) -> Typed:
    """Compute with two random vectors; return one element of the result."""
    dice = frame.dice
    kind, count = dice.pick(_KINDS)
    a, b = (_made(frame, kind, count, depth) for _ in range(2))
    for _ in range(dice.number(1, 2)):
        a = _step(frame, kind, count, a, b)
    return kind, _taken(frame, kind, count, a, depth)


def _made(frame: Frame, kind: str, count: int, depth: int) -> str:
    dice, vector = frame.dice, _vector(kind, count)
    constants = ", ".join(f"{kind} {frame.constant(kind)}" for _ in range(count))
    made = "zeroinitializer" if dice.percent(30) else f"<{constants}>"
    for _ in range(dice.number(1, 2)):
        put = value(frame, kind, depth)
        where = dice.number(0, count - 1)
        made = frame.value(f"insertelement {vector} {made}, {kind} {put}, i32 {where}")
    return made


def _step(frame: Frame, kind: str, count: int, a: str, b: str) -> str:
    dice, vector = frame.dice, _vector(kind, count)
    drawn = dice.number(0, 4)
    if drawn == 0:
        mask = ", ".join(f"i32 {dice.number(0, 2 * count - 1)}" for _ in range(count))
        return frame.value(f"shufflevector {vector} {a}, {vector} {b}, <{count} x i32> <{mask}>")
    if scalars.is_integer(kind):
        operation = dice.pick(("add", "sub", "mul", "and", "or", "xor"))
        result = frame.value(f"{operation} {vector} {a}, {b}")
        if drawn == 1 and kind != "i1":
            by = ", ".join(f"{kind} {dice.number(0, scalars.bits(kind) - 1)}" for _ in range(count))
            shift = dice.pick(("shl", "lshr", "ashr"))
            result = frame.value(f"{shift} {vector} {result}, <{by}>")
        elif drawn == 2 and kind != "i1":
            name = f"llvm.{dice.pick(_PAIRS)}.v{count}{kind}"
            result = frame.call(vector, name, (vector, result), (vector, b))
        compare = f"icmp {dice.pick(('ult', 'sgt', 'eq', 'ne'))}"
    else:
        result = frame.value(f"{dice.pick(('fadd', 'fsub', 'fmul'))} {vector} {a}, {b}")
        compare = f"fcmp {dice.pick(('olt', 'une', 'ugt'))}"
    if drawn == 3:
        chosen = frame.value(f"{compare} {vector} {result}, {b}")
        result = frame.value(f"select <{count} x i1> {chosen}, {vector} {a}, {vector} {result}")
    return result


def _taken(frame: Frame, kind: str, count: int, vector: str, depth: int) -> str:
    dice, typed = frame.dice, f"{_vector(kind, count)} {vector}"
    if scalars.is_integer(kind) and dice.percent(20):
        name = f"llvm.vector.reduce.{dice.pick(_REDUCTIONS)}.v{count}{kind}"
        return frame.call(kind, name, (_vector(kind, count), vector))
    if dice.percent(40):
        return frame.value(f"extractelement {typed}, i32 {dice.number(0, count - 1)}")
    index = frame.value(f"and i32 {value(frame, 'i32', depth)}, {count - 1}")
    if kind == "i1" or dice.one_in(2):
        return frame.value(f"extractelement {typed}, i32 {index}")
    place = frame.alloca(f"{_vector(kind, count)}, align 16")
    frame.line(f"store {typed}, ptr {place}, align {dice.pick((1, 4, 16))}")
    at = frame.value(f"getelementptr {kind}, ptr {place}, i32 {index}")
    return frame.value(f"load {kind}, ptr {at}")


def _vector(kind: str, count: int) -> str:
    return f"<{count} x {kind}>"
