"""NVML's handling of reports: extreme indices, unusual orders, pairs of objects, all fields."""

import contextlib
import ctypes
import re
import time
import uuid
from collections.abc import Callable

import pynvml
import pytest
from pynvml import NVMLError

from support.processes import nvml_reports, nvml_views
from support.processes.nvml_reports import Report, gpu, instance
from vgpu_sim.hal.management.nvml import (
    NO_RECORD,
    GpuRecord,
    ProcessRecord,
    ProfileRecord,
    XidRecord,
)
from vgpu_sim.native import build, catalogue

FIELDS = catalogue.CLIENTS / "libnvml" / "devices" / "fields.c"


@pytest.fixture
def open_nvml(libraries, tmp_path):
    """A function that serves a report on the management socket, and opens NVML on that socket."""
    with contextlib.ExitStack() as stack:

        def open_on(report: Report) -> Report:
            path = tmp_path / "management.sock"
            stack.enter_context(nvml_reports.serve(path, report))
            stack.enter_context(nvml_views.load_nvml(libraries, MANAGEMENT_SOCKET=str(path)))
            return report

        yield open_on


def code(call: Callable[..., object], *arguments: object) -> int:
    with pytest.raises(NVMLError) as refused:
        call(*arguments)
    return int(refused.value.value)


def process(of: int, pid: int, busy_ns: int = 0) -> ProcessRecord:
    return ProcessRecord(instance=of, pid=pid, memory_bytes=pid << 20, busy_ns=busy_ns)


def xid(of: int, inside: int, number: int, sequence: int) -> XidRecord:
    return XidRecord(gpu=of, instance=inside, sequence=sequence, xid=number)


def make_report_with(name: str, value: int) -> Report:
    """Return a report of two GPUs, two instances and a profile; one index has the given value."""
    report = Report(
        [gpu(0), gpu(1)],
        [instance(0, 0, 0, (1, 0)), instance(1, 1, 0, (1, 0))],
        [process(0, 10)],
        [ProfileRecord(name=b"1g.10gb")],
        [xid(0, NO_RECORD, 13, 1)],
    )
    match name:
        case "instance's GPU":
            report.instances[1].gpu = value
        case "process's instance":
            report.processes[0].instance = value
        case "Xid's GPU":
            report.xids[0].gpu = value
        case "Xid's instance":
            report.xids[0].instance = value
        case "first profile":
            report.gpus[0].profile_count, report.gpus[0].first_profile = 1, value
        case "profiles":
            report.gpus[0].profile_count = value
        case "starts":
            report.profiles[0].start_count = value
        case "compute profiles":
            report.profiles[0].compute_count = value
        case "compute starts":
            report.profiles[0].compute_count = 1
            report.profiles[0].computes[0].start_count = value
    return report


@pytest.mark.parametrize(
    ("name", "largest"),
    [
        ("instance's GPU", 1),
        ("process's instance", 1),
        ("Xid's GPU", 1),
        ("Xid's instance", 1),
        ("first profile", 0),
        ("profiles", 1),
        ("starts", 16),
        ("compute profiles", 8),
        ("compute starts", 8),
    ],
)
def test_an_index_may_name_the_last_record_and_none_beyond(open_nvml, name, largest):
    report = open_nvml(make_report_with(name, largest))
    assert pynvml.nvmlDeviceGetCount() == 2
    pynvml.nvmlShutdown()
    for beyond in (largest + 1, NO_RECORD - 1):
        wrong = make_report_with(name, beyond)
        for records in ("gpus", "instances", "processes", "profiles", "xids"):
            setattr(report, records, getattr(wrong, records))
        assert code(pynvml.nvmlInit) == pynvml.NVML_ERROR_UNKNOWN, beyond
    good = make_report_with(name, largest)
    for records in ("gpus", "instances", "processes", "profiles", "xids"):
        setattr(report, records, getattr(good, records))
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 2


