"""Register allocation for a machine with a physical register file, by linear scan over intervals.

Interpreter and JIT do not need it. Occupancy, ``cuFuncGetAttribute`` and the cycle model use it.
"""

import heapq

from vgpu_sim.compiler.liveness import intervals
from vgpu_sim.isa import Function, PhysicalAllocation

REGISTER_FILE_SLOTS = 255
"""32-bit registers of a thread (CUDA C++ Programming Guide, "Technical Specifications")."""

LOWEST_LIMIT = 24
"""The lowest limit of registers per thread that ptxas accepts for sm_70 and later."""

_SLOT_BYTES = 4


class _Slots:
    """Free slots; the lowest suitable one is taken first. Pairs begin at even slots."""

    def __init__(self) -> None:
        self._singles: list[int] = []
        self._pairs: list[int] = []
        self._free: set[int] = set()
        self.end = 0  # slots from here on were never used

    def take(self, count: int) -> int:
        """Return the lowest free slot, which is then taken; for two slots, a pair that begins at an
        even one.
        """
        slot = self._take_pair() if count == 2 else self._take_single()
        self._free.difference_update(range(slot, slot + count))
        self.end = max(self.end, slot + count)
        return slot

    def _take_single(self) -> int:
        while self._singles:
            slot = heapq.heappop(self._singles)
            if slot in self._free:
                return slot
        return self.end

    def _take_pair(self) -> int:
        while self._pairs:
            slot = heapq.heappop(self._pairs)
            if slot in self._free and slot + 1 in self._free:
                return slot
        if self.end % 2:  # the odd slot before the pair stays free for a single
            self._give(self.end)
            return self.end + 1
        return self.end

    def give(self, slot: int, count: int) -> None:
        """Make ``count`` slots from ``slot`` on free again."""
        for freed in range(slot, slot + count):
            self._give(freed)

    def _give(self, slot: int) -> None:
        self._free.add(slot)
        heapq.heappush(self._singles, slot)
        even = slot & ~1
        if even in self._free and even + 1 in self._free:
            heapq.heappush(self._pairs, even)


def allocate(function: Function) -> PhysicalAllocation:
    """Assign to each register its first 32-bit slot. Slots from 255 on are spilled to local memory.

    A 16-bit register takes one slot. A 64-bit register takes two consecutive slots, the first of
    which has an even number. A register that is never used gets -1. ``peak_registers`` is at
    most 255.
    """
    slots = [-1] * len(function.register_bits)
    file = _Slots()
    active: list[tuple[int, int]] = []  # (end, register)
    for interval in intervals(function):
        while active and active[0][0] < interval.start:
            _, ended = heapq.heappop(active)
            file.give(slots[ended], _slot_count(function, ended))
        slots[interval.index] = file.take(_slot_count(function, interval.index))
        heapq.heappush(active, (interval.end, interval.index))
    return PhysicalAllocation(
        slots=tuple(slots),
        peak_registers=min(file.end, REGISTER_FILE_SLOTS),
        spill_bytes=max(0, file.end - REGISTER_FILE_SLOTS) * _SLOT_BYTES,
    )


def _slot_count(function: Function, register: int) -> int:
    return 2 if function.register_bits[register] == 64 else 1
