"""NVML through unmodified pynvml: it returns the values that gpud reports to this process."""

import contextlib
import ctypes
import os
import random
import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pynvml
import pytest
from pynvml import NVMLError

from mig.geometry import board
from support.processes import nvml_views
from support.processes.gpud_process import raw_client, wait_until
from vgpu_sim.clients.codegen import library
from vgpu_sim.native import build, catalogue

COMPUTES = Path(__file__).parents[2] / "support" / "scripts" / "compute_until_signal.py"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def rig(libraries, run_dirs):
    with nvml_views.rig(run_dirs) as running:
        yield running


@pytest.fixture
def node(libraries, rig):
    with nvml_views.node_view(libraries, rig):
        yield rig


@pytest.fixture
def slice_holder(libraries, rig, tmp_path):
    """A container that holds the 2g.20gb slice."""
    mounted = rig.mount(tmp_path / "slices", rig.slices["2g.20gb"])
    with nvml_views.slice_view(libraries, mounted):
        yield rig


def code(call, *arguments) -> int:
    """Return the status of a call that must fail."""
    with pytest.raises(NVMLError) as refused:
        call(*arguments)
    return int(refused.value.value)


def compute_instances(of, number: int) -> list:
    """Return the handles of the compute instances of one profile in a GPU instance."""
    room, found = ctypes.c_uint(8), (pynvml.c_nvmlComputeInstance_t * 8)()
    pynvml.nvmlGpuInstanceGetComputeInstances(of, number, found, ctypes.byref(room))
    return list(found[: room.value])


def gpu(index: int = 0):
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def test_nothing_is_answered_before_nvmlinit_and_after_the_last_shutdown(libraries, rig):
    with nvml_views.node_view(libraries, rig):
        pynvml.nvmlInit()
        pynvml.nvmlShutdown()
        assert pynvml.nvmlDeviceGetCount() == 2
    loaded = build.LIBRARIES / "libnvidia-ml.so.1"
    script = (
        "import ctypes\n"
        f"nvml = ctypes.CDLL({str(loaded)!r})\n"
        "n = ctypes.c_uint()\n"
        "print(nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)), nvml.nvmlShutdown())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split() == [b"1", b"1"]


def test_without_a_slice_the_driver_is_not_loaded(libraries, tmp_path):
    (tmp_path / "none").mkdir()
    with (
        pytest.raises(NVMLError) as refused,
        nvml_views.slice_view(libraries, tmp_path / "none"),
    ):
        pass
    assert refused.value.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_a_slice_shows_itself_and_its_gpu(slice_holder):
    uuid = slice_holder.slices["2g.20gb"]
    truth, parent = slice_holder.instance(uuid), slice_holder.gpu(slice_holder.divided)
    assert pynvml.nvmlDeviceGetCount() == 1
    its = gpu()
    assert pynvml.nvmlDeviceGetUUID(its) == slice_holder.divided
    assert pynvml.nvmlDeviceGetName(its) == parent.product
    assert pynvml.nvmlDeviceGetPciInfo(its).busId == parent.pci_bus_id
    assert pynvml.nvmlDeviceGetCudaComputeCapability(its) == parent.capability
    assert pynvml.nvmlDeviceGetMigMode(its) == [1, 1]
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(its, 0)
    assert code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, its, 1) == pynvml.NVML_ERROR_NOT_FOUND
    assert pynvml.nvmlDeviceGetUUID(mig) == uuid
    assert pynvml.nvmlDeviceGetName(mig) == f"{parent.product} MIG 2g.20gb"
    assert pynvml.nvmlDeviceGetGpuInstanceId(mig) == truth.gi_id == 4
    assert pynvml.nvmlDeviceGetComputeInstanceId(mig) == truth.ci_id == 0
    memory = pynvml.nvmlDeviceGetMemoryInfo(mig, version=pynvml.nvmlMemory_v2)
    assert (memory.total, memory.used) == (truth.memory_bytes, 0)
    assert pynvml.nvmlDeviceGetAttributes(mig).multiprocessorCount == truth.multiprocessors
    back = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
    assert pynvml.nvmlDeviceGetUUID(back) == slice_holder.divided
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == uuid


