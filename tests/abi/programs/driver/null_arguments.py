"""Calls every function of the table that takes pointers, with each pointer NULL in turn.

Prints one line ``symbol parameter result`` for each call; for the call with all pointers the
parameter is ``-``. Arguments: the library, the folder with functions.toml, and the path for an
image file.
"""

import ctypes
import sys
from pathlib import Path

from vgpu_sim.clients.codegen.library import Function, Parameter, load

PTX = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .global .u32 counter;
.visible .global .attribute(.managed) .u32 shared_counter;
.visible .entry kernel(.param .u64 where) { ret; }
"""
SCALARS = {
    "cudaVersion": 13000,
    "len": 16,
    "bytesize": 512,
    "ByteCount": 16,
    "numOptions": 1,
    "numJitOptions": 1,
    "numLibraryOptions": 1,
    "numAttributes": 1,
    "gridDimX": 1,
    "gridDimY": 1,
    "gridDimZ": 1,
    "blockDimX": 1,
    "blockDimY": 1,
    "blockDimZ": 1,
    "blockSize": 32,
    "numBlocks": 1,
    "attr": 8,  # a stream's priority, a pool's peak of use
    "attrib": 1,
    "attribute": 2,
    "type": 1,  # PTX
    "handleType": 1,  # a descriptor
    "size": len(PTX),
    "summaryGranularity": 1,
    "WidthInBytes": 64,
    "Height": 1,
    "ElementSizeBytes": 4,
    "numPrefetchLocs": 1,
    "numAttrs": 1,
    "numOps": 1,
    "dataSize": 4,
    "flags": 0,
    "count": 1,
    "tensorRank": 2,
}
VIRTUAL = {"cuMemCreate", "cuMemAddressReserve", "cuMemSetAccess"}
# Only needed by callers that use an unsupported feature, or the other one of two alternatives.
ABSENT = {"paramsArray", "ctxCreateParams", "extra", "blockSizeToDynamicSMemSize"}
# Graphs, captures and green contexts have tests of their own: their functions need whole graphs.
GRAPHS = ("cuGraph", "cuUserObject", "cuThreadExchange", "cuGreenCtx", "cuDevSm", "cuDevResource")
# So have arrays and textures (tests/abi/driver/arrays).
GRAPHS += ("cuArray", "cuMipmapped", "cuMemcpyAto", "cuMemcpyDtoA", "cuMemcpyHtoA")
GRAPHS += ("cuTex", "cuSurf", "cuModuleGetTexRef", "cuModuleGetSurfRef", "cuDeviceGetTexture1D")
GRAPHS += ("cuParamSetTexRef", "cuImportExternal", "cuExternalMemory", "cuDestroyExternal")
GRAPHS += ("cuPointerSetAttribute", "cuLaunchCooperativeKernelMultiDevice")
CAPTURES = ("Capture", "cuStreamBatchMemOp", "GetDevResource", "GreenCtx")
OPTIMIZATION_LEVEL, BINARY_IS_PRESERVED, MEMORY_TYPE = 7, 1, 2

cuda = ctypes.CDLL(sys.argv[1])
made = load(Path(sys.argv[2]))
kept: list[object] = []  # the objects to which the arguments point


def buffer(content: bytes = b"", size: int = 4096) -> int:
    kept.append(ctypes.create_string_buffer(content, max(size, len(content) + 1)))
    return ctypes.addressof(kept[-1])


def pointers(*values: int) -> int:
    return buffer(b"".join(value.to_bytes(8, "little") for value in values))


def create(name: str, *arguments: object) -> int:
    made = ctypes.c_uint64()
    status = getattr(cuda, name)(ctypes.byref(made), *arguments)
    assert status == 0, (name, status)
    return made.value


assert cuda.cuInit(0) == 0
context = create("cuCtxCreate_v2", 0, 0)
image = buffer(PTX)
module = create("cuModuleLoadData", ctypes.c_uint64(image))
library = create("cuLibraryLoadData", ctypes.c_uint64(image), None, None, 0, None, None, 0)
events = [create("cuEventCreate", 0) for _ in range(2)]
for event in events:
    assert cuda.cuEventRecord(ctypes.c_uint64(event), None) == 0
assert cuda.cuCtxSynchronize() == 0
handles = {
    "CUcontext": context,
    "CUevent": events[0],
    "CUmodule": module,
    "CUlibrary": library,
    "CUfunction": create("cuModuleGetFunction", ctypes.c_uint64(module), b"kernel"),
    "CUkernel": create("cuLibraryGetKernel", ctypes.c_uint64(library), b"kernel"),
    "CUstream": create("cuStreamCreate", 0),
    "CUmemoryPool": create("cuDeviceGetDefaultMemPool", 0),
}
device_memory = create("cuMemAlloc_v2", ctypes.c_uint64(4096))  # the first one: it begins a page
managed = create("cuMemAllocManaged", ctypes.c_uint64(4096), 1)
CHUNK = ctypes.c_uint64(2 << 20)
PROPERTIES = (ctypes.c_int32 * 8)(1, 0, 1, 0)  # memory of the device
physical = create("cuMemCreate", CHUNK, PROPERTIES, ctypes.c_uint64(0))
view = create("cuMemAddressReserve", CHUNK, ctypes.c_uint64(0), ctypes.c_uint64(0), 0)
assert cuda.cuMemMap(ctypes.c_uint64(view), CHUNK, None, ctypes.c_uint64(physical), None) == 0
ptx_file = Path(sys.argv[3])
ptx_file.write_bytes(PTX)


def pointer(function: Function, parameter: Parameter) -> int:
    """Return a valid pointer for the parameter."""
    name = parameter.name
    if name in ABSENT:
        return 0
    if name == "p":
        return create("cuMemHostAlloc", ctypes.c_uint64(512), 0)
    if name == "pCopy":  # nothing, from the device to the device
        place = [2, 0, device_memory, 0]
        side = (
            [0] * 2 + place + [0] if "2D" in function.symbol else [0] * 4 + place + [context, 0, 0]
        )
        return pointers(*side, *side, 0, 0, 0)
    if name == "data" and "Range" in function.symbol and parameter.type == "void *":
        return buffer()
    if name in ("opList", "op"):  # one region of one byte, from the device to the device
        operand = [1, device_memory, 0, 0, 0]
        return pointers(*operand, *operand, 1, 1, 1, 1)
    if name in ("attrs", "attr"):
        return buffer((1).to_bytes(4, "little"))
    if name in ("dsts", "srcs"):
        return pointers(device_memory)
    if name == "globalAddress":
        return device_memory
    if name in ("globalDim", "globalStrides"):
        return pointers(64, 4)
    if name in ("boxDim", "elementStrides"):
        words = (16, 2) if name == "boxDim" else (1, 1)
        return buffer(b"".join(n.to_bytes(4, "little") for n in words))
    if name == "attrsIdxs":
        return pointers(0)
    if name in ("dptrs", "sizes", "prefetchLocIdxs", "devPtr"):
        return pointers({"dptrs": managed, "sizes": 512}.get(name, 0))
    if name == "dataSizes":
        return pointers(4)
    if name == "prefetchLocs":
        return buffer(b"".join(n.to_bytes(4, "little") for n in (1, 0)))
    if name == "prop":
        return buffer(bytes(PROPERTIES))
    if name == "addr":
        return view
    if name in (
        "location",
        "poolProps",
        "map",
        "desc",
    ):  # the device's memory, for reading and writing
        words = (1, 0, 1, 0) if name == "poolProps" else (1, 0, 3)
        return buffer(b"".join(n.to_bytes(4, "little") for n in words))
    if name == "config":  # a grid and a block of one, the legacy stream, no attributes
        return buffer(b"".join(n.to_bytes(4, "little") for n in (1, 1, 1, 1, 1, 1, 0)))
    if name == "data" and parameter.type == "void **":
        return pointers(buffer())
    if name in ("kernelParams", "jitOptionsValues", "optionValues", "libraryOptionValues"):
        return pointers(buffer())
    numbers = {
        "options": OPTIMIZATION_LEVEL,
        "jitOptions": OPTIMIZATION_LEVEL,
        "libraryOptions": BINARY_IS_PRESERVED,
        "attributes": MEMORY_TYPE,
    }
    if name in numbers:
        return buffer(numbers[name].to_bytes(4, "little"))
    if name in ("fname", "fileName", "path"):
        return buffer(str(ptx_file).encode())
    if name in ("image", "code") or (name == "data" and parameter.type == "void *"):
        return image
    if name == "pathToFile":
        return buffer(f"{ptx_file}.log".encode())
    if name == "size":
        return pointers(4096)
    if name == "symbol":
        return buffer(b"cuInit")
    if name == "name" and "const" in parameter.type and not parameter.type.endswith("**"):
        if "Managed" in function.symbol:
            return buffer(b"shared_counter")
        return buffer(b"counter" if "Global" in function.symbol else b"kernel")
    return buffer()


@ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
def do_nothing(*_arguments):
    """Stand for any callback."""


def is_tried(function: Function) -> bool:
    """Return whether the function takes pointers, and is neither a variant nor of a graph."""
    own = function.symbol.startswith(GRAPHS) or any(part in function.symbol for part in CAPTURES)
    return not function.base and not own and any("*" in one.type for one in function.parameters)


def create_link(symbol: str) -> int:
    """Return a new link at each call; it can be completed if the function needs that."""
    state = ctypes.c_uint64()
    assert cuda.cuLinkCreate_v2(0, None, None, ctypes.byref(state)) == 0
    if symbol == "cuLinkComplete":
        given = ctypes.c_void_p(image), ctypes.c_size_t(len(PTX))
        assert cuda.cuLinkAddData_v2(state, 1, *given, b"kernel", 0, None, None) == 0
    return state.value


def argument(function: Function, parameter: Parameter) -> ctypes.c_uint64:
    if "*" in parameter.type:
        value = pointer(function, parameter)
    elif parameter.type in ("CUhostFn", "CUstreamCallback", "CUlogsCallback"):
        value = ctypes.cast(do_nothing, ctypes.c_void_p).value or 0
    elif parameter.type == "CUexecAffinityType":
        value = 0
    elif parameter.type == "CUlinkState":
        value = create_link(function.symbol)
    elif parameter.type in handles:
        value = events[1] if parameter.name == "hEnd" else handles[parameter.type]
    elif function.symbol == "cuMemGetHandleForAddressRange" and parameter.name == "size":
        value = 4096
    elif (
        parameter.type == "CUdeviceptr"
        and ("Range" in function.symbol or "Location" in function.symbol)
        and parameter.name == "devPtr"
    ):
        value = managed
    elif function.symbol in ("cuMemSetAccess", "cuMemGetAccess") and parameter.name == "ptr":
        value = view
    elif function.symbol in VIRTUAL and parameter.name == "size":
        value = CHUNK.value
    elif parameter.type == "CUmemGenericAllocationHandle":
        value = physical
    elif function.symbol == "cuMemAllocManaged" and parameter.name == "flags":
        value = 1
    elif parameter.type == "CUdeviceptr":
        value = device_memory
    else:
        value = SCALARS.get(parameter.name, 0)
    return ctypes.c_uint64(value)


def call(function: Function, without: str) -> int:
    arguments = [
        ctypes.c_uint64(0) if parameter.name == without else argument(function, parameter)
        for parameter in function.parameters
    ]
    # A context that was popped or created must not remain the current one.
    assert cuda.cuCtxSetCurrent(ctypes.c_uint64(context)) == 0
    return getattr(cuda, function.symbol)(*arguments)


for function in made.functions:
    if not is_tried(function):
        continue
    pointed = [one.name for one in function.parameters if "*" in one.type]
    print(function.symbol, "-", call(function, "-"), flush=True)
    for name in pointed:
        if name not in ABSENT:
            print(function.symbol, name, end=" ", flush=True)
            print(call(function, name), flush=True)
