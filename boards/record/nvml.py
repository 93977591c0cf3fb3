"""NVML's profile enumerations (``nvml.h``).

Three numbers identify a profile and are easily confused. The *enumeration* here is only the index
with which to query a board; the *driver ID* is what the driver returns, what ``nvidia-smi mig
-lgip`` prints and what ``-cgi`` takes; for compute instances the two happen to be equal.
"""

from enum import IntEnum


class GpuInstanceProfile(IntEnum):
    """``NVML_GPU_INSTANCE_PROFILE_*``: the values that identify GPU instance profiles."""

    SLICE_1 = 0
    SLICE_2 = 1
    SLICE_3 = 2
    SLICE_4 = 3
    SLICE_7 = 4
    SLICE_8 = 5
    SLICE_6 = 6
    SLICE_1_REV1 = 7  # +me
    SLICE_2_REV1 = 8  # +me
    SLICE_1_REV2 = 9  # one compute slice with double memory
    SLICE_1_GFX = 10
    SLICE_2_GFX = 11
    SLICE_4_GFX = 12
    SLICE_1_NO_ME = 13
    SLICE_2_NO_ME = 14
    SLICE_1_ALL_ME = 15
    SLICE_2_ALL_ME = 16
    SLICE_3_GFX = 17


class ComputeInstanceProfile(IntEnum):
    """``NVML_COMPUTE_INSTANCE_PROFILE_*``: the values that identify compute instance profiles."""

    SLICE_1 = 0
    SLICE_2 = 1
    SLICE_3 = 2
    SLICE_4 = 3
    SLICE_7 = 4
    SLICE_8 = 5
    SLICE_6 = 6
    SLICE_1_REV1 = 7
    SLICE_7_NVL = 8
