"""The LLVM IR of a module while it is written, and of one of its functions.

All state of a program is in memory: a named value is used only within one statement, so that the
rest remains a program if any statement is removed. The cost is counted while the program is
written, with the maximum trip count of every loop, so that it ends soon on an interpreter, too.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from support.fuzzers.random_ir import scalars
from support.kernels.random_kernels.dice import Dice

MAX_COST = 12_000  # maximum number of instructions of one thread
_ALWAYS = ("i32", "i64", "i1")
_OTHERS = ("i8", "i16", "i24", "i48", "i128", "i7", "i33", "half", "float", "double")
_ARRAYS = ("i32", "i64", "i8", "i16", "float", "i128")
BYTES = 48  # size of the memory that is accessed with every type, at any place
_CALLS = 3

Typed = tuple[str, str]  # a type and a value of it


@dataclass(frozen=True)
class Array:
    """``count`` elements of a scalar type; a power of two, so that a mask keeps an index inside.

    Elements are ``stride`` apart: those of other threads are between them.
    """

    kind: str
    count: int
    name: str
    writable: bool = True
    stride: int = 1


@dataclass(frozen=True)
class Callee:
    """A function that may be called. ``takes`` are scalars, or the only type of a structure."""

    how: str
    name: str
    gives: str
    takes: tuple[str, ...]
    cost: int


@dataclass
class Module:
    """The state that the functions of a program share. Statements in ``without`` are omitted."""

    dice: Dice
    without: Collection[int] = ()
    declared: set[str] = field(default_factory=set)
    tables: list[Array] = field(default_factory=list)
    callees: list[Callee] = field(default_factory=list)
    structures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)  # by name, in order
    statements: int = 0
    _names: int = 0

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"


# Yields a value other than by its own type's operations; None if there is none at the moment.
Source = Callable[["Frame", int], Typed | None]


class Frame:
    """One function: its variables, the memory it may use, and its lines so far."""

    def __init__(
        self, module: Module, parameters: list[Typed], sources: tuple[Source, ...]
    ) -> None:
        self.module, self.dice, self.sources = module, module.dice, sources
        self.lines: list[str] = []
        self.variables: dict[str, list[str]] = {}
        self.arrays: list[Array] = []
        self.exits: list[str] = []  # blocks of enclosing statements, to which code may leave
        self.calls_left = _CALLS
        self.turns = self.cost = 1
        self._entry: list[str] = []
        for kind in (*_ALWAYS, *self._some_of(_OTHERS)):
            for _ in range(self.dice.number(1, 2)):
                self.line(f"store {kind} {self.constant(kind)}, ptr {self._variable(kind)}")
        for kind, name in parameters:
            self.line(f"store {kind} {name}, ptr {self._variable(kind)}")
        self.bytes = self.alloca(f"[{BYTES} x i8], align 16")
        for place in range(BYTES // 8):
            at = self.value(f"getelementptr i64, ptr {self.bytes}, i32 {place}")
            self.line(f"store i64 {self.dice.bits(63)}, ptr {at}")
        for _ in range(self.dice.number(0, 2)):
            self._array(self.dice.pick(_ARRAYS), self.dice.pick((2, 4, 8, 16)))
        self.arrays += module.tables

    # --- text ---

    def line(self, text: str) -> None:
        self.cost += self.turns
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """Write an instruction; return the name of its result."""
        name = self.module.fresh("%v")
        self.line(f"{name} = {text}")
        return name

    def call(self, gives: str, name: str, *arguments: Typed) -> str:
        """Call an intrinsic function; return the name of its result."""
        kinds = ", ".join(kind for kind, _ in arguments)
        self.module.declared.add(f"declare {gives} @{name}({kinds})")
        said = ", ".join(" ".join(argument) for argument in arguments)
        return self.value(f"call {gives} @{name}({said})")

    def alloca(self, text: str) -> str:
        """Allocate memory of the function in its entry block, once however often control passes
        here.
        """
        name = self.module.fresh("%a")
        self._entry.append(f"  {name} = alloca {text}")
        return name

    def label(self) -> str:
        return self.module.fresh("L")

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")

    def define(self, head: str, name: str, last: str) -> None:
        """End the function, and add it to the module."""
        self.line(last)
        body = "\n".join(["entry:", *self._entry, *self.lines])
        self.module.definitions[name] = f"{head} {{\n{body}\n}}"

    # --- contents ---

    def constant(self, kind: str) -> str:
        return scalars.constant(self.dice, kind)

    def pick_kind(self) -> str:
        """Pick one of the types that the function has variables of."""
        return self.dice.pick(list(self.variables))

    def pick_variable(self, kind: str) -> str:
        return self.dice.pick(self.variables[kind])

    def own_arrays(self) -> list[Array]:
        """Return the arrays that may be written."""
        return [array for array in self.arrays if array.writable]

    def adopt(self, kind: str, pointer: str) -> None:
        """Make the value at a pointer a variable of the function."""
        self.variables.setdefault(kind, []).append(pointer)

    def add(self, array: Array) -> None:
        """Initialise an array of the function's own."""
        for index in range(array.count):
            self.line(
                f"store {array.kind} {self.constant(array.kind)}, ptr {self.at(array, index)}"
            )
        self.arrays.append(array)

    def at(self, array: Array, index: int) -> str:
        """Return a pointer to an element."""
        place = index * array.stride
        return self.value(f"getelementptr {array.kind}, ptr {array.name}, i32 {place}")

    def _variable(self, kind: str) -> str:
        name = self.alloca(kind)
        self.adopt(kind, name)
        return name

    def _array(self, kind: str, count: int) -> None:
        self.add(Array(kind, count, self.alloca(f"[{count} x {kind}]")))

    def _some_of(self, kinds: tuple[str, ...]) -> list[str]:
        left, chosen = list(kinds), []
        for _ in range(self.dice.number(3, 6)):
            chosen.append(left.pop(self.dice.number(0, len(left) - 1)))
        return chosen
