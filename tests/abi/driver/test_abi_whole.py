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
NOT_ENABLED, PEER_UNSUPPORTED = -705, -217  # as ``call`` returns them
INVALID_VALUE, INVALID_DEVICE, NO_DEVICE = -1, -101, -100

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
    assert found["ASYNC_ENGINE_COUNT"] == H100.whole.engines.copy


def test_two_gpus_work_side_by_side_and_reach_none_of_each_others_memory(
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
found["peer"] = [call("cuDeviceCanAccessPeer", 0, 1), call("cuDeviceCanAccessPeer", 0, 2)]
found["enable"] = call("cuCtxEnablePeerAccess", contexts[1], 0)
found["disable"] = call("cuCtxDisablePeerAccess", contexts[1])
link = d.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED
found["link"] = [call("cuDeviceGetP2PAttribute", link, 0, n) for n in (1, 0)]
found["ipc"] = type(call("cuIpcGetMemHandle", memory[0])).__name__
"""
    found = ask(three[0], more, CUDA_VISIBLE_DEVICES="0,2")
    assert found["before"] == [[0, 0, 0]] * 2
    assert [active for _, _, active in found["active"]] == [1, 1]
    assert [total for _, total in found["free"]] == [H100.memory_bytes] * 2
    assert all(0 < free < total for free, total in found["free"])
    assert found["copies"] == [[6] * 4, [5] * 4]
    assert found["peer"] == [0, INVALID_DEVICE]
    assert found["link"] == [0, INVALID_DEVICE]
    assert (found["enable"], found["disable"]) == (PEER_UNSUPPORTED, NOT_ENABLED)
    assert found["ipc"] == "CUipcMemHandle"
