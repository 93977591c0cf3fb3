"""Collectives: vector code if a group consists of whole warps, else one call per lane.

A group of several lanes emits a collective only if ``wait_points.is_legal_geometry`` has proved
that every participating lane is present. The rest is tested at run time: lanes must name
themselves, and lanes that name each other must name the same mask.
"""

from collections.abc import Callable
from typing import Final

from vgpu_sim.exec.jit.arithmetic.warp_results import CollectiveOperands, Result, results
from vgpu_sim.exec.jit.arithmetic.warps import LANES, WarpText, vector_type
from vgpu_sim.exec.jit.emission.emitter import Emitter, Lowering
from vgpu_sim.exec.jit.ir.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.numbers.known_values import known_values
from vgpu_sim.exec.jit.progress import wait_points
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import integer
from vgpu_sim.exec.jit.values.environment import Form
from vgpu_sim.exec.jit.values.launch import (
    THREAD_COLLECT,
    THREAD_STATUS,
    THREAD_TRAP_WORD,
    WRONG_MEMBERS,
)
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.limits import WARP_THREADS
from vgpu_sim.isa import DataType, Instruction, Literal, MatchMode, Op, Reduction

_FULL: Final = 0xFFFF_FFFF


def _lower(emitter: Emitter, node: Operation, mask: Mask, occupied: bool) -> None:
    geometry = emitter.analysis.geometry
    if geometry.span == 1:
        _one_lane(emitter, node, mask)
        return
    per_warp = WARP_THREADS // geometry.width
    warp_results: list[tuple[Result, ...]] = []
    wrong: list[str] = []
    for first in range(0, geometry.vectors, per_warp):
        vectors = range(first, min(first + per_warp, geometry.vectors))
        gathered = _gather(emitter, node, mask, vectors)
        wrong += _misuse(emitter, node, gathered)
        warp_results.append(results(emitter.text, node.instruction, gathered))
    if wrong:
        _fail_where(emitter, node, wrong)
    if node.instruction.op is Op.BAR_WARP:
        emitter.text.do('fence syncscope("singlethread") seq_cst')
    for place, result in enumerate(node.results):
        if result is not None:
            _define(emitter, node, result, [warp[place] for warp in warp_results], per_warp)


def _gather(emitter: Emitter, node: Operation, mask: Mask, vectors: range) -> CollectiveOperands:
    """Return a warp's operands of a collective, and the mask of the lanes that are present."""
    text, values, instruction = emitter.text, emitter.values, node.instruction
    warp = WarpText(text)
    count = len(vectors) * text.width
    present = str((1 << count) - 1 - (1 << 32 if count == WARP_THREADS else 0))
    if not mask.full:
        flat = emitter.masks.flat(mask)
        present = warp.pack_flags(warp.join([flat[part] for part in vectors], "i1"))

    def vector(source: Source, scalar: str, *, clean: bool = True) -> str:
        parts = [values.read(source, scalar, Form.VECTOR, c, clean=clean) for c in vectors]
        return warp.join(parts, scalar)

    def scalar_or_vector(source: Source) -> tuple[str, str]:
        shape = values.shape(source, 32)
        if isinstance(shape, Affine) and shape.uniform:
            return values.read(source, "i32", Form.BASE, 0, clean=True), ""
        return "", vector(source, "i32")

    whole = present == "-1"
    if instruction.op is Op.ACTIVEMASK:
        return CollectiveOperands(present, whole)
    members, each = scalar_or_vector(node.sources[-1])
    if instruction.op is Op.VOTE:
        return CollectiveOperands(present, whole, members, each, vector(node.sources[0], "i1"))
    if instruction.op in (Op.BAR_WARP, Op.ELECT):
        return CollectiveOperands(present, whole, members, each)
    # A shuffle moves values unread, including NaNs that are not canonical.
    clean = instruction.op is not Op.SHFL or node in emitter.nans.cleaning
    value = vector(node.sources[0], integer(instruction.type.bits), clean=clean)
    if instruction.op is Op.MATCH:
        number = known_values(emitter.analysis.ssa).read(node.sources[0], instruction.type.bits)
        return CollectiveOperands(present, whole, members, each, value, possible=number.possible)
    if instruction.op is not Op.SHFL:
        return CollectiveOperands(present, whole, members, each, value)
    b, c = node.sources[1:3]
    algebra = emitter.analysis.algebra
    known = [algebra.lanes(values.shape(source, 32), 32) for source in (b, c)]
    rows = None
    if known[0] is not None and known[1] is not None:
        lanes = [
            tuple(n for part in vectors for n in lane_rows[part])
            for lane_rows in known
            if lane_rows
        ]
        rows = (lanes[0], lanes[1])
    result, demanded = node.results[0], 0
    if result is not None:
        demanded = emitter.demanded_lanes(result) >> vectors.start * text.width
    shuffle_operands = lambda: (vector(b, "i32"), vector(c, "i32"))  # noqa: E731
    return CollectiveOperands(
        present, whole, members, each, value, shuffle_operands, rows, demanded
    )


