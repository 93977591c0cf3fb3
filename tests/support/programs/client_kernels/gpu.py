"""The part of the driver API that the cases need, with numpy arrays as device memory."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from cuda.bindings import driver

Argument = np.ndarray | np.generic | bytes


class DriverError(Exception):
    """A call that failed; ``code`` is its CUresult."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {driver.CUresult(code).name}")
        self.code = code


def call(function, *arguments):
    """Return the results of a driver function, without its status."""
    status, *results = function(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(function.__name__, int(status))
    return results[0] if len(results) == 1 else tuple(results)


class Gpu:
    """A context on device 0."""

    def __init__(self) -> None:
        call(driver.cuInit, 0)
        device = call(driver.cuDeviceGet, 0)
        call(driver.cuCtxSetCurrent, call(driver.cuDevicePrimaryCtxRetain, device))

    def load(self, path: Path) -> "Program":
        return Program(call(driver.cuModuleLoadData, path.read_bytes() + b"\0"))


class Program:
    """A loaded module."""

    def __init__(self, module) -> None:
        self._module = module

    def variable(self, name: str, data: np.ndarray) -> None:
        """Store data in a module variable."""
        address, size = call(driver.cuModuleGetGlobal, self._module, name.encode())
        assert data.nbytes <= size
        call(driver.cuMemcpyHtoD, address, data.ctypes.data, data.nbytes)

    def contents(self, name: str, data: np.ndarray) -> np.ndarray:
        """Return the contents of a module variable, with the size and type of ``data``."""
        address, size = call(driver.cuModuleGetGlobal, self._module, name.encode())
        assert data.nbytes <= size
        call(driver.cuMemcpyDtoH, data.ctypes.data, address, data.nbytes)
        return data

    def run(
        self,
        kernel: str,
        *arguments: Argument,
        grid: Sequence[int] = (1,),
        block: Sequence[int] = (32,),
        shared: int = 0,
        cooperative: bool = False,
    ) -> list[np.ndarray]:
        """Launch once; return the array arguments as the kernel left them.

        Arrays are passed as pointers to copies of them, scalars and bytes by value.
        """
        function = call(driver.cuModuleGetFunction, self._module, kernel.encode())
        values, pointers = [], []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                pointers.append(call(driver.cuMemAlloc, argument.nbytes))
                data = np.ascontiguousarray(argument)
                call(driver.cuMemcpyHtoD, pointers[-1], data.ctypes.data, data.nbytes)
                values.append(np.uint64(int(pointers[-1])).tobytes())
            else:
                values.append(argument if isinstance(argument, bytes) else argument.tobytes())
        held = [ctypes.create_string_buffer(value, len(value)) for value in values]
        table = (ctypes.c_void_p * len(held))(*(ctypes.addressof(buffer) for buffer in held))
        gx, gy, gz = (*grid, 1, 1)[:3]
        bx, by, bz = (*block, 1, 1)[:3]
        start = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel
        common = (function, gx, gy, gz, bx, by, bz, shared, driver.CUstream(0))
        call(start, *common, ctypes.addressof(table), *(() if cooperative else (0,)))
        call(driver.cuCtxSynchronize)
        results = []
        arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
        for pointer, argument in zip(pointers, arrays, strict=True):
            result = np.empty_like(np.ascontiguousarray(argument))
            call(driver.cuMemcpyDtoH, result.ctypes.data, pointer, result.nbytes)
            call(driver.cuMemFree, pointer)
            results.append(result)
        return results
