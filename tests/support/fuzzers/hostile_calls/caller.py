"""The process that makes hostile calls.

Arguments: the library (``libcuda``, ``libcudart12`` or ``libcudart13``), its path, the seed, how many
calls, the path of a file of 64 KiB in which the name of the current call and the number of calls are
stored before each call. It prints results that no status of the library has.
"""

import ctypes
import mmap
import os
import sys
from pathlib import Path

from support.fuzzers.hostile_calls.arguments import Arguments
from vgpu_sim.clients.codegen.library import Function, Library, load
from vgpu_sim.native import catalogue

IMAGE = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter;
.visible .entry kernel(.param .u64 where) { ret; }
"""
FRESH_EVERY = 3000
# A new worker, or a compilation, costs as much as a thousand other calls.
_COSTLY = (
    "CtxCreate",
    "PrimaryCtx",
    "ModuleLoad",
    "LibraryLoad",
    "cuLink",
    "DeviceReset",
    "ThreadExit",
)
_COSTLY_SHARE = 0.002
# What waits for something that only the caller can bring, as it is defined; and the interface of
# compilers, whose handles are addresses.
_WAITING = ("cuStreamWaitValue", "cuStreamBatchMemOp", "cuGraphAddBatchMemOp", "BatchMemOpNode")
_COMPILERS = "__cuda"


def library_of(name: str) -> Library:
    """Return the description of a library by its short name."""
    folder = name.rstrip("0123456789")
    return load(catalogue.CLIENTS / folder, int(name.removeprefix(folder) or 0))


def functions_of(library: Library) -> list[Function]:
    """Return the functions that are called."""
    return [
        one
        for one in library.functions
        if one.kind
        and one.returns == ""
        and not one.symbol.startswith(_COMPILERS)
        and not any(part in one.symbol for part in _WAITING)
    ]


class Caller:
    """Calls functions of one library; ``driver`` is libcuda, which makes objects to start with."""

    def __init__(self, library: Library, path: Path, seed: int) -> None:
        functions = functions_of(library)
        self._costly = [f for f in functions if any(part in f.symbol for part in _COSTLY)]
        self._functions = [f for f in functions if f not in self._costly]
        self._statuses = {one.code for one in library.statuses} | {0}
        self._loaded = ctypes.CDLL(str(path))
        self._driver = ctypes.CDLL("libcuda.so.1")
        if self._driver.cuInit(0) != 0:
            raise SystemExit("no device: run this under `tessera run`")
        self._arguments = Arguments(seed, IMAGE)
        self._register()

    def _register(self) -> None:
        """Register a kernel and a variable as a compiler's code does."""
        if not hasattr(self._loaded, "__cudaRegisterFatBinary"):
            return
        self._image = ctypes.create_string_buffer(IMAGE)
        self._wrapper = (ctypes.c_uint64 * 3)(
            0x466243B1 | 1 << 32, ctypes.addressof(self._image), 0
        )
        self._stubs = ctypes.create_string_buffer(16)
        kernel = ctypes.addressof(self._stubs)
        register = getattr(self._loaded, "__cudaRegisterFatBinary")
        register.restype = ctypes.c_void_p
        image = ctypes.c_void_p(register(self._wrapper))
        names = ctypes.c_void_p(kernel), ctypes.c_void_p(kernel), b"kernel", -1, *[None] * 5
        getattr(self._loaded, "__cudaRegisterFunction")(image, *names)
        variable = ctypes.c_void_p(kernel + 8)
        size = ctypes.c_size_t(4)
        getattr(self._loaded, "__cudaRegisterVar")(
            image, variable, variable, b"counter", 0, size, 0, 0
        )
        self._arguments.host_names += [kernel, kernel + 8]

    def _make(self, kind: str, name: str, *arguments: object) -> int:
        made = ctypes.c_uint64()
        if getattr(self._driver, name)(ctypes.byref(made), *arguments) == 0 and made.value:
            self._arguments.keep(kind, made.value)
        return made.value

    def begin(self) -> None:
        """End all work, and make new objects of every kind."""
        self._driver.cuDevicePrimaryCtxReset_v2(0)
        while self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_uint64())) == 0:
            pass
        for context in self._arguments.handles_of("CUcontext"):
            self._driver.cuCtxDestroy_v2(ctypes.c_uint64(context))
        self._arguments.forget()
        context = ctypes.c_uint64()
        if self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) != 0:
            raise SystemExit("no context")
        self._driver.cuCtxSetCurrent(context)
        self._arguments.keep("CUcontext", context.value)
        self._make("CUcontext", "cuCtxCreate_v2", 0, 0)
        self._driver.cuCtxSetCurrent(context)
        for flags in (0, 1):
            self._make("CUstream", "cuStreamCreate", flags)
            self._make("CUevent", "cuEventCreate", 2 * flags)
        module = self._make("CUmodule", "cuModuleLoadData", IMAGE)
        library = self._make("CUlibrary", "cuLibraryLoadData", IMAGE, None, None, 0, None, None, 0)
        self._make("CUfunction", "cuModuleGetFunction", ctypes.c_uint64(module), b"kernel")
        self._make("CUkernel", "cuLibraryGetKernel", ctypes.c_uint64(library), b"kernel")
        graph = self._make("CUgraph", "cuGraphCreate", 0)
        for _ in range(2):
            self._make("CUgraphNode", "cuGraphAddEmptyNode", ctypes.c_uint64(graph), None, 0)
        self._make("CUgraphExec", "cuGraphInstantiateWithFlags", ctypes.c_uint64(graph), 0)
        self._make("CUmemoryPool", "cuDeviceGetDefaultMemPool", 0)
        link = ctypes.c_uint64()
        if self._driver.cuLinkCreate_v2(0, None, None, ctypes.byref(link)) == 0:
            self._arguments.keep("CUlinkState", link.value)
        for name in ("CUdevice", "CUuserObject", "CUmemGenericAllocationHandle"):
            self._arguments.keep(name, 0)
        for size in (64, 4096, 1 << 20):
            self._make("CUdeviceptr", "cuMemAlloc_v2", ctypes.c_size_t(size))
        self._make("CUdeviceptr", "cuMemAllocManaged", ctypes.c_size_t(4096), 1)
        self._make("CUdeviceptr", "cuMemHostAlloc", ctypes.c_size_t(4096), 0)

    def run(self, calls: int, progress: mmap.mmap) -> None:
        """Make calls; the progress names the one that crashes."""
        for number in range(calls):
            if number % FRESH_EVERY == 0:
                self.begin()
            function = self._arguments.choose(self._functions, self._costly, _COSTLY_SHARE)
            arguments = self._arguments.make(function)
            text = f"{number} {function.symbol} {[getattr(a, 'value', '?') for a in arguments]}"
            note = text.encode()[:4000]
            progress[: len(note) + 1] = note + b"\n"
            status = getattr(self._loaded, function.symbol)(*arguments)
            if status == 0:
                self._arguments.read_results(function, arguments)
            elif status not in self._statuses:
                print(f"status {status}: {text}", flush=True)
        progress[:5] = b"done\n"


def main() -> None:
    """Call as the command line says."""
    name, path, seed, calls, place = sys.argv[1:]
    with open(place, "r+b") as file:
        progress = mmap.mmap(file.fileno(), 0)
    caller = Caller(library_of(name), Path(path), int(seed))
    caller.run(int(calls), progress)
    os._exit(0)


if __name__ == "__main__":
    main()
