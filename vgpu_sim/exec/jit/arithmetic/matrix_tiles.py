"""Products of bytes in tile registers (AMX), as LLVM text.

A tile instruction multiplies rows of a first factor by columns of a second one, whose rows of
four bytes are interleaved. A warp's rows of eight by sixteen bytes are in memory as they are in
its registers. So columns of B, of which there are many, become rows of the first factor without
being transposed; A, which is one tile for all of them, becomes the second. Hence a tile of totals
has a row for each column of D, and is transposed when it returns to registers.
"""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.arithmetic.matrix_factors import LANES, Lanes
from vgpu_sim.exec.jit.arithmetic.matrix_products import VECTOR_BYTES, Halves
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import DataType, Instruction

QUAD: Final = 4
ROWS: Final = 16  # of a tile
_TOTALS: Final = 4  # tile registers that accumulate: 0 to 3
_LEFT: Final = 4  # the tile register of A
_RIGHTS: Final = (5, 6, 7)  # those of B, in turn
_DEPTH_BYTES: Final = 32  # of an MMA instruction
TOTAL_BYTES: Final = ROWS * VECTOR_BYTES
# The largest tile that a load with such a stride reads, whatever the tiles' configuration.
LEFT_BYTES: Final = ROWS * VECTOR_BYTES
RIGHT_BYTES: Final = (ROWS - 1) * _DEPTH_BYTES + VECTOR_BYTES
CONFIGURATION_BYTES: Final = 64
_PALETTE: Final = 1


