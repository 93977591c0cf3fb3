"""The results of a collective for the lanes of one warp, as LLVM text on vectors of 32 lanes.

All participating lanes share one member mask, or each has its own; in the latter case, they form
classes, and the lanes of a class name exactly each other.
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.exec.jit.analysis.shuffle_lanes import shuffle_source
from vgpu_sim.exec.jit.arithmetic.warps import LANES, WarpText, vector_type
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import Instruction, MatchMode, Op, Reduction, ShuffleMode
from vgpu_sim.isa.types import VoteMode
from vgpu_sim.records import dataclass

_CANONICAL_NAN: Final = 0x7FFF_FFFF
_LEAST, _GREATEST = -(1 << 31), (1 << 31) - 1
# A bit test of all lanes costs nine instructions, one class of the loop twice as many.
_FEW_BITS: Final = 16
_I32 = vector_type("i32")


@dataclass(frozen=True, slots=True)
class CollectiveOperands:
    """The operands of a collective, as LLVM text.

    ``here`` is the mask of the participating lanes; ``whole`` is true if all lanes participate. If
    all lanes pass the same member mask, ``members`` is that mask; otherwise ``each`` is a vector
    with one mask per lane. ``value`` is a vector with one value per lane. ``possible`` is a mask of
    the bits that may be set in such a value.

    For SHFL, ``way`` emits the operands b and c, and returns them as vectors. If b and c are
    constants, ``known`` holds them, and lanes outside the set ``demanded`` (see
    ``comparison_outcomes``) may get any value.
    """

    here: str
    whole: bool
    members: str = ""
    each: str = ""
    value: str = ""
    way: Callable[[], tuple[str, str]] | None = None
    known: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    demanded: int = -1
    possible: int = -1


@dataclass(frozen=True, slots=True)
class Result:
    """The LLVM name of a result: a scalar of type ``scalar`` or, if ``vector``, a vector of such
    scalars.
    """

    name: str
    scalar: str
    vector: bool


def results(text: Text, instruction: Instruction, given: CollectiveOperands) -> tuple[Result, ...]:
    """Return the results of a collective, one for each destination."""
    return _RESULTS[instruction.op](text, WarpText(text), instruction, given)


def _together(warp: WarpText, given: CollectiveOperands) -> str:
    """Return, for each lane, the mask of the lanes that take part with it."""
    return warp.apply("and", given.each, warp.splat("i32", given.here))


def _shuffle(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    value = given.value
    if not given.whole:
        value = warp.select(warp.unpack_flags(given.here), value, "zeroinitializer")
    if given.known is not None:
        return _shuffle_known(warp, instruction, given, value)
    assert given.way is not None
    b, c = given.way()
    lane = warp.constant(LANES)
    distance = warp.apply("and", b, "splat (i32 31)")
    clamp = warp.apply("and", c, "splat (i32 31)")
    segment = warp.apply("and", warp.apply("lshr", c, "splat (i32 8)"), "splat (i32 31)")
    rest = warp.apply("xor", segment, "splat (i32 -1)")
    low = warp.apply("and", lane, segment)
    last = warp.apply("or", low, warp.apply("and", clamp, rest))
    match instruction.shuffle:
        case ShuffleMode.UP:
            source = warp.apply("sub", lane, distance)
        case ShuffleMode.DOWN:
            source = warp.apply("add", lane, distance)
        case ShuffleMode.BFLY:
            source = warp.apply("xor", lane, distance)
        case _:
            source = warp.apply("or", low, warp.apply("and", distance, rest))
    up = instruction.shuffle is ShuffleMode.UP
    within = warp.compare("sge" if up else "sle", source, last)
    source = warp.select(within, source, lane)
    source = warp.apply("and", source, "splat (i32 31)")
    found = warp.permute(value, source)
    if given.each:
        named = warp.apply("and", warp.apply("lshr", given.each, source), "splat (i32 1)")
        there = warp.compare("ne", named, "zeroinitializer")
        found = warp.select(there, found, "zeroinitializer")
    return Result(found, "i32", True), Result(within, "i1", True)


def _shuffle_known(
    warp: WarpText, instruction: Instruction, given: CollectiveOperands, value: str
) -> tuple[Result, ...]:
    assert given.known is not None
    pairs = list(zip(*given.known, strict=True))
    pairs += [(0, 0)] * (len(LANES) - len(pairs))
    chosen = [shuffle_source(instruction.shuffle, lane, b, c) for lane, (b, c) in enumerate(pairs)]
    sources = _simplest([source & 31 for source, _ in chosen], given.demanded, warp.vector_lanes)
    within = "<" + ", ".join(f"i1 {'true' if flag else 'false'}" for _, flag in chosen) + ">"
    found = warp.shuffle(value, "poison", sources, "i32")
    if given.each:
        named = warp.apply("and", given.each, warp.constant(1 << source for source in sources))
        there = warp.compare("ne", named, "zeroinitializer")
        found = warp.select(there, found, "zeroinitializer")
    return Result(found, "i32", True), Result(within, "i1", True)


def _simplest(sources: list[int], demanded: int, width: int) -> list[int]:
    """Return the source lanes of a shuffle, with cheap sources for lanes that are not demanded.

    Such a lane is moved within a vector together with a demanded one, or not at all.
    """
    found = []
    for first in range(0, len(sources), width):
        lanes = range(first, first + width)
        one = next((lane for lane in lanes if demanded >> lane & 1), None)
        for lane in lanes:
            if demanded >> lane & 1:
                found.append(sources[lane])
            elif one is None:
                found.append(lane)
            else:
                origin = sources[one] - sources[one] % width
                found.append(origin + (sources[one] + lane - one) % width)
    return found


def _vote(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    ballot = text.let(f"and i32 {warp.pack_flags(given.value)}, {given.here}")
    participants, type_, vector = given.here, "i32", bool(given.each)
    if vector:
        participants, type_ = _together(warp, given), _I32
        ballot = warp.apply("and", warp.splat("i32", ballot), participants)
    if instruction.vote is VoteMode.BALLOT:
        return (Result(ballot, "i32", vector),)
    none = "zeroinitializer" if vector else "0"
    flags = vector_type("i1") if vector else "i1"
    if instruction.vote is VoteMode.ANY:
        return (Result(text.let(f"icmp ne {type_} {ballot}, {none}"), "i1", vector),)
    agree = text.let(f"icmp eq {type_} {ballot}, {participants}")
    if instruction.vote is VoteMode.UNI:
        none_true = text.let(f"icmp eq {type_} {ballot}, {none}")
        agree = text.let(f"or {flags} {agree}, {none_true}")
    return (Result(agree, "i1", vector),)


def _classes(
    text: Text,
    warp: WarpText,
    given: CollectiveOperands,
    step: Callable[[str, str], tuple[str, str]],
) -> str:
    """Emit a loop over classes of lanes; return the result of each lane's class.

    ``step`` takes the number of the lowest remaining lane and the mask of remaining lanes, and
    returns the mask of its class and the result.
    """
    origin, loop, done = text.block_label, text.label("classes"), text.label("classed")
    text.jump(loop)
    text.begin(loop, follows=True)
    left, left_place = text.name(), text.reserve()
    found, found_place = text.name(), text.reserve()
    same, got = step(warp.lowest_set_bit(left), left)
    following = warp.select(warp.unpack_flags(same), warp.splat("i32", got), found)
    rest = text.let(f"and i32 {left}, {text.let(f'xor i32 {same}, -1')}")
    more = text.let(f"icmp ne i32 {rest}, 0")
    end = text.block_label
    text.branch(more, loop, done)
    text.fill(left_place, left, "i32", [(given.here, origin), (rest, end)])
    text.fill(found_place, found, _I32, [("zeroinitializer", origin), (following, end)])
    text.begin(done, follows=True)
    return following


def _alike(text: Text, warp: WarpText, given: CollectiveOperands, scalar: str) -> str:
    """Return, for each lane, the lanes of its class that hold the same value."""

    def step(leader: str, left: str) -> tuple[str, str]:
        key = warp.splat(scalar, warp.extract(given.value, leader, scalar))
        same = text.let(
            f"and i32 {warp.pack_flags(warp.compare('eq', given.value, key, scalar))}, {left}"
        )
        if given.each:
            same = text.let(f"and i32 {same}, {warp.extract(given.each, leader)}")
        return same, same

    return _classes(text, warp, given, step)


def _alike_by_bits(text: Text, warp: WarpText, given: CollectiveOperands, scalar: str) -> str:
    """Compute ``_alike`` bit by bit: lanes that agree in a bit are its ballot or the complement."""
    type_, different = vector_type(scalar), "zeroinitializer"
    for place in range(given.possible.bit_length()):
        if not given.possible >> place & 1:
            continue
        bit = text.let(f"and {type_} {given.value}, splat ({scalar} {1 << place})")
        flags = warp.compare("ne", bit, "zeroinitializer", scalar)
        own = text.let(f"sext {vector_type('i1')} {flags} to {_I32}")
        others = warp.apply("xor", own, warp.splat("i32", warp.pack_flags(flags)))
        different = warp.apply("or", different, others)
    alike = warp.apply("xor", different, "splat (i32 -1)")
    named = _together(warp, given) if given.each else warp.splat("i32", given.here)
    return warp.apply("and", alike, named)


def _match(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    scalar = f"i{instruction.type.bits}"
    if instruction.match is MatchMode.ANY:
        few = given.possible >= 0 and given.possible.bit_count() <= _FEW_BITS
        found = (_alike_by_bits if few else _alike)(text, warp, given, scalar)
        return (Result(found, "i32", True),)
    if given.each:
        same = _alike(text, warp, given, scalar)
        agree = warp.compare("eq", same, _together(warp, given))
        found = warp.select(agree, same, "zeroinitializer")
        return Result(found, "i32", True), Result(agree, "i1", True)
    key = warp.splat(scalar, warp.extract(given.value, warp.lowest_set_bit(given.here), scalar))
    equal = text.let(
        f"and i32 {warp.pack_flags(warp.compare('eq', given.value, key, scalar))}, {given.here}"
    )
    flag = text.let(f"icmp eq i32 {equal}, {given.here}")
    found = text.let(f"select i1 {flag}, i32 {given.here}, i32 0")
    return Result(found, "i32", False), Result(flag, "i1", False)


def _redux(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    assert instruction.reduction is not None
    floats = instruction.type.is_float
    signed = instruction.type.is_signed or floats
    name, neutral = _REDUCTIONS[instruction.reduction, signed]
    value = _float_keys(warp, instruction, given.value) if floats else given.value

    def reduce_lanes(lanes: str) -> str:
        some = value
        if not (given.whole and lanes == given.here):
            some = warp.select(warp.unpack_flags(lanes), value, f"splat (i32 {neutral})")
        return warp.reduce(name, some)

    def step(leader: str, left: str) -> tuple[str, str]:
        same = text.let(f"and i32 {left}, {warp.extract(given.each, leader)}")
        return same, reduce_lanes(same)

    if given.each:
        found = _classes(text, warp, given, step)
        return (Result(_from_keys(text, found, _I32) if floats else found, "i32", True),)
    found = reduce_lanes(given.here)
    return (Result(_from_keys(text, found, "i32") if floats else found, "i32", False),)


def _float_keys(warp: WarpText, instruction: Instruction, value: str) -> str:
    """Return signed keys in the order of the floats; a NaN sorts before or after all numbers."""
    magnitude = warp.apply("and", value, f"splat (i32 {_GREATEST})")
    if instruction.absolute:
        value = magnitude
    sign = warp.apply("ashr", value, "splat (i32 31)")
    keys = warp.apply("xor", value, warp.apply("and", sign, f"splat (i32 {_GREATEST})"))
    is_nan = warp.compare("ugt", magnitude, f"splat (i32 {0x7F80_0000})")
    wins_low = (instruction.reduction is Reduction.MIN) == instruction.nan
    return warp.select(is_nan, f"splat (i32 {_LEAST if wins_low else _GREATEST})", keys)


def _from_keys(text: Text, keys: str, type_: str) -> str:
    """Convert keys back to floats; keys that represent no number become the canonical NaN."""
    vector = type_ != "i32"

    def number(value: int) -> str:
        return f"splat (i32 {value})" if vector else str(value)

    sign = text.let(f"ashr {type_} {keys}, {number(31)}")
    flip = text.let(f"and {type_} {sign}, {number(_GREATEST)}")
    pattern = text.let(f"xor {type_} {keys}, {flip}")
    # The smallest key's pattern is -NaN, the largest key's is the canonical NaN.
    flags = vector_type("i1") if vector else "i1"
    least = text.let(f"icmp eq {type_} {keys}, {number(_LEAST)}")
    canonical = number(_CANONICAL_NAN)
    return text.let(f"select {flags} {least}, {type_} {canonical}, {type_} {pattern}")


def _elect(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    if not given.each:
        leader = warp.lowest_set_bit(given.here)
        flag = warp.compare("eq", warp.splat("i32", leader), warp.constant(LANES))
        return Result(leader, "i32", False), Result(flag, "i1", True)
    leaders = warp.call_each("cttz", _together(warp, given), ("i1", "false"))
    flag = warp.compare("eq", leaders, warp.constant(LANES))
    return Result(leaders, "i32", True), Result(flag, "i1", True)


def _active(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    return (Result(given.here, "i32", False),)


def _wait(
    text: Text, warp: WarpText, instruction: Instruction, given: CollectiveOperands
) -> tuple[Result, ...]:
    return ()


_REDUCTIONS: Final = {
    **{(Reduction.ADD, signed): ("add", 0) for signed in (False, True)},
    (Reduction.MIN, False): ("umin", -1),
    (Reduction.MIN, True): ("smin", _GREATEST),
    (Reduction.MAX, False): ("umax", 0),
    (Reduction.MAX, True): ("smax", _LEAST),
    (Reduction.AND, False): ("and", -1),
    (Reduction.OR, False): ("or", 0),
    (Reduction.XOR, False): ("xor", 0),
}
_RESULTS: Final = {
    Op.SHFL: _shuffle,
    Op.VOTE: _vote,
    Op.MATCH: _match,
    Op.REDUX: _redux,
    Op.ELECT: _elect,
    Op.ACTIVEMASK: _active,
    Op.BAR_WARP: _wait,
}
