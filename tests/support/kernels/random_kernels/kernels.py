"""Random kernels as PTX text, each from one seed; no thread's results depend on another thread.

A kernel reads a table, parameters and the module's arrays, computes on a few registers of every
width, and stores only to its own thread's slot. Some access one address outside their memory
(``wild``), to check that both backends end them in the same way.
"""

import json
import struct
from dataclasses import dataclass, replace

from support.kernels.random_kernels import accesses
from support.kernels.random_kernels.dice import Dice
from support.kernels.random_kernels.flow import END, Flow
from support.kernels.random_kernels.program import (
    GENERAL,
    PREDICATES,
    SCRATCH_BYTES,
    SLOT_BYTES,
    TABLE_WORDS,
    Program,
)

Shape = tuple[int, int, int]
_BLOCKS: tuple[Shape, ...] = (
    *((32, 1, 1), (64, 1, 1), (7, 1, 1), (48, 1, 1), (24, 2, 1), (16, 2, 2), (5, 3, 2)) * 3,
    *((1, 1, 1), (33, 1, 1), (20, 1, 1), (8, 4, 2), (40, 1, 1), (31, 1, 1), (2, 2, 2)) * 2,
    *((33, 7, 1), (25, 8, 1), (1, 256, 1), (128, 1, 1), (32, 4, 1), (96, 1, 1), (1, 33, 1)),
)
_GRIDS: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (2, 1, 1), (3, 1, 1), (2, 2, 1), (1, 1, 2))
_MARK = "// kernel "
_SPECIAL_WORDS = (0x7FC00001, 0xFF800001, 0x3F800000, 0, 0x80000000, 1, 5, 0xFFFFFFFF)
_SPECIAL_WORDS += (0x40490FDB, 7, 0x7F800000, 0x3F000000, 0x7F, 0x8000, 0x00400000, 0x4F000000)


@dataclass(frozen=True)
class Kernel:
    """A kernel and its launch, both of which ``text`` contains.

    ``plan`` is the JIT's plan under which the kernel failed, if it did.
    """

    seed: int
    grid: Shape
    block: Shape
    words: tuple[int, int, int, int]
    wild: bool
    code: str
    plan: str = ""

    @property
    def text(self) -> str:
        """The PTX with the launch as a comment in its first line."""
        launch = {
            "seed": self.seed,
            "grid": self.grid,
            "block": self.block,
            "words": self.words,
            "wild": self.wild,
            "plan": self.plan,
        }
        return f"{_MARK}{json.dumps(launch)}\n{self.code}"

    @property
    def threads(self) -> int:
        x, y, z = self.grid
        a, b, c = self.block
        return x * y * z * a * b * c

    def table(self) -> bytes:
        """Return the table's content: special words, small numbers, floats, or any patterns."""
        dice = Dice(self.seed, 2)
        words = []
        for _ in range(TABLE_WORDS):
            kind = dice.number(0, 3)
            if kind == 0:
                words.append(dice.pick(_SPECIAL_WORDS))
            elif kind == 1:
                words.append(dice.number(0, 40))
            elif kind == 2:
                words.append(0x3F000000 + dice.bits(26))
            else:
                words.append(dice.bits(32))
        return struct.pack(f"<{TABLE_WORDS}I", *words)

    def with_code(self, code: str) -> "Kernel":
        return replace(self, code=code)


def parse(text: str) -> Kernel:
    """Return the kernel of a file that ``Kernel.text`` wrote.

    Raises:
        ValueError: when the first line does not describe a launch.
    """
    first, _, code = text.partition("\n")
    if not first.startswith(_MARK):
        raise ValueError(f"the first line is not {_MARK!r} and how to launch the kernel")
    said = json.loads(first[len(_MARK) :])
    shapes = (tuple(said[name]) for name in ("grid", "block", "words"))
    return Kernel(said["seed"], *shapes, said["wild"], code, said.get("plan", ""))