def test_processes_and_xids_follow_their_instance_to_its_place(open_nvml):
    """Instances with starts 4, 0, 2 are on GPUs 1, 0, 0; the GPUs are also in reverse order."""
    report = open_nvml(
        Report(
            [gpu(1), gpu(0)],
            [
                instance(0, 0, 4, (11, 1)),
                instance(1, 1, 2, (12, 2)),
                instance(2, 1, 0, (13, 3)),
            ],
            [process(0, 100), process(1, 101), process(2, 102)],
        )
    )
    first, second = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2))
    order = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(first, i) for i in range(2)]
    order.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(second, 0))
    assert [pynvml.nvmlDeviceGetGpuInstanceId(one) for one in order] == [13, 12, 11]
    assert [pynvml.nvmlDeviceGetComputeInstanceId(one) for one in order] == [3, 2, 1]
    for device, pid in zip(order, (102, 101, 100), strict=True):
        (found,) = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
        assert found.pid == pid
    events = pynvml.nvmlEventSetCreate()
    for device in (first, second):
        pynvml.nvmlDeviceRegisterEvents(device, pynvml.nvmlEventTypeXidCriticalError, events)
    report.xids = [xid(0, 0, 31, 5), xid(1, 1, 32, 6), xid(1, 2, 33, 7), xid(1, NO_RECORD, 34, 8)]
    events_read = [pynvml.nvmlEventSetWait(events, 10_000) for _ in range(4)]
    ids = [(one.eventData, one.gpuInstanceId, one.computeInstanceId) for one in events_read]
    assert ids == [(31, 11, 1), (32, 12, 2), (33, 13, 3), (34, NO_RECORD, NO_RECORD)]
    pynvml.nvmlEventSetFree(events)


def test_details_of_processes_have_both_ids(open_nvml):
    """GPU instance id and compute instance id differ, in every form of the list."""
    open_nvml(Report([gpu(0)], [instance(0, 0, 0, (5, 2))], [process(0, 77)]))
    mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(pynvml.nvmlDeviceGetHandleByIndex(0), 0)
    (listed,) = pynvml.nvmlDeviceGetComputeRunningProcesses(mig)
    details = (pynvml.c_nvmlProcessDetail_v1_t * 2)()
    wanted = pynvml.c_nvmlProcessDetailList_t(
        version=pynvml.nvmlProcessDetailList_v1,
        mode=pynvml.NVML_PROCESS_MODE_COMPUTE,
        numProcArrayEntries=2,
        procArray=ctypes.cast(details, ctypes.POINTER(pynvml.c_nvmlProcessDetail_v1_t)),
    )
    loaded = ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1"))
    assert loaded.nvmlDeviceGetRunningProcessDetailList(mig, ctypes.byref(wanted)) == 0
    assert wanted.numProcArrayEntries == 1
    for one in (listed, details[0]):
        assert (one.pid, one.usedGpuMemory) == (77, 77 << 20)
        assert (one.gpuInstanceId, one.computeInstanceId) == (5, 2)


def utilization(device: object) -> list[tuple[int, int]]:
    """Return the processes' pids and percentages; empty if there was no sample before."""
    try:
        found = pynvml.nvmlDeviceGetProcessUtilization(device, 0)
    except pynvml.NVMLError_NotFound:
        return []
    return [(one.pid, one.smUtil) for one in found]


def test_a_pid_that_was_given_to_another_process_begins_anew(open_nvml):
    """Busy time that has decreased is another process's: no sample, and no wrapped difference."""
    record = gpu(0)
    report = open_nvml(Report([record], [nvml_reports.whole(0, record)]))
    its = pynvml.nvmlDeviceGetHandleByIndex(0)
    report.processes = [process(0, 4242, 10**15)]
    assert utilization(its) == []
    report.processes = [process(0, 4242, 10**15)]
    assert utilization(its) == [(4242, 0)]
    report.processes = [process(0, 4242, 5)]
    assert utilization(its) == []
    report.processes = [process(0, 4242, 10**15)]
    assert utilization(its) == [(4242, 100)]


def test_waiting_for_an_event_lasts_as_long_as_requested(open_nvml):
    open_nvml(Report([gpu(0)]))
    events = pynvml.nvmlEventSetCreate()
    its = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceRegisterEvents(its, pynvml.nvmlEventTypeXidCriticalError, events)
    begin = time.monotonic()
    assert code(pynvml.nvmlEventSetWait, events, 120) == pynvml.NVML_ERROR_TIMEOUT
    assert time.monotonic() - begin >= 0.12
    pynvml.nvmlEventSetFree(events)


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_one_slice_that_sees_all_of_a_gpu_is_enough(libraries, tmp_path, order):
    """Two slices report one GPU, and one of them reports its totals, in either order."""
    slices = tmp_path / "slices"
    names = [f"MIG-{uuid.UUID(int=i)}" for i in (1, 2)]
    for name in names:
        (slices / name).mkdir(parents=True)
    reports = [
        Report([gpu(0, visible=visible)], [instance(i, 0, i, (i + 1, 0))])
        for i, visible in enumerate(order)
    ]
    with (
        nvml_reports.serve(slices / names[0] / "s.sock", reports[0]),
        nvml_reports.serve(slices / names[1] / "s.sock", reports[1]),
        nvml_views.load_nvml(libraries, SLICES_DIR=str(slices), WAIT_S="0"),
    ):
        its = pynvml.nvmlDeviceGetHandleByIndex(0)
        assert pynvml.nvmlDeviceGetMemoryInfo(its).total == 80 << 30
        assert len([pynvml.nvmlDeviceGetMigDeviceHandleByIndex(its, i) for i in range(2)]) == 2


