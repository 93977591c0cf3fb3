"""Code that runs once for each lane of a mask, in lane order."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from vgpu_sim.exec.jit.text.writer import Text, integer

_LEAST_PAIRS: Final = 2


class LaneOf(Protocol):
    """Extracts one lane from a vector whose elements are of the type ``scalar``.

    ``wide`` states that the lane is an i32 that will be used as an address. The lane is then
    returned as an i64, sign-extended.

    Unrolled code shifts such a lane out of the 64-bit element that contains it. If the code
    merely moved the lane out of the vector, a load from this address would take 25 cycles on Zen
    4. That CPU wrongly predicts each time that the load hits the last store through the same
    register (ADR 99).
    """

    def __call__(self, vector: str, scalar: str, *, wide: bool = False) -> str: ...


Body = Callable[[LaneOf], Sequence[str]]
"""A function that emits the code of one lane and returns one scalar for each result."""


def emit_for_lanes(
    text: Text, lanes: str | None, body: Body, whole: Callable[[], None] | None = None
) -> None:
    """Emit code that runs ``body`` for each lane in the mask ``lanes``. ``body`` has no results. If
    all lanes are set, unrolled code runs instead of a loop.

    ``whole``, if given, emits other code for the case that all lanes are set.
    """

    def straight() -> None:
        if whole is None:
            one_by_one(text, body)
        else:
            whole()

    if lanes is None:
        straight()
        return
    if text.width == 1:
        emit_lane_loop(text, lanes, [], body)
        return
    every = text.let(f"icmp eq {integer(text.width)} {text.let(_pack(text, lanes))}, -1")
    full, partial_label, end_label = (text.label(hint) for hint in ("all", "some", "served"))
    text.branch(every, full, partial_label)
    text.begin(full, follows=True)
    with text.known.open_scope():
        straight()
        text.jump(end_label)
    text.begin(partial_label, follows=True)
    with text.known.open_scope():
        emit_lane_loop(text, lanes, [], body)
        text.jump(end_label)
    text.begin(end_label, follows=True)
    text.known.invalidate_loads()


def one_by_one(text: Text, body: Body) -> None:
    """Emit unrolled code that runs ``body`` once for each lane."""
    for lane in range(text.width):
        body(_lane(text, lane))


def first_lane_extractor(text: Text) -> LaneOf:
    """Return an extractor of the first lane."""
    return _lane(text, 0)


def _lane(text: Text, lane: int) -> LaneOf:
    def lane_of(vector: str, scalar: str, *, wide: bool = False) -> str:
        if wide and text.width >= 2 * _LEAST_PAIRS:
            return _of_pair(text, vector, lane)
        return _element(text, vector, scalar, str(lane), wide=wide)

    return lane_of


def _element(text: Text, vector: str, scalar: str, index: str, *, wide: bool) -> str:
    element = text.let(f"extractelement {text.type_of(scalar, vector=True)} {vector}, i64 {index}")
    return text.let(f"sext i32 {element} to i64") if wide else element


def _of_pair(text: Text, vector: str, lane: int) -> str:
    """Return a 32-bit lane as an i64, extracted from the 64-bit element that contains it."""
    pairs = f"<{text.width // 2} x i64>"
    whole = text.let(f"bitcast <{text.width} x i32> {vector} to {pairs}")
    pair = text.let(f"extractelement {pairs} {whole}, i64 {lane // 2}")
    if lane % 2 == 0:
        pair = text.let(f"shl i64 {pair}, 32")
    return text.let(f"ashr i64 {pair}, 32")


def _pack(text: Text, lanes: str) -> str:
    return f"bitcast <{text.width} x i1> {lanes} to {integer(text.width)}"


def emit_lane_loop(text: Text, lanes: str | None, scalars: Sequence[str], body: Body) -> list[str]:
    """Emit a loop that runs ``body`` for each lane that is set in ``lanes`` (None: all lanes).

    Return one vector for each result of ``body``, with elements of the LLVM types ``scalars``.
    Lanes that are not set are zero.
    """
    width = text.width
    bits = integer(width)
    types = [text.type_of(scalar, vector=True) for scalar in scalars]
    initial_mask = "-1" if lanes is None else text.let(_pack(text, lanes))
    if width == 1 and lanes is None:
        initial_mask = "true"
    text.known.invalidate_loads()  # a previous lane's iteration may have stored
    origin, head, inside, end_label = (
        text.block_label,
        *(text.label(hint) for hint in ("lanes", "lane", "served")),
    )
    text.jump(head)
    text.begin(head, follows=True)
    places = [text.reserve() for _ in range(1 + len(scalars))]
    left, *phi_vectors = (text.name() for _ in places)
    text.branch(text.let(f"icmp ne {bits} {left}, {_zero(width)}"), inside, end_label)
    text.begin(inside, follows=True)
    with text.known.open_scope():
        if width == 1:
            index = "0"
        else:
            first = text.call(bits, f"llvm.cttz.{bits}", (bits, left), ("i1", "true"))
            index = first if width == 64 else text.let(f"zext {bits} {first} to i64")

        def lane_of(vector: str, scalar: str, *, wide: bool = False) -> str:
            return _element(text, vector, scalar, index, wide=wide)

        lane_values = body(lane_of)
        updated_vectors = [
            text.let(f"insertelement {type_} {vector}, {scalar} {value}, i64 {index}")
            for type_, vector, scalar, value in zip(
                types, phi_vectors, scalars, lane_values, strict=True
            )
        ]
        following = _zero(width)
        if width > 1:
            lower = text.let(f"add {bits} {left}, -1")
            following = text.let(f"and {bits} {left}, {lower}")
        end = text.block_label
        text.jump(head)
    text.begin(end_label, follows=True)
    ways = [(initial_mask, following), *(("zeroinitializer", vector) for vector in updated_vectors)]
    for place, name, type_, (start, step) in zip(
        places, (left, *phi_vectors), (bits, *types), ways, strict=True
    ):
        text.fill(place, name, type_, [(start, origin), (step, end)])
    text.known.invalidate_loads()
    return phi_vectors


def _zero(width: int) -> str:
    return "false" if width == 1 else "0"
