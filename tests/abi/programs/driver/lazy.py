"""Modules whose kernels are compiled when they are looked up; prints the results as JSON."""

import json
import os
import threading

from cuda.bindings import driver

TEXT = (
    "//"
    + "." * (64 << 10)
    + """
.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .u32 shared = 40;
.visible .entry small(.param .u64 a, .param .u32 b)
.maxntid 64
{ .shared .align 4 .b8 own[48]; .reg .b64 %d; mov.u64 %d, own; ret; }
.visible .entry refused() { pmevent 1; ret; }
.visible .entry other() { ret; }
.visible .entry greedy(.param .u64 p)
{ .reg .b64 %d; .reg .b32 %r<60>; ld.param.u64 %d, [p]; LOADS STORES ret; }
BROKEN
"""
)
TEXT = TEXT.replace("LOADS", "".join(f"ld.global.b32 %r{i}, [%d+{4 * i}];" for i in range(60)))
TEXT = TEXT.replace("STORES", "".join(f"st.global.b32 [%d+{4 * i}], %r{i};" for i in range(60)))
BROKEN = ".visible .entry _Z6brokenv() { mov.b32 %undeclared, 1; }"
found: dict[str, object] = {}


def status_of(name: str, *arguments: object) -> int:
    return int(getattr(driver, name)(*arguments)[0])


def call(name: str, *arguments: object) -> object:
    status, *values = getattr(driver, name)(*arguments)
    assert int(status) == 0, (name, status)
    return values[0] if values else None


def image(text: str) -> bytes:
    return text.encode() + b"\0"


def look_up_from_threads(whole: bytes) -> list[int]:
    """Threads look up kernels while another unloads their module or library."""
    statuses: list[int] = []

    def look_up(kind: str, owner: object, kernel: bytes) -> None:
        statuses.append(status_of(kind, owner, kernel))

    for load, look, unload in (
        ("cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload"),
        ("cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload"),
    ):
        more = ([], [], 0, [], [], 0) if load == "cuLibraryLoadData" else ()
        for _ in range(5):
            owner = call(load, whole, *more)
            names = [b"small", b"small", b"other", b"refused"]
            threads = [threading.Thread(target=look_up, args=(look, owner, n)) for n in names]
            for one in threads:
                one.start()
            call(unload, owner)
            for one in threads:
                one.join()
    return sorted(set(statuses))


def main() -> None:
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    context = call("cuDevicePrimaryCtxRetain", device)
    call("cuCtxSetCurrent", context)
    found["mode"] = int(call("cuModuleGetLoadingMode"))
    found["broken"] = status_of("cuModuleLoadData", image(TEXT.replace("BROKEN", BROKEN)))
    if os.environ.get("CUDA_MODULE_LOADING") == "EAGER":
        return
    attribute = driver.CUfunction_attribute
    module = call("cuModuleLoadData", image(TEXT.replace("BROKEN", BROKEN)))
    small = call("cuModuleGetFunction", module, b"small")
    found["small"] = [
        call("cuFuncGetAttribute", getattr(attribute, f"CU_FUNC_ATTRIBUTE_{name}"), small)
        for name in ("MAX_THREADS_PER_BLOCK", "SHARED_SIZE_BYTES")
    ]
    found["parameters"] = call("cuFuncGetParamCount", small)
    found["same"] = int(small) == int(call("cuModuleGetFunction", module, b"small"))
    found["statuses"] = [
        status_of("cuModuleGetFunction", module, name)
        for name in (b"refused", b"refused", b"_Z6brokenv", b"missing")
    ]
    found["global"] = status_of("cuModuleGetGlobal", module, b"shared")
    found["count_of_broken"] = status_of("cuModuleGetFunctionCount", module)
    whole = image(TEXT.replace("BROKEN", ""))
    module = call("cuModuleLoadData", whole)
    found["count"] = call("cuModuleGetFunctionCount", module)
    functions = call("cuModuleEnumerateFunctions", 3, module)
    found["names"] = [call("cuFuncGetName", one).decode() for one in functions[:2]]
    limit = driver.CUjit_option.CU_JIT_MAX_REGISTERS
    limited = call("cuModuleLoadDataEx", whole, 1, [limit], [38])
    registers = attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    found["registers"] = [
        call("cuFuncGetAttribute", registers, call("cuModuleGetFunction", one, b"greedy"))
        for one in (module, limited)
    ]
    library = call("cuLibraryLoadData", whole, [], [], 0, [], [], 0)
    found["kernels"] = call("cuLibraryGetKernelCount", library)
    kernel = call("cuLibraryGetKernel", library, b"other")
    found["kernel"] = call("cuKernelGetName", kernel).decode()
    found["launched"] = status_of("cuLaunchKernel", kernel, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)
    call("cuCtxSynchronize")
    found["threads"] = look_up_from_threads(whole)


main()
print(json.dumps(found))
