"""Counts what sampled blocks execute: the interpreter calls it before every instruction."""

import hashlib
from collections import defaultdict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.cta import ResidentBlocks
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.hal.compute.tensor_memory import TENSOR_ALLOCATED, TENSOR_FIRST_BYTE
from vgpu_sim.isa import EFFECTS, Cache, DataType, Instruction, Literal, Op, Space, Update
from vgpu_sim.isa.families.move import CLUSTER_RANK_SHIFT, FIRST_RANK_FIELD
from vgpu_sim.isa.families.sync import WARPGROUP_BARRIER
from vgpu_sim.perf.kernels import units, unrolling
from vgpu_sim.perf.kernels.scoreboard import CHAIN, Scoreboard
from vgpu_sim.worker.observing.accesses import (
    Numbers,
    conflicts_of,
    interleave,
    sectors_of,
    steps_of,
    wavefronts_of,
)
from vgpu_sim.worker.observing.dependence import mbarrier_waits
from vgpu_sim.worker.observing.probes import Access, accesses_of, completed_bytes
from vgpu_sim.worker.observing.products import products_of

MOST_WORDS: Final = 30_000  # instructions that a sample may execute: some seconds
PROBE_WORDS: Final = 1_500  # instructions after which samples of launches are compared
_MOST_SECTORS: Final = 1 << 22  # kept for reuse and footprints
_WEIGHT_OF_WORD: Final = 16  # cost of an instruction's counters, in sectors
_WEIGHT_OF_SAMPLE: Final = 1024
_SLOT_SHIFT: Final = 43
_WARPGROUP: Final = Literal(WARPGROUP_BARRIER)  # a commit of products, which boards do not wait at
_COPIED_WORD: Final = 0.25  # of a loop that stands for a copy, as a share of other instructions
_LINE_BYTES: Final = 128
_SECTOR_BYTES: Final = 32
_SLICE_SHIFT: Final = 4  # sectors of 512 bytes, which one slice of L2 updates: measured
# Cycles in shared memory of updates that are not one operation of the hardware: measured.
_SWAP: Final = 2
_LOOP_OF_SWAPS: Final = 13
_WHOLE: Final = (DataType.B32, DataType.U32, DataType.S32)
_SUMS: Final = (Update.ADD, Update.MIN, Update.MAX, Update.AND, Update.OR, Update.XOR)
_FAR: Final = np.iinfo(np.int64).max
Amounts = NDArray[np.float64]


class SampleEnded(Exception):
    """Raised when a sample has executed its maximum number of instructions."""


