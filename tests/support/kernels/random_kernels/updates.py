"""Random atomic updates: of cells in shared memory that all threads share, each cell by one
operation whose order is unobservable; and of a thread's own slot, by any operation.
"""

from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.program import GENERAL, Program

CELLS_BYTES = 128
_GROUPS = (
    *(("add.u32", 4), ("xor.b32", 4), ("max.s32", 4), ("min.u32", 4)),
    *(("and.b32", 4), ("or.b32", 4), ("add.u64", 8), ("max.s64", 8)),
)  # 16 bytes of cells each
_OWN = (
    *(f"atom.global.{op}.u32 {{r0}}, [%out+{{at}}], {{r1}};" for op in ("add", "inc", "dec", "max")),
    *(f"atom.global.{op}.b32 {{r0}}, [%out+{{at}}], {{r1}};" for op in ("and", "xor", "exch")),
    "atom.global.min.s32 {r0}, [%out+{at}], {r1};",
    "atom.global.cas.b32 {r0}, [%out+{at}], {r1}, {r2};",
    "atom.global.add.f32 {r0}, [%out+{at}], {r1};",
    "atom.global.add.f64 {d0}, [%out+{at}], {d1};",
    "atom.global.max.u64 {d0}, [%out+{at}], {d1};",
    "atom.global.cas.b64 {d0}, [%out+{at}], {d1}, {d0};",
    "red.global.add.u64 [%out+{at}], {d0};",
    "red.global.add.f32 [%out+{at}], {r0};",
)  # fmt: skip


def declarations() -> tuple[str, ...]:
    """Return the lines that ``together`` and ``look`` need."""
    return " .reg .b32 %cell;", f" .shared .align 16 .b8 cells[{CELLS_BYTES}];"


def own(program: Program) -> None:
    """Update the thread's slot, and perhaps use the former value."""
    at = 8 * program.dice.number(0, 7)
    program.add(program.guard() + program.dice.pick(_OWN).format(at=at, **_registers(program.dice)))


def together(program: Program) -> None:
    """Emit an update of a cell that other threads may also update; no thread reads it before the
    next barrier.
    """
    dice = program.dice
    place = dice.number(0, len(_GROUPS) - 1)
    operation, size = _GROUPS[place]
    names = _registers(dice)
    value = names["r1"] if size == 4 else names["d1"]
    program.add("mov.u32 %cell, cells;")
    if not dice.one_in(3):
        index = program.temporary(32)
        source = dice.pick((names["r0"], names["r0"], "%linear", "%laneid"))
        program.add(f"and.b32 {index}, {source}, {16 // size - 1};")
        program.add(f"mad.lo.u32 %cell, {index}, {size}, %cell;")
    if dice.one_in(4):
        value = str(dice.number(0, 9))
    program.add(f"{program.guard()}red.shared.{operation} [%cell+{16 * place}], {value};")


def look(program: Program) -> None:
    """Read a cell, after a barrier that ends its updates."""
    dice = program.dice
    names = _registers(dice)
    at = 8 * dice.number(0, CELLS_BYTES // 8 - 1)
    program.add(
        program.guard()
        + dice.pick(
            (
                f"ld.shared.b32 {names['r0']}, [cells+{at}];",
                f"ld.shared.b64 {names['d0']}, [cells+{at}];",
                f"ld.shared.v2.b32 {{{names['r0']}, {names['r1']}}}, [cells+{at}];",
            )
        )
    )


def _registers(dice: Dice) -> dict[str, str]:
    first, other = dice.number(0, GENERAL[32] - 1), dice.number(0, GENERAL[64] - 1)
    names = {f"r{i}": f"%r{(first + i) % GENERAL[32]}" for i in range(3)}
    return names | {f"d{i}": f"%d{(other + i) % GENERAL[64]}" for i in range(2)}
