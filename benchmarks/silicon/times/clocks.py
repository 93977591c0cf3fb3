"""The clocks of the first GPU. This needs ``libnvidia-ml.so.1``, and is beside ``runner.py``."""

import ctypes
from ctypes import byref, c_int, c_uint, c_void_p


class Clocks:
    """The clocks that NVML reports; without NVML they are 0."""

    def __init__(self):
        self.device = c_void_p()
        try:
            self.lib = ctypes.CDLL("libnvidia-ml.so.1")
            if self.lib.nvmlInit_v2() or self.lib.nvmlDeviceGetHandleByIndex_v2(
                c_uint(0), byref(self.device)
            ):
                self.lib = None
        except OSError:
            self.lib = None

    def read(self):
        """Return the clocks of the SMs and of the memory, in MHz, and the power in W."""
        if self.lib is None:
            return [0, 0, 0]
        clocks_mhz = []
        for kind in (1, 2):
            value = c_uint()
            self.lib.nvmlDeviceGetClockInfo(self.device, c_int(kind), byref(value))
            clocks_mhz.append(value.value)
        value = c_uint()
        self.lib.nvmlDeviceGetPowerUsage(self.device, byref(value))
        return [*clocks_mhz, value.value // 1000]
