"""The lanes of one block that wait for each other at collectives, as specified in docs/isa.md."""

from collections.abc import Iterator
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.collective_operands import pack_lane_bits
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Mask
from vgpu_sim.exec.interp.paths import Path
from vgpu_sim.isa import Instruction
from vgpu_sim.records import dataclass

Kind = Instruction
"""A collective instruction without its guard and operands; lanes that meet execute the same
kind.
"""


def kind_of(instruction: Instruction) -> Kind:
    """Return the kind of a collective: the instruction without its guard and operands."""
    return replace(instruction, dsts=(), srcs=(), guard=None)


@dataclass(slots=True)
class Gatherings:
    """The waiting lanes of all collectives of a block.

    ``live`` maps each warp of the block to its lanes that have not ended; the owner of this object
    updates it. Each method that records an event returns the sets of paths that take part in a
    collective now. All other paths keep waiting.
    """

    live: dict[int, int]
    _open: dict[tuple[int, Kind, int], list[Path]] = field(default_factory=dict)

    def arrive(self, path: Path, kind: Kind, members: int) -> list[list[Path]]:
        """Record that all lanes of ``path`` have arrived at a collective whose member mask is
        ``members``.

        Return the sets of paths that take part in a collective now.
        """
        self._open.setdefault((path.warp, kind, members), []).append(path)
        return self._complete(path.warp)

    def recheck_after_exit(self, warp: int) -> list[list[Path]]:
        """Check a warp's collectives again after some of its lanes have ended. Return the sets of
        paths that take part in a collective now.
        """
        return self._complete(warp)

    def find_waiting(self) -> Path | None:
        """Return a path that waits at a collective, or None."""
        return next((path for paths in self._open.values() for path in paths), None)

    def describe(self) -> Iterator[str]:
        """Describe where lanes wait at collectives, for a block that has no runnable path."""
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


def complete_collectives(
    members: NDArray[np.uint32], live: NDArray[np.uint32], arrived: Mask
) -> Mask:
    """Return the warps whose collectives are complete.

    A collective is complete if all live lanes that it names have arrived and name the same lanes.
    ``arrived`` marks the lanes that have arrived, and ``members`` holds the mask that each lane
    names; both are rows of 32 lanes. ``live`` has a bit mask for each row.
    """
    if (members == members[:1, :1]).all():
        agreeing = pack_lane_bits(arrived)[:, None]
    else:
        agreeing = pack_lane_bits(
            (members[:, :, None] == members[:, None, :]) & arrived[:, None, :]
        )
    itself = members >> np.arange(WARP_LANES, dtype=np.uint32) & 1 != 0
    complete: Mask = ((itself & (agreeing == members & live[:, None])) | ~arrived).all(axis=1)
    return complete


def describe_misuse(lanes: int, named: list[int]) -> str:
    """Return why the member masks of lanes that have arrived together are invalid.

    The text is empty if they are valid.
    """
    arrived = [lane for lane in range(WARP_LANES) if lanes >> lane & 1]
    for lane in arrived:
        if not named[lane] >> lane & 1:
            return f"lane {lane} is not in the member mask {named[lane]:#010x} that it names"
        for partner in arrived:
            if named[lane] >> partner & 1 and named[partner] != named[lane]:
                return f"lanes {lane} and {partner} name different member masks"
    return ""


def split_by_mask(path: Path, named: list[int]) -> Iterator[tuple[Path, int]]:
    """Split a path into parts; the lanes of each part name the same member mask.

    Yield each part with its mask. The parts rejoin at the next instruction.
    """
    pending: tuple[Path, ...] = (path,)
    while pending:
        first, word = pending[0], pending[0].pc
        members = named[(first.lanes & -first.lanes).bit_length() - 1]
        agreeing = sum(1 << lane for lane in range(WARP_LANES) if named[lane] == members)
        part, *remaining_parts = first.split(first.lanes & agreeing, word, word, word + 1)
        pending = tuple(remaining_parts)
        yield part, members
