"""A validated kernel launch: the properties that all of its lanes share."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import field

import numpy as np

from vgpu_sim.exec import cfg
from vgpu_sim.exec.errors import Block, UnsupportedError
from vgpu_sim.exec.interp.address_space import Memory
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, unsigned_dtype
from vgpu_sim.exec.local_bytes import local_bytes
from vgpu_sim.hal.compute import address_map, limits
from vgpu_sim.hal.compute.tensor_memory import TENSOR_END_BYTE
from vgpu_sim.isa import EFFECTS, Function, Literal, Module, Operand, Symbol
from vgpu_sim.isa.verify import check_function
from vgpu_sim.records import dataclass

_WORD_MASK = 0xFFFF_FFFF_FFFF_FFFF


def refusals(function: Function) -> tuple[UnsupportedError, ...]:
    """Return an empty tuple, because the interpreter can run every instruction."""
    return ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The environment of a launch: the launch's number, the device's number of multiprocessors, and
    the size of each thread's stack. A kernel has a stack only if its calls need one.
    """

    grid_id: int = 0
    multiprocessors: int = 1
    stack_bytes: int = limits.STACK_BYTES_PER_THREAD


@dataclass(frozen=True, slots=True)
class InterpretedLaunch:
    """A validated kernel launch, shared by all of its warps.

    Raises (from its constructor):
        ValueError: a dimension is below one, the parameter block has a wrong size, there is too
            much shared memory, the cluster does not divide the grid, or the block is not the one
            that the kernel requires or has more threads than the kernel allows. InvalidFunction, a
            subclass: the instruction set does not define the code.
        UnsupportedError: the interpreter cannot run the code.
    """

    module: Module
    function: Function
    grid: Block
    block: Block
    parameters: bytes
    memory: Memory
    segment_base: int = 0
    dynamic_shared_bytes: int = 0
    surroundings: Surroundings = Surroundings()
    cluster: Block | None = None
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
        object.__setattr__(self, "cluster", self.cluster or _own_cluster(self.function))
        if self.cluster is not None:
            limits.check_cluster(self.cluster, self.grid)
        object.__setattr__(self, "reconvergence", _reconvergence(self.function))
        object.__setattr__(self, "_offsets", {v.name: v.offset for v in self.module.variables})

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads_per_block // WARP_LANES)

    @property
    def cluster_shape(self) -> Block:
        """The number of blocks of a cluster in x, y and z."""
        return self.cluster or (1, 1, 1)

    @property
    def cluster_blocks(self) -> int:
        return math.prod(self.cluster_shape)

    @property
    def block_order(self) -> Iterator[int]:
        """The linear indices of all blocks: those of a cluster follow one another, by rank."""
        if self.cluster_blocks == 1:
            return iter(range(self.block_count))
        nx, ny, _ = self.grid
        steps = [
            range(0, size, step) for size, step in zip(self.grid, self.cluster_shape, strict=True)
        ]
        return (
            block
            for z, y, x in itertools.product(*reversed(steps))
            for block in self.cluster_with(x + nx * (y + ny * z))
        )

    def cluster_with(self, block: int) -> Iterator[int]:
        """Yield the linear indices of the blocks in the cluster of ``block``, by rank."""
        nx, ny, _ = self.grid
        place = (block % nx, block // nx % ny, block // (nx * ny))
        cx, cy, cz = (p - p % size for p, size in zip(place, self.cluster_shape, strict=True))
        x, y, z = self.cluster_shape
        for rz, ry, rx in itertools.product(range(z), range(y), range(x)):
            yield (cx + rx) + nx * ((cy + ry) + ny * (cz + rz))

    @property
    def block_count(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def warp_count(self) -> int:
        return self.block_count * self.warps_per_block

    @property
    def shared_bytes(self) -> int:
        """The size in bytes of a block's shared memory: the kernel's own, and that which the launch
        requests.
        """
        return self.function.shared_bytes + self.dynamic_shared_bytes

    @property
    def mapped_bytes(self) -> int:
        """The size in bytes of a block's shared memory with its tensor memory, if it has one."""
        return TENSOR_END_BYTE if self.function.tensor_memory else self.shared_bytes

    @property
    def local_bytes(self) -> int:
        """The size in bytes of a thread's local memory: the kernel's own and, if it has one, the
        stack.
        """
        return local_bytes(self.function, self.surroundings.stack_bytes)

    @property
    def shared_window(self) -> int:
        """The generic address where shared memory begins. It is in the address window of the
        module's GPU.
        """
        return self._window(address_map.SHARED_OFFSET)

    @property
    def local_window(self) -> int:
        """The generic address where local memory begins."""
        return self._window(address_map.LOCAL_OFFSET)

    def _window(self, offset: int) -> int:
        return self.segment_base - self.segment_base % address_map.GPU_WINDOW_BYTES + offset

    def place_parameters(self) -> None:
        """Copy the parameters to the module's segment, if the kernel takes the address of a
        parameter.

        Raises:
            BadAddress: the module's variables are not in memory.
        """
        if self.function.parameter_image:
            begin = self.segment_base + self._offsets[self.function.parameter_image]
            values = np.frombuffer(self.parameters, dtype=np.uint8).astype(np.uint64)
            places = np.uint64(begin) + np.arange(len(values), dtype=np.uint64)
            self.memory.store(places, values, 1)

    def constant(self, operand: Literal | Symbol, bits: int) -> Bits:
        """Return the low bits of a literal or of a symbol's address, as an array of one element.

        ``bits`` is the number of these bits.
        """
        key = (operand, bits)
        if key not in self._constants:
            if isinstance(operand, Literal):
                value = operand.bits
            else:
                value = self.segment_base + self._offsets[operand.name] + operand.addend
            low = value & _WORD_MASK & ((1 << bits) - 1)
            self._constants[key] = np.array([low], dtype=unsigned_dtype(bits))
        return self._constants[key]


def _own_cluster(function: Function) -> Block | None:
    """Return the cluster that a kernel requires; None if it requires none, or one of any size."""
    required = function.required_cluster
    return required if required is not None and any(required) else None


def _reconvergence(function: Function) -> dict[int, int]:
    """Map each branch to the instruction at which its lanes reconverge.

    That is the first one of the immediate post-dominator; -1 means the end of the function.
    """
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
    if not 0 <= launch.shared_bytes <= limits.MAX_SHARED_BYTES_OPTIN:
        raise ValueError(
            f"{function.name}: a block cannot have {launch.shared_bytes} bytes of shared memory"
        )
    required, maximum = function.required_block, function.maximum_block
    if required is not None and launch.block != required:
        raise ValueError(f"{function.name} requires block {required}, not {launch.block}")
    if maximum is not None:
        limit = maximum[0] * maximum[1] * maximum[2]
        if launch.block[0] * launch.block[1] * launch.block[2] > limit:
            raise ValueError(f"{function.name} allows at most {limit} threads in a block")
    limit = function.maximum_cluster or limits.MAX_CLUSTER_BLOCKS
    if launch.cluster_blocks > limit:
        raise ValueError(f"{function.name} allows at most {limit} blocks in a cluster")
