"""Counts what sampled blocks execute: the interpreter calls this before every word."""

from collections import defaultdict
from typing import Final

import numpy as np

from vgpu_sim.exec.interp.accesses import addresses_of
from vgpu_sim.exec.interp.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.isa import EFFECTS, Family, Instruction, Op, Space
from vgpu_sim.perf.kernels import unrolling
from vgpu_sim.perf.kernels.scoreboard import Scoreboard
from vgpu_sim.worker.observing.accesses import (
    Numbers,
    conflicts_of,
    sectors_of,
    wavefronts_of,
)

MOST_WORDS: Final = 60_000  # that a sample executes: some seconds
_MOST_SECTORS: Final = 1 << 22  # that are kept for reuse and footprints
_SLOT_SHIFT: Final = 43
_ROWS_BYTES: Final = 16  # that a lane's address of LDMATRIX stands for
_EDGE: Final = 8


class SampleEnded(Exception):
    """A sample has executed as much as it may."""


class Watch:
    """Of some resident blocks, of which the first is the one whose reuse and waits are looked at.

    ``totals`` are sums over all blocks, by the names of ``Counts``. ``kept`` is the share of each
    word's issues that the hardware's compiler leaves.
    """

    def __init__(self, blocks: ResidentBlocks, most_words: int = MOST_WORDS) -> None:
        launch = blocks.launch
        self._blocks = blocks
        self._code = launch.function.code
        self._warps = launch.warps_per_block
        self._shared_upper = launch.shared_window >> 32 if launch.shared_bytes else -1
        self._local_upper = launch.local_window >> 32 if launch.local_bytes else -1
        self._left = most_words
        self._kept = 0
        self.scoreboard = Scoreboard(self._code)
        self.kept = unrolling.kept(self._code)
        self.issued = np.zeros(len(self._code), dtype=np.int64)
        self.lanes = np.zeros(len(self._code), dtype=np.int64)
        self.totals: dict[str, float] = defaultdict(float)
        self.order: list[Numbers] = []  # sectors that the first block loads, in order
        self.loaded: dict[int, list[Numbers]] = defaultdict(list)  # by word: slot and sector
        self.stored: dict[int, list[Numbers]] = defaultdict(list)
        self.updated: list[Numbers] = []  # slot and address of atomic updates, once a warp

    def __call__(self, instruction: Instruction, mask: Mask, allowed: Mask) -> None:
        """Count one word. Raises SampleEnded."""
        self._left -= 1
        if self._left < 0:
            raise SampleEnded
        word = self._blocks.word
        here = np.asarray(mask.reshape(-1, WARP_LANES).any(axis=1))
        self.issued[word] += np.count_nonzero(here)
        self.lanes[word] += np.count_nonzero(allowed)
        if here[0] and (self.kept[word] == 1 or EFFECTS[instruction.op].accesses):
            self.scoreboard.step(word)
        op = instruction.op
        if op in (Op.BAR_SYNC, Op.BAR_RED):
            self.totals["barriers"] += int(np.count_nonzero(here))
        if EFFECTS[op].accesses and instruction.space is not Space.PARAM and allowed.any():
            self._access(word, instruction, allowed)

    def _access(self, word: int, instruction: Instruction, allowed: Mask) -> None:
        width = instruction.vector * instruction.type.bytes
        if instruction.op is Op.LDMATRIX:
            lane = np.arange(len(allowed)) % WARP_LANES
            allowed, width = allowed & (lane < _EDGE * instruction.vector), _ROWS_BYTES
        addresses = addresses_of(self._blocks, instruction, allowed).astype(np.int64)
        warps = np.flatnonzero(allowed) // WARP_LANES
        atomic = instruction.op.family is Family.ATOMIC
        space = instruction.space
        if space is Space.GENERIC:
            upper = addresses >> 32
            for one, there in (
                (Space.SHARED, upper == self._shared_upper),
                (Space.LOCAL, upper == self._local_upper),
            ):
                if there.any():
                    self._in(one, word, warps[there], addresses[there] & 0xFFFF_FFFF, width, atomic)
                    warps, addresses = warps[~there], addresses[~there]
                    upper = addresses >> 32
            if not len(warps):
                return
        self._in(space, word, warps, addresses, width, atomic)

    def _in(
        self,
        space: Space,
        word: int,
        warps: Numbers,
        addresses: Numbers,
        width: int,
        atomic: bool,
    ) -> None:
        if space is Space.SHARED:
            cycles, fewest = conflicts_of(warps, addresses, width, updates=atomic)
            kept = self.kept[word]  # words that are loaded together lie in different banks
            self.totals["l1_shared_wavefronts"] += cycles * kept
            self.totals["shared_ideal_wavefronts"] += fewest * kept
            self.totals["shared_requests"] += len(np.unique(warps))
        elif space is Space.LOCAL:
            # Lanes' words lie side by side: a warp's access is as wide as all of its lanes.
            sectors = -(-len(warps) * width >> 5)
            self.totals["l1_global_wavefronts"] += -(-sectors // 4)
        elif atomic:
            self._update(word, warps, addresses)
        else:
            self._global(word, warps, addresses, width)

    def _global(self, word: int, warps: Numbers, addresses: Numbers, width: int) -> None:
        owners, sectors = sectors_of(warps, addresses)
        kind = "store" if EFFECTS[self._code[word].op].writes else "load"
        self.totals[f"{kind}_requests"] += len(np.unique(warps))
        self.totals[f"{kind}_sectors"] += len(sectors)
        self.totals[f"{kind}_bytes"] += len(warps) * width
        self.totals["l1_global_wavefronts"] += wavefronts_of(owners, sectors)
        self._keep(len(sectors))
        slots = owners // self._warps << _SLOT_SHIFT | sectors
        if kind == "store":
            self.stored[word].append(np.unique(slots))
            return
        self.loaded[word].append(np.unique(slots))
        if not self._code[word].volatile:
            self.order.append(sectors[owners < self._warps])

    def _update(self, word: int, warps: Numbers, addresses: Numbers) -> None:
        owners, sectors = sectors_of(warps, addresses)
        self.totals["atomic_requests"] += len(np.unique(warps))
        self.totals["atomic_sectors"] += len(sectors)
        self.totals["l1_global_wavefronts"] += wavefronts_of(owners, sectors)
        self._keep(2 * len(sectors))
        self.stored[word].append(np.unique(owners // self._warps << _SLOT_SHIFT | sectors))
        once = np.unique(warps << _SLOT_SHIFT + 2 | addresses >> 2)
        slot = (once >> _SLOT_SHIFT + 2) // self._warps
        self.updated.append(slot << _SLOT_SHIFT + 2 | once & ((1 << _SLOT_SHIFT + 2) - 1))

    def _keep(self, sectors: int) -> None:
        self._kept += sectors
        if self._kept > _MOST_SECTORS:
            raise SampleEnded


def slots_and_places(keys: Numbers, extra_bits: int = 0) -> tuple[Numbers, Numbers]:
    """Take apart what ``Watch`` keeps: the blocks' slots, and sectors (or words of four bytes)."""
    shift = _SLOT_SHIFT + extra_bits
    return keys >> shift, keys & ((1 << shift) - 1)
