"""Blocks whose threads wait for each other: several are resident, and all their paths run in turn.

In each round, every runnable path executes up to its next branch, barrier or reconvergence
point; paths at the same instruction, of any warp and block, execute it together. Every path
makes progress, whatever the others wait for: locks and flags between lanes, warps and resident
blocks work. Lanes that wait for the rest of their warp at a reconvergence point continue without
it if the rest may be waiting for them: after some rounds in kernels that poll memory, and at
once if no other path of the block is runnable.
"""

import itertools
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BarrierFault
from vgpu_sim.exec.interp import collectives
from vgpu_sim.exec.interp.cluster_barriers import Clusters
from vgpu_sim.exec.interp.families.sync import WAITS, Ballot, BarrierMisuse, Barriers
from vgpu_sim.exec.interp.gathering import (
    Gatherings,
    complete_collectives,
    describe_misuse,
    kind_of,
    split_by_mask,
)
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.launch import InterpretedLaunch
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.operands import read_bits, read_predicate, write_number
from vgpu_sim.exec.interp.paths import Path
from vgpu_sim.exec.interp.semantics import SEMANTICS
from vgpu_sim.exec.interp.spaces import Spaces
from vgpu_sim.isa import EFFECTS, Instruction, Op, polls
from vgpu_sim.isa.families.sync import CLUSTER_OPS

_LOOK_ROUNDS = 8
_WAIT_ROUNDS = 1024  # longer than most loops that lanes leave one by one
_HASTY_ROUNDS = 16