def _misuse(emitter: Emitter, node: Operation, gathered: CollectiveOperands) -> list[str]:
    """Return the conditions (i1) any of which shows that a warp's member masks are invalid."""
    if node.instruction.op is Op.ACTIVEMASK or node.sources[-1] == Literal(_FULL):
        return []
    text, present = emitter.text, gathered.here
    warp = WarpText(text)
    if not gathered.each:
        non_members = text.let(f"xor i32 {gathered.members}, -1")
        outside = text.let(f"and i32 {present}, {non_members}")
        return [text.let(f"icmp ne i32 {outside}, 0")]
    named = warp.apply("and", gathered.each, warp.splat("i32", present))
    itself = warp.apply("and", gathered.each, warp.constant(1 << lane for lane in LANES))
    inside = warp.compare("ne", itself, "zeroinitializer")
    leader = warp.call_each("cttz", named, ("i1", "false"))
    leader = warp.apply("and", leader, "splat (i32 31)")
    agree = warp.compare("eq", warp.permute(gathered.each, leader), gathered.each)
    flags = vector_type("i1")
    right = warp.pack_flags(text.let(f"and {flags} {inside}, {agree}"))
    wrong = text.let(f"and i32 {present}, {text.let(f'xor i32 {right}, -1')}")
    # Each class has one leader; the classes are disjoint if their sizes add up to the whole.
    leads = warp.compare("eq", leader, warp.constant(LANES))
    leads = text.let(f"and {flags} {leads}, {warp.unpack_flags(present)}")
    sizes = warp.select(leads, warp.call_each("ctpop", named), "zeroinitializer")
    total = warp.reduce("add", sizes)
    count = text.intrinsic("ctpop", "i32", False, present)
    return [
        text.let(f"icmp ne i32 {wrong}, 0"),
        text.let(f"icmp ne i32 {total}, {count}"),
    ]


def _fail_where(emitter: Emitter, node: Operation, wrong: list[str]) -> None:
    text, failed = emitter.text, wrong[0]
    for condition in wrong[1:]:
        failed = text.let(f"or i1 {failed}, {condition}")
    misuse_label, onward = text.label("misused"), text.label("named")
    text.branch(failed, misuse_label, onward)
    with text.known.open_scope():
        text.begin(misuse_label, follows=True)
        for offset, number in (
            (THREAD_TRAP_WORD, node.word + 1 - WRONG_MEMBERS),
            (THREAD_STATUS, int(CudaError.LAUNCH_FAILED)),
        ):
            place = text.let(f"getelementptr i8, ptr %thread, i64 {offset}")
            text.do(f"store i32 {number}, ptr {place}, align 4")
        text.jump(emitter.labels["stop"])
    text.begin(onward, follows=True)


