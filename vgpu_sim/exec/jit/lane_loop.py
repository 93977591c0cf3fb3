"""Code that runs once for each lane of a mask, in the order of the lanes."""

from collections.abc import Callable, Sequence

from vgpu_sim.exec.jit.text import Text, integer

LaneOf = Callable[[str, str], str]
"""Takes the lane out of a vector of a scalar type."""
Body = Callable[[LaneOf], Sequence[str]]
"""Writes what one lane does; returns one scalar for each result."""


def all_lanes(
    text: Text, lanes: str | None, body: Body, whole: Callable[[], None] | None = None
) -> None:
    """Run ``body``, which has no results, for each lane; without a loop where all are set.

    ``whole`` writes something else than that for all lanes.
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
        each_lane(text, lanes, [], body)
        return
    every = text.let(f"icmp eq {integer(text.width)} {text.let(_packed(text, lanes))}, -1")
    full, some, after = (text.label(hint) for hint in ("all", "some", "served"))
    text.branch(every, full, some)
    text.begin(full, follows=True)
    with text.known.within():
        straight()
        text.jump(after)
    text.begin(some, follows=True)
    with text.known.within():
        each_lane(text, lanes, [], body)
        text.jump(after)
    text.begin(after, follows=True)
    text.known.written()


def one_by_one(text: Text, body: Body) -> None:
    """Run ``body`` for each lane, in a row."""
    for lane in range(text.width):

        def lane_of(vector: str, scalar: str, lane: int = lane) -> str:
            type_ = text.type_of(scalar, vector=True)
            return text.let(f"extractelement {type_} {vector}, i64 {lane}")

        body(lane_of)


def _packed(text: Text, lanes: str) -> str:
    return f"bitcast <{text.width} x i1> {lanes} to {integer(text.width)}"


def each_lane(text: Text, lanes: str | None, scalars: Sequence[str], body: Body) -> list[str]:
    """Run ``body`` for each lane of a strip that is set in ``lanes`` (None: for all).

    Returns a vector for each result, whose LLVM types are ``scalars``; other lanes are zero.
    """
    width = text.width
    bits = integer(width)
    types = [text.type_of(scalar, vector=True) for scalar in scalars]
    rest = "-1" if lanes is None else text.let(_packed(text, lanes))
    if width == 1 and lanes is None:
        rest = "true"
    text.known.written()  # what was read before may be another when a lane comes back to the top
    before, head, inside, after = (
        text.block_label,
        *(text.label(hint) for hint in ("lanes", "lane", "served")),
    )
    text.jump(head)
    text.begin(head, follows=True)
    places = [text.reserve() for _ in range(1 + len(scalars))]
    left, *held = (text.name() for _ in places)
    text.branch(text.let(f"icmp ne {bits} {left}, {_zero(width)}"), inside, after)
    text.begin(inside, follows=True)
    with text.known.within():
        if width == 1:
            index = "0"
        else:
            first = text.call(bits, f"llvm.cttz.{bits}", (bits, left), ("i1", "true"))
            index = first if width == 64 else text.let(f"zext {bits} {first} to i64")

        def lane_of(vector: str, scalar: str) -> str:
            type_ = text.type_of(scalar, vector=True)
            return text.let(f"extractelement {type_} {vector}, i64 {index}")

        found = body(lane_of)
        now = [
            text.let(f"insertelement {type_} {vector}, {scalar} {value}, i64 {index}")
            for type_, vector, scalar, value in zip(types, held, scalars, found, strict=True)
        ]
        following = _zero(width)
        if width > 1:
            lower = text.let(f"add {bits} {left}, -1")
            following = text.let(f"and {bits} {left}, {lower}")
        end = text.block_label
        text.jump(head)
    text.begin(after, follows=True)
    ways = [(rest, following), *(("zeroinitializer", vector) for vector in now)]
    for place, name, type_, (start, step) in zip(
        places, (left, *held), (bits, *types), ways, strict=True
    ):
        text.fill(place, name, type_, [(start, before), (step, end)])
    text.known.written()
    return held


def _zero(width: int) -> str:
    return "false" if width == 1 else "0"