def test_a_slice_shows_nothing_of_others(slice_holder):
    its = gpu()
    for other in (slice_holder.slices["1g.10gb"], slice_holder.whole):
        assert code(pynvml.nvmlDeviceGetHandleByUUID, other) == pynvml.NVML_ERROR_NOT_FOUND
    assert code(pynvml.nvmlDeviceGetMemoryInfo, its) == pynvml.NVML_ERROR_NO_PERMISSION
    assert code(pynvml.nvmlDeviceGetGpuInstanceById, its, 1) == pynvml.NVML_ERROR_NOT_FOUND
    assert code(pynvml.nvmlDeviceGetUtilizationRates, its) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert code(pynvml.nvmlDeviceGetPcieThroughput, its, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_a_slice_s_holder_changes_nothing(slice_holder):
    its, before = gpu(), slice_holder.gpu(slice_holder.divided).instances
    mine = pynvml.nvmlDeviceGetGpuInstanceById(its, 4)
    compute = pynvml.nvmlGpuInstanceGetComputeInstanceById(mine, 0)
    refused = pynvml.NVML_ERROR_NO_PERMISSION
    assert code(pynvml.nvmlDeviceCreateGpuInstance, its, 19) == refused
    assert code(pynvml.nvmlComputeInstanceDestroy, compute) == refused
    assert code(pynvml.nvmlGpuInstanceDestroy, mine) == refused
    assert code(pynvml.nvmlDeviceSetMigMode, its, 0) == refused
    assert code(pynvml.nvmlDeviceSetPersistenceMode, its, 1) == refused
    assert slice_holder.gpu(slice_holder.divided).instances == before


def test_a_whole_gpu_shows_itself(libraries, rig, tmp_path):
    with nvml_views.slice_view(libraries, rig.mount(tmp_path / "s", rig.whole)):
        its, truth = gpu(), rig.gpu(rig.whole)
        assert pynvml.nvmlDeviceGetUUID(its) == rig.whole
        assert pynvml.nvmlDeviceGetMigMode(its) == [0, 0]
        assert pynvml.nvmlDeviceGetMaxMigDeviceCount(its) == 0
        assert pynvml.nvmlDeviceGetMemoryInfo(its).total == truth.memory_bytes
        assert not pynvml.nvmlDeviceIsMigDeviceHandle(its)
        assert pynvml.nvmlDeviceGetMinorNumber(its) == 1
        used = pynvml.nvmlDeviceGetUtilizationRates(its)
        assert (used.gpu, used.memory) == (
            truth.telemetry.gpu_utilization_percent,
            truth.telemetry.memory_utilization_percent,
        )


def test_several_slices_are_seen_together(libraries, rig, tmp_path):
    mounted = rig.mount(tmp_path / "s", rig.slices["3g.40gb"], rig.whole, rig.slices["1g.10gb"])
    with nvml_views.slice_view(libraries, mounted):
        assert [pynvml.nvmlDeviceGetUUID(gpu(i)) for i in range(pynvml.nvmlDeviceGetCount())] == [
            rig.divided,
            rig.whole,
        ]
        found = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), i) for i in range(2)]
        uuids = [pynvml.nvmlDeviceGetUUID(one) for one in found]
        assert uuids == [rig.slices["1g.10gb"], rig.slices["3g.40gb"]]
        assert [pynvml.nvmlDeviceGetIndex(one) for one in found] == [0, 1]


def has_drawn(its, energy_mj: int) -> bool:
    return pynvml.nvmlDeviceGetTotalEnergyConsumption(its) >= energy_mj


