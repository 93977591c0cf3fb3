"""Kernels of one block, or of a pair of blocks, with tensor memory, and what an executor makes of them."""

import os
from contextlib import closing

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.both_backends import Bench
from support.execution.interpreted_ptx import compile_verified
from vgpu_sim.exec.errors import ExecutionError, KernelError
from vgpu_sim.isa import Module, TrapCause

SHARED_BYTES = 4096
THREADS = 128


def source(body: str, target: str = "sm_100a", registers: str = "", *, blocks: int = 1) -> str:
    """Return a kernel whose first parameter is a buffer, in %out; further ones are in %x1 to %x4.
    The block has 64 columns, whose address is in %ta. Of a pair, %rank is the block's place.
    """
    pair = blocks > 1
    meet = "barrier.cluster.arrive; barrier.cluster.wait;" if pair else "bar.sync 0;"
    return f""".version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4)
{f".reqnctapercluster {blocks}" * pair}
{{
  .shared .align 1024 .b8 tile[{SHARED_BYTES}]; .shared .align 8 .b64 bar; .shared .b32 base;
  .reg .b32 %r<256>, %i, %s, %ta, %warp, %own, %lane, %d, %idesc, %rank; .reg .b64 %out, %x<5>;
  .reg .pred %p, %first, %w0; {registers}
  ld.param.u64 %out, [p0]; ld.param.u64 %x1, [p1]; ld.param.u64 %x2, [p2];
  ld.param.u64 %x3, [p3]; ld.param.u64 %x4, [p4];
  mov.u32 %rank, %cluster_ctarank; mov.u32 %i, %tid.x; setp.eq.u32 %first, %i, 0; shr.u32 %warp, %i, 5; mov.u32 %lane, %laneid;
  @%first st.shared.b32 [tile], 0; @%first st.shared.b64 [bar], 0;  // unused ones have no place
  setp.eq.u32 %w0, %warp, 0; mov.u32 %s, base; setp.eq.u32 %p, %i, %i;
  @%w0 tcgen05.alloc.cta_group::{1 + pair}.sync.aligned.shared::cta.b32 [%s], 64;
  {meet}
  ld.shared.b32 %ta, [base]; shl.b32 %own, %warp, 21; add.u32 %own, %own, %ta;
  cvt.u32.u64 %idesc, %x3; cvt.u32.u64 %d, %x4;
  {body}
  {meet * pair}
  ret;
}}
"""


def module_of(
    body: str, target: str = "sm_100a", capability: tuple[int, int] = (10, 0), *, blocks: int = 1
) -> Module:
    return compile_verified(source(body, target, blocks=blocks), capability)


class Runs:
    """Launches of a kernel; each states whether it ended well."""

    def __init__(self, module: Module, size: int, blocks: int = 1) -> None:
        self._module, self._bench, self._grid = module, Bench(bytes(size)), (blocks, 1, 1)

    def close(self) -> None:
        self._bench.close()

    def _parameters(self, words: list[int]) -> bytes:
        function = self._module.functions[0]
        values = [*self._bench.addresses(), *words, *[0] * (4 - len(words))]
        return native_launch.pack(function.parameters, function.parameter_bytes, values)

    def interpret(self, *words: int) -> np.ndarray | None:
        """Return the buffer after the interpreter's run, or None after a trap."""
        try:
            found = self._bench.interpret(
                self._module, self._grid, (THREADS, 1, 1), self._parameters(list(words))
            )
        except ExecutionError:
            return None
        return np.frombuffer(found[0], np.uint32)

    def cause_of_trap(self, *words: int) -> TrapCause:
        """Return the cause of the trap by which the interpreter's run ends."""
        parameters = self._parameters(list(words))
        with pytest.raises(KernelError, match="trap") as raised:
            self._bench.interpret(self._module, self._grid, (THREADS, 1, 1), parameters)
        return self._module.functions[0].code[raised.value.word].cause

    def execute(self, *words: int) -> np.ndarray | None:
        """Return the buffer after native code's run, or None after a trap.

        Raises:
            AssertionError: it ended by a signal.
        """
        try:
            found = self._bench.execute(
                self._module, self._grid, (THREADS, 1, 1), self._parameters(list(words)), None
            )
        except AssertionError as error:
            if "signal=0" not in str(error):
                raise
            return None
        return np.frombuffer(found[0], np.uint32)


def end_well(module: Module, words: tuple[int, ...], blocks: int = 1) -> list[bool]:
    """Return whether a kernel ends well in the interpreter, and in native code."""
    with closing(Runs(module, 64, blocks)) as runs:
        return [runs.interpret(*words) is not None, runs.execute(*words) is not None]


def check_hostile_words(
    module: Module, descriptor: int, legal: int, *, seed: int, count: int, blocks: int = 1
) -> None:
    """Run a product with random descriptors, most of which are nearly legal; some end the kernel.

    The environment's TESSERA_HOSTILE_TENSORS replaces ``count``.
    """
    count = int(os.environ.get("TESSERA_HOSTILE_TENSORS", count))
    dice = np.random.default_rng(seed)

    def spoil(word: int, bits: int) -> int:
        for _ in range(int(dice.integers(3))):
            word ^= 1 << int(dice.integers(bits))
        return word if dice.integers(8) else int(dice.integers(0, 1 << bits, dtype=np.uint64))

    ended = 0
    with closing(Runs(module, 64, blocks)) as runs:
        for n in range(count):
            d = spoil(0, 32)
            words = spoil(descriptor, 62), spoil(descriptor, 62), spoil(legal, 32), d
            well = runs.execute(*words) is not None
            ended += not well
            if n % 40 == 0:
                assert (runs.interpret(*words) is not None) == well, words
    assert 0 < ended < count
