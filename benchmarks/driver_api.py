"""The few driver API calls that a benchmark needs, through ctypes."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

Argument = ctypes.c_uint64 | ctypes.c_int | ctypes.Array[ctypes.c_char]
Array = npt.NDArray[Any]
_DEFAULT_SHARED_BYTES, _MAX_DYNAMIC_SHARED = 48 << 10, 8  # CU_FUNC_ATTRIBUTE_...
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # values of CUtensorMapSwizzle


class CudaError(Exception):
    """A call returned something other than CUDA_SUCCESS."""


class Driver:
    """One context on the first device; raises CudaError."""

    def __init__(self) -> None:
        self._lib = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", ctypes.c_uint(0))
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def upload(self, array: Array) -> ctypes.c_uint64:
        """Return device memory that holds a copy of ``array``."""
        pointer = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(array.nbytes))
        self._call(
            "cuMemcpyHtoD_v2",
            pointer,
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
        )
        return pointer

    def download(self, pointer: ctypes.c_uint64, into: Array) -> None:
        """Copy device memory to ``into``."""
        self._call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(into.ctypes.data),
            pointer,
            ctypes.c_size_t(into.nbytes),
        )

    def fill(self, pointer: ctypes.c_uint64, value: int, count: int) -> None:
        """Fill bytes of device memory."""
        self._call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(value), ctypes.c_size_t(count))

    def free(self, pointer: ctypes.c_uint64) -> None:
        """Free device memory."""
        self._call("cuMemFree_v2", pointer)

    def module(self, ptx: bytes) -> ctypes.c_void_p:
        """Load a module."""
        module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        return module

    def function(
        self, module: ctypes.c_void_p, name: str, shared_bytes: int = 0
    ) -> ctypes.c_void_p:
        """Return one of a module's kernels, which may have this much dynamic shared memory."""
        function = ctypes.c_void_p()
        self._call(
            "cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode())
        )
        if shared_bytes > _DEFAULT_SHARED_BYTES:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        return function

    def map_tensor(
        self,
        type_: int,
        pointer: ctypes.c_uint64,
        columns_rows_pitch: tuple[int, int, int],
        box: tuple[int, int],
        swizzle_bytes: int,
    ) -> ctypes.Array[ctypes.c_char]:
        """Return the tensor map of a matrix for copies of ``box`` (columns, rows)."""
        encoded = ctypes.create_string_buffer(_MAP_BYTES + _MAP_ALIGNMENT)
        start = -ctypes.addressof(encoded) % _MAP_ALIGNMENT
        columns, rows, pitch = columns_rows_pitch
        self._call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(ctypes.addressof(encoded) + start),
            type_,
            ctypes.c_uint32(2),
            pointer,
            (ctypes.c_uint64 * 2)(columns, rows),
            (ctypes.c_uint64 * 1)(pitch),
            (ctypes.c_uint32 * 2)(*box),
            (ctypes.c_uint32 * 2)(1, 1),
            0,  # not interleaved
            _SWIZZLES[swizzle_bytes],
            0,  # no hint for the L2 cache
            0,  # zeros outside the tensor
        )
        raw = encoded.raw[start : start + _MAP_BYTES]
        return ctypes.create_string_buffer(raw, _MAP_BYTES)

    def kernel(self, ptx: bytes, name: str) -> ctypes.c_void_p:
        """Load a module and return one of its kernels."""
        return self.function(self.module(ptx), name)

    def run(
        self,
        kernel: ctypes.c_void_p,
        grid: tuple[int, int],
        block: tuple[int, int],
        arguments: Sequence[Argument],
    ) -> None:
        """Launch and wait."""
        self.prepare(kernel, (*grid, 1, *block, 1), arguments)()
        self.wait()

    def prepare(
        self,
        kernel: ctypes.c_void_p,
        grid_and_block: tuple[int, int, int, int, int, int],
        arguments: Sequence[Argument],
        shared_bytes: int = 0,
    ) -> Callable[[], None]:
        """Return a function that repeats the launch without packing arguments again."""
        pointers = (ctypes.c_void_p * len(arguments))(
            *(ctypes.cast(ctypes.byref(a), ctypes.c_void_p) for a in arguments)
        )
        shape = [ctypes.c_uint(v) for v in (*grid_and_block, shared_bytes)]
        launch = self._lib.cuLaunchKernel

        def once(_alive: Sequence[Argument] = arguments) -> None:
            if status := launch(kernel, *shape, None, pointers, None):
                raise CudaError(f"cuLaunchKernel: {status}")

        return once

    def wait(self) -> None:
        """Wait until everything launched has ended."""
        self._call("cuStreamSynchronize", None)

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._lib, name)(*arguments)
        if status != 0:
            raise CudaError(f"{name}: {status}")