def test_the_node_sees_every_gpu_and_its_sensors(node):
    assert pynvml.nvmlDeviceGetCount() == 2
    for index, truth in enumerate(node.inventory().gpus):
        its, said = gpu(index), truth.telemetry
        assert pynvml.nvmlDeviceGetUUID(its) == truth.uuid
        assert pynvml.nvmlDeviceGetPowerManagementLimit(its) == said.power_limit_mw
        assert pynvml.nvmlDeviceGetMaxClockInfo(its, 1) == said.max_sm_clock_mhz
        assert pynvml.nvmlDeviceGetMaxClockInfo(its, 2) == said.max_memory_clock_mhz
        thresholds = [pynvml.nvmlDeviceGetTemperatureThreshold(its, one) for one in (0, 1)]
        assert thresholds == [said.shutdown_temperature_c, said.slowdown_temperature_c]
        # NVML may use a view of up to 0.1 s ago, so a sample may have been taken in between.
        wait_until(partial(has_drawn, its, said.energy_mj), 120)
        assert abs(pynvml.nvmlDeviceGetTemperature(its, 0) - said.temperature_c) <= 1
        assert pynvml.nvmlDeviceGetMemoryInfo(its).total == truth.memory_bytes


def test_profiles_are_the_board_s(node):
    its, chosen = gpu(), board(nvml_views.BOARD)
    found = {}
    for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfo(its, number, version=2)
        except pynvml.NVMLError_NotSupported:
            continue
        room, where = ctypes.c_uint(16), (pynvml.c_nvmlGpuInstancePlacement_t * 16)()
        pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(its, info.id, where, ctypes.byref(room))
        found[info.name] = (
            (info.id, info.sliceCount, info.instanceCount, info.memorySizeMB),
            [(one.start, one.size) for one in where[: room.value]],
        )
    assert found == {
        f"MIG {one.name}": (
            (one.driver_id, one.compute_slices, one.max_count, one.memory_bytes >> 20),
            [(start, one.size) for start in one.starts],
        )
        for one in chosen.profiles
    }


def test_instances_are_made_and_destroyed_by_gpud_s_rules(node):
    its = gpu()
    remaining = pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity
    assert remaining(its, 19) == 1
    made = pynvml.nvmlDeviceCreateGpuInstance(its, 19)
    info = pynvml.nvmlGpuInstanceGetInfo(made)
    assert (info.placement.start, info.placement.size, info.profileId) == (1, 1, 19)
    truth = next(one for one in node.gpu(node.divided).instances if one.start == 1)
    assert (truth.profile, truth.gi_id, truth.ci_id) == ("1g.10gb", info.id, -1)
    # A GPU instance is not a MIG device until it has a compute instance.
    uuid = truth.uuid
    assert code(pynvml.nvmlDeviceGetHandleByUUID, uuid) == pynvml.NVML_ERROR_NOT_FOUND
    assert remaining(its, 19) == 0
    full = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    assert code(pynvml.nvmlDeviceCreateGpuInstance, its, 19) == full
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(made, 0)
    device = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    assert pynvml.nvmlDeviceGetGpuInstanceId(device) == info.id
    inner = pynvml.nvmlComputeInstanceGetInfo(compute)
    assert (inner.id, inner.profileId, inner.placement.size) == (0, 0, 1)
    assert code(pynvml.nvmlGpuInstanceDestroy, made) == pynvml.NVML_ERROR_IN_USE
    pynvml.nvmlComputeInstanceDestroy(compute)
    assert code(pynvml.nvmlDeviceGetMemoryInfo, device) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    pynvml.nvmlGpuInstanceDestroy(made)
    assert code(pynvml.nvmlGpuInstanceGetInfo, made) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert all(one.start != 1 for one in node.gpu(node.divided).instances)