def configuration() -> bytes:
    """Return the operand of LDTILECFG: shapes of all tile registers."""
    widths = [VECTOR_BYTES] * (_TOTALS + 1) + [_DEPTH_BYTES] * len(_RIGHTS)
    rows = [ROWS] * _TOTALS + [_DEPTH_BYTES // QUAD] + [ROWS] * len(_RIGHTS)
    columns = b"".join(width.to_bytes(2, "little") for width in widths)
    head = bytes([_PALETTE]) + bytes(15)
    return (head + columns.ljust(32, b"\0") + bytes(rows)).ljust(CONFIGURATION_BYTES, b"\0")


def prepare_left(lanes: Lanes, instruction: Instruction, a: Sequence[Halves], to: str) -> int:
    """Store A's registers at ``to`` as a tile: a row for every four bytes of depth.

    Return the number of bytes to reserve.
    """
    for block in range(2):
        upper, lower = a[2 * block : 2 * block + 2]
        for place, row in enumerate(_transpose(lanes.text, [*upper, *lower])):
            _store(lanes.text, row, to, VECTOR_BYTES * (QUAD * block + place))
    return LEFT_BYTES


def prepare_right(lanes: Lanes, b: Sequence[Halves], to: str) -> None:
    """Store the registers of B of two instructions at ``to`` as a tile: a row for each column."""
    at = 0
    for first, second in zip(b[::2], b[1::2], strict=True):
        for half in range(2):
            for begin in (0, LANES // 2):
                places = [
                    which * LANES + begin + quad + lane
                    for quad in (0, QUAD)
                    for which in range(2)
                    for lane in range(QUAD)
                ]
                _store(lanes.text, _shuffle(lanes.text, first[half], second[half], places), to, at)
                at += VECTOR_BYTES


def accumulate(
    text: Text, instruction: Instruction, left: Sequence[str], right: Sequence[Sequence[str]]
) -> list[str]:
    """Multiply in tile registers; return the address of each tile of totals.

    ``left`` has the addresses of A by step, ``right`` those of each tile's B by step.
    """
    # The signs of the first factor, which is B, precede those of the second.
    signs = instruction.source_type is DataType.S8, instruction.type is DataType.S32
    name = "tdpb" + "".join("s" if sign else "u" for sign in signs) + "d"
    total_addresses = [scratch(text, f"D {total}", TOTAL_BYTES) for total in range(len(right))]
    for total in range(len(right)):
        _tile(text, "tilezero", total)
    for step, a in enumerate(left):
        _move(text, "tileloadd64", _LEFT, a, VECTOR_BYTES)
        for total, places in enumerate(right):
            tile_register = _RIGHTS[total % len(_RIGHTS)]
            _move(text, "tileloadd64", tile_register, places[step], _DEPTH_BYTES)
            _tile(text, name, total, tile_register, _LEFT)
    for total, place in enumerate(total_addresses):
        _move(text, "tilestored64", total, place, VECTOR_BYTES)
    return total_addresses


def configure(text: Text) -> None:
    """Emit the configuration of the tile registers; ``release`` ends their use."""

    def write(place: str) -> None:
        data = configuration()
        for n in range(0, len(data), 8):
            word = int.from_bytes(data[n : n + 8], "little")
            text.do(f"store i64 {word}, ptr {_at(text, place, n)}, align 8")

    # In the prologue, since LDTILECFG waits for stores that have just been made.
    place = scratch(text, "configuration", CONFIGURATION_BYTES, write)
    text.call("void", "llvm.x86.ldtilecfg", ("ptr", place))


def release(text: Text) -> None:
    """Emit the end of the use of tile registers, which a thread's state then lacks again."""
    text.call("void", "llvm.x86.tilerelease")


def totals_at(text: Text, place: str, addends: Sequence[Halves]) -> list[list[str]]:
    """Return the registers of D of two instructions: the totals at ``place`` plus the addends."""
    text.known.invalidate_loads()
    rows = [
        text.let(f"load <{LANES} x i32>, ptr {_at(text, place, VECTOR_BYTES * n)}, align 64")
        for n in range(ROWS)
    ]
    block_totals: list[list[str]] = []
    for block in range(2):
        columns = rows[block * 8 : block * 8 + 8]
        odd = [_transpose(text, columns[n::2]) for n in range(2)]
        for upper in range(2):
            block_totals += [parts[2 * upper : 2 * upper + 2] for parts in odd]
    type_ = f"<{LANES} x i32>"
    return [
        [text.let(f"add {type_} {total}, {addend}") for total, addend in zip(*pair, strict=True)]
        for pair in zip(block_totals, addends, strict=True)
    ]


def _transpose(text: Text, parts: Sequence[str]) -> list[str]:
    """Transpose the four by four elements in each quarter of four vectors."""
    pairs = [
        _shuffle(text, a, b, [quad + n for quad in range(0, LANES, QUAD) for n in order])
        for a, b in (parts[:2], parts[2:])
        for order in ((0, LANES, 1, LANES + 1), (2, LANES + 2, 3, LANES + 3))
    ]
    return [
        _shuffle(text, a, b, [quad + n for quad in range(0, LANES, QUAD) for n in order])
        for a, b in ((pairs[0], pairs[2]), (pairs[1], pairs[3]))
        for order in ((0, 1, LANES, LANES + 1), (2, 3, LANES + 2, LANES + 3))
    ]


def _shuffle(text: Text, a: str, b: str, places: Sequence[int]) -> str:
    type_ = f"<{LANES} x i32>"
    order = ", ".join(f"i32 {place}" for place in places)
    return text.let(f"shufflevector {type_} {a}, {type_} {b}, <{LANES} x i32> <{order}>")


def scratch(text: Text, name: str, size: int, write: Callable[[str], None] | None = None) -> str:
    """Return the address of memory on the stack, the same for the same name, with the content that
    ``write`` stores at the function's begin.
    """
    key = f"memory of tiles: {name}"
    with text.in_prologue():
        place = text.known.find(key, lasting=True)
        if place is None:
            place = text.name()
            text.prologue.append(f"  {place} = alloca [{size} x i8], align 64")
            text.known.add(key, place, lasting=True)
            if write is not None:
                write(place)
    return place


def _at(text: Text, place: str, offset: int) -> str:
    return text.let(f"getelementptr i8, ptr {place}, i64 {offset}")


def _store(text: Text, value: str, to: str, offset: int) -> None:
    text.do(f"store <{LANES} x i32> {value}, ptr {_at(text, to, offset)}, align 64")


def _tile(text: Text, name: str, *tiles: int) -> None:
    text.call("void", f"llvm.x86.{name}", *(("i8", str(tile)) for tile in tiles))


def _move(text: Text, name: str, tile: int, place: str, stride: int) -> None:
    text.call("void", f"llvm.x86.{name}", ("i8", str(tile)), ("ptr", place), ("i64", str(stride)))