class ResidentBlocks(Lanes):
    """Up to ``slots`` resident blocks of a launch; a block that ends frees its slot for the next.

    ``blocks`` yields the linear indices of blocks that have not started. Several instances may
    take blocks from one iterator.
    """

    __slots__ = (
        "_barriers",
        "_blocks",
        "_clusters",
        "_ends",
        "_gatherings",
        "_hasty",
        "_joins",
        "_live",
        "_polls",
        "_ready",
        "_rounds",
        "_slots",
        "_touched",
        "_warps",
        "watch",
    )

    def __init__(self, launch: InterpretedLaunch, blocks: Iterable[int], slots: int) -> None:
        self._warps = launch.warps_per_block
        lanes = self._warps * WARP_LANES
        spaces = Spaces(launch, slots * lanes, slots, lanes_per_block=lanes)
        super().__init__(launch, slots * lanes, spaces)
        self.watch: Callable[[Instruction, Mask, Mask], None] | None = None
        self._blocks = iter(blocks)
        self._slots = slots
        self._ends = _run_ends(launch)
        self._live: dict[int, dict[int, int]] = {}
        self._barriers: dict[int, Barriers] = {}
        self._gatherings: dict[int, Gatherings] = {}
        self._clusters = Clusters(launch.cluster_blocks, self._warps)
        self._ready: list[Path] = []
        self._polls = any(map(polls, launch.function.code))
        self._rounds = 0
        # Paths at which lanes wait for others, and the round since which they do.
        self._joins: dict[Path, int] = {}
        # Instructions at which such lanes have waited too long before.
        self._hasty: set[int] = set()
        self._touched: set[int] = set()  # slots in which a path has stopped or ended in this round
        for first in range(0, slots, launch.cluster_blocks):
            self._admit_cluster(first)

    @property
    def done(self) -> bool:
        """Return whether no block is resident."""
        return not self._live

    def run_round(self) -> int:
        """Run every runnable path for one round; return how many blocks have ended.

        Raises:
            KernelError: see ``exec.errors``.
        """
        groups: dict[int, list[Path]] = {}
        for path in self._ready:
            groups.setdefault(path.pc, []).append(path)
        self._ready = []
        for word, paths in sorted(groups.items()):
            self._run(word, paths)
        self._rounds += 1
        if self._polls and self._rounds % _LOOK_ROUNDS == 0:
            self._let_go()
        ended = {slot for slot in self._touched if not any(self._live[slot].values())}
        stopped, self._touched = self._touched - ended, set()
        if self.launch.cluster_blocks > 1:
            # What happens in one block may leave the rest of its cluster waiting for ever.
            peers = {p for slot in stopped | ended for p in self._clusters.slots_with(slot)}
            stopped = {slot for slot in peers if any(self._live.get(slot, {}).values())}
        if stopped:
            self._check_deadlock(stopped)
        for first in sorted({self._clusters.slots_with(slot)[0] for slot in ended}):
            if not any(any(self._live[s].values()) for s in self._clusters.slots_with(first)):
                self._admit_cluster(first)
        return len(ended)

    def cancel_cluster(self) -> int:
        blocks = list(itertools.islice(self._blocks, self.launch.cluster_blocks))
        return 1 + blocks[0] if blocks else 0

    def _admit_cluster(self, first: int) -> None:
        """Start the blocks of the next cluster, if there is one, in as many slots."""
        slots = self._clusters.slots_with(first)
        for slot in slots:
            self._admit(slot)
        self._clusters.admit(first, [self._live[slot] for slot in slots if slot in self._live])

    def _admit(self, slot: int) -> None:
        """Start the next block, if there is one, in a slot."""
        self._live.pop(slot, None)
        block = next(self._blocks, None)
        if block is None:
            return
        count, launch = self._warps * WARP_LANES, self.launch
        at = slice(slot * count, (slot + 1) * count)
        for cells in (*self.registers, *self.predicates):
            cells[at] = 0
        self.spaces.clear(slot)
        self.assign_threads(at, np.arange(count), np.full(count, block))
        first, threads = slot * self._warps, launch.threads_per_block
        live = {
            first + warp: (1 << min(WARP_LANES, threads - warp * WARP_LANES)) - 1
            for warp in range(self._warps)
        }
        self._live[slot] = live
        self._barriers[slot] = Barriers(live)
        self._gatherings[slot] = Gatherings(live)
        self._ready += (Path(warp, 0, lanes) for warp, lanes in live.items())

    def _run(self, word: int, paths: list[Path]) -> None:
        """Execute instructions for ``paths``, which are all at ``word``, until the end of the
        run.
        """
        mask = self._mask(paths)
        code = self.launch.function.code
        while True:
            instruction = code[word]
            self.word = word
            allowed = mask
            if instruction.guard is not None:
                allowed = self.predicates[instruction.guard.predicate.index]
                allowed = mask & ~allowed if instruction.guard.negated else mask & allowed
            # Before execution: the lanes present, and those whose guard is true.
            if self.watch is not None:
                self.watch(instruction, mask, allowed)
            if instruction.op is Op.BRA:
                return self._branch(instruction, paths, allowed)
            if instruction.op is Op.RET:
                return self._end(paths, allowed)
            if EFFECTS[instruction.op].stops:
                return self._meet(instruction, paths, allowed)
            if EFFECTS[instruction.op].collective:
                return self._gather(instruction, paths, allowed)
            SEMANTICS[instruction.op](self, instruction, allowed)
            word += 1
            if word in self._ends:
                for path in paths:
                    path.pc = word
                return self._go_on(paths)

    def _mask(self, paths: list[Path]) -> Mask:
        rows = np.zeros(self._slots * self._warps, dtype="<u4")
        for path in paths:
            rows[path.warp] |= path.lanes
        return np.unpackbits(rows.view(np.uint8), bitorder="little").view(np.bool_)

    def _go_on(self, paths: Iterable[Path]) -> None:
        for moved_path in paths:
            path = moved_path.reconverge()
            if path is None:
                continue
            if path.above:
                self._joins.setdefault(path, self._rounds)
            else:
                self._joins.pop(path, None)
                self._ready.append(path)

    def _let_go(self) -> None:
        """Release lanes that have waited too long for the other lanes of their warp."""
        for path, since in list(self._joins.items()):
            patience = _HASTY_ROUNDS if path.pc in self._hasty else _WAIT_ROUNDS
            if path.arrived and self._rounds - since >= patience:
                self._hasty.add(path.pc)
                del self._joins[path]
                self._go_on((path.release_arrived(),))

    def _let_all_go(self, slot: int) -> bool:
        """Release all lanes of a block that wait for others of their warp; return whether there are
        any.
        """
        joins = [path for path in self._joins if path.warp // self._warps == slot and path.arrived]
        for path in joins:
            del self._joins[path]
            self._go_on((path.release_arrived(),))
        return bool(joins)

    def _branch(self, instruction: Instruction, paths: list[Path], allowed: Mask) -> None:
        target = instruction.target
        if target is None:
            raise TypeError("a branch has no target")
        taken_lanes, word = _rows(allowed), self.word
        meet = self.launch.reconvergence[word]
        for path in paths:
            self._go_on(path.split(taken_lanes[path.warp] & path.lanes, target, word + 1, meet))

    def _end(self, paths: list[Path], allowed: Mask) -> None:
        ended = _rows(allowed)
        slots: set[int] = set()
        for path in paths:
            lanes = ended[path.warp] & path.lanes
            slot = path.warp // self._warps
            if lanes:
                path.end(lanes)
                self._live[slot][path.warp] &= ~lanes
                slots.add(slot)
            path.pc = self.word + 1
        self._go_on(paths)
        for warp in {path.warp for path in paths}:
            for together in self._gatherings[warp // self._warps].recheck_after_exit(warp):
                self._take_part(together)
        self._touched |= slots
        for slot in slots:
            self._release(self._barriers[slot].recheck_after_exit())
            self._release(self._clusters.recheck(slot))

    def _meet(self, instruction: Instruction, paths: list[Path], allowed: Mask) -> None:
        """Record that the lanes with a true guard have arrived at a barrier.

        The other lanes continue to the next instruction, where they wait for these.
        """
        arriving, word = _rows(allowed), self.word
        if instruction.op in CLUSTER_OPS:
            for path in paths:
                for part in path.split(arriving[path.warp] & path.lanes, word, word + 1, word + 1):
                    if part.pc == word:
                        self._meet_cluster(instruction, part)
                    else:
                        self._go_on((part,))
            return
        numbers, counts = (
            np.broadcast_to(read_bits(self, source, 32), allowed.shape)
            for source in instruction.srcs[:2]
        )
        for path in paths:
            for part in path.split(arriving[path.warp] & path.lanes, word, word + 1, word + 1):
                if part.pc != word:
                    self._go_on((part,))
                    continue
                at = slice(part.warp * WARP_LANES, (part.warp + 1) * WARP_LANES)
                named = allowed[at] & _lanes_of(part)
                lane = part.warp * WARP_LANES + int(named.argmax())
                number, count = int(numbers[lane]), int(counts[lane])
                if (numbers[at][named] != number).any() or (counts[at][named] != count).any():
                    raise self._fault("lanes of a warp name different barriers or counts", part)
                slot = part.warp // self._warps
                self._touched.add(slot)
                try:
                    free = self._barriers[slot].arrive(
                        part,
                        number,
                        count,
                        waits=WAITS[instruction.op],
                        ballot=self._ballot(instruction, part),
                    )
                except BarrierMisuse as error:
                    raise self._fault(str(error), part) from error
                self._release(free)

    def _meet_cluster(self, instruction: Instruction, path: Path) -> None:
        """Let a path arrive at the barrier of its cluster, or wait for it."""
        word = path.pc
        try:
            if not WAITS[instruction.op]:
                self._release([*self._clusters.arrive(path), path])
                return
            passing = self._clusters.may_pass(path)
        except BarrierMisuse as error:
            raise self._fault(str(error), path) from error
        for part in path.split(passing, word + 1, word, word + 1):
            if part.pc == word:
                self._clusters.wait(part)
                self._touched.add(part.warp // self._warps)
            else:
                self._go_on((part,))

    def _release(self, paths: list[Path]) -> None:
        """Release paths from a barrier."""
        for path in paths:
            instruction = self.launch.function.code[path.pc]
            if instruction.op is Op.BAR_RED:
                outcome = self._barriers[path.warp // self._warps].outcome(path)
                write_number(self, instruction, outcome, self._mask([path]))
            path.pc += 1
        self._go_on(paths)

    def _ballot(self, instruction: Instruction, path: Path) -> Ballot | None:
        if instruction.reduction is None:
            return None
        true = np.broadcast_to(read_predicate(self, instruction.srcs[2]), (self.lanes,))
        lanes = _rows(np.ascontiguousarray(true))[path.warp] & path.lanes
        return Ballot(instruction.reduction, path.lanes.bit_count(), lanes.bit_count())

    def _gather(self, instruction: Instruction, paths: list[Path], allowed: Mask) -> None:
        """Record that the lanes with a true guard have arrived at a collective.

        The collective runs when all lanes that it names have arrived.
        """
        rows = allowed.reshape(-1, WARP_LANES)
        apart = len({path.warp for path in paths}) < len(paths)  # a warp has two paths here
        if instruction.op is Op.ACTIVEMASK:
            for company in self._companies(paths) if apart else [paths]:
                mask = allowed & self._mask(company)
                SEMANTICS[instruction.op](self, instruction, mask)
            return self._go_behind(paths)
        members, live = collectives.members(self, instruction), self._live_rows()
        complete = (
            np.zeros(len(rows), dtype=np.bool_)
            if apart
            else complete_collectives(members, live, rows)
        )
        at_once = [path for path in paths if complete[path.warp]]
        if at_once:
            together = np.where(rows, members & live[:, None], np.uint32(0))
            collectives.perform(self, instruction, together, (rows & complete[:, None]).reshape(-1))
            self._go_behind(at_once)
        for path in paths:
            if not complete[path.warp]:
                lanes = _rows(allowed)[path.warp] & path.lanes
                self._wait_for(instruction, path, lanes, members[path.warp].tolist())
        return None

    def _companies(self, paths: list[Path]) -> list[list[Path]]:
        """Group the paths that execute a collective together: those of one warp if no lane is
        missing.
        """
        warps: dict[int, list[Path]] = {}
        for path in paths:
            warps.setdefault(path.warp, []).append(path)
        companies = []
        for warp, own in warps.items():
            whole = sum(path.lanes for path in own) == self._live[warp // self._warps][warp]
            companies += [own] if whole else [[path] for path in own]
        return companies

    def _wait_for(self, instruction: Instruction, path: Path, lanes: int, named: list[int]) -> None:
        """Suspend ``lanes`` of a path until the lanes that they name arrive; the others
        continue.
        """
        word, slot = self.word, path.warp // self._warps
        for part in path.split(lanes, word, word + 1, word + 1):
            if part.pc != word:
                self._go_on((part,))
                continue
            self._touched.add(slot)
            wrong = describe_misuse(part.lanes, named)
            if wrong:
                raise self._fault(wrong, part)
            for arrivals, members in split_by_mask(part, named):
                for together in self._gatherings[slot].arrive(
                    arrivals, kind_of(instruction), members
                ):
                    self._take_part(together)

    def _go_behind(self, paths: list[Path]) -> None:
        for path in paths:
            path.pc = self.word + 1
        self._go_on(paths)

    def _live_rows(self) -> NDArray[np.uint32]:
        """Return each warp's lanes that have not ended."""
        live = np.zeros(self._slots * self._warps, dtype=np.uint32)
        for warps in self._live.values():
            live[list(warps)] = list(warps.values())
        return live

    def _take_part(self, paths: list[Path]) -> None:
        """Perform a collective for all lanes that it names, which may be at different
        instructions.
        """
        masks = [self._mask([path]) for path in paths]
        collectives.perform_divergent(self, [path.pc for path in paths], masks, paths[0].warp)
        for path in paths:
            path.pc += 1
        self._go_on(paths)

    def _check_deadlock(self, slots: set[int]) -> None:
        """Raise BarrierFault if all remaining paths of a block wait for others."""
        for slot in slots - {path.warp // self._warps for path in self._ready}:
            if self._let_all_go(slot):
                self._touched.add(slot)
                continue
            able = [*self._ready, *(path for path in self._joins if path.arrived)]
            if self._clusters.may_complete(slot, able):
                continue
            barriers, gatherings = self._barriers[slot], self._gatherings[slot]
            described = [*barriers.describe(), *gatherings.describe()]
            parts = "; ".join([*described, *self._clusters.describe(slot)])
            first = barriers.find_waiting() or gatherings.find_waiting()
            first = first or self._clusters.find_waiting(slot)
            assert first is not None
            raise self._fault(f"no thread of the block can make progress: {parts}", first)

    def _fault(self, description: str, path: Path) -> BarrierFault:
        first = (path.lanes & -path.lanes).bit_length() - 1
        lane = path.warp * WARP_LANES + max(first, 0)
        return BarrierFault(description, path.pc, self.block_of(lane), self.thread_of(lane))


def _rows(mask: Mask) -> list[int]:
    """Return the lanes of each warp as a bit mask."""
    rows: list[int] = np.packbits(mask, bitorder="little").view("<u4").tolist()
    return rows


def _lanes_of(path: Path) -> Mask:
    bits = np.array([path.lanes], dtype="<u4").view(np.uint8)
    return np.unpackbits(bits, bitorder="little").view(np.bool_)


def _run_ends(launch: InterpretedLaunch) -> frozenset[int]:
    """Return the instructions that end a run: branch targets, and those at which lanes may wait."""
    code = launch.function.code
    targets = {i.target for i in code if i.target is not None}
    followers = {word + 1 for word, i in enumerate(code) if _ends_run(i)}
    return frozenset(targets | followers)


def _ends_run(instruction: Instruction) -> bool:
    effects = EFFECTS[instruction.op]
    return effects.leaves or effects.stops or effects.rests or effects.collective