class Watch:
    """Counts what a sample's resident blocks execute.

    Arrays have an element for each instruction of the code. ``present`` counts the lanes that
    reach the instruction, ``issued`` the warps that issue it, and ``lanes`` the lanes whose
    guard is true. ``widest`` is the largest number of a block's warps that issue it together.
    ``amounts`` are further counts, named as in ``Counts``. ``first`` and
    ``chain`` describe the first warp that reaches the instruction: ``first`` counts how often
    this warp executes the instruction, and ``chain`` adds up the latencies. ``kept`` is the
    share of each instruction's issues that remains after the optimisations of the hardware's
    compiler.
    """

    def __init__(self, blocks: ResidentBlocks, most_words: int = MOST_WORDS) -> None:
        launch = blocks.launch
        self._blocks: ResidentBlocks | None = blocks
        self._code = launch.function.code
        self._warps = launch.warps_per_block
        self._together = launch.cluster_blocks
        self._slots = blocks.lanes // (self._warps * WARP_LANES)
        self._left: float = most_words
        self._seen = 0
        self._kept = 0
        self._boards: dict[int, Scoreboard] = {}
        self.units = units.parts_of(launch.function)
        self._waits = mbarrier_waits(launch.function)
        self.kept = unrolling.issue_shares(self._code, self.units)
        size = len(self._code)
        self.present = np.zeros(size, dtype=np.int64)
        self.issued = np.zeros(size, dtype=np.int64)
        self.lanes = np.zeros(size, dtype=np.int64)
        self.widest = np.zeros(size, dtype=np.int64)
        self.first = np.zeros(size, dtype=np.int64)
        self.chain: dict[str, Amounts] = {name: np.zeros(size) for name in CHAIN}
        self.amounts: dict[str, Amounts] = defaultdict(lambda: np.zeros(size))
        self.order: list[Numbers] = []  # slot and sector of loads, in order
        self.streamed: list[Numbers] = []  # those that leave the first level before others
        self.loaded: dict[int, list[Numbers]] = defaultdict(list)  # by instruction: slot and sector
        self.stored: dict[int, list[Numbers]] = defaultdict(list)
        self.lowest: dict[int, Numbers] = {}  # by instruction: the lowest address of each slot
        self.updated: list[Numbers] = []  # slot and 512 bytes of memory, for each step of an update
        self.signature = b""  # digest after PROBE_WORDS; empty: the sample was shorter

    @property
    def weight(self) -> int:
        """The memory that the sample uses, expressed as a number of sectors. It is the number of
        sectors that the sample keeps, plus an equivalent for the other memory of the sample.
        """
        return self._kept + _WEIGHT_OF_WORD * len(self._code) + _WEIGHT_OF_SAMPLE

    def finish(self) -> None:
        """Release the blocks; the counts remain."""
        self._blocks = None

    def __call__(self, instruction: Instruction, mask: Mask, allowed: Mask) -> None:
        """Count the execution of one instruction. Raises SampleEnded."""
        if self._seen == PROBE_WORDS:
            self.signature = self._sign()
        word = self._blocks.word if self._blocks is not None else 0
        self._left -= _COPIED_WORD if self._is_copy(word) else 1
        if self._left < 0:
            raise SampleEnded
        self._seen += 1
        assert self._blocks is not None
        active_warps = np.asarray(mask.reshape(-1, WARP_LANES).any(axis=1))
        self.present[word] += np.count_nonzero(mask)
        self.issued[word] += np.count_nonzero(active_warps)
        self.lanes[word] += np.count_nonzero(allowed)
        together = int(active_warps.reshape(self._slots, self._warps).sum(axis=1).max())
        self.widest[word] = max(self.widest[word], together)
        self._follow(word, instruction, int(active_warps.argmax()))
        if instruction.op in (Op.BAR_SYNC, Op.BAR_RED) and instruction.srcs[0] != _WARPGROUP:
            self.amounts["barriers"][word] += int(np.count_nonzero(active_warps))
        if instruction.update is Update.TX:
            self.amounts["bulk_bytes"][word] += completed_bytes(self._blocks, instruction, allowed)
        if instruction.op is Op.TMMA:
            for product in products_of(self._blocks, instruction, allowed):
                self.amounts[f"product_{product.kind}"][word] += product.operations
                self.amounts["tensor_memory_bytes"][word] += product.moved_bytes
        for access in accesses_of(self._blocks, instruction, allowed):
            self._add(word, access)

    def _follow(self, word: int, instruction: Instruction, warp: int) -> None:
        """Add the latency of an instruction to that of the followed warp: the first warp, or
        another one if the first does not reach the instruction. At an mbarrier object, only a warp
        that has started copies is followed: how often other warps look there depends on the
        interpreter.
        """
        board = self._boards.get(warp)
        if board is None:
            board = self._boards[warp] = Scoreboard(self._code, self.units)
        if word in self._waits and not board.has_copies:
            return
        self.first[word] += 1
        if self.kept[word] == 1 or EFFECTS[instruction.op].accesses or word in self.units:
            for name, part in zip(CHAIN, board.advance(word), strict=True):
                self.chain[name][word] += part

    def _sign(self) -> bytes:
        """Return a digest of the counts so far, without addresses."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.present, self.issued, self.lanes):
            digest.update(array.tobytes())
        for name in sorted(self.amounts):
            digest.update(name.encode() + self.amounts[name].tobytes())
        for by_word in (self.loaded, self.stored):
            for word, parts in by_word.items():
                digest.update(b"%d:%d," % (word, len(np.unique(np.concatenate(parts)))))
        return digest.digest()

    def _add(self, word: int, access: Access) -> None:
        amounts, warps = self.amounts, access.warps
        if access.space is Space.SHARED and _is_tensor_memory(access):
            self.amounts["tensor_memory_bytes"][word] += len(access.addresses) * access.width
        elif access.space is Space.SHARED:
            cycles: float
            fewest: float
            cycles, fewest = conflicts_of(
                warps, access.addresses, access.width, updates=access.atomic
            )
            if access.atomic:
                cycles *= _repetitions(self._code[word])
            amounts["cluster_bytes"][word] += self._count_peers(access) * access.width
            issue_share = self.kept[word]  # words that are loaded together are in different banks
            if self._is_copy(word):
                cycles = fewest = len(access.addresses) * access.width / _LINE_BYTES
                issue_share = 1.0
            elif word in self.units:
                issue_share = self.units[word].share
            amounts["l1_shared_wavefronts"][word] += cycles * issue_share
            amounts["shared_ideal_wavefronts"][word] += fewest * issue_share
            amounts["shared_requests"][word] += len(np.unique(warps))
        elif access.space is Space.LOCAL:
            places, which = interleave(access.addresses, access.lanes, access.width)
            amounts["l1_global_wavefronts"][word] += wavefronts_of(
                *sectors_of(warps[which], places)
            )
        elif access.atomic:
            self._update(word, warps, access.addresses)
        else:
            self._global(word, warps, access.addresses, access.width)

    def _count_peers(self, access: Access) -> int:
        """Return the number of addresses of shared memory that name another block."""
        named = access.addresses >> CLUSTER_RANK_SHIFT
        own = FIRST_RANK_FIELD + access.warps // self._warps % self._together
        return int(np.count_nonzero((named != 0) & (named != own)))

    def _global(self, word: int, warps: Numbers, addresses: Numbers, width: int) -> None:
        owners, sectors = sectors_of(warps, addresses)
        copied = self._is_copy(word)
        counted = len(warps) * width / _SECTOR_BYTES if copied else len(sectors)
        kind = "store" if EFFECTS[self._code[word].op].writes else "load"
        self.amounts[f"{kind}_requests"][word] += len(np.unique(warps))
        self.amounts[f"{kind}_sectors"][word] += counted
        self.amounts[f"{kind}_bytes"][word] += len(warps) * width
        if not copied:
            self.amounts["l1_global_wavefronts"][word] += wavefronts_of(owners, sectors)
        self._keep(len(sectors))
        self._mark_lowest(word, warps, addresses)
        slots = owners // self._warps << _SLOT_SHIFT | sectors
        if kind == "store":
            self.stored[word].append(np.unique(slots))
            return
        self.loaded[word].append(np.unique(slots))
        if copied:
            self.amounts["bypass_sectors"][word] += counted
            return
        match self._code[word]:
            case Instruction(volatile=True) | Instruction(cache=Cache.CG | Cache.CV):
                self.amounts["bypass_sectors"][word] += len(sectors)  # only L2 has them
            case Instruction(cache=Cache.CS | Cache.LU):
                self.streamed.append(owners // self._warps << _SLOT_SHIFT | sectors)
            case _:
                self.order.append(owners // self._warps << _SLOT_SHIFT | sectors)

    def _update(self, word: int, warps: Numbers, addresses: Numbers) -> None:
        together = self._warps if _adds_together(self._code[word]) else 1
        owners, sectors, steps = steps_of(warps, addresses, warps_together=together)
        self.amounts["atomic_requests"][word] += len(np.unique(warps))
        self.amounts["atomic_sectors"][word] += len(sectors)
        self.amounts["l1_global_wavefronts"][word] += wavefronts_of(owners, sectors)
        self._keep(2 * len(sectors))
        self._mark_lowest(word, warps, addresses)
        self.stored[word].append(np.unique(owners // self._warps << _SLOT_SHIFT | sectors))
        self.amounts["atomic_steps"][word] += int(steps.sum())
        parts = owners // self._warps << _SLOT_SHIFT | sectors >> _SLICE_SHIFT
        self.updated.append(np.repeat(parts, steps))

    def _is_copy(self, word: int) -> bool:
        part = self.units.get(word)
        return part is not None and part.unit is units.Unit.COPY

    def _mark_lowest(self, word: int, warps: Numbers, addresses: Numbers) -> None:
        lowest_by_slot = self.lowest.get(word)
        if lowest_by_slot is None:
            lowest_by_slot = self.lowest[word] = np.full(self._slots, _FAR, dtype=np.int64)
        np.minimum.at(lowest_by_slot, warps // self._warps, addresses)

    def _keep(self, sectors: int) -> None:
        self._kept += sectors
        if self._kept > _MOST_SECTORS:
            raise SampleEnded


def _repetitions(instruction: Instruction) -> int:
    """Return the cycles of an atomic update of shared memory, for each lane with the same word. The
    hardware adds 32-bit integers itself; other sums are loops of compare and swap.
    """
    if instruction.update is Update.CAS:
        return _SWAP
    if instruction.type in _WHOLE or instruction.update is Update.EXCH:
        return 1
    return _LOOP_OF_SWAPS if instruction.update in _SUMS else 1


def _adds_together(instruction: Instruction) -> bool:
    """True if the hardware's compiler adds up a warp's values for one address first."""
    return instruction.type in _WHOLE and instruction.update in _SUMS


def _is_tensor_memory(access: Access) -> bool:
    """Return whether all addresses are of tensor memory, of any block of the cluster."""
    places = access.addresses & (1 << CLUSTER_RANK_SHIFT) - 1
    return bool(((places >= TENSOR_FIRST_BYTE) & (places < TENSOR_ALLOCATED)).all())


def slots_and_places(keys: Numbers) -> tuple[Numbers, Numbers]:
    """Split the keys of ``Watch`` into the slots of the blocks and the places that the blocks
    accessed: 32-byte sectors of global memory, or its parts of 512 bytes.
    """
    return keys >> _SLOT_SHIFT, keys & ((1 << _SLOT_SHIFT) - 1)
