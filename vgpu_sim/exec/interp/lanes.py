"""Lanes that execute one instruction together: their registers and thread indices.

Semantics access nothing else. The next instruction is determined elsewhere: by the stack of a
``state.Warp``, or the ``paths`` of resident blocks.
"""

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import Block
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import unsigned_dtype
from vgpu_sim.exec.interp.spaces import Spaces


class Lanes:
    """The state of ``count`` lanes, initially with all registers zero.

    ``count`` is a multiple of 32: each 32 consecutive lanes belong to one warp.

    Attributes: registers: one array for each register. Its dtype is the unsigned type of the
    register's width. predicates: one boolean array for each predicate register. thread: the
    lanes' thread indices (32 bits), in one array for each of x, y and z. block: the lanes' block
    indices, in the same form. spaces: the memory that the lanes access. word: the index of the
    instruction that is being executed.
    """

    __slots__ = ("block", "launch", "predicates", "registers", "spaces", "thread", "word")

    def __init__(self, launch: InterpretedLaunch, count: int, spaces: Spaces) -> None:
        self.launch = launch
        self.spaces = spaces
        self.registers = [
            np.zeros(count, dtype=unsigned_dtype(bits)) for bits in launch.function.register_bits
        ]
        self.predicates = [
            np.zeros(count, dtype=np.bool_) for _ in range(launch.function.predicate_count)
        ]
        self.thread = tuple(np.zeros(count, dtype=np.uint32) for _ in range(3))
        self.block = tuple(np.zeros(count, dtype=np.uint32) for _ in range(3))
        self.word = 0

    @property
    def lanes(self) -> int:
        return len(self.thread[0])

    def assign_threads(
        self, at: slice, thread: NDArray[np.int64], block: NDArray[np.int64]
    ) -> None:
        """Assign threads and blocks, given by linear indices, to the lanes in the slice ``at``."""
        shapes = (self.launch.block, self.launch.grid)
        for axes, index, shape in zip(
            (self.thread, self.block), (thread, block), shapes, strict=True
        ):
            axes[0][at] = index % shape[0]
            axes[1][at] = index // shape[0] % shape[1]
            axes[2][at] = index // (shape[0] * shape[1])

    def cancel_cluster(self) -> int:
        """Take a cluster that has not started; return 1 + the index of its first block, 0 if there
        is none, or if these lanes do not know which blocks have not started.
        """
        return 0

    def block_of(self, lane: int) -> Block:
        """Return the block index of a lane."""
        x, y, z = (int(axis[lane]) for axis in self.block)
        return x, y, z

    def thread_of(self, lane: int) -> Block:
        """Return the index of a lane's thread in its block."""
        x, y, z = (int(axis[lane]) for axis in self.thread)
        return x, y, z
