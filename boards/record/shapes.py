"""The shapes that boards share: slices, units, legal starts, driver IDs and NVML enumerations.

A shape is a line of ``nvidia-smi mig -lgipp``; the resources of one instance differ per board.
Printed listings of four eight-unit boards agree on every line here. Consequences: 4g starts only
at 0, 2g never at 6, one-slice profiles never at 7 (there are seven compute slices), and 3g + 3g
fills the memory but leaves a compute slice unusable.
"""

from dataclasses import dataclass

from boards.record.nvml import GpuInstanceProfile as Gi


@dataclass(frozen=True, slots=True)
class Shape:
    """Those properties of a GPU instance profile that do not depend on the board.

    ``starts`` and ``size`` are in placement units.
    """

    compute_slices: int
    attribute: str
    driver_id: int
    gi_enum: Gi
    max_count: int
    starts: tuple[int, ...]
    size: int


_ANY_OF_7 = (0, 1, 2, 3, 4, 5, 6)
_ANY_OF_4 = (0, 1, 2, 3)
_QUARTERS_OF_12 = (0, 3, 6, 9)

# A100, A800, H100, H800, H200, GH200, B200, ...: eight units, seven compute slices.
EIGHT_1G = Shape(1, "", 19, Gi.SLICE_1, 7, _ANY_OF_7, 1)
EIGHT_1G_ME = Shape(1, "+me", 20, Gi.SLICE_1_REV1, 1, _ANY_OF_7, 1)
EIGHT_1G_DOUBLE = Shape(1, "", 15, Gi.SLICE_1_REV2, 4, (0, 2, 4, 6), 2)
EIGHT_2G = Shape(2, "", 14, Gi.SLICE_2, 3, (0, 2, 4), 2)
EIGHT_3G = Shape(3, "", 9, Gi.SLICE_3, 2, (0, 4), 4)
EIGHT_4G = Shape(4, "", 5, Gi.SLICE_4, 1, (0,), 4)
EIGHT_7G = Shape(7, "", 0, Gi.SLICE_7, 1, (0,), 8)

# A30: four units, four compute slices.
FOUR_1G = Shape(1, "", 14, Gi.SLICE_1, 4, _ANY_OF_4, 1)
FOUR_1G_ME = Shape(1, "+me", 21, Gi.SLICE_1_REV1, 1, _ANY_OF_4, 1)
FOUR_2G = Shape(2, "", 5, Gi.SLICE_2, 2, (0, 2), 2)
FOUR_2G_ME = Shape(2, "+me", 6, Gi.SLICE_2_REV1, 1, (0, 2), 2)
FOUR_4G = Shape(4, "", 0, Gi.SLICE_4, 1, (0,), 4)

# RTX PRO 6000: twelve units, four compute slices.
TWELVE_1G = Shape(1, "", 14, Gi.SLICE_1, 4, _QUARTERS_OF_12, 3)
TWELVE_1G_ME = Shape(1, "+me", 21, Gi.SLICE_1_REV1, 1, _QUARTERS_OF_12, 3)
TWELVE_1G_GFX = Shape(1, "+gfx", 47, Gi.SLICE_1_GFX, 4, _QUARTERS_OF_12, 3)
TWELVE_1G_ALL_ME = Shape(1, "+me.all", 65, Gi.SLICE_1_ALL_ME, 1, _QUARTERS_OF_12, 3)
TWELVE_1G_NO_ME = Shape(1, "-me", 67, Gi.SLICE_1_NO_ME, 4, _QUARTERS_OF_12, 3)
TWELVE_2G = Shape(2, "", 5, Gi.SLICE_2, 2, (0, 6), 6)
TWELVE_2G_GFX = Shape(2, "+gfx", 35, Gi.SLICE_2_GFX, 2, (0, 6), 6)
TWELVE_2G_ALL_ME = Shape(2, "+me.all", 64, Gi.SLICE_2_ALL_ME, 1, (0, 6), 6)
TWELVE_2G_NO_ME = Shape(2, "-me", 66, Gi.SLICE_2_NO_ME, 2, (0, 6), 6)
TWELVE_4G = Shape(4, "", 0, Gi.SLICE_4, 1, (0,), 12)
TWELVE_4G_GFX = Shape(4, "+gfx", 32, Gi.SLICE_4_GFX, 1, (0,), 12)
