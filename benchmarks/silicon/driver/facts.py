"""Facts of the device and the driver: attributes, limits, granularities, texts and versions."""

import ctypes
import re
from pathlib import Path
from typing import Any

from benchmarks.silicon.driver import kernels
from benchmarks.silicon.driver.answers import Api, Out, driver, runtime, words
from benchmarks.silicon.driver.context import rig

ATTRIBUTES = range(-1, 160)
PCI = (33, 34, 50)  # bus, device, domain: identities
VERSIONS = (*range(11000, 11090, 10), *range(12000, 12100, 10), 13000, 13010)
OLDER = (0, 2000, 3010, 4000, 5050, 6050, 7000, 8000, 9000, 10000, 10020)
TABLE = "vgpu_sim/clients/libcuda/functions.toml"


def names() -> list[str]:
    """Return the names of driver functions from the table beside the tool."""
    path = Path(__file__).parents[3] / TABLE
    text = path.read_text(encoding="ascii")
    return sorted(set(re.findall(r'name = "(cu\w+)"', text)))


def read_text(api: Api, name: str, code: int) -> list[Any]:
    """Return the status and the text that a function of an error code returns."""
    out = Out()
    status, _ = api.call(name, code, out)
    text = ctypes.cast(out.value, ctypes.c_char_p).value if not status and out.value else None
    return [status, text.decode() if text else None]


def device_attributes(api: Api) -> dict[str, Any]:
    """Return every attribute of device 0 but those that identify it."""
    facts = {}
    for number in ATTRIBUTES:
        if number not in PCI:
            out = Out("i32")
            status, _ = api.call("cuDeviceGetAttribute", out, number, 0)
            facts[str(number)] = [status, out.show()]
    return facts


def properties(api: Api) -> dict[str, Any]:
    """Return the name, the memory, the capability and the properties of device 0."""
    name = ctypes.create_string_buffer(256)
    total, major, minor, version, count = (
        Out(form) for form in ("u64", "i32", "i32", "i32", "i32")
    )
    old = words(*range(16))
    statuses = [
        api.call("cuDeviceGetName", name, 256, 0)[0],
        api.call("cuDeviceTotalMem_v2", total, 0)[0],
        api.call("cuDeviceComputeCapability", major, minor, 0)[0],
        api.call("cuDriverGetVersion", version)[0],
        api.call("cuDeviceGetCount", count)[0],
        api.call("cuDeviceGetProperties", old, 0)[0],
    ]
    facts: dict[str, Any] = {
        "statuses": statuses,
        "name": name.value.decode(),
        "total": total.show(),
        "capability": [major.show(), minor.show()],
        "version": version.show(),
        "properties": list(old),
    }
    for affinity in range(-1, 3):
        out = Out("i32")
        status, _ = api.call("cuDeviceGetExecAffinitySupport", out, affinity, 0)
        facts[f"affinity {affinity}"] = [status, out.show()]
    for size in range(9):
        for kind in (0x01, 0x02, 0x03, 0x08, 0x09, 0x0A, 0x10, 0x20, 0xB0, 0xC0, 0x77):
            out = Out("u64")
            call = "cuDeviceGetTexture1DLinearMaxWidth"
            status, _ = api.call(call, out, kind, size, 0)
            facts[f"linear {kind:#x} {size}"] = [status, out.show()]
    return facts


def limits(_: Api) -> dict[str, Any]:
    """Return the limits, the priorities and the flags of a new context."""
    api, facts = rig().api, {}
    for number in range(-1, 16):
        out = Out("u64")
        facts[f"limit {number}"] = [api.call("cuCtxGetLimit", out, number)[0], out.show()]
    least_priority, greatest_priority = Out("i32"), Out("i32")
    status, _outs = api.call("cuCtxGetStreamPriorityRange", least_priority, greatest_priority)
    facts["priorities"] = [status, least_priority.show(), greatest_priority.show()]
    for name in ("cuCtxGetFlags", "cuCtxGetCacheConfig", "cuCtxGetSharedMemConfig"):
        out = Out("i32")
        facts[name] = [api.call(name, out)[0], out.show()]
    for context in (0, rig().context):
        out = Out("u32")
        status, _outs = api.call("cuCtxGetApiVersion", context, out)
        facts[f"version {bool(context)}"] = [status, out.show()]
    return facts


def granularity(_: Api) -> dict[str, Any]:
    """Return the granularities of virtual memory, and the attributes of the default pool."""
    api, facts = rig().api, {}
    for kind in (0, 1, 2):
        for handles in (0, 1, 2, 4, 8, 9):
            for place in (0, 1, 2, 3, 4):
                for option in (0, 1, 2):
                    out = Out("u64")
                    allocation_properties = words(kind, handles, place, 0, 0, 0, 0, 0)
                    call = "cuMemGetAllocationGranularity"
                    status, _outs = api.call(call, out, allocation_properties, option)
                    facts[f"{kind} {handles} {place} {option}"] = [status, out.show()]
    pool = api.make("cuDeviceGetDefaultMemPool", 0)
    for number in range(-1, 16):
        out = Out("u64")
        out.cell.value = 0
        status, _outs = api.call("cuMemPoolGetAttribute", pool, number, out)
        facts[f"pool {number}"] = [status, out.show()]
    for number in range(-1, 6):
        out = Out("u64")
        out.cell.value = 0
        status, _outs = api.call("cuDeviceGetGraphMemAttribute", 0, number, out)
        facts[f"graph memory {number}"] = [status, out.show()]
    return facts


