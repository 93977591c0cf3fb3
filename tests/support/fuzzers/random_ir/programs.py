"""Random programs: a function of LLVM IR, its compilation to PTX, and its launch.

The function is ``void body(ptr out, ptr in, i32 thread, i32 lane)``: from ``IN_WORDS`` 64-bit words at
``in`` it computes up to ``OUT_WORDS`` words at ``out``, both private to each thread. ``lane`` counts
the threads of a block. Threads do not interact: each has its own part of shared memory.
"""

import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields

import numpy as np

from support.fuzzers.random_ir import functions, scalars, values, vectors
from support.fuzzers.random_ir.conversions import as_i64, convert
from support.fuzzers.random_ir.frames import BYTES, Array, Frame, Module
from support.fuzzers.random_ir.statements import statements, store
from support.kernels.random_kernels.dice import Dice

IN_WORDS = OUT_WORDS = 16
# Compute capability and version of PTX: those between which LLVM's output differs.
TARGETS = (
    "sm_70 ptx70",
    "sm_75 ptx71",
    "sm_80 ptx78",
    "sm_90 ptx80",
    "sm_90 ptx88",
    "sm_100 ptx88",
)
# Levels of LLVM's passes and of its code generation; clang uses the same level for both.
LEVELS = ((0, 0), (1, 1), (2, 2), (3, 3), (0, 2), (0, 3), (2, 3))
_BLOCKS = ((32, 1, 1), (32, 1, 1), (33, 1, 1), (64, 1, 1), (5, 1, 1), (7, 3, 1), (16, 2, 1))
_TABLES = ("i32", "i64", "i8", "i16", "float", "double", "half")
_SHARED = ("i32", "i64", "i8", "i16", "float", "double")
_SIZES = (3, 4, 6)
_CALLS = 6
_SOURCES = (functions.call, vectors.element, values.of_an_array)
_MIX = "mul i64 {}, 6364136223846793005"
_WORDS = (0, 1, 2, 255, 1 << 31, 1 << 63, (1 << 64) - 1, 0x3F800000, 0x3FF0000000000000)
_MARK = "; random_ir "


@dataclass(frozen=True)
class Program:
    """A random program and how it is compiled.

    ``passes`` and ``level`` are LLVM's optimization levels, ``target`` one of ``TARGETS``;
    ``statements`` is the number of removable statements, including removed ones. A thread's words are
    ``stride`` words apart: 1, or the number of threads, which makes rows.
    """

    seed: int
    block: tuple[int, int, int]
    blocks: int
    target: str
    passes: int
    level: int
    stride: int
    text: str
    statements: int = 0

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2] * self.blocks

    @property
    def rows(self) -> int:
        """The number of threads for which there is memory."""
        return max(self.threads, self.stride)

    @property
    def thread_bytes(self) -> int:
        """The distance in bytes between the words of neighbouring threads."""
        return 8 * (IN_WORDS if self.stride == 1 else 1)

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the device: the oldest supported one, or that of the target."""
        digits = self.target.split()[0].removeprefix("sm_")
        return max((8, 0), (int(digits[:-1]), int(digits[-1])))

    def inputs(self) -> np.ndarray:
        """Return the words that threads read; in some programs they are nearly the same for all
        threads.
        """
        dice = Dice(self.seed, 2)
        words = [[_word(dice) for _ in range(IN_WORDS)] for _ in range(self.rows)]
        rows = np.array(words, np.uint64)
        if dice.percent(40):
            rows[:] = rows[0]
            rows[:, 0] = np.arange(self.rows)
        return (rows if self.stride == 1 else rows.T).reshape(-1)

    def to_text(self) -> str:
        """Return a file from which ``parse`` restores the program."""
        said = asdict(self)
        text = said.pop("text")
        return f"{_MARK}{json.dumps(said)}\n{text}"


def parse(file: str) -> Program:
    """Read a file that ``Program.to_text`` wrote; its text may have been edited since.

    Raises:
        ValueError: when the first line is not that of such a file.
    """
    head, _, text = file.partition("\n")
    said = json.loads(head.removeprefix(_MARK)) if head.startswith(_MARK) else {}
    missing = {field.name for field in fields(Program)} - {"text", *said}
    if missing:
        raise ValueError(f"the first line is no {_MARK!r} with {', '.join(sorted(missing))}")
    return Program(**said | {"block": tuple(said["block"]), "text": text})


def generate(seed: int, without: Collection[int] = ()) -> Program:
    """Return a seed's program, without the statements ``without``."""
    dice = Dice(seed, 1)
    block, blocks = dice.pick(_BLOCKS), dice.number(1, 2)
    target, (passes, level) = dice.pick(TARGETS), dice.pick(LEVELS)
    lanes = block[0] * block[1] * block[2]
    stride = dice.pick((1, lanes * blocks))
    module = Module(Dice(seed), without, structures=dict(functions.STRUCTURES))
    text = _text(module, dice.pick(_SIZES), stride, lanes)
    return Program(seed, block, blocks, target, passes, level, stride, text, module.statements)


