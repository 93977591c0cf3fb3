"""Launches exported kernels through the CUDA driver."""

import ctypes

import numpy as np
from cuda.bindings import driver

_DYNAMIC = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_MOST = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
_CLUSTER = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_SWIZZLES = {
    128: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
    64: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_64B,
    32: driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_32B,
}


def _check(results):
    error, *values = results
    assert error == driver.CUresult.CUDA_SUCCESS, error
    return values[0] if values else None


class Device:
    """The first device, with its primary context current."""

    def __init__(self):
        _check(driver.cuInit(0))
        self._device = _check(driver.cuDeviceGet(0))
        _check(driver.cuCtxSetCurrent(_check(driver.cuDevicePrimaryCtxRetain(self._device))))

    def put(self, array):
        """Return the address of a copy of an array in device memory."""
        address = _check(driver.cuMemAlloc(array.nbytes))
        _check(driver.cuMemcpyHtoD(address, np.ascontiguousarray(array), array.nbytes))
        return int(address)

    def get(self, address, shape, dtype):
        """Return an array from device memory."""
        array = np.empty(shape, dtype)
        _check(driver.cuMemcpyDtoH(array, address, array.nbytes))
        return array

    def tensor_map(self, address, shape, box):
        """Return a tensor map of a matrix of float16, swizzled by the width of its box."""
        rows, columns = shape
        encoded = _check(
            driver.cuTensorMapEncodeTiled(
                driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                2,
                address,
                [driver.cuuint64_t(columns), driver.cuuint64_t(rows)],
                [driver.cuuint64_t(2 * columns)],
                [driver.cuuint32_t(width) for width in box],
                [driver.cuuint32_t(1)] * 2,
                driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                _SWIZZLES[2 * box[0]],
                driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
                driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
        return b"".join(int(word).to_bytes(8, "little") for word in encoded.opaque)

    def launch(self, kernel, *parameters):
        """Launch an exported kernel and wait for its end; each parameter is its bytes."""
        assert [len(parameter) for parameter in parameters] == kernel.parameters
        module = _check(driver.cuModuleLoadData(kernel.ptx + b"\0"))
        function = _check(driver.cuModuleGetFunction(module, kernel.name.encode()))
        max_shared_bytes = _check(driver.cuDeviceGetAttribute(_MOST, self._device))
        _check(driver.cuFuncSetAttribute(function, _DYNAMIC, max_shared_bytes))
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = kernel.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = kernel.block
        config.sharedMemBytes, config.hStream = max_shared_bytes, 0
        cluster = driver.CUlaunchAttribute()
        cluster.id = _CLUSTER
        for axis, size in zip("xyz", kernel.cluster, strict=True):
            setattr(cluster.value.clusterDim, axis, size)
        config.attrs, config.numAttrs = [cluster], int(max(kernel.cluster) > 1)
        stored = [ctypes.create_string_buffer(data, len(data)) for data in parameters]
        pointers = (ctypes.c_void_p * len(stored))(*(ctypes.addressof(buffer) for buffer in stored))
        _check(driver.cuLaunchKernelEx(config, function, ctypes.addressof(pointers), 0))
        _check(driver.cuCtxSynchronize())