def _define(
    emitter: Emitter, node: Operation, result: Value, by_warp: list[Result], per_warp: int
) -> None:
    text, values = emitter.text, emitter.values
    signed = node.instruction.op is Op.REDUX and node.instruction.type.is_signed

    def produce(form: Form, part: int) -> str:
        warp_result = by_warp[part // per_warp]
        value = warp_result.name
        if form is Form.VECTOR and warp_result.vector:
            value = WarpText(text).extract_vector(value, warp_result.scalar, part % per_warp)
        elif form is Form.VECTOR:
            value = text.splat(warp_result.scalar, value)
        elif warp_result.vector:
            value = WarpText(text).extract(value, "0", warp_result.scalar)
        return values.extend_to_storage(value, warp_result.scalar, result, form, signed=signed)

    values.define(result, produce)


_GATHER: Final = 0x15  # TW_GATHER of warps.h


def collective_number(instruction: Instruction) -> int:
    """Return the number by which ``warps.h`` identifies the operation of a collective."""
    match instruction.op:
        case Op.SHFL:
            assert instruction.shuffle is not None
            return int(instruction.shuffle)
        case Op.VOTE:
            assert instruction.vote is not None
            return 0x10 + instruction.vote
        case Op.ACTIVEMASK:
            return 0x14
        case Op.MATCH:
            long = 2 * (instruction.type is DataType.B64)
            return 0x20 + (instruction.match is MatchMode.ALL) + long
        case Op.REDUX if instruction.type.is_float:
            greatest = instruction.reduction is Reduction.MAX
            return 0x40 + greatest + 2 * instruction.absolute + 4 * instruction.nan
        case Op.REDUX:
            assert instruction.reduction is not None
            return (0x38 if instruction.type.is_signed else 0x30) + instruction.reduction
        case Op.ELECT:
            return 0x50
        case _:
            return 0x60


def _one_lane(emitter: Emitter, node: Operation, mask: Mask) -> None:
    """Wait for the other lanes, each of which is a group of its own.

    Where ACTIVEMASK must not wait for all lanes (``wait_points.waiting_active_masks``), it gathers
    those that come before the others wait. Where lanes never wait for each other, it returns only
    the lane itself.
    """
    text, values, instruction = emitter.text, emitter.values, node.instruction
    company = instruction.op is Op.ACTIVEMASK
    analysis = emitter.analysis
    gathers = company and node not in wait_points.waiting_active_masks(
        analysis.ssa, analysis.geometry.block
    )
    if gathers and not wait_points.lanes_wait(analysis.ssa, analysis.geometry):
        lane = text.let(f"and i32 {emitter.specials.first}, 31")
        _define_of_lane(emitter, node, lambda: (text.let(f"shl i32 1, {lane}"), ""))
        return

    def read(source: Source, type_: str) -> str:
        return values.read(source, type_, Form.BASE, 0, clean=True)

    a = shuffle_operands = "0"
    if instruction.op is Op.VOTE:
        a = text.let(f"zext i1 {read(node.sources[0], 'i1')} to i64")
    elif company:
        a = "1"
    elif instruction.op in (Op.SHFL, Op.MATCH, Op.REDUX):
        bits = instruction.type.bits
        a = read(node.sources[0], integer(bits))
        a = a if bits == 64 else text.let(f"zext i32 {a} to i64")
    if instruction.op is Op.SHFL:
        b, c = (text.let(f"zext i32 {read(s, 'i32')} to i64") for s in node.sources[1:3])
        shuffle_operands = text.let(f"or i64 {b}, {text.let(f'shl i64 {c}, 32')}")
    members = "-1" if company else read(node.sources[-1], "i32")
    kind = _GATHER if gathers else collective_number(instruction)
    how = kind | node.word << 8
    callee = emitter.launch.thread(THREAD_COLLECT, "ptr")
    collect_label, onward, origin = text.label("collects"), text.label("onward"), text.block_label
    condition = emitter.masks.any(mask)
    if condition != "true":
        text.branch(condition, collect_label, onward)
        text.begin(collect_label, follows=True)
    arguments = f"ptr %thread, i32 {how}, i32 {members}, i64 {a}, i64 {shuffle_operands}"
    collected = text.let(f"call i64 {callee}({arguments})")
    if condition != "true":
        text.jump(onward)
        text.begin(onward, follows=True)
        collected = text.phi("i64", (collected, collect_label), ("0", origin))

    def parts() -> tuple[str, str]:
        flag = text.let(f"icmp ugt i64 {collected}, 4294967295")
        return text.let(f"trunc i64 {collected} to i32"), flag

    _define_of_lane(emitter, node, parts)


def _define_of_lane(
    emitter: Emitter, node: Operation, parts: Callable[[], tuple[str, str]]
) -> None:
    number, flag = parts()
    votes = node.instruction.type is DataType.PRED
    signed = node.instruction.op is Op.REDUX and node.instruction.type.is_signed
    values = emitter.values
    for place, result in enumerate(node.results):
        if result is None:
            continue
        value, scalar = (flag, "i1") if votes or place == 1 else (number, "i32")

        def produce(
            form: Form, part: int, value: str = value, scalar: str = scalar, to: Value = result
        ) -> str:
            if form is Form.VECTOR:
                value = emitter.text.splat(scalar, value)
            return values.extend_to_storage(value, scalar, to, form, signed=signed)

        values.define(result, produce)


LOWERING: Final[dict[Op, Lowering]] = {
    Op.SHFL: _lower,
    Op.VOTE: _lower,
    Op.MATCH: _lower,
    Op.REDUX: _lower,
    Op.ACTIVEMASK: _lower,
    Op.ELECT: _lower,
    Op.BAR_WARP: _lower,
}