def test_a_gpu_instance_is_divided_into_several_devices(node):
    its = gpu()
    three = next(one for one in node.gpu(node.divided).instances if one.profile == "3g.40gb")
    outer = pynvml.nvmlDeviceGetGpuInstanceById(its, three.gi_id)
    (full,) = compute_instances(outer, 2)
    pynvml.nvmlComputeInstanceDestroy(full)
    fits = pynvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity
    assert [fits(outer, number) for number in (0, 1, 2)] == [3, 1, 1]
    made = pynvml.nvmlGpuInstanceCreateComputeInstance(outer, 0)
    place = pynvml.c_nvmlComputeInstancePlacement_t(2, 1)
    other = pynvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement(outer, 0, ctypes.byref(place))
    assert [fits(outer, number) for number in (0, 1, 2)] == [1, 0, 0]
    full_up = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES
    for number in (1, 2):
        refused = code(pynvml.nvmlGpuInstanceCreateComputeInstance, outer, number)
        assert refused == full_up
    found = [pynvml.nvmlComputeInstanceGetInfo(one) for one in compute_instances(outer, 0)]
    assert [(one.id, one.profileId, one.placement.start) for one in found] == [(0, 0, 0), (2, 0, 2)]
    assert {one.placement.size for one in found} == {1}
    # Both are in the same GPU instance. Its handle is unchanged, and it cannot be destroyed now.
    assert {ctypes.addressof(one.gpuInstance.contents) for one in found} == {
        ctypes.addressof(outer.contents)
    }
    assert pynvml.nvmlGpuInstanceGetInfo(outer).id == three.gi_id
    assert code(pynvml.nvmlGpuInstanceDestroy, outer) == pynvml.NVML_ERROR_IN_USE
    truth = [one for one in node.gpu(node.divided).instances if one.gi_id == three.gi_id]
    assert [(one.profile, one.compute_start, one.ci_id) for one in truth] == [
        ("1c.3g.40gb", 0, 0),
        ("1c.3g.40gb", 2, 2),
    ]
    devices = [pynvml.nvmlDeviceGetHandleByUUID(one.uuid) for one in truth]
    for device, one in zip(devices, truth, strict=True):
        assert pynvml.nvmlDeviceGetName(device).endswith(" MIG 1c.3g.40gb")
        has = pynvml.nvmlDeviceGetAttributes(device)
        assert (has.gpuInstanceSliceCount, has.computeInstanceSliceCount) == (3, 1)
        assert (has.multiprocessorCount, has.sharedCopyEngineCount) == (16, 3)
        assert has.memorySizeMB == three.memory_bytes >> 20
        assert pynvml.nvmlDeviceGetGpuInstanceId(device) == three.gi_id
        assert pynvml.nvmlDeviceGetComputeInstanceId(device) == one.ci_id
    with raw_client(
        str(node.node.slices_dir / truth[0].uuid), bytes.fromhex(node.node.token_hex)
    ) as client:
        assert (client.open().status, client.allocate(4 << 20)) == (0, 0)
        used = [pynvml.nvmlDeviceGetMemoryInfo(device).used for device in devices]
        assert used == [4 << 20] * 2
    wait_until(lambda: not node.instance(truth[0].uuid).contexts)
    pynvml.nvmlComputeInstanceDestroy(made)
    pynvml.nvmlComputeInstanceDestroy(other)
    pynvml.nvmlGpuInstanceCreateComputeInstance(outer, 2)
    (again,) = [one for one in node.gpu(node.divided).instances if one.gi_id == three.gi_id]
    assert (again.profile, again.ci_id) == ("3g.40gb", 0)
    node.slices["3g.40gb"] = again.uuid


def test_mig_is_turned_on_and_off_while_nothing_is_in_the_way(node):
    whole = gpu(1)
    pynvml.nvmlDeviceSetMigMode(whole, 1)
    assert pynvml.nvmlDeviceGetMigMode(whole) == [1, 1]
    made = pynvml.nvmlDeviceCreateGpuInstance(whole, 0)
    assert code(pynvml.nvmlDeviceSetMigMode, whole, 0) == pynvml.NVML_ERROR_IN_USE
    pynvml.nvmlGpuInstanceDestroy(made)
    pynvml.nvmlDeviceSetMigMode(whole, 0)
    assert node.gpu(node.whole).instances[0].profile == "whole"


def device_functions() -> list[str]:
    """Return every implemented function whose first argument is a handle."""
    functions = library.load(catalogue.CLIENTS / "libnvml").functions
    handles = ("nvmlDevice_t", "nvmlGpuInstance_t", "nvmlComputeInstance_t", "nvmlEventSet_t")
    return [
        one.symbol
        for one in functions
        if one.kind and one.parameters and one.parameters[0].type in handles
    ]