def generate(seed: int) -> Kernel:
    """Return the kernel of a seed."""
    dice = Dice(seed)
    block = dice.pick(_BLOCKS)
    grid = dice.pick(_GRIDS) if block[0] * block[1] * block[2] < 200 else (1, 1, 1)
    threads = block[0] * block[1] * block[2] * grid[0] * grid[1] * grid[2]
    n = dice.pick((0, 1, 2, 5, 23, dice.bits(32), threads // 2, threads - 1, threads))
    real = dice.pick((0x3F800000, 0x42280000, 0xC0490FDB, dice.bits(32)))
    words = (n, dice.bits(32), dice.bits(64), real)
    wild = dice.one_in(8)
    program = Program(dice)
    prelude(program, grid, block)
    if dice.one_in(4):
        _bounds(program)
    budget = dice.number(6, 30)
    flow = Flow(program, budget // 2 if wild else budget)
    flow.body()
    if wild:
        if dice.one_in(8):
            program.add(f"{program.condition()}trap;")
        accesses.wild(program)
        Flow(program, dice.number(0, 4)).body()
    dump(program)
    code = "\n".join([*header(program), *program.declarations(), *program.lines, " ret;", "}", ""])
    return Kernel(seed, grid, block, words, wild, code)


def header(program: Program) -> list[str]:
    """Return the module up to the kernel's first declarations."""
    lines = [".version 9.4", ".target sm_100a", ".address_size 64"]
    for space, name in zip((".const", ".global"), accesses.SYMBOLS, strict=True):
        values = ", ".join(str(program.dice.bits(32)) for _ in range(accesses.SYMBOL_WORDS))
        lines.append(f"{space} .align 16 .b32 {name}[{accesses.SYMBOL_WORDS}] = {{{values}}};")
    parameters = "u64 table", "u64 out", "u32 n", "u32 m", "u64 w", "f32 f"
    lines.append(f".visible .entry k({', '.join(f'.param .{p}' for p in parameters)})")
    lines += ["{", " .reg .b64 %table, %out, %w;", " .reg .b32 %n, %m, %thread, %span;"]
    return lines


_ROW_OF_THREADS = ("mad.lo.u32 %thread, %ctaid.x, %ntid.x, %tid.x;",)
_ANY_THREADS = (
    "mad.lo.u32 %thread, %ctaid.z, %nctaid.y, %ctaid.y;",
    "mad.lo.u32 %thread, %thread, %nctaid.x, %ctaid.x;",
    "mul.lo.u32 %span, %ntid.x, %ntid.y;",
    "mad.lo.u32 %thread, %thread, %ntid.z, %tid.z;",
    "mul.lo.u32 %thread, %thread, %span;",
    "mad.lo.u32 %thread, %tid.y, %ntid.x, %thread;",
    "add.u32 %thread, %thread, %tid.x;",
)


def prelude(program: Program, grid: Shape, block: Shape) -> None:
    """Emit the parameters, the linear thread and its slot; then initialise every register."""
    dice = program.dice
    for line in (
        "ld.param.u64 %table, [table];",
        "ld.param.u64 %out, [out];",
        "ld.param.u32 %n, [n];",
        "ld.param.u32 %m, [m];",
        "ld.param.u64 %w, [w];",
        *(_ROW_OF_THREADS if grid[1:] == block[1:] == (1, 1) else _ANY_THREADS),
    ):
        program.add(line)
    program.add(
        dice.pick(
            (
                f"mad.wide.u32 %out, %thread, {SLOT_BYTES}, %out;",
                f"mul.wide.s32 %d0, %thread, {SLOT_BYTES};\n add.s64 %out, %out, %d0;",
                f"cvt.u64.u32 %d0, %thread;\n mad.lo.u64 %out, %d0, {SLOT_BYTES}, %out;",
            )
        )
    )
    sources = ["%thread", "%thread", "%tid.x", "%tid.y", "%ctaid.x", "%n", "%m", "%laneid"]
    for index in range(GENERAL[32]):
        program.add(f"mov.b32 %r{index}, {dice.pick([*sources, program.integer(32)])};")
    known = program.temporary(32)
    lane = program.temporary(64)
    program.add(f"and.b32 {known}, %thread, {TABLE_WORDS - 1};")
    program.add(f"mad.wide.u32 {lane}, {known}, 4, %table;")
    program.add(f"ld.global.b32 %r3, [{lane}];")
    program.add(f"mul.wide.u32 %d0, %r3, {dice.pick((1, 3, 0x10001))};")
    program.add("cvt.u16.u32 %h0, %r3;")
    program.add("mov.b64 %d1, %w;")
    for index in range(PREDICATES):
        how = dice.pick(("lt", "ge", "eq", "ne"))
        limit = dice.pick((1, 3, 9, 31, 0x3F800000, 0x80000000))
        where = dice.pick(("%r3", "%r3", "%thread", "%n", "%tid.x", "%ctaid.x"))
        program.add(f"setp.{how}.u32 %p{index}, {where}, {limit};")


def _bounds(program: Program) -> None:
    """Emit the usual start of a kernel: threads beyond a limit, or beyond one of two, end at
    once.
    """
    dice = program.dice
    outside = program.temporary(1)
    for _ in range(dice.number(1, 2)):
        index = dice.pick(("%thread", "%thread", "%tid.x", "%tid.y"))
        limit = dice.pick(("%n", "%n", "1", "17", "32"))
        program.add(
            f"setp.{dice.pick(('ge', 'gt'))}.{dice.pick('us')}32 {outside}, {index}, {limit};"
        )
        if dice.one_in(4):
            other = program.predicate()
            program.add(f"setp.lt.or.u32 {other}, {index}, {dice.number(0, 3)}, {outside};")
            outside = other
        program.add(f"@{outside} {dice.pick((f'bra {END}', 'ret', 'exit'))};")


def dump(program: Program) -> None:
    """Store every register at the end of the slot."""
    program.place(END)
    for line in (
        f"st.global.v2.b64 [%out+{SCRATCH_BYTES}], {{%d0, %d1}};",
        f"st.global.b64 [%out+{SCRATCH_BYTES + 16}], %d2;",
        f"st.global.v4.b32 [%out+{SCRATCH_BYTES + 32}], {{%r0, %r1, %r2, %r3}};",
        f"st.global.v2.b32 [%out+{SCRATCH_BYTES + 48}], {{%r4, %r5}};",
        f"st.global.v2.b16 [%out+{SCRATCH_BYTES + 56}], {{%h0, %h1}};",
        "mov.b32 %r0, 0;",
        *(f"@%p{index} or.b32 %r0, %r0, {1 << index};" for index in range(PREDICATES)),
        f"st.global.b8 [%out+{SCRATCH_BYTES + 60}], %r0;",
    ):
        program.add(line)