def _word(dice: Dice) -> int:
    drawn = dice.number(0, 12)
    return _WORDS[drawn] if drawn < len(_WORDS) else dice.bits((64, 64, 32, 8)[drawn - len(_WORDS)])


def _text(module: Module, size: int, stride: int, lanes: int) -> str:
    dice, tables = module.dice, {}
    for number in range(dice.number(0, 2)):
        kind, count, name = dice.pick(_TABLES), dice.pick((4, 8, 16, 32)), f"@tab{number}"
        said = ", ".join(f"{kind} {scalars.constant(dice, kind)}" for _ in range(count))
        how = f"internal {dice.pick(('unnamed_addr ', ''))}constant"
        tables[name] = f"{name} = {how} [{count} x {kind}] [{said}]"
        module.tables.append(Array(kind, count, name, writable=False))
    for _ in range(dice.number(0, 3)):
        functions.add(module, _SOURCES)
    frame = Frame(module, [("i32", "%thread"), ("i32", "%lane")], _SOURCES)
    frame.calls_left = _CALLS
    if dice.one_in(2):
        tables["@shared"] = _share(frame, lanes)
    _read(frame, stride)
    statements(frame, size, 3)
    _write(frame, stride)
    head = "define void @body(ptr %out, ptr %in, i32 %thread, i32 %lane) nounwind"
    frame.define(head, "body", "ret void")
    return _used(module, tables)


def _share(frame: Frame, lanes: int) -> str:
    """Give each thread an array in shared memory, in one piece or in rows; return its variable."""
    dice = frame.dice
    kind, count, stride = dice.pick(_SHARED), dice.pick((2, 4, 8)), dice.pick((1, lanes))
    first = frame.value(f"mul i32 %lane, {count}") if stride == 1 else "%lane"
    own = frame.value(f"getelementptr {kind}, ptr addrspace(3) @shared, i32 {first}")
    generic = frame.value(f"addrspacecast ptr addrspace(3) {own} to ptr")
    frame.add(Array(kind, count, generic, stride=stride))
    return f"@shared = internal addrspace(3) global [{count * lanes} x {kind}] undef, align 16"


def _read(frame: Frame, stride: int) -> None:
    """Read words of the input into variables, as numbers or as a number's bits."""
    for index in range(IN_WORDS // 2):
        at = frame.value(f"getelementptr i64, ptr %in, i32 {index * stride}")
        word, kind = frame.value(f"load i64, ptr {at}"), frame.pick_kind()
        if scalars.is_integer(kind) or frame.dice.percent(60):
            read = convert(frame, "i64", word, kind)
        else:
            part = convert(frame, "i64", word, f"i{scalars.bits(kind)}")
            read = frame.value(f"bitcast i{scalars.bits(kind)} {part} to {kind}")
        frame.line(f"store {kind} {read}, ptr {frame.pick_variable(kind)}")


def _write(frame: Frame, stride: int) -> None:
    """Write variables, and one word that depends on all other memory of the function."""
    variables = [(kind, name) for kind, names in frame.variables.items() for name in names]
    for index, (kind, name) in enumerate(variables[: OUT_WORDS - 1]):
        at = frame.value(f"getelementptr i64, ptr %out, i32 {index * stride}")
        word = as_i64(frame, kind, frame.value(f"load {kind}, ptr {name}"))
        store(frame, "i64", word, at)
    mixed = "0"
    for array in [*frame.own_arrays(), Array("i64", BYTES // 8, frame.bytes)]:
        for index in range(array.count):
            held = frame.value(f"load {array.kind}, ptr {frame.at(array, index)}")
            word = as_i64(frame, array.kind, held)
            mixed = frame.value(_MIX.format(frame.value(f"add i64 {word}, {mixed}")))
    last = frame.value(f"getelementptr i64, ptr %out, i32 {(OUT_WORDS - 1) * stride}")
    store(frame, "i64", mixed, last)


def _used(module: Module, tables: dict[str, str]) -> str:
    """Return the module without functions and variables that ``body`` does not use."""
    parts = {f"@{name}": text for name, text in module.definitions.items()} | tables
    wanted, found = ["@body"], set[str]()
    while wanted:
        name = wanted.pop()
        if name in parts and name not in found:
            found.add(name)
            wanted += re.findall(r"@\w+", parts[name])
    used = [text for name, text in parts.items() if name in found]
    said = "\n".join(used)
    types = [f"{n} = type {{{', '.join(kinds)}}}" for n, kinds in module.structures.items()]
    names = set(re.findall(r"@([\w.]+)\(", said))
    declared = [line for line in sorted(module.declared) if _name(line) in names]
    return "\n".join([*types, *used, *declared, ""])


def _name(declaration: str) -> str:
    found = re.search(r"@([\w.]+)\(", declaration)
    assert found is not None, declaration
    return found[1]