def test_what_was_never_a_handle_is_an_invalid_argument(node):
    """Every function gets addresses of all kinds; none dereferences a handle."""
    loaded = ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1"))
    chance = random.Random(1)
    real = ctypes.cast(gpu(), ctypes.c_void_p).value or 0
    instance = ctypes.cast(pynvml.nvmlDeviceGetGpuInstanceById(gpu(), 4), ctypes.c_void_p).value
    room = (ctypes.c_uint64 * 512)()
    wrong = {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH}
    assert len(device_functions()) > 90
    for name in device_functions():
        call = getattr(loaded, name)
        forged = [0, 1, real + 4096, real - 1, chance.getrandbits(64), chance.getrandbits(47)]
        if "nvmlDevice" in name:
            forged.append(instance or 0)  # a GPU instance's handle is not a device's
        for handle in forged:
            arguments = [ctypes.byref(room, 512 * i) for i in range(5)]
            assert call(ctypes.c_void_p(handle), *arguments) in wrong, (name, hex(handle))


def test_no_result_can_be_written_to_nowhere(node):
    loaded = ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1"))
    its = ctypes.cast(gpu(), ctypes.c_void_p)
    for name in device_functions():
        if name.startswith("nvmlDeviceGet"):
            status = getattr(loaded, name)(its, *([None] * 5))
            assert status == pynvml.NVML_ERROR_INVALID_ARGUMENT, name


@contextlib.contextmanager
def computing(rig, libraries, mounted: Path, uuid: str):
    """A program that launches kernels on an instance until it is stopped."""
    environment = os.environ | {
        "TESSERA_SLICES_DIR": str(mounted),
        "TESSERA_TOKEN": rig.node.token_hex,
        "LD_LIBRARY_PATH": str(libraries),
        "PYTHONPATH": f"{EXAMPLES.parent}:{EXAMPLES}",
    }
    with subprocess.Popen(
        [sys.executable, COMPUTES], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:

        def memory() -> int:
            assert program.poll() is None
            return sum(one.memory_bytes for one in rig.instance(uuid).contexts)

        try:
            wait_until(memory, 120)
            yield program
        finally:
            program.communicate()


def test_processes_are_listed_with_their_memory(libraries, rig, tmp_path):
    """While a program computes on a slice, NVML lists it on this slice but not on another one."""
    uuid = rig.slices["1g.10gb"]
    mine = rig.mount(tmp_path / "mine", uuid)
    theirs = rig.mount(tmp_path / "theirs", rig.slices["2g.20gb"])
    with computing(rig, libraries, mine, uuid) as program:
        with nvml_views.slice_view(libraries, mine):
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
            (found,) = pynvml.nvmlDeviceGetComputeRunningProcesses(mig)
            assert found.pid == program.pid
            assert found.gpuInstanceId == rig.instance(uuid).gi_id
            assert found.usedGpuMemory > 0
            assert pynvml.nvmlDeviceGetMemoryInfo(mig).used >= found.usedGpuMemory
            assert [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())] == [
                program.pid
            ]
            assert pynvml.nvmlSystemGetProcessName(found.pid) == sys.executable
        with nvml_views.slice_view(libraries, theirs):
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(), 0)
            assert pynvml.nvmlDeviceGetComputeRunningProcesses(mig) == []
        with nvml_views.node_view(libraries, rig):
            listed = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())
            assert [one.pid for one in listed] == [program.pid]


def test_utilisation_of_processes_is_that_of_the_time_since_the_last_call(libraries, rig, tmp_path):
    mounted = rig.mount(tmp_path / "whole", rig.whole)
    view = nvml_views.slice_view(libraries, mounted)
    with computing(rig, libraries, mounted, rig.whole) as program, view:
        with contextlib.suppress(pynvml.NVMLError_NotFound):
            pynvml.nvmlDeviceGetProcessUtilization(gpu(), 0)
        before = _busy_ns(rig)
        wait_until(lambda: _busy_ns(rig) > before, 120)
        (found,) = pynvml.nvmlDeviceGetProcessUtilization(gpu(), 0)
        assert found.pid == program.pid
        assert 0 <= found.smUtil <= 100


