"""Vectors of whole warps: vectors of lanes concatenated to 32 lanes, and operations on those.

A vector of 32 lanes exists only within one collective; LLVM splits it into registers again, so
that concatenation costs nothing where the parts fill registers.
"""

from collections.abc import Iterable, Sequence

from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.hal.compute.limits import WARP_THREADS

LANES = range(WARP_THREADS)
_HALF = WARP_THREADS // 2


def _has_two_source_permutes() -> bool:
    from vgpu_sim.exec.jit.target import llvm

    return llvm.vector_bits() == 512


def vector_type(scalar: str, lanes: int = WARP_THREADS) -> str:
    """Return the LLVM type of a vector of ``lanes`` lanes, by default 32."""
    return f"<{lanes} x {scalar}>"


class WarpText:
    """Writes to ``text`` operations on vectors that hold one element per lane of a warp."""

    def __init__(self, text: Text) -> None:
        self._text = text

    @property
    def vector_lanes(self) -> int:
        """The number of lanes of one vector."""
        return min(self._text.width, WARP_THREADS)

    def join(self, vectors: Sequence[str], scalar: str) -> str:
        """Concatenate the vectors of a warp; missing lanes are zero."""
        lanes = self._text.width
        parts = list(vectors)
        while lanes < WARP_THREADS:
            if len(parts) % 2:
                parts.append("zeroinitializer")
            parts = [
                self.shuffle(a, b, range(2 * lanes), scalar, lanes)
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            lanes *= 2
        return parts[0]

    def extract_vector(self, vector: str, scalar: str, place: int) -> str:
        """Return one part of a warp's vector, a vector of ``text.width`` lanes. ``place`` is its
        index.
        """
        lanes = self._text.width
        return self.shuffle(vector, "poison", range(place * lanes, (place + 1) * lanes), scalar)

    def shuffle(
        self, a: str, b: str, lanes: Iterable[int], scalar: str, each: int = WARP_THREADS
    ) -> str:
        """Emit a shufflevector of the vectors ``a`` and ``b``.

        The number of lanes of each vector is ``each``. ``lanes`` are the numbers of the lanes to
        select. Lane 0 is the first lane of ``a``, and the lanes of ``b`` follow those of ``a``.
        """
        chosen = list(lanes)
        places = ", ".join(f"i32 {lane}" for lane in chosen)
        type_ = vector_type(scalar, each)
        indices = f"<{len(chosen)} x i32> <{places}>"
        return self._text.let(f"shufflevector {type_} {a}, {type_} {b}, {indices}")

    def splat(self, scalar: str, value: str) -> str:
        """Return a vector of 32 lanes that all have ``value``."""
        if not value.startswith("%"):
            return f"splat ({scalar} {value})"
        type_ = vector_type(scalar)
        first = self._text.let(f"insertelement {type_} poison, {scalar} {value}, i64 0")
        return self.shuffle(first, "poison", [0] * WARP_THREADS, scalar)

    def pack_flags(self, flags: str) -> str:
        """Pack 32 flags into an integer, lane 0 lowest."""
        return self._text.let(f"bitcast {vector_type('i1')} {flags} to i32")

    def unpack_flags(self, bits: str) -> str:
        """Unpack an integer's bits into flags."""
        return self._text.let(f"bitcast i32 {bits} to {vector_type('i1')}")

    def compare(self, relation: str, a: str, b: str, scalar: str = "i32") -> str:
        """Compare two vectors lane by lane; return a flag for each lane. ``relation`` is a
        predicate of ``icmp``.
        """
        return self._text.let(f"icmp {relation} {vector_type(scalar)} {a}, {b}")

    def apply(self, operation: str, a: str, b: str) -> str:
        """Emit a binary operation on vectors of i32."""
        return self._text.let(f"{operation} {vector_type('i32')} {a}, {b}")

    def select(self, flags: str, yes: str, no: str) -> str:
        """Select lane by lane between two vectors of i32: take the element of ``yes`` in lanes
        whose flag is set, else the element of ``no``.
        """
        type_ = vector_type("i32")
        return self._text.let(f"select {vector_type('i1')} {flags}, {type_} {yes}, {type_} {no}")

    def constant(self, numbers: Iterable[int]) -> str:
        """Return a constant vector of i32."""
        return self._text.lanes("i32", numbers)

    def lowest_set_bit(self, number: str) -> str:
        """Return the index of the lowest set bit of ``number``; 0 if no bit is set."""
        text = self._text
        place = text.call("i32", "llvm.cttz.i32", ("i32", number), ("i1", "false"))
        return text.let(f"and i32 {place}, 31")

    def call_each(self, stem: str, vector: str, *arguments: tuple[str, str]) -> str:
        """Call the intrinsic ``llvm.<stem>`` on a vector of i32. ``arguments`` follow the vector,
        each as (type, value).
        """
        type_ = vector_type("i32")
        return self._text.call(
            type_, f"llvm.{stem}.v{WARP_THREADS}i32", (type_, vector), *arguments
        )

    def reduce(self, operation: str, vector: str) -> str:
        """Reduce a vector of 32 integers of 32 bits to one integer by ``operation``."""
        name = f"llvm.vector.reduce.{operation}.v{WARP_THREADS}i32"
        return self._text.call("i32", name, (vector_type("i32"), vector))

    def extract(self, vector: str, lane: str, scalar: str = "i32") -> str:
        """Return the element of one lane of a warp's vector."""
        return self._text.let(f"extractelement {vector_type(scalar)} {vector}, i32 {lane}")

    def permute(self, vector: str, lanes: str) -> str:
        """Permute a vector: lane i of the result is lane ``lanes[i]`` of ``vector``. The numbers in
        ``lanes`` are below 32.
        """
        if not _has_two_source_permutes():
            return self._permute_lane_by_lane(vector, lanes)
        text, half = self._text, vector_type("i32", _HALF)
        low, high = (
            self.shuffle(vector, "poison", range(first, first + _HALF), "i32")
            for first in (0, _HALF)
        )
        parts = []
        for first in (0, _HALF):
            chosen = self.shuffle(lanes, "poison", range(first, first + _HALF), "i32")
            name = "llvm.x86.avx512.vpermi2var.d.512"
            parts.append(text.call(half, name, (half, low), (half, chosen), (half, high)))
        return self.shuffle(parts[0], parts[1], LANES, "i32", _HALF)

    def _permute_lane_by_lane(self, vector: str, lanes: str) -> str:
        result = "poison"
        for lane in LANES:
            value = self.extract(vector, self.extract(lanes, str(lane)))
            result = self._text.let(
                f"insertelement {vector_type('i32')} {result}, i32 {value}, i32 {lane}"
            )
        return result