def test_a_slice_of_a_lost_gpu_is_lost_with_it(open_nvml):
    """A program held handles of the GPU and of its slice before the fault."""
    report = open_nvml(
        Report([gpu(0), gpu(1)], [instance(0, 0, 0, (1, 0)), instance(1, 1, 0, (1, 0))])
    )
    gpus = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    slices = [pynvml.nvmlDeviceGetMigDeviceHandleByIndex(one, 0) for one in gpus]
    report.gpus = [gpu(0, lost=1), gpu(1)]
    time.sleep(0.15)  # a view of 0.1 s ago is still used
    for held in (gpus[0], slices[0]):
        assert code(pynvml.nvmlDeviceGetMemoryInfo, held) == pynvml.NVML_ERROR_GPU_IS_LOST
        assert code(pynvml.nvmlDeviceGetUUID, held) == pynvml.NVML_ERROR_GPU_IS_LOST
    assert pynvml.nvmlDeviceGetMemoryInfo(slices[1]).total == 10 << 30


# The expected value of each field, by the name of nvidia-ml-py's constant.
VALUES = {
    "ECC_CURRENT": 1,
    "ECC_PENDING": 1,
    "ECC_SBE_VOL_TOTAL": 101,
    "ECC_DBE_VOL_TOTAL": 102,
    "ECC_SBE_AGG_TOTAL": 103,
    "ECC_DBE_AGG_TOTAL": 104,
    "MEMORY_TEMP": 66,
    "TOTAL_ENERGY_CONSUMPTION": 105,
    "REMAPPED_COR": 0,
    "REMAPPED_UNC": 107,
    "REMAPPED_PENDING": 1,
    "REMAPPED_FAILURE": 1,
    "POWER_AVERAGE": 301,
    "POWER_INSTANT": 301,
    "POWER_DEFAULT_LIMIT": 700,
    "POWER_CURRENT_LIMIT": 700,
}


def telling(record: GpuRecord) -> GpuRecord:
    """Give each number of the telemetry a distinct value."""
    its = record.telemetry
    its.ecc_volatile[:] = (101, 102)
    its.ecc_aggregate[:] = (103, 104)
    its.memory_temperature_c, its.energy_mj = 66, 105
    its.remapped_rows, its.pending_rows, its.remapping_failed = 107, 3, 1
    its.power_mw, its.power_limit_mw = 301, 700
    return record


def test_every_field_has_the_number_that_nvidia_ml_py_gives_it(open_nvml):
    """All 300 field ids are queried: those in the table have values, all others are unsupported."""
    known = {getattr(pynvml, f"NVML_FI_DEV_{name}"): value for name, value in VALUES.items()}
    declared = re.findall(r"^  FIELD_\w+ = (\d+),$", FIELDS.read_text(), re.MULTILINE)
    assert sorted(map(int, declared)) == sorted(known)
    open_nvml(Report([telling(gpu(0))]))
    its = pynvml.nvmlDeviceGetHandleByIndex(0)
    answered = {}
    for one in pynvml.nvmlDeviceGetFieldValues(its, list(range(1, 300))):
        if one.nvmlReturn == pynvml.NVML_SUCCESS:
            name = {1: "uiVal", 3: "ullVal"}[one.valueType]
            answered[one.fieldId] = getattr(one.value, name)
        else:
            assert one.nvmlReturn == pynvml.NVML_ERROR_NOT_SUPPORTED, one.fieldId
    assert answered == known


def test_the_last_user_alone_ends_what_is_known(open_nvml):
    """Two users in one process: constants are queried only once until both have ended."""
    report = open_nvml(make_report_with("Xid's GPU", 1))
    its = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlInit()
    known = pynvml.nvmlDeviceGetUUID(its)
    requests = report.served
    assert pynvml.nvmlDeviceGetUUID(its) == known
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetUUID(its) == known
    assert report.served == requests
    pynvml.nvmlShutdown()
    for call in (pynvml.nvmlDeviceGetCount, pynvml.nvmlShutdown):
        assert code(call) == pynvml.NVML_ERROR_UNINITIALIZED
    pynvml.nvmlInit()
    assert report.served == requests + 1
    assert pynvml.nvmlDeviceGetUUID(its) == known
