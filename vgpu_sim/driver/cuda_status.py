"""The CUresult values that gpud answers with (CUDA driver API, ``enum cudaError_enum``)."""

from enum import IntEnum


class CudaStatus(IntEnum):
    """Statuses by their CUDA names without the prefix."""

    SUCCESS = 0
    INVALID_VALUE = 1
    OUT_OF_MEMORY = 2
    DEVICE_UNAVAILABLE = 46
    NOT_PERMITTED = 800
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
