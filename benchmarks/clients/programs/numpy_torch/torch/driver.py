"""Device memory through the CUDA driver: allocations, copies, and the device's properties."""

import ctypes
import functools
import os
import weakref

_MAJOR, _MINOR, _SMS = 75, 76, 16


class AcceleratorError(RuntimeError):
    """A call of the driver failed."""


@functools.cache
def library():
    """Return the driver with the first device's primary context current."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    for result in (
        cuda.cuInit(0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
        cuda.cuCtxSetCurrent(context),
    ):
        check(result)
    return cuda


def check(result):
    """Raise an error unless a call succeeded."""
    if result:
        raise AcceleratorError(f"CUDA error: CUresult {result}")


@functools.cache
def attribute(number):
    """Return an attribute of the device."""
    value = ctypes.c_int()
    check(library().cuDeviceGetAttribute(ctypes.byref(value), number, 0))
    return value.value


def name():
    """Return the device's name."""
    text = ctypes.create_string_buffer(256)
    check(library().cuDeviceGetName(text, 256, 0))
    return text.value.decode()


def capability():
    """Return the compute capability: major and minor; TORCH_CAPABILITY may name a lower one.

    The device then runs code that Triton writes for another target.
    """
    if chosen := os.environ.get("TORCH_CAPABILITY"):
        major, minor = chosen.split(".")
        return int(major), int(minor)
    return attribute(_MAJOR), attribute(_MINOR)


def multiprocessors():
    """Return the number of multiprocessors."""
    return attribute(_SMS)


def synchronize():
    """Wait for all work of the context."""
    check(library().cuCtxSynchronize())


class Memory:
    """One allocation, freed with its last reference."""

    def __init__(self, size):
        address = ctypes.c_uint64()
        check(library().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(size, 1))))
        self.address, self.size = address.value, size
        weakref.finalize(self, library().cuMemFree_v2, ctypes.c_uint64(self.address))

    def read(self):
        """Return the bytes."""
        data = bytearray(self.size)
        if self.size:
            pointer = (ctypes.c_char * self.size).from_buffer(data)
            length = ctypes.c_size_t(self.size)
            check(library().cuMemcpyDtoH_v2(pointer, ctypes.c_uint64(self.address), length))
        return data

    def write(self, data):
        """Replace the bytes."""
        if self.size:
            pointer = (ctypes.c_char * self.size).from_buffer(data)
            length = ctypes.c_size_t(self.size)
            check(library().cuMemcpyHtoD_v2(ctypes.c_uint64(self.address), pointer, length))


class PinnedMemory(Memory):
    """Page-locked memory of the host, which kernels can use."""

    def __init__(self, size):
        pointer = ctypes.c_void_p()
        check(library().cuMemHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)), 0))
        self.address, self.size = pointer.value, size
        weakref.finalize(self, library().cuMemFreeHost, pointer)


class HostMemory:
    """Bytes in the program's own memory, with the interface of `Memory`."""

    def __init__(self, size):
        self.data, self.size = bytearray(size), size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.data)) if size else 0

    def read(self):
        """Return the bytes."""
        return bytearray(self.data)

    def write(self, data):
        """Replace the bytes."""
        self.data[:] = data
