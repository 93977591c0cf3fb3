"""The driver API through ctypes, for a process that runs many cases in one context."""

import ctypes
from typing import Any

_LOG_BYTES = 4096
_INFO_BUFFER, _ERROR_BUFFER, _ERROR_BYTES = 3, 5, 6
_PARAMETERS, _PARAMETER_BYTES, _END = 1, 2, 0
_CLUSTER_ATTRIBUTE = 4
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
_PLAIN_SHARED_BYTES, _PLAIN_CLUSTER = 48 << 10, 8


class CallError(Exception):
    """A call of the driver returned an error."""

    def __init__(self, call: str, code: int, log: str = "") -> None:
        super().__init__(f"{call}: {code}")
        self.call, self.code, self.log = call, code, log


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = [
        *((f"{kind}_{axis}", ctypes.c_uint) for kind in ("grid", "block") for axis in "xyz"),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    ]


class Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` whose value is up to 16 numbers."""

    _fields_ = [
        ("id", ctypes.c_uint),
        ("padding", ctypes.c_uint),
        ("value", ctypes.c_uint * 16),
    ]


class Driver:
    """A context on the first device, and an area of its memory for buffers."""

    def __init__(self, area_bytes: int = 64 << 20) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        device = ctypes.c_int()
        self.context = ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.call("cuCtxSetCurrent", self.context)
        self.area, self.area_bytes = self.allocate(area_bytes), area_bytes

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver. Raises CallError."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise CallError(name, code)

    def read_number(self, name: str, *arguments: Any) -> int:
        """Return the number that a function stores at its first argument."""
        number = ctypes.c_int()
        self.call(name, ctypes.byref(number), *arguments)
        return number.value

    def device_name(self) -> str:
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, 0)
        return name.value.decode()

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def write(self, address: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, size: int) -> bytes:
        into = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", into, ctypes.c_uint64(address), ctypes.c_size_t(size))
        return into.raw

    def clear(self, address: int, size: int) -> None:
        self.call(
            "cuMemsetD8_v2", ctypes.c_uint64(address), ctypes.c_ubyte(0), ctypes.c_size_t(size)
        )

    def load(self, text: str) -> ctypes.c_void_p:
        """Load a module. Raises CallError with the compiler's log."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_BUFFER, _ERROR_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        code = self._library.cuModuleLoadDataEx(
            ctypes.byref(module), text.encode() + b"\0", 2, options, values
        )
        if code:
            raise CallError("cuModuleLoadDataEx", code, log.value.decode(errors="replace"))
        return module

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(handle), module, name.encode())
        return handle

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: list[int],
        block: list[int],
        cluster: list[int] | None,
        shared_bytes: int,
        parameters: bytes,
        offsets: list[int] | None = None,
    ) -> None:
        """Launch a kernel with a block of parameters, and wait for its end.

        With the ``offsets`` of parameters in the block, the driver copies each to its own place: on
        a GPU, one with an alignment of 64 bytes may be elsewhere than after its predecessor.
        """
        if shared_bytes > _PLAIN_SHARED_BYTES:
            self.call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared_bytes)
        block_of = ctypes.create_string_buffer(parameters or b"\0", max(len(parameters), 1))
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(
            _PARAMETERS, ctypes.addressof(block_of), _PARAMETER_BYTES, ctypes.addressof(size), _END
        )
        config = LaunchConfig(*grid, *block, shared_bytes)
        attribute = Attribute(_CLUSTER_ATTRIBUTE)
        if cluster:
            attribute.value[:3] = cluster
            config.attributes, config.attribute_count = ctypes.addressof(attribute), 1
            if cluster[0] * cluster[1] * cluster[2] > _PLAIN_CLUSTER:
                self.call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
        each = [ctypes.addressof(block_of) + offset for offset in offsets or ()]
        pointers = (ctypes.c_void_p * len(each))(*each) if each else None
        launch_extra = extra if parameters and not each else None
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, launch_extra)
        self.call("cuStreamSynchronize", None)
