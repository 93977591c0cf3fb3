"""Arrays in the device's memory, for the programs of this folder. Importing makes a context current."""

import ctypes as c

import numpy as np

cuda = c.CDLL("libcuda.so.1")
_context = c.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(c.byref(_context), 0) == 0
assert cuda.cuCtxSetCurrent(_context) == 0


def put(array):
    """Copy an array to new memory of the device, and return its address."""
    address = c.c_uint64()
    assert cuda.cuMemAlloc_v2(c.byref(address), c.c_size_t(max(array.nbytes, 16))) == 0
    source = c.c_void_p(array.ctypes.data)
    assert cuda.cuMemcpyHtoD_v2(address, source, c.c_size_t(array.nbytes)) == 0
    return c.c_void_p(address.value)


def get(address, array):
    """Copy as many bytes as an array has from the device."""
    result = np.empty_like(array)
    target = c.c_void_p(result.ctypes.data)
    assert cuda.cuMemcpyDtoH_v2(target, c.c_uint64(address.value), c.c_size_t(array.nbytes)) == 0
    return result
