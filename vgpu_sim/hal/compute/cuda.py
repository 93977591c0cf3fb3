"""CUDA result codes that worker and gpud return (numbers of CUresult in cuda.h)."""

from enum import IntEnum


class CudaError(IntEnum):
    """The CUresult codes, named as in cuda.h without ``CUDA_ERROR_``."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    DEVICE_UNAVAILABLE = 46
    NO_DEVICE = 100
    INVALID_IMAGE = 200
    MAP_FAILED = 205
    NO_BINARY_FOR_GPU = 209
    ECC_UNCORRECTABLE = 214
    INVALID_PTX = 218
    NVLINK_UNCORRECTABLE = 220
    OPERATING_SYSTEM = 304
    INVALID_HANDLE = 400
    ILLEGAL_ADDRESS = 700
    LAUNCH_TIMEOUT = 702
    ASSERT = 710
    HARDWARE_STACK_ERROR = 714
    MISALIGNED_ADDRESS = 716
    INVALID_PC = 718
    LAUNCH_FAILED = 719
    NOT_PERMITTED = 800
    NOT_SUPPORTED = 801
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    UNKNOWN = 999
