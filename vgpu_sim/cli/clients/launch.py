"""The program that ``tessera ptx run`` runs: it loads a file, launches one kernel, and prints the
kernel's buffers.

It is an ordinary client of the driver API. Its only argument is a JSON document that describes
the launch.
"""

import array
import ctypes
import json
import sys
from collections.abc import Sequence
from typing import Any

_SHOWN = 16
_CODES = {
    "u8": "B",
    "s8": "b",
    "u16": "H",
    "s16": "h",
    "u32": "I",
    "s32": "i",
    "u64": "Q",
    "s64": "q",
    "f32": "f",
    "f64": "d",
}
TYPES = tuple(_CODES)


class DriverError(Exception):
    """A driver call failed; the message has the CUDA error's name."""


class _Driver:
    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            error_name = ctypes.c_char_p()
            self._library.cuGetErrorName(status, ctypes.byref(error_name))
            raise DriverError(f"{name}: {(error_name.value or b'?').decode()} ({status})")


def _data(type_: str, count: int, value: str) -> "array.array[Any]":
    """Return an array of ``count`` elements: all equal to ``value``, or 0, 1, 2, ... if that is
    "iota".
    """
    code = _CODES[type_]
    read = float if type_.startswith("f") else lambda text: int(str(text), 0)
    if value == "iota":
        return array.array(code, [read(str(n)) for n in range(count)])
    return array.array(code, [read(value or "0")]) * count


def _load(driver: _Driver, image: bytes) -> ctypes.c_void_p:
    """Load a module from an image. Raises DriverError, after printing the driver's log to standard
    error.
    """
    module, log = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 16)
    options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, and the buffer's size in bytes
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    try:
        driver.call("cuModuleLoadDataEx", ctypes.byref(module), image, 2, options, values)
    except DriverError:
        sys.stderr.write(log.value.decode(errors="replace"))
        raise
    return module


def run(launch: dict[str, Any]) -> None:
    """Perform the launch that ``tessera ptx run`` describes, and print the buffers.

    Raises:
        DriverError: a driver call failed.
        OSError: the file cannot be read, or there is no driver.
    """
    with open(launch["file"], "rb") as file:
        image = file.read() + b"\0"
    driver = _Driver()
    context, function, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    driver.call("cuInit", 0)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    module = _load(driver, image)
    name = launch["kernel"].encode()
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, name)
    values: list[Any] = []
    buffers: list[tuple[str, array.array[Any], ctypes.c_uint64]] = []
    for type_, count, value in launch["arguments"]:
        data = _data(type_, count or 1, value)
        size = len(data) * data.itemsize
        if count:
            address = ctypes.c_uint64()
            driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            driver.call("cuMemcpyHtoD_v2", address, data.tobytes(), ctypes.c_size_t(size))
            buffers.append((type_, data, address))
            values.append(address)
        else:
            values.append((ctypes.c_char * size).from_buffer_copy(data.tobytes()))
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(argument) for argument in values))
    grid, block, shared_bytes = launch["grid"], launch["block"], launch["shared"]
    driver.call("cuLaunchKernel", function, *grid, *block, shared_bytes, None, pointers, None)
    driver.call("cuCtxSynchronize")
    for number, (type_, data, address) in enumerate(buffers):
        size = len(data) * data.itemsize
        copied_buffer = ctypes.create_string_buffer(size)
        driver.call("cuMemcpyDtoH_v2", copied_buffer, address, ctypes.c_size_t(size))
        elements = array.array(data.typecode, copied_buffer.raw)
        listed_elements = ", ".join(
            f"{element:.9g}" if type_[0] == "f" else str(element) for element in elements[:_SHOWN]
        )
        suffix = f", ... ({len(elements)} in all)" if len(elements) > _SHOWN else ""
        print(f"buffer {number}, {type_}: {listed_elements}{suffix}")  # noqa: T201 - what it is for


def main(arguments: Sequence[str]) -> int:
    """Run the launch that the arguments describe; if it fails, print one line on stderr and return
    1.
    """
    try:
        run(json.loads(arguments[0]))
    except (DriverError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
