"""Random kernels for clusters, and the results that they must have, computed with NumPy.

Each thread has a number. In each phase the threads compute on their numbers, exchange them with
threads of other blocks of their cluster, through shared memory, between barriers of the cluster.
Phases occur in loops with a uniform trip count.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.kernels.random_kernels.dice import Dice

Shape = tuple[int, int, int]
Numbers = NDArray[np.uint32]  # of each block of the grid in the order of clusters, and thread
Step = Callable[[Numbers], Numbers]
MEET = (
    "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
    "barrier.cluster.arrive; barrier.cluster.wait;",
)
_CLUSTERS: tuple[Shape, ...] = ((2, 1, 1), (4, 1, 1), (2, 2, 1), (3, 1, 1), (8, 1, 1), (1, 2, 2))
_THREADS = (32, 64, 33, 7)
_HEAD = """
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 po) .explicitcluster .reqnctapercluster {cluster}
{{
  .reg .b32 %v, %w, %t, %rank, %size, %k, %a, %b, %n<4>; .reg .b64 %o, %g, %d; .reg .pred %p;
  .shared .align 16 .b32 tile[{threads}];
  ld.param.u64 %o, [po]; mov.u32 %t, %tid.x;
  mov.u32 %rank, %cluster_ctarank; mov.u32 %size, %cluster_nctarank;
  mov.u32 %n0, %ctaid.z; mov.u32 %k, %nctaid.y; mov.u32 %n1, %ctaid.y;
  mad.lo.u32 %n0, %n0, %k, %n1; mov.u32 %k, %nctaid.x; mov.u32 %n1, %ctaid.x;
  mad.lo.u32 %n0, %n0, %k, %n1; mad.lo.u32 %n0, %n0, {threads}, %t;
  mul.wide.u32 %g, %n0, 4; add.u64 %g, %g, %o; mad.lo.u32 %v, %n0, 2654435761, 12345;
"""
_TAIL = """
  st.global.u32 [%g], %v; ret;
}
"""


@dataclass(frozen=True)
class ClusterKernel:
    """A kernel, its launch, and the numbers that it stores: a row for each block of the grid."""

    text: str
    grid: Shape
    cluster: Shape
    threads: int
    expected: Numbers


class _Writer:
    """Writes phases as PTX, and as steps that change numbers in the same way."""

    def __init__(self, dice: Dice, size: int, threads: int) -> None:
        self.dice = dice
        self._size, self._threads = size, threads
        self._labels = 0

    def _own(self) -> str:
        return "mov.u32 %a, tile; mad.lo.u32 %a, %t, 4, %a;"

    def _peer(self, distance: int, shift: int) -> str:
        """Return PTX that sets %a to the address of a slot of another block and thread."""
        place = f"add.u32 %k, %t, {shift}; rem.u32 %k, %k, {self._threads}; mov.u32 %a, tile;"
        place += f" mad.lo.u32 %a, %k, 4, %a; add.u32 %k, %rank, {distance}; rem.u32 %k, %k, %size;"
        return f"{place} mapa.shared::cluster.u32 %a, %a, %k;"

    def _meet(self) -> str:
        return self.dice.pick(MEET)

    def compute(self) -> tuple[str, Step]:
        number = self.dice.bits(32)
        kind = self.dice.number(0, 3)
        if kind == 0:
            return f"add.u32 %v, %v, {number};", lambda v: v + np.uint32(number)
        if kind == 1:
            return f"xor.b32 %v, %v, {number};", lambda v: v ^ np.uint32(number)
        if kind == 2:
            return f"mul.lo.u32 %v, %v, {number | 1};", lambda v: v * np.uint32(number | 1)
        return "shr.u32 %w, %v, 7; xor.b32 %v, %v, %w;", lambda v: v ^ (v >> np.uint32(7))

    def exchange(self) -> tuple[str, Step]:
        """Write a phase in which each thread gets a number of another block's thread."""
        distance, shift = self.dice.number(0, 9), self.dice.number(0, self._threads - 1)
        kind = self.dice.number(0, 3)
        meet = self._meet()
        if kind == 0:  # read a peer's slot
            body = f"{self._own()} st.shared.u32 [%a], %v; {meet} {self._peer(distance, shift)}"
            body += f" ld.shared::cluster.u32 %w, [%a]; {meet} add.u32 %v, %v, %w;"
            return body, lambda v: v + self._of_peer(v, distance, shift)
        if kind == 1:  # the same by generic addresses
            body = f"{self._own()} st.shared.u32 [%a], %v; {meet} {self._peer(distance, shift)}"
            body += " cvt.u64.u32 %d, %a; cvta.shared::cluster.u64 %d, %d; ld.u32 %w, [%d];"
            return (
                f"{body} {meet} xor.b32 %v, %v, %w;",
                lambda v: v ^ self._of_peer(v, distance, shift),
            )
        if kind == 2:  # write to a peer's slot
            body = f"{self._peer(distance, shift)} st.shared::cluster.u32 [%a], %v; {meet}"
            body += f" {self._own()} ld.shared.u32 %w, [%a]; {meet} sub.u32 %v, %w, %v;"
            return body, lambda v: self._from_peer(v, distance, shift) - v
        modulus = self.dice.number(1, self._threads)
        body = f"{self._own()} st.shared.u32 [%a], 0; {meet}"
        body += f" rem.u32 %b, %t, {modulus}; mov.u32 %a, tile; mad.lo.u32 %a, %b, 4, %a;"
        body += f" add.u32 %k, %rank, {distance}; rem.u32 %k, %k, %size;"
        body += " mapa.shared::cluster.u32 %a, %a, %k; red.shared::cluster.add.u32 [%a], %v;"
        body += f" {meet} {self._own()} ld.shared.u32 %w, [%a]; {meet} xor.b32 %v, %v, %w;"
        return body, lambda v: v ^ self._sums(v, distance, modulus)

    def _rows(self, v: Numbers) -> Numbers:
        return v.reshape(-1, self._size, self._threads)

    def _of_peer(self, v: Numbers, distance: int, shift: int) -> Numbers:
        moved = np.roll(np.roll(self._rows(v), -distance, axis=1), -shift, axis=2)
        return moved.reshape(v.shape)

    def _from_peer(self, v: Numbers, distance: int, shift: int) -> Numbers:
        return self._of_peer(v, -distance, -shift)

    def _sums(self, v: Numbers, distance: int, modulus: int) -> Numbers:
        sums = np.zeros_like(self._rows(v))
        for thread in range(self._threads):
            sums[:, :, thread % modulus] += self._rows(v)[:, :, thread]
        return np.roll(sums, distance, axis=1).reshape(v.shape)

    def phases(self) -> tuple[str, list[Step]]:
        """Write some phases, often in a loop."""
        texts, steps = [], list[Step]()
        for _ in range(self.dice.number(1, 3)):
            write = self.exchange if self.dice.one_in(2) else self.compute
            text, step = write()
            texts.append(text)
            steps.append(step)
        turns = self.dice.number(1, 3)
        if turns == 1:
            return "\n  ".join(texts), steps
        self._labels += 1
        label = f"again{self._labels}"
        loop = [f"mov.u32 %n3, {turns};", f"{label}:", *texts, "sub.u32 %n3, %n3, 1;"]
        loop.append(f"setp.ne.u32 %p, %n3, 0; @%p bra {label};")
        return "\n  ".join(loop), steps * turns


def generate(seed: int) -> ClusterKernel:
    """Return the kernel of a seed."""
    dice = Dice(seed, 11)
    cluster, threads = dice.pick(_CLUSTERS), dice.pick(_THREADS)
    grid = tuple(extent * dice.number(1, 2) for extent in cluster)
    size, blocks = int(np.prod(cluster)), int(np.prod(grid))
    order = _order(grid, cluster)
    first = np.arange(blocks, dtype=np.uint32)[order][:, None] * np.uint32(threads)
    numbers = (first + np.arange(threads, dtype=np.uint32)) * np.uint32(2654435761)
    numbers += np.uint32(12345)
    writer, texts = _Writer(dice, size, threads), []
    for _ in range(dice.number(2, 5)):
        text, steps = writer.phases()
        texts.append(text)
        for step in steps:
            numbers = step(numbers).astype(np.uint32)
    expected = np.empty_like(numbers)
    expected[order] = numbers
    head = _HEAD.format(cluster=", ".join(map(str, cluster)), threads=threads)
    end = f"\n  {MEET[1]}{_TAIL}"
    body = "\n  ".join(texts)
    return ClusterKernel(f"{head}  {body}{end}", grid, cluster, threads, expected)


def _order(grid: Shape, cluster: Shape) -> NDArray[np.int64]:
    """Return the index of each block, those of a cluster together, by rank."""
    nx, ny, nz = grid
    index = np.arange(nx * ny * nz).reshape(nz, ny, nx)
    cx, cy, cz = cluster
    parts = index.reshape(nz // cz, cz, ny // cy, cy, nx // cx, cx)
    return parts.transpose(0, 2, 4, 1, 3, 5).reshape(-1)
