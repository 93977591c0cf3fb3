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


def results(
    text: Text, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    """Return the results of a collective, one for each destination."""
    return _RESULTS[instruction.op](text, WarpText(text), instruction, operands)


def _together(warp: WarpText, operands: CollectiveOperands) -> str:
    """Return, for each lane, the mask of the lanes that take part with it."""
    return warp.apply("and", operands.each, warp.splat("i32", operands.here))


def _shuffle(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    value = operands.value
    if not operands.whole:
        value = warp.select(warp.unpack_flags(operands.here), value, "zeroinitializer")
    if operands.known is not None:
        return _shuffle_known(warp, instruction, operands, value)
    assert operands.way is not None
    b, c = operands.way()
    lane = warp.constant(LANES)
    distance = warp.apply("and", b, "splat (i32 31)")
    clamp = warp.apply("and", c, "splat (i32 31)")
    segment = warp.apply("and", warp.apply("lshr", c, "splat (i32 8)"), "splat (i32 31)")
    segment_complement = warp.apply("xor", segment, "splat (i32 -1)")
    low = warp.apply("and", lane, segment)
    last = warp.apply("or", low, warp.apply("and", clamp, segment_complement))
    match instruction.shuffle:
        case ShuffleMode.UP:
            source = warp.apply("sub", lane, distance)
        case ShuffleMode.DOWN:
            source = warp.apply("add", lane, distance)
        case ShuffleMode.BFLY:
            source = warp.apply("xor", lane, distance)
        case _:
            source = warp.apply("or", low, warp.apply("and", distance, segment_complement))
    up = instruction.shuffle is ShuffleMode.UP
    within = warp.compare("sge" if up else "sle", source, last)
    source = warp.select(within, source, lane)
    source = warp.apply("and", source, "splat (i32 31)")
    shuffled = warp.permute(value, source)
    if operands.each:
        named = warp.apply("and", warp.apply("lshr", operands.each, source), "splat (i32 1)")
        is_source_named = warp.compare("ne", named, "zeroinitializer")
        shuffled = warp.select(is_source_named, shuffled, "zeroinitializer")
    return Result(shuffled, "i32", True), Result(within, "i1", True)


def _shuffle_known(
    warp: WarpText, instruction: Instruction, operands: CollectiveOperands, value: str
) -> tuple[Result, ...]:
    assert operands.known is not None
    pairs = list(zip(*operands.known, strict=True))
    pairs += [(0, 0)] * (len(LANES) - len(pairs))
    chosen = [shuffle_source(instruction.shuffle, lane, b, c) for lane, (b, c) in enumerate(pairs)]
    sources = _simplest([source & 31 for source, _ in chosen], operands.demanded, warp.vector_lanes)
    within = "<" + ", ".join(f"i1 {'true' if flag else 'false'}" for _, flag in chosen) + ">"
    shuffled = warp.shuffle(value, "poison", sources, "i32")
    if operands.each:
        named = warp.apply("and", operands.each, warp.constant(1 << source for source in sources))
        is_source_named = warp.compare("ne", named, "zeroinitializer")
        shuffled = warp.select(is_source_named, shuffled, "zeroinitializer")
    return Result(shuffled, "i32", True), Result(within, "i1", True)


def _simplest(sources: list[int], demanded: int, width: int) -> list[int]:
    """Return the source lanes of a shuffle, with cheap sources for lanes that are not demanded.

    Such a lane is moved within a vector together with a demanded one, or not at all.
    """
    source_lanes = []
    for first in range(0, len(sources), width):
        lanes = range(first, first + width)
        demanded_lane = next((lane for lane in lanes if demanded >> lane & 1), None)
        for lane in lanes:
            if demanded >> lane & 1:
                source_lanes.append(sources[lane])
            elif demanded_lane is None:
                source_lanes.append(lane)
            else:
                origin = sources[demanded_lane] - sources[demanded_lane] % width
                source_lanes.append(
                    origin + (sources[demanded_lane] + lane - demanded_lane) % width
                )
    return source_lanes


def _vote(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    ballot = text.let(f"and i32 {warp.pack_flags(operands.value)}, {operands.here}")
    participants, type_, vector = operands.here, "i32", bool(operands.each)
    if vector:
        participants, type_ = _together(warp, operands), _I32
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
    operands: CollectiveOperands,
    step: Callable[[str, str], tuple[str, str]],
) -> str:
    """Emit a loop over classes of lanes; return the result of each lane's class.

    ``step`` takes the number of the lowest remaining lane and the mask of remaining lanes, and
    returns the mask of its class and the result.
    """
    origin, loop, end_label = text.block_label, text.label("classes"), text.label("classed")
    text.jump(loop)
    text.begin(loop, follows=True)
    left, left_place = text.name(), text.reserve()
    class_results, found_place = text.name(), text.reserve()
    class_lanes, got = step(warp.lowest_set_bit(left), left)
    following = warp.select(warp.unpack_flags(class_lanes), warp.splat("i32", got), class_results)
    remaining_lanes = text.let(f"and i32 {left}, {text.let(f'xor i32 {class_lanes}, -1')}")
    has_remaining = text.let(f"icmp ne i32 {remaining_lanes}, 0")
    end = text.block_label
    text.branch(has_remaining, loop, end_label)
    text.fill(left_place, left, "i32", [(operands.here, origin), (remaining_lanes, end)])
    text.fill(found_place, class_results, _I32, [("zeroinitializer", origin), (following, end)])
    text.begin(end_label, follows=True)
    return following


def _alike(text: Text, warp: WarpText, operands: CollectiveOperands, scalar: str) -> str:
    """Return, for each lane, the lanes of its class that hold the same value."""

    def step(leader: str, left: str) -> tuple[str, str]:
        key = warp.splat(scalar, warp.extract(operands.value, leader, scalar))
        equal_lanes = text.let(
            f"and i32 {warp.pack_flags(warp.compare('eq', operands.value, key, scalar))}, {left}"
        )
        if operands.each:
            equal_lanes = text.let(f"and i32 {equal_lanes}, {warp.extract(operands.each, leader)}")
        return equal_lanes, equal_lanes

    return _classes(text, warp, operands, step)


def _alike_by_bits(text: Text, warp: WarpText, operands: CollectiveOperands, scalar: str) -> str:
    """Compute ``_alike`` bit by bit: lanes that agree in a bit are its ballot or the complement."""
    type_, different = vector_type(scalar), "zeroinitializer"
    for place in range(operands.possible.bit_length()):
        if not operands.possible >> place & 1:
            continue
        bit = text.let(f"and {type_} {operands.value}, splat ({scalar} {1 << place})")
        flags = warp.compare("ne", bit, "zeroinitializer", scalar)
        own = text.let(f"sext {vector_type('i1')} {flags} to {_I32}")
        differing_lanes = warp.apply("xor", own, warp.splat("i32", warp.pack_flags(flags)))
        different = warp.apply("or", different, differing_lanes)
    alike = warp.apply("xor", different, "splat (i32 -1)")
    named = _together(warp, operands) if operands.each else warp.splat("i32", operands.here)
    return warp.apply("and", alike, named)


def _match(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    scalar = f"i{instruction.type.bits}"
    if instruction.match is MatchMode.ANY:
        few = operands.possible >= 0 and operands.possible.bit_count() <= _FEW_BITS
        matches = (_alike_by_bits if few else _alike)(text, warp, operands, scalar)
        return (Result(matches, "i32", True),)
    if operands.each:
        equal_lanes = _alike(text, warp, operands, scalar)
        agree = warp.compare("eq", equal_lanes, _together(warp, operands))
        matches = warp.select(agree, equal_lanes, "zeroinitializer")
        return Result(matches, "i32", True), Result(agree, "i1", True)
    key = warp.splat(
        scalar, warp.extract(operands.value, warp.lowest_set_bit(operands.here), scalar)
    )
    equal = text.let(
        f"and i32 {warp.pack_flags(warp.compare('eq', operands.value, key, scalar))},"
        f" {operands.here}"
    )
    flag = text.let(f"icmp eq i32 {equal}, {operands.here}")
    matches = text.let(f"select i1 {flag}, i32 {operands.here}, i32 0")
    return Result(matches, "i32", False), Result(flag, "i1", False)


def _redux(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    assert instruction.reduction is not None
    floats = instruction.type.is_float
    signed = instruction.type.is_signed or floats
    name, neutral = _REDUCTIONS[instruction.reduction, signed]
    value = _float_keys(warp, instruction, operands.value) if floats else operands.value

    def reduce_lanes(lanes: str) -> str:
        chosen_values = value
        if not (operands.whole and lanes == operands.here):
            chosen_values = warp.select(warp.unpack_flags(lanes), value, f"splat (i32 {neutral})")
        return warp.reduce(name, chosen_values)

    def step(leader: str, left: str) -> tuple[str, str]:
        equal_lanes = text.let(f"and i32 {left}, {warp.extract(operands.each, leader)}")
        return equal_lanes, reduce_lanes(equal_lanes)

    if operands.each:
        reduced = _classes(text, warp, operands, step)
        return (Result(_from_keys(text, reduced, _I32) if floats else reduced, "i32", True),)
    reduced = reduce_lanes(operands.here)
    return (Result(_from_keys(text, reduced, "i32") if floats else reduced, "i32", False),)


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
    is_least = text.let(f"icmp eq {type_} {keys}, {number(_LEAST)}")
    canonical = number(_CANONICAL_NAN)
    return text.let(f"select {flags} {is_least}, {type_} {canonical}, {type_} {pattern}")


def _elect(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    if not operands.each:
        leader = warp.lowest_set_bit(operands.here)
        flag = warp.compare("eq", warp.splat("i32", leader), warp.constant(LANES))
        return Result(leader, "i32", False), Result(flag, "i1", True)
    leaders = warp.call_each("cttz", _together(warp, operands), ("i1", "false"))
    flag = warp.compare("eq", leaders, warp.constant(LANES))
    return Result(leaders, "i32", True), Result(flag, "i1", True)


def _active(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
) -> tuple[Result, ...]:
    return (Result(operands.here, "i32", False),)


def _wait(
    text: Text, warp: WarpText, instruction: Instruction, operands: CollectiveOperands
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