def _busy_ns(rig) -> int:
    return sum(one.busy_ns for one in rig.instance(rig.whole).contexts)


def test_an_xid_is_an_event_and_nothing_else_is(node):
    chosen = pynvml.nvmlEventSetCreate()
    try:
        xid = pynvml.nvmlEventTypeXidCriticalError
        assert pynvml.nvmlDeviceGetSupportedEventTypes(gpu()) == xid
        with pytest.raises(NVMLError):
            pynvml.nvmlDeviceRegisterEvents(gpu(), pynvml.nvmlEventTypeClock, chosen)
        pynvml.nvmlDeviceRegisterEvents(gpu(), xid, chosen)
        assert code(pynvml.nvmlEventSetWait, chosen, 1) == pynvml.NVML_ERROR_TIMEOUT
        node.call(
            "inject_fault",
            gpu_uuid=node.divided,
            instance=node.slices["1g.10gb"],
            id="one",
            kind="xid",
            xid=13,
            count=1,
            duration_ms=0,
        )
        event = pynvml.nvmlEventSetWait(chosen, 60_000)
        assert (event.eventType, event.eventData) == (xid, 13)
        assert (event.gpuInstanceId, event.computeInstanceId) == (7, 0)
        assert pynvml.nvmlDeviceGetUUID(event.device) == node.divided
        assert code(pynvml.nvmlEventSetWait, chosen, 1) == pynvml.NVML_ERROR_TIMEOUT
    finally:
        pynvml.nvmlEventSetFree(chosen)
    assert code(pynvml.nvmlEventSetWait, chosen, 1) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_threads_ask_at_once(node):
    wrong: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(20):
                for index in range(2):
                    pynvml.nvmlDeviceGetMemoryInfo(gpu(index))
                    pynvml.nvmlDeviceGetTemperature(gpu(index), 0)
        except BaseException as err:  # noqa: BLE001 - reported in the main thread
            wrong.append(err)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


def test_versions_are_those_of_libcuda(node):
    assert pynvml.nvmlSystemGetCudaDriverVersion() == 13000
    release = pynvml.nvmlSystemGetDriverVersion()
    branch = pynvml.nvmlSystemGetDriverBranch().branch
    assert branch == f"r{release.split('.')[0]}_00"
    assert re.fullmatch(r"580\.\d+\.\d+", release)
    assert pynvml.nvmlSystemGetNVMLVersion() == f"13.{release}"


def test_a_gpu_off_the_bus_is_lost_until_it_is_back(node):
    its, fault = gpu(1), {"gpu_uuid": node.whole, "id": "gone"}
    node.call("inject_fault", instance="", kind="off_bus", xid=0, count=1, duration_ms=0, **fault)
    lost = pynvml.NVML_ERROR_GPU_IS_LOST
    assert code(pynvml.nvmlDeviceGetMemoryInfo, its) == lost
    assert code(pynvml.nvmlDeviceGetTemperature, its, 0) == lost
    assert code(pynvml.nvmlDeviceGetHandleByUUID, node.whole) == lost
    assert code(pynvml.nvmlDeviceGetHandleByPciBusId, "0000:02:00.0") == lost
    assert pynvml.nvmlDeviceGetHandleByUUID(node.divided)
    node.call("clear_faults", **fault)
    assert pynvml.nvmlDeviceGetMemoryInfo(its).total
    assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(node.whole)) == node.whole


def test_memory_errors_are_counted(node):
    its = gpu(1)
    assert pynvml.nvmlDeviceGetEccMode(its) == [1, 1]
    before = pynvml.nvmlDeviceGetTotalEccErrors(its, 1, 1)
    fault = {"gpu_uuid": node.whole, "id": "row", "instance": "", "duration_ms": 0}
    node.call("inject_fault", kind="ecc_uncorrected", xid=0, count=2, **fault)
    assert pynvml.nvmlDeviceGetTotalEccErrors(its, 1, 1) == before + 2
    truth = node.gpu(node.whole).ecc
    assert pynvml.nvmlDeviceGetRemappedRows(its)[1] == truth.remapped_rows