def functions(_: Api) -> dict[str, Any]:
    """Return the attributes and parameters of the kernels."""
    api, facts = rig().api, {}
    for name in (*kernels.NAMES, "free", "pair", "explicit", "most4", "shared_pair"):
        is_own = name in kernels.NAMES
        function = rig().function(name) if is_own else rig().cluster_kernel(name)
        for number in range(-1, 20):
            out = Out("i32")
            status, _outs = api.call("cuFuncGetAttribute", out, number, function)
            facts[f"{name} {number}"] = [status, out.show()]
        for index in range(4):
            offset, size = Out("u64"), Out("u64")
            status, _outs = api.call("cuFuncGetParamInfo", function, index, offset, size)
            facts[f"{name} parameter {index}"] = [status, offset.show(), size.show()]
    return facts


def error_texts(api: Api) -> dict[str, Any]:
    """Return the name and the text of every error code."""
    return {
        str(code): read_text(api, "cuGetErrorName", code) + read_text(api, "cuGetErrorString", code)
        for code in range(-1, 1002)
    }


def runtime_texts(_: Api) -> dict[str, Any]:
    """Return the name and the text of every error code of the runtime."""
    texts, api = {}, runtime()
    if api is None:
        return {"runtime": "none"}
    for name in ("cudaGetErrorName", "cudaGetErrorString"):
        function = getattr(api.library, name)
        function.restype = ctypes.c_char_p
        for code in range(-1, 1002):
            texts[f"{name} {code}"] = (function(code) or b"NULL").decode()
    return texts


def runtime_attributes(_: Api) -> dict[str, Any]:
    """Return the runtime's attributes, and the words of cudaDeviceProp that identify nothing."""
    api = runtime()
    if api is None:
        return {"runtime": "none"}
    facts: dict[str, Any] = {}
    for number in ATTRIBUTES:
        if number not in PCI:
            out = Out("i32")
            status, _outs = api.call("cudaDeviceGetAttribute", out, number, 0)
            facts[str(number)] = [status, out.show()]
    for name in ("cudaRuntimeGetVersion", "cudaDriverGetVersion", "cudaGetDeviceCount"):
        out = Out("i32")
        facts[name] = [api.call(name, out)[0], out.show()]
    room = ctypes.create_string_buffer(2048)
    name = "cudaGetDeviceProperties"
    status, _outs = api.call(f"{name}_v2" if hasattr(api.library, f"{name}_v2") else name, room, 0)
    facts["properties"] = [status, room.raw[:256].split(b"\0")[0].decode()]
    for offset in range(288, 1024, 4):  # behind the name, the UUID and the LUID
        facts[f"word {offset}"] = int.from_bytes(room.raw[offset : offset + 4], "little")
    for limit in range(-1, 8):
        out = Out("u64")
        facts[f"limit {limit}"] = [api.call("cudaDeviceGetLimit", out, limit)[0], out.show()]
    return facts


def entry_points(api: Api, found_names: list[str]) -> dict[str, Any]:
    """Return which version and variant of each name cuGetProcAddress finds."""
    facts = {}
    base = {}
    for name in found_names:
        for suffix in ("", "_v2", "_v3", "_v4", "_v5", "_ptsz", "_v2_ptsz", "_ptds", "_v2_ptds"):
            function = getattr(api.library, name + suffix, None)
            if function is not None:
                address = ctypes.cast(function, ctypes.c_void_p).value
                base.setdefault(address, name + suffix)
        for version in (*OLDER, *VERSIONS):
            for flags in (0, 1, 2, 3, 4):
                if flags > 2 and version % 1000:
                    continue
                out, result = Out(), Out("u32")
                call = "cuGetProcAddress_v2"
                status, _ = api.call(call, name.encode(), out, version, flags, result)
                where = "unwritten" if out.show() == "unwritten" else out.value
                symbol = base.get(where, "other" if where else "null")
                facts[f"{name} {version} {flags}"] = [status, symbol, result.show()]
    return facts


def exports(api: Api) -> dict[str, Any]:
    """Return which symbols of the table the library exports."""
    path = Path(__file__).parents[3] / TABLE
    symbols = re.findall(r'symbol = "(cu\w+)"', path.read_text(encoding="ascii"))
    return {name: hasattr(api.library, name) for name in symbols}


SECTIONS = {
    "attributes": device_attributes,
    "properties": properties,
    "limits": limits,
    "granularity": granularity,
    "functions": functions,
    "texts": error_texts,
    "runtime texts": runtime_texts,
    "runtime attributes": runtime_attributes,
    "exports": exports,
}
PIECES = 8


def questions() -> list[str]:
    """Return the sections."""
    return [*SECTIONS, *(f"entry points/{i}" for i in range(PIECES))]


def ask(question: str) -> dict[str, Any]:
    """Return the facts of a section."""
    api = driver()
    if not question.startswith(("texts", "exports")):
        api.call("cuInit", 0)
    if question.startswith("entry points"):
        return entry_points(api, names()[int(question.split("/")[1]) :: PIECES])
    return SECTIONS[question](api)
