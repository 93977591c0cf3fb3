"""Registers of a matrix product's factors as floats, on vectors of lanes or for a single lane."""

from typing import Final

from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import DataType
from vgpu_sim.records import dataclass

LANES: Final = 16
_BYTES: Final = 4
_NAN: Final = 0x7F  # the magnitude of E4M3 that is no number
_CANONICAL: Final = 0x7FFF_FFFF
_NIBBLE: Final = 7  # the magnitude of E2M1
_E2M1_SCALE: Final = 0x47D0_0000_0000_0000  # 2^126
_E4M3_SCALE: Final = 0x4770_0000_0000_0000  # 2^120, as LLVM writes a float

Parts = tuple[str, ...]
"""The operands that the steps of a product take from one register: its elements by depth, or the
whole register at once.
"""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Emits arithmetic on vectors of ``count`` lanes, or on scalars if ``count`` is 1."""

    text: Text
    count: int = LANES

    def type_of(self, scalar: str) -> str:
        """Return the LLVM type of a value that has one element of type ``scalar`` for each lane."""
        return f"<{self.count} x {scalar}>" if self.count > 1 else scalar

    def const(self, scalar: str, value: str) -> str:
        """Return a constant, equal in all lanes."""
        return f"splat ({scalar} {value})" if self.count > 1 else value

    def emit(self, operation: str, scalar: str, a: str, b: str) -> str:
        """Emit an operation on two operands of one type."""
        return self.text.let(f"{operation} {self.type_of(scalar)} {a}, {b}")

    def bitcast(self, value: str, source: str, to: str) -> str:
        """Return ``value`` with its bits reinterpreted as another type."""
        return self.text.let(f"bitcast {self.type_of(source)} {value} to {self.type_of(to)}")

    def call(self, stem: str, scalar: str, *values: str) -> str:
        """Call an intrinsic whose operands and result are all of one type."""
        type_ = self.type_of(scalar)
        name = f"llvm.{stem}.{Text.mangle(scalar, self.count if self.count > 1 else 0)}"
        return self.text.call(type_, name, *((type_, value) for value in values))


def split_halves(lanes: Lanes, register: str) -> Parts:
    """Return a register's two halves as floats."""
    upper = lanes.emit("lshr", "i32", register, lanes.const("i32", "16"))
    floats = []
    for half in (register, upper):
        short = lanes.text.let(f"trunc {lanes.type_of('i32')} {half} to {lanes.type_of('i16')}")
        number = lanes.bitcast(short, "i16", "half")
        floats.append(
            lanes.text.let(f"fpext {lanes.type_of('half')} {number} to {lanes.type_of('float')}")
        )
    return tuple(floats)


def truncate(lanes: Lanes, register: str) -> Parts:
    """Return a register's TF32 number as a float; the lower 13 bits are ignored."""
    truncated = lanes.emit("and", "i32", register, lanes.const("i32", "-8192"))
    return (lanes.bitcast(truncated, "i32", "float"),)


def split_bytes(lanes: Lanes, register: str, type_: DataType) -> Parts:
    """Return a register's four 8-bit floats as floats, exactly."""
    if type_ is DataType.E5M2:
        return tuple(_half_of_byte(lanes, register, place) for place in range(_BYTES))
    return tuple(_number_of_byte(lanes, register, place) for place in range(_BYTES))


def split_nibbles(lanes: Lanes, register: str) -> Parts:
    """Return a register's eight E2M1 numbers as floats, exactly."""
    return tuple(_number_of_nibble(lanes, register, place) for place in range(2 * _BYTES))


def _number_of_nibble(lanes: Lanes, register: str, place: int) -> str:
    """Place exponent and fraction in a float, and correct its bias as ``_number_of_byte`` does."""
    magnitude = lanes.emit(
        "and",
        "i32",
        _shift(lanes, register, 22 - 4 * place),
        lanes.const("i32", str(_NIBBLE << 22)),
    )
    sign = lanes.emit(
        "and", "i32", _shift(lanes, register, 28 - 4 * place), lanes.const("i32", str(-(1 << 31)))
    )
    scale = lanes.const("float", f"0x{_E2M1_SCALE:016X}")
    number = lanes.emit("fmul", "float", lanes.bitcast(magnitude, "i32", "float"), scale)
    signed = lanes.emit("or", "i32", lanes.bitcast(number, "float", "i32"), sign)
    return lanes.bitcast(signed, "i32", "float")


def _shift(lanes: Lanes, register: str, left: int) -> str:
    if left == 0:
        return register
    how = "shl" if left > 0 else "lshr"
    return lanes.emit(how, "i32", register, lanes.const("i32", str(abs(left))))


def _half_of_byte(lanes: Lanes, register: str, place: int) -> str:
    """E5M2 is the upper byte of F16."""
    moved = lanes.emit(
        "and", "i32", _shift(lanes, register, 8 - 8 * place), lanes.const("i32", str(0xFF00))
    )
    short = lanes.text.let(f"trunc {lanes.type_of('i32')} {moved} to {lanes.type_of('i16')}")
    half = lanes.bitcast(short, "i16", "half")
    return lanes.text.let(f"fpext {lanes.type_of('half')} {half} to {lanes.type_of('float')}")


def _number_of_byte(lanes: Lanes, register: str, place: int) -> str:
    """Place exponent and fraction of E4M3 in a float, and correct the exponent's bias by a product,
    which is exact for subnormal numbers as well.
    """

    def mask(value: str, bits: int) -> str:
        signed = bits - (1 << 32) if bits >> 31 else bits
        return lanes.emit("and", "i32", value, lanes.const("i32", str(signed)))

    magnitude = mask(_shift(lanes, register, 20 - 8 * place), _NAN << 20)
    sign = mask(_shift(lanes, register, 24 - 8 * place), 1 << 31)
    small = lanes.bitcast(magnitude, "i32", "float")
    scale = lanes.const("float", f"0x{_E4M3_SCALE:016X}")
    number = lanes.bitcast(lanes.emit("fmul", "float", small, scale), "float", "i32")
    flag = lanes.text.let(
        f"icmp eq {lanes.type_of('i32')} {magnitude}, {lanes.const('i32', str(_NAN << 20))}"
    )
    type_ = lanes.type_of("i32")
    number = lanes.text.let(
        f"select {lanes.type_of('i1')} {flag}, {type_} {lanes.const('i32', str(_CANONICAL))},"
        f" {type_} {number}"
    )
    return lanes.bitcast(lanes.emit("or", "i32", number, sign), "i32", "float")
