"""GPUs without MIG: their attributes, and which of several devices programs see."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mig.geometry import BOARDS
from vgpu_sim.cli.clients.standalone import StandaloneNode, StandaloneOptions
from vgpu_sim.config import program_environment

GPUS = [f"GPU-{n}{n}a1b2c3-1111-4111-8111-11111111111{n}" for n in (7, 3, 5)]  # not by name
H100 = BOARDS["h100-80gb"]
ALREADY_ENABLED, NOT_ENABLED = -704, -705  # as ``call`` returns them
INVALID_VALUE, INVALID_DEVICE, NO_DEVICE, INVALID_CONTEXT = -1, -101, -100, -201
ILLEGAL_ADDRESS = -700

ASK = """
import json
from cuda.bindings import driver as d
def call(name, *arguments):
    status, *values = getattr(d, name)(*arguments)
    return -int(status) if int(status) or not values else values[0]
def text(value):
    return value.split(b"\\0")[0].decode() if isinstance(value, bytes) else value
found = {"status": int(d.cuInit(0)[0])}
if not found["status"]:
    found["devices"] = [bytes(call("cuDeviceGetUuid_v2" if hasattr(d, "cuDeviceGetUuid_v2")
        else "cuDeviceGetUuid", n).bytes).hex() for n in range(call("cuDeviceGetCount"))]
"""


@pytest.fixture(scope="module")
def three(libraries: Path, run_dirs: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Two whole GPUs with a divided one between them, and the UUID of its only slice."""
    options = StandaloneOptions(backend="interp", threads=2)
    with StandaloneNode([run_dirs], options) as node, node.admin() as admin:
        gpus = [{"uuid": u, "index": n, "board": H100.key} for n, u in enumerate(GPUS)]
        admin.call("configure", gpus=gpus, budget_bytes=0)
        made = [
            admin.call("create_instance", gpu_uuid=gpu, profile=profile, start=start)
            for gpu, profile, start in (
                (GPUS[0], "whole", 0),
                (GPUS[1], "1g.10gb", 3),
                (GPUS[2], "whole", 0),
            )
        ]
        assert [one["uuid"] for one in made][::2] == GPUS[::2]
        found = dict(program_environment(node.slices_dir, node.token_hex, libraries))
        found.pop("CUDA_VISIBLE_DEVICES", None)
        yield found, made[1]["uuid"]


def ask(environment: dict[str, str], more: str = "", **changes: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", f"{ASK}{more}\nprint(json.dumps(found, default=int))"],
        env={**environment, **changes},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def hexadecimal(uuid: str) -> str:
    return uuid.partition("-")[2].replace("-", "")


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("0,2", [0, 2]),
        ("2,0", [2, 0]),
        ("0", [0]),
        (f"{GPUS[2]},{GPUS[0]}", [2, 0]),
        ("GPU-55,gpu-77A1", [2, 0]),
        ("55a1b2", [2]),
        ("0,9,2", [0]),
        ("GPU-", []),
        ("0,0", []),
        ("", []),
        # A process that sees a MIG device sees nothing else.
        (None, ["slice"]),
        ("1", ["slice"]),
        ("0,1,2", ["slice"]),
        ("@slice", ["slice"]),
        ("GPU-33a1", ["slice"]),  # a divided GPU stands for its first slice
        (f"MIG-{GPUS[0][4:]}", []),
        # The name before R470: GPU, number of the GPU instance (1g.10gb@3: 10), compute instance.
        (f"MIG-{GPUS[1]}/10/0", ["slice"]),
        (f"mig-gpu-{GPUS[1][4:].upper()}/10/0", ["slice"]),
        *(
            (f"MIG-{GPUS[1]}{end}", [])
            for end in ("/10/1", "/9/0", "/10", "/10/", "/10/0/0", "/a/0")
        ),
        *((f"MIG-{name}", []) for name in (GPUS[1], f"{GPUS[0]}/10/0", f"{GPUS[1][:-1]}/10/0")),
    ],
)
def test_which_of_several_a_process_sees(
    three: tuple[dict[str, str], str], visible: str | None, expected: list[Any]
) -> None:
    environment, slice_uuid = three
    changes = {}
    if visible is not None:
        changes["CUDA_VISIBLE_DEVICES"] = slice_uuid if visible == "@slice" else visible
    found = ask(environment, **changes)
    uuids = [slice_uuid if one == "slice" else GPUS[one] for one in expected]
    assert found.get("devices", []) == [hexadecimal(uuid) for uuid in uuids]
    assert found["status"] == (0 if expected else -NO_DEVICE)


