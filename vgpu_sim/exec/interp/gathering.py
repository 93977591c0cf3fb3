"""Collectives of the warps of one block: who waits for whom, as docs/isa.md says."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.gathered import bits_of
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.paths import Path
from vgpu_sim.isa import Instruction

Kind = Instruction
"""A collective without guard and operands: what lanes that meet have in common."""


def kind_of(instruction: Instruction) -> Kind:
    """Return an instruction's kind."""
    return replace(instruction, dsts=(), srcs=(), guard=None)


@dataclass(slots=True)
class Gatherings:
    """``live`` maps each warp of the block to its lanes that have not ended; the owner updates it.

    Methods return the groups of paths that take part in a collective now; a path whose group is not
    among them stays where it is.
    """

    live: dict[int, int]
    _open: dict[tuple[int, Kind, int], list[Path]] = field(default_factory=dict)

    def arrive(self, path: Path, kind: Kind, members: int) -> list[list[Path]]:
        """Let all lanes of a path come to a collective of ``members``."""
        self._open.setdefault((path.warp, kind, members), []).append(path)
        return self._complete(path.warp)

    def lanes_ended(self, warp: int) -> list[list[Path]]:
        """Look at a warp's collectives again after lanes of it have ended."""
        return self._complete(warp)

    def first(self) -> Path | None:
        """Return a path that waits, if there is one."""
        return next((path for paths in self._open.values() for path in paths), None)

    def describe(self) -> Iterator[str]:
        """Say who waits for whom, for a block in which nobody can go on."""
        first = min(self.live)
        for (warp, kind, members), paths in sorted(
            self._open.items(), key=lambda item: (item[0][0], item[0][2])
        ):
            missing = members & self.live[warp] & ~_lanes(paths)
            yield (
                f"lanes {_lanes(paths):#010x} of warp {warp - first} wait for lanes {missing:#010x}"
                f" at {kind.op.name} of {members:#010x}"
            )

    def _complete(self, warp: int) -> list[list[Path]]:
        complete = [
            key
            for key, paths in self._open.items()
            if key[0] == warp and not key[2] & self.live[warp] & ~_lanes(paths)
        ]
        return [self._open.pop(key) for key in complete]


def _lanes(paths: list[Path]) -> int:
    return sum(path.lanes for path in paths)


def all_here(members: NDArray[np.uint32], live: NDArray[np.uint32], here: Mask) -> Mask:
    """Say of which warps all live lanes that the lanes ``here`` name are here, under one mask.

    ``members`` and ``here`` are rows of 32 lanes, ``live`` has a number for each row.
    """
    if (members == members[:1, :1]).all():
        same = bits_of(here)[:, None]
    else:
        same = bits_of((members[:, :, None] == members[:, None, :]) & here[:, None, :])
    itself = members >> np.arange(WARP_LANES, dtype=np.uint32) & 1 != 0
    complete: Mask = ((itself & (same == members & live[:, None])) | ~here).all(axis=1)
    return complete


def misuse(lanes: int, named: list[int]) -> str:
    """Return what is wrong with the masks that lanes name which are here together, if anything."""
    here = [lane for lane in range(WARP_LANES) if lanes >> lane & 1]
    for lane in here:
        if not named[lane] >> lane & 1:
            return f"lane {lane} is not in the member mask {named[lane]:#010x} that it names"
        for other in here:
            if named[lane] >> other & 1 and named[other] != named[lane]:
                return f"lanes {lane} and {other} name different member masks"
    return ""


def parted(path: Path, named: list[int]) -> Iterator[tuple[Path, int]]:
    """Part the lanes of a path by the masks that they name; they meet again at the next word."""
    rest: tuple[Path, ...] = (path,)
    while rest:
        first, word = rest[0], rest[0].pc
        members = named[(first.lanes & -first.lanes).bit_length() - 1]
        same = sum(1 << lane for lane in range(WARP_LANES) if named[lane] == members)
        part, *others = first.split(first.lanes & same, word, word, word + 1)
        rest = tuple(others)
        yield part, members
