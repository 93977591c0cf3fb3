"""Explicit state of interpreted warps: registers, predicates and the reconvergence stack.

A ``Warp`` holds any multiple of 32 lanes. With 32 it is the warp that a debugger steps; ``run``
uses wide ones, because lanes of different warps do not see each other: an active mask of a wide
warp, cut to one warp's 32 lanes, is the mask which that warp has when it runs alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec import cfg
from vgpu_sim.exec.errors import Block, UnsupportedError
from vgpu_sim.exec.interp.address_space import Memory, Words
from vgpu_sim.hal import limits
from vgpu_sim.isa import EFFECTS, Function, Literal, Module, Operand, Space, Symbol
from vgpu_sim.isa.verify import check_function

WARP_LANES = limits.WARP_THREADS

Mask = NDArray[np.bool_]
Bits = NDArray[np.unsignedinteger]

_WORD_MASK = 0xFFFF_FFFF_FFFF_FFFF
_UNSIGNED: dict[int, np.dtype[np.unsignedinteger]] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


def unsigned_dtype(bits: int) -> np.dtype[np.unsignedinteger]:
    """Return numpy's unsigned integer type of that many bits (8, 16, 32 or 64)."""
    return _UNSIGNED[bits]


@dataclass(slots=True)
class StackEntry:
    """Lanes that go on at ``pc`` until they reach word ``reconvergence`` (-1: until they end)."""

    pc: int
    mask: Mask
    reconvergence: int


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one step did.

    ``mask`` has the lanes that executed the word (active, and let pass by the guard).
    ``addresses`` are those of the first element of an access, one per set lane of ``mask``; None
    where the instruction is not an access through memory.
    """

    word: int
    mask: Mask
    addresses: Words | None


def refusals(function: Function) -> tuple[UnsupportedError, ...]:
    """Return what of ``function`` the interpreter cannot run yet."""
    return tuple(
        UnsupportedError(f"{instruction.space.name.lower()} memory", function.name, word)
        for word, instruction in enumerate(function.code)
        if instruction.space in (Space.SHARED, Space.LOCAL)
    )


@dataclass(frozen=True, slots=True)
class InterpretedLaunch:
    """A kernel launch, checked: what all of its warps share.

    Raises (from its constructor):
        ValueError: for dimensions below one, a wrong size of the parameter block, or a block that
            contradicts the kernel's required or maximum block; InvalidFunction, which is one, for
            code that the instruction set does not define.
        UnsupportedError: for code that the interpreter cannot run.
    """

    module: Module
    function: Function
    grid: Block
    block: Block
    parameters: bytes
    memory: Memory
    segment_base: int = 0
    reconvergence: dict[int, int] = field(init=False, repr=False)
    _constants: dict[tuple[Operand, int], Bits] = field(
        init=False, repr=False, default_factory=dict
    )
    _offsets: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_function(self.function, frozenset(v.name for v in self.module.variables))
        _check_shape(self)
        for refusal in refusals(self.function):
            raise refusal
        object.__setattr__(self, "reconvergence", _reconvergence(self.function))
        object.__setattr__(self, "_offsets", {v.name: v.offset for v in self.module.variables})

    @property
    def warps_per_block(self) -> int:
        return -(-self.block[0] * self.block[1] * self.block[2] // WARP_LANES)

    @property
    def warp_count(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2] * self.warps_per_block

    def warp(self, first: int, count: int = 1) -> "Warp":
        """Return the state of ``count`` warps from index ``first`` on, at the first instruction."""
        return Warp(self, first, count)

    def warps(self, count: int = 1) -> Iterator["Warp"]:
        """Yield all warps of the grid in order, ``count`` at a time."""
        for first in range(0, self.warp_count, count):
            yield Warp(self, first, min(count, self.warp_count - first))

    def constant(self, operand: Literal | Symbol, bits: int) -> Bits:
        """Return a literal's or address's low bits, as an array of one element."""
        key = (operand, bits)
        if key not in self._constants:
            if isinstance(operand, Literal):
                value = operand.bits
            else:
                value = self.segment_base + self._offsets[operand.name] + operand.addend
            low = value & _WORD_MASK & ((1 << bits) - 1)
            self._constants[key] = np.array([low], dtype=unsigned_dtype(bits))
        return self._constants[key]


class Warp:
    """Registers, predicates and control state of one or more warps in lockstep.

    Attributes:
        registers: one array per register, its dtype the unsigned type of the register's width.
        predicates: one boolean array per predicate register.
        stack: entries above run first; lanes of an entry are a subset of those below.
        thread, block: per dimension (x, y, z) the lanes' thread and block indices (32 bits).
    """

    __slots__ = ("block", "launch", "predicates", "registers", "stack", "thread")

    def __init__(self, launch: InterpretedLaunch, first: int, count: int) -> None:
        lanes = count * WARP_LANES
        self.launch = launch
        self.registers = [
            np.zeros(lanes, dtype=unsigned_dtype(bits)) for bits in launch.function.register_bits
        ]
        self.predicates = [
            np.zeros(lanes, dtype=np.bool_) for _ in range(launch.function.predicate_count)
        ]
        lane = np.arange(lanes, dtype=np.int64)
        warp = first + lane // WARP_LANES
        thread = warp % launch.warps_per_block * WARP_LANES + lane % WARP_LANES
        self.thread = _split(thread, launch.block)
        self.block = _split(warp // launch.warps_per_block, launch.grid)
        exists: Mask = thread < launch.block[0] * launch.block[1] * launch.block[2]
        self.stack = [StackEntry(0, exists, -1)]

    @property
    def lanes(self) -> int:
        return len(self.thread[0])

    @property
    def done(self) -> bool:
        """Return whether all lanes have ended."""
        return not self.stack

    @property
    def pc(self) -> int:
        """Index of the word that the next step executes; only while not ``done``."""
        return self.stack[-1].pc

    @property
    def active(self) -> Mask:
        """Lanes at ``pc``; only while not ``done``."""
        return self.stack[-1].mask

    def block_of(self, lane: int) -> Block:
        """Return the block index of a lane."""
        x, y, z = (int(axis[lane]) for axis in self.block)
        return x, y, z

    def settle(self) -> None:
        """Drop entries that have reached their reconvergence point or have no lanes left."""
        while self.stack:
            top = self.stack[-1]
            if top.pc != top.reconvergence and top.mask.any():
                return
            self.stack.pop()


def _split(index: NDArray[np.int64], shape: Block) -> tuple[NDArray[np.uint32], ...]:
    x = index % shape[0]
    y = index // shape[0] % shape[1]
    z = index // (shape[0] * shape[1])
    return tuple(axis.astype(np.uint32) for axis in (x, y, z))


def _reconvergence(function: Function) -> dict[int, int]:
    """Map each branch's word to the first word of its immediate post-dominator; -1 is the end."""
    graph = cfg.build(function)
    starts = [block.start for block in graph.blocks]
    result = {}
    for word, instruction in enumerate(function.code):
        if EFFECTS[instruction.op].jumps:
            meet = graph.ipdom[graph.block_of_word[word]]
            result[word] = starts[meet] if 0 <= meet < graph.exit else -1
    return result


def _check_shape(launch: InterpretedLaunch) -> None:
    function = launch.function
    limits.check_grid(launch.grid)
    limits.check_block(launch.block)
    if len(launch.parameters) != function.parameter_bytes:
        raise ValueError(
            f"{function.name} takes {function.parameter_bytes} bytes of parameters,"
            f" not {len(launch.parameters)}"
        )
    required, maximum = function.required_block, function.maximum_block
    if required is not None and launch.block != required:
        raise ValueError(f"{function.name} requires block {required}, not {launch.block}")
    if maximum is not None:
        limit = maximum[0] * maximum[1] * maximum[2]
        if launch.block[0] * launch.block[1] * launch.block[2] > limit:
            raise ValueError(f"{function.name} allows {limit} threads in a block")