def test_what_device_query_prints_is_the_boards(three: tuple[dict[str, str], str]) -> None:
    more = """
attributes = d.CUdevice_attribute
found["name"] = text(call("cuDeviceGetName", 128, 1))
found["total"] = call("cuDeviceTotalMem", 1)
found["bus"] = [text(call("cuDeviceGetPCIBusId", 13, n)) for n in (0, 1)]
found["short"] = call("cuDeviceGetPCIBusId", 12, 0)
found["by_bus"] = [call("cuDeviceGetByPCIBusId", t) for t in
    (b"0000:03:00.0", b"03:00.0", b"0000:03:00", b"0:1:0.0", b"0000:02:00.0", b"3", b"", b" 03:00.0")]
for name in ("MULTIPROCESSOR_COUNT", "PCI_BUS_ID", "PCI_DEVICE_ID", "PCI_DOMAIN_ID",
             "GLOBAL_MEMORY_BUS_WIDTH", "L2_CACHE_SIZE", "COMPUTE_CAPABILITY_MAJOR",
             "MAX_THREADS_PER_MULTIPROCESSOR", "WARP_SIZE", "CLOCK_RATE", "ASYNC_ENGINE_COUNT"):
    found[name] = call("cuDeviceGetAttribute",
        getattr(attributes, "CU_DEVICE_ATTRIBUTE_" + name), 1)
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert found["name"] == "NVIDIA H100 80GB HBM3"
    assert found["total"] == H100.memory_bytes == 81559 << 20
    assert found["bus"] == ["0000:01:00.0", "0000:03:00.0"]
    assert found["short"] == INVALID_VALUE
    none = [INVALID_DEVICE, INVALID_VALUE, INVALID_VALUE, INVALID_VALUE]
    assert found["by_bus"] == [1, 1, 1, 0, *none]
    assert found["MULTIPROCESSOR_COUNT"] == 132
    assert [found[f"PCI_{part}_ID"] for part in ("DOMAIN", "BUS", "DEVICE")] == [0, 3, 0]
    assert (found["GLOBAL_MEMORY_BUS_WIDTH"], found["L2_CACHE_SIZE"]) == (5120, 50 << 20)
    assert (found["COMPUTE_CAPABILITY_MAJOR"], found["WARP_SIZE"]) == (9, 32)
    assert (found["MAX_THREADS_PER_MULTIPROCESSOR"], found["CLOCK_RATE"]) == (2048, 1980000)
    assert found["ASYNC_ENGINE_COUNT"] == 3  # measured on an H100 80GB HBM3, driver 580.159


def test_two_gpus_work_side_by_side(
    three: tuple[dict[str, str], str],
) -> None:
    more = """
contexts, memory = [], []
for device in (0, 1):
    found.setdefault("before", []).append([int(v) for v in d.cuDevicePrimaryCtxGetState(device)])
    contexts.append(call("cuDevicePrimaryCtxRetain", device))
    call("cuCtxSetCurrent", contexts[-1])
    memory.append(call("cuMemAlloc", 1 << 20))
    found.setdefault("free", []).append([int(v) for v in d.cuMemGetInfo()][1:])
    call("cuMemsetD8", memory[-1], device + 5, 1 << 20)
for device in (1, 0):
    call("cuCtxSetCurrent", contexts[device])
    copy = bytearray(4)
    call("cuMemcpyDtoH", copy, memory[device], 4)
    found.setdefault("copies", []).append(list(copy))
    found.setdefault("active", []).append([int(v) for v in d.cuDevicePrimaryCtxGetState(device)])
found["ipc"] = type(call("cuIpcGetMemHandle", memory[0])).__name__
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert found["before"] == [[0, 0, 0]] * 2
    assert [active for _, _, active in found["active"]] == [1, 1]
    assert [total for _, total in found["free"]] == [H100.memory_bytes] * 2
    assert all(0 < free < total for free, total in found["free"])
    assert found["copies"] == [[6] * 4, [5] * 4]
    assert found["ipc"] == "CUipcMemHandle"


PEERS = """
import ctypes
PTX = b'''.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 word) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [word];
  cvta.to.global.u64 %rd2, %rd1;
  atom.global.add.u32 %r1, [%rd2], 1;
  ret;
}\\0'''
contexts, kernels = [], []
for device in (0, 1):
    contexts.append(call("cuDevicePrimaryCtxRetain", device))
    call("cuCtxSetCurrent", contexts[-1])
    kernels.append(call("cuModuleGetFunction", call("cuModuleLoadData", PTX), b"add"))
def use(device):
    call("cuCtxSetCurrent", contexts[device])
def word(device, allocate="cuMemAlloc", *more):
    use(device)
    address = call(allocate, 4 << 20, *more)
    call("cuMemsetD8", address, 0, 4)
    call("cuCtxSynchronize")  # no stream of another device waits for the memset
    return address
def add(device, address):
    use(device)
    call("cuLaunchKernel", kernels[device], 1, 1, 1, 32, 1, 1, 0, 0,
         ((int(address),), (ctypes.c_uint64,)), 0)
    return call("cuCtxSynchronize")
def value(device, address):
    use(device)
    copy = bytearray(4)
    return call("cuMemcpyDtoH", copy, address, 4) or int.from_bytes(copy, "little")
"""


def test_kernels_access_the_memory_of_another_whole_gpu(
    three: tuple[dict[str, str], str],
) -> None:
    more = f"""{PEERS}
first = word(0)
small = call("cuMemAlloc", 256)
call("cuMemsetD8", small, 0, 4)
found["can"] = [call("cuDeviceCanAccessPeer", 1, n) for n in (0, 1, 2)]
kinds = d.CUdevice_P2PAttribute
found["links"] = [call("cuDeviceGetP2PAttribute", kind, 0, n) for n in (1, 0) for kind in (
    kinds.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
    kinds.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)]
use(1)
found["wrong"] = [call("cuCtxEnablePeerAccess", contexts[1], 0),
                  call("cuCtxEnablePeerAccess", contexts[0], 1),
                  call("cuCtxDisablePeerAccess", contexts[0])]
free = [int(v) for v in d.cuMemGetInfo()][1]
found["enable"] = [call("cuCtxEnablePeerAccess", contexts[0], 0) for _ in range(2)]
second = word(0)
found["ran"] = [add(1, address) for address in (first, small, second)] + [add(0, first)]
found["values"] = [value(0, address) for address in (first, small, second)]
use(1)
found["charged"] = free - [int(v) for v in d.cuMemGetInfo()][1]
use(0)
before = [int(v) for v in d.cuMemGetInfo()][1]
found["freed"] = call("cuMemFree", second)
found["returned"] = [int(v) for v in d.cuMemGetInfo()][1] - before
pinned = call("cuMemHostAlloc", 4096, 0)
pinned_word = ctypes.c_uint32.from_address(int(pinned))
pinned_word.value = 40
managed = call("cuMemAllocManaged", 4096, 1)
managed_word = ctypes.c_uint32.from_address(int(managed))
managed_word.value = 50
found["host"] = [add(n, address) for address in (pinned, managed) for n in (0, 1)]
found["host"] += [pinned_word.value, managed_word.value]
use(1)
found["disable"] = [call("cuCtxDisablePeerAccess", contexts[0]) for _ in range(2)]
found["ended"] = [add(1, first), add(0, first), value(0, first)]
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert found["can"] == [1, 0, INVALID_DEVICE]
    assert found["links"] == [1, 1, INVALID_DEVICE, INVALID_DEVICE]
    assert found["wrong"] == [INVALID_CONTEXT, INVALID_VALUE, NOT_ENABLED]
    assert found["enable"] == [0, ALREADY_ENABLED]
    assert found["ran"] == [0] * 4
    assert found["values"] == [64, 32, 32]
    assert found["charged"] == 0, "only to its GPU's own part of the run's memory"
    assert (found["freed"], found["returned"]) == (0, 4 << 20)
    assert found["host"] == [0, 0, 0, 0, 40 + 64, 50 + 64]
    assert found["disable"] == [0, NOT_ENABLED]
    assert found["ended"] == [ILLEGAL_ADDRESS, 0, 96], "only the accessor's context fails"


def test_memory_of_a_pool_or_graph_is_open_to_the_devices_that_its_access_names(
    three: tuple[dict[str, str], str],
) -> None:
    more = f"""{PEERS}
use(0)
pool = call("cuDeviceGetDefaultMemPool", 0)
stream = call("cuStreamCreate", 0)
address = call("cuMemAllocFromPoolAsync", 4 << 20, pool, stream)
call("cuMemsetD8Async", address, 0, 4, stream)
call("cuStreamSynchronize", stream)
def access(flags):
    wanted = d.CUmemAccessDesc()
    wanted.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = 1
    wanted.flags = flags
    status = call("cuMemPoolSetAccess", pool, [wanted], 1)
    return [status, int(call("cuMemPoolGetAccess", pool, wanted.location))]
flags = d.CUmemAccess_flags
found["open"] = access(flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
later = call("cuMemAllocFromPoolAsync", 4 << 20, pool, stream)
call("cuMemsetD8Async", later, 0, 4, stream)
call("cuStreamSynchronize", stream)
found["ran"] = [add(1, address), add(1, later), value(0, address), value(0, later)]
use(1)
other = call("cuStreamCreate", 0)
abroad = call("cuMemAllocFromPoolAsync", 4 << 20, pool, other)
found["ordinal"] = int(call("cuPointerGetAttribute",
    d.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, abroad))
call("cuMemcpyHtoD", abroad, bytes(4), 4)
found["abroad"] = [add(1, abroad), value(1, abroad), call("cuMemFreeAsync", abroad, other)]
properties = d.CUmemPoolProps()
properties.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
properties.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
properties.location.id = 0
own = call("cuMemPoolCreate", properties)
kept = call("cuMemAllocFromPoolAsync", 4096, own, other)
call("cuMemcpyHtoD", kept, bytes(4), 4)
found["kept"] = [call("cuMemPoolDestroy", own), value(1, kept), call("cuMemFreeAsync", kept, other)]
use(0)
graph = call("cuGraphCreate", 0)
node = d.CUDA_MEM_ALLOC_NODE_PARAMS()
node.poolProps.allocType = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
node.poolProps.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
node.poolProps.location.id = 0
node.bytesize = 4 << 20
descriptions = [d.CUmemAccessDesc() for _ in range(2)]
for number, one in enumerate(descriptions):
    one.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    one.location.id = number
    one.flags = flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
node.accessDescs, node.accessDescCount = descriptions, 2
added = d.cuGraphAddMemAllocNode(graph, None, 0, node)
found["node"] = int(added[0])
got = call("cuGraphMemAllocNodeGetParams", added[1])
found["described"] = int(got.accessDescCount)
call("cuGraphLaunch", call("cuGraphInstantiate", graph, 0), stream)
call("cuMemsetD8Async", node.dptr, 0, 4, stream)
call("cuStreamSynchronize", stream)
found["graph"] = [add(1, node.dptr), value(0, node.dptr)]
use(0)
found["closed"] = access(flags.CU_MEM_ACCESS_FLAGS_PROT_NONE)
found["ended"] = [add(1, address), value(0, address)]
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert found["open"] == [0, 3]
    assert found["ran"] == [0, 0, 32, 32]
    assert (found["ordinal"], found["abroad"]) == (0, [0, 32, 0])
    assert found["kept"] == [0, 0, 0], "a pool ends with its last allocation"
    assert (found["node"], found["described"], found["graph"]) == (0, 2, [0, 32])
    assert found["closed"] == [0, 0]
    assert found["ended"] == [ILLEGAL_ADDRESS, 32]


def test_a_failed_peer_does_not_hinder_the_owner(three: tuple[dict[str, str], str]) -> None:
    more = f"""{PEERS}
kept = word(0)
use(1)
found["enabled"] = call("cuCtxEnablePeerAccess", contexts[0], 0)
found["failed"] = add(1, 64)
later = word(0)
found["owner"] = [add(0, later), value(0, later), call("cuMemFree", kept)]
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert (found["enabled"], found["failed"]) == (0, ILLEGAL_ADDRESS)
    assert found["owner"] == [0, 32, 0]
