"""Each function for one device writes its complete result, which contains the report's number."""

import ctypes
import uuid
from collections.abc import Iterator, Sequence
from ctypes import Structure, c_int, c_uint, c_ulonglong, sizeof
from dataclasses import dataclass
from typing import Any

import pynvml
import pytest
from pynvml import NVML_ERROR_INVALID_ARGUMENT as INVALID, NVML_ERROR_NOT_SUPPORTED as UNSUPPORTED

from mig import geometry
from support.processes import nvml_reports, nvml_views
from support.processes.nvml_reports import Report, instance, whole
from vgpu_sim.gpud.management.records import ARCHITECTURES
from vgpu_sim.hal.management.nvml import GpuRecord, InstanceRecord
from vgpu_sim.native import build
from vgpu_sim.perf.boards import BOARDS

GIB = 1 << 30


def make_gpu(number: int) -> GpuRecord:
    """Return a GPU whose numbers all differ; those of slices also depend on ``number``."""
    record = nvml_reports.gpu(number)
    record.pci_device_id = 0x233010DE + number
    record.architecture, record.brand = 8 + number, 10 + number
    record.capability_major, record.capability_minor = 7 + number, 5 + number
    record.bus_bits, record.memory_used_bytes = 5120, 3 * GIB
    its = record.telemetry
    its.gpu_percent, its.memory_percent = 41, 42
    its.sm_mhz, its.memory_mhz, its.max_sm_mhz, its.max_memory_mhz = 1401, 1402, 1403, 1404
    its.power_mw, its.power_limit_mw = 301_000, 700_000
    its.temperature_c, its.memory_temperature_c = 51, 52
    its.slowdown_c, its.shutdown_c, its.performance_state = 87, 92, 2
    its.clock_event_reasons, its.fan_count = 0x48, 2
    its.fan_percents[:] = (31, 32, 33, 34)
    its.pcie_tx_bytes_per_s, its.pcie_rx_bytes_per_s = 61 << 10, 62 << 10
    its.energy_mj = 1 << 40
    its.idle_sm_mhz, its.idle_memory_mhz = 300, 400
    its.ecc_volatile[:], its.ecc_aggregate[:] = (101, 102), (103, 104)
    its.remapped_rows, its.pending_rows, its.remapping_failed = 105, 3, 1
    return record


def make_slice() -> InstanceRecord:
    """Return a slice of GPU 0 in whose record no two numbers are equal."""
    record = instance(1, 0, 0, (4, 2))
    record.engines[:] = (1, 2, 3, 4, 5)
    record.compute_slices, record.compute_enum, record.multiprocessors = 3, 1, 32
    record.memory_used_bytes = 2 * GIB
    return record


@pytest.fixture
def devices(libraries, tmp_path) -> Iterator[tuple[object, object]]:
    """An undivided GPU, and a slice of another GPU."""
    own = make_gpu(1)
    report = Report([make_gpu(0), own], [make_slice(), whole(1, own)])
    path = tmp_path / "management.sock"
    with (
        nvml_reports.serve(path, report),
        nvml_views.load_nvml(libraries, MANAGEMENT_SOCKET=str(path)),
    ):
        divided, its = (pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(2))
        yield its, pynvml.nvmlDeviceGetMigDeviceHandleByIndex(divided, 0)


_INPUTS = ("version", "sensorType")
_LIBRARY = str(build.LIBRARIES / "libnvidia-ml.so.1")


def value(one: Any) -> object:
    """Return a number or text, or the parts of an array or structure, without its padding."""
    if isinstance(one, Structure):
        return tuple(value(getattr(one, field[0])) for field in one._fields_)
    if isinstance(one, ctypes.Array) and not isinstance(one, bytes):
        return one.value if hasattr(one, "value") else tuple(map(value, one))
    return getattr(one, "value", one)


def outcome(row: "Row", device: object, results: Sequence[Any]) -> list[object]:
    """Return the status and the results; before the call the results had other values."""
    answers = []
    for poison in (0x5A, 0xA5):
        written = [type(one)() for one in results]
        for one, like in zip(written, results, strict=True):
            ctypes.memset(ctypes.byref(one), poison, sizeof(one))
            for name in _INPUTS:
                if hasattr(one, name):
                    setattr(one, name, getattr(like, name))
        call = getattr(ctypes.CDLL(_LIBRARY), f"nvmlDevice{row.name}")
        status = call(device, *row.inputs, *map(ctypes.byref, written))
        answers.append([status, *(() if status else map(value, written))])
    assert answers[0] == answers[1], "a part of a result is not written"
    return answers[0]


@dataclass(frozen=True)
class Row:
    """A function's inputs and its results for the GPU; for the slice, its results or a status."""

    name: str
    its: tuple[Any, ...]
    mig: tuple[Any, ...] | int = UNSUPPORTED
    inputs: tuple[int, ...] = ()


def number(name: str, its: int, *inputs: int, mig: int | None = None) -> Row:
    """Return the row of a function whose only result is an unsigned int."""
    return Row(name, (c_uint(its),), UNSUPPORTED if mig is None else (c_uint(mig),), inputs)


def bus(kind: type, its: int, **ids: str) -> tuple[Any, ...]:
    """Return a structure with the bus of GPU ``its``, as numbers and as texts."""
    texts = {name: (text % (its + 1)).encode() for name, text in ids.items()}
    return (kind(bus=its + 1, pciDeviceId=0x233010DE + its, **texts),)


def both(name: str, its: Any, mig: Any) -> Row:
    """Return the row of a function with one result, which also applies to slices."""
    return Row(name, (its,), (mig,))


class AddressingMode(Structure):
    """Like nvidia-ml-py's structure, whose constructor takes no values."""

    _fields_ = pynvml.c_nvmlDeviceAddressingMode_t._fields_


def utilization(*percents: int) -> pynvml.c_nvmlGpuDynamicPstatesInfo_t:
    """Return the utilisation of the first domains; the others are not present."""
    info = pynvml.c_nvmlGpuDynamicPstatesInfo_t()
    for domain, percent in zip(info.utilization, percents, strict=False):
        domain.bIsPresent, domain.percentage = 1, percent
    return info


def make(kind: type, **values: int) -> tuple[Any, ...]:
    """Return a structure with values: the constructors of nvidia-ml-py's take none."""
    one = kind()
    for name, its in values.items():
        setattr(one, name, its)
    return (one,)


def power(scope: int, milliwatts: int, version: int = pynvml.nvmlPowerValue_v2) -> tuple[Any, ...]:
    """Return a power limit as a function takes it."""
    kind = pynvml.c_nvmlPowerValue_v2_t
    return make(kind, version=version, powerScope=scope, powerValueMw=milliwatts)


NO_MANAGED_MEMORY = pynvml.NVML_DEVICE_ADDRESSING_MODE_NONE
_CLOCKS = {"GetClockInfo": (1401, 1401, 1402), "GetMaxClockInfo": (1403, 1403, 1404)}
_PERCENT_OF_UNUSED = (c_uint(0), c_uint(1_000_000))
_ATTRIBUTES = pynvml.c_nvmlDeviceAttributes(
    multiprocessorCount=32,
    sharedCopyEngineCount=1,
    sharedDecoderCount=2,
    sharedEncoderCount=3,
    sharedJpegCount=4,
    sharedOfaCount=5,
    gpuInstanceSliceCount=3,
    computeInstanceSliceCount=2,
    memorySizeMB=10 << 10,
)
_LONG, _SHORT = "00000000:%02X:00.0", "0000:%02X:00.0"
_OLD, _NEW = pynvml.nvmlPciInfo_v2_t, pynvml.nvmlPciInfo_t
ROWS = (
    number("IsMigDeviceHandle", 0, mig=1),
    number("GetIndex", 1, mig=0),
    number("GetMinorNumber", 1),
    number("GetBrand", 11, mig=10),
    number("GetArchitecture", 9, mig=8),
    number("GetMemoryBusWidth", 5120),
    number("GetBusType", pynvml.NVML_BUS_TYPE_PCIE),
    number("GetVirtualizationMode", pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE),
    number("GetMultiGpuBoard", 0),
    number("GetDisplayMode", pynvml.NVML_FEATURE_DISABLED),
    number("GetDisplayActive", pynvml.NVML_FEATURE_DISABLED),
    number("GetPersistenceMode", pynvml.NVML_FEATURE_ENABLED),
    number("GetComputeMode", pynvml.NVML_COMPUTEMODE_DEFAULT, mig=0),
    number("GetMaxMigDeviceCount", 7),
    number("GetPowerUsage", 301_000),
    number("GetPowerManagementLimit", 700_000),
    number("GetEnforcedPowerLimit", 700_000),
    number("GetPowerManagementDefaultLimit", 700_000),
    number("GetPowerManagementMode", pynvml.NVML_FEATURE_ENABLED),
    number("GetPerformanceState", 2),
    number("GetPowerState", 2),
    *(
        Row("GetMinMaxClockOfPState", (c_uint(low), c_uint(high)), inputs=(clock, state))
        for clock, state, low, high in (
            *((0, 0, 300, 1403), (1, 0, 300, 1403), (2, 0, 1404, 1404)),
            *((0, 8, 300, 300), (2, 8, 400, 400)),
        )
    ),
    number("GetPcieReplayCounter", 0),
    Row(
        "GetCapabilities",
        make(pynvml.c_nvmlDeviceCapabilities_v1_t, version=pynvml.nvmlDeviceCapabilities_v1),
    ),
    Row("GetPdi", make(pynvml.c_nvmlPdi_t, version=pynvml.nvmlPdi_v1, value=0xA1A1A1A1A1A1A1A1)),
    Row("GetGridLicensableFeatures_v4", (pynvml.c_nvmlGridLicensableFeatures_v4_t(),)),
    Row("GetDynamicPstatesInfo", (utilization(41, 42),)),
    number("GetNumFans", 2),
    number("GetFanSpeed", 31),
    number("GetFanSpeed_v2", 32, 1),
    number("GetTemperature", 51, pynvml.NVML_TEMPERATURE_GPU),
    number("GetTemperatureThreshold", 87, pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
    number("GetTemperatureThreshold", 92, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
    *(
        number(f"Get{name}PcieLink{what}", its)
        for what, its in (("Generation", 5), ("Width", 16))
        for name in ("Curr", "Max")
    ),
    number("GetGpuMaxPcieLinkGeneration", 5),
    number("GetPcieThroughput", 61, pynvml.NVML_PCIE_UTIL_TX_BYTES),
    number("GetPcieThroughput", 62, pynvml.NVML_PCIE_UTIL_RX_BYTES),
    number("GetClock", 1402, pynvml.NVML_CLOCK_MEM, pynvml.NVML_CLOCK_ID_CURRENT),
    *(
        number(name, mhz, clock)
        for name, values in _CLOCKS.items()
        for clock, mhz in enumerate(values)  # graphics, SM, memory
    ),
    Row("GetPowerManagementLimitConstraints", (c_uint(700_000), c_uint(700_000))),
    Row("GetCudaComputeCapability", (c_int(8), c_int(6)), (c_int(7), c_int(5))),
    Row("GetMigMode", (c_uint(0), c_uint(0))),
    Row("GetTotalEnergyConsumption", (c_ulonglong(1 << 40),)),
    Row("GetCurrentClocksEventReasons", (c_ulonglong(0x48),)),
    Row("GetCurrentClocksThrottleReasons", (c_ulonglong(0x48),)),
    Row("GetSupportedClocksEventReasons", (c_ulonglong(0x49),)),
    Row("GetSupportedClocksThrottleReasons", (c_ulonglong(0x49),)),
    Row("GetUtilizationRates", (pynvml.c_nvmlUtilization_t(gpu=41, memory=42),)),
    *(
        Row(f"Get{unit}Utilization", _PERCENT_OF_UNUSED)
        for unit in ("Encoder", "Decoder", "Jpg", "Ofa")
    ),
    Row(
        "GetTemperatureV",
        (pynvml.c_nvmlTemperature_v1_t(version=pynvml.nvmlTemperature_v1, temperature=51),),
    ),
    Row(
        "GetAddressingMode",
        (AddressingMode(pynvml.nvmlDeviceAddressingMode_v1, NO_MANAGED_MEMORY),),
    ),
    *(
        Row(
            name,
            bus(_OLD, 1, busId=_SHORT),
            bus(_OLD, 0, busId=_SHORT),
        )
        for name in ("GetPciInfo", "GetPciInfo_v2")
    ),
    Row(
        "GetPciInfo_v3",
        bus(_NEW, 1, busIdLegacy=_SHORT, busId=_LONG),
        bus(_NEW, 0, busIdLegacy=_SHORT, busId=_LONG),
    ),
    both(
        "GetMemoryInfo",
        pynvml.c_nvmlMemory_t(total=80 * GIB, used=3 * GIB, free=77 * GIB),
        pynvml.c_nvmlMemory_t(total=10 * GIB, used=2 * GIB, free=8 * GIB),
    ),
    both(
        "GetMemoryInfo_v2",
        pynvml.c_nvmlMemory_v2_t(pynvml.nvmlMemory_v2, 80 * GIB, 0, 77 * GIB, 3 * GIB),
        pynvml.c_nvmlMemory_v2_t(pynvml.nvmlMemory_v2, 10 * GIB, 0, 8 * GIB, 2 * GIB),
    ),
    both(
        "GetBAR1MemoryInfo",
        pynvml.c_nvmlBAR1Memory_t(128 * GIB, 128 * GIB, 0),
        pynvml.c_nvmlBAR1Memory_t(10 * GIB, 10 * GIB, 0),
    ),
    Row("GetEccMode", (c_uint(1), c_uint(1))),
    number("GetDefaultEccMode", 1),
    *(
        Row(name, (c_ulonglong(101 + 2 * counter + kind),), inputs=(kind, counter, *location))
        for name, location in (("GetTotalEccErrors", ()), ("GetMemoryErrorCounter", (2,)))
        for counter in (0, 1)
        for kind in (0, 1)
    ),
    Row("GetRemappedRows", (c_uint(0), c_uint(105), c_uint(1), c_uint(1))),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(map(str, (row.name, *row.inputs))))
def test_every_function_writes_all_of_its_result(devices, row):
    its, mig = devices
    assert outcome(row, its, row.its) == [0, *map(value, row.its)]
    if isinstance(row.mig, int):
        assert outcome(row, mig, row.its) == [row.mig]
    else:
        assert outcome(row, mig, row.mig) == [0, *map(value, row.mig)]


@pytest.mark.parametrize("name", ["GetAttributes", "GetAttributes_v2"])
def test_only_a_slice_has_attributes(devices, name):
    its, mig = devices
    row = Row(name, (_ATTRIBUTES,))
    assert outcome(row, its, row.its) == [UNSUPPORTED]
    assert outcome(row, mig, row.its) == [0, value(_ATTRIBUTES)]
    for ids, expected in (("GetGpuInstanceId", 4), ("GetComputeInstanceId", 2)):
        row = number(ids, expected)
        assert outcome(row, its, row.its) == [INVALID]
        assert outcome(row, mig, row.its) == [0, expected]


def test_inputs_are_accepted_up_to_their_last_value(devices):
    """The last input with a result is tested, and inputs beyond it, with their status."""
    its, _ = devices
    for name, statuses in {
        "GetFanSpeed_v2": (0, 0, INVALID, INVALID),
        "GetTemperature": (0, INVALID),
        "GetTemperatureThreshold": (0, 0, *[UNSUPPORTED] * 6, INVALID),
        "GetPcieThroughput": (0, 0, INVALID),
        "GetClockInfo": (0, 0, 0, UNSUPPORTED, INVALID),
        "GetMaxClockInfo": (0, 0, 0, UNSUPPORTED, INVALID),
    }.items():
        found = [
            outcome(Row(name, (), inputs=(one,)), its, [c_uint()])[0]
            for one in range(len(statuses))
        ]
        assert found == list(statuses), name
    for clock, statuses in ((2, (0, *[UNSUPPORTED] * 3, INVALID)), (3, (UNSUPPORTED,))):
        for one, status in enumerate(statuses):
            row = Row("GetClock", (), inputs=(clock, one))
            assert outcome(row, its, [c_uint()])[0] == status, one
    for kind, counter, location, status in (
        *((1, 1, one, 0 if one == 2 else UNSUPPORTED) for one in range(8)),
        *((1, 1, 8, INVALID), (2, 1, 2, INVALID), (1, 2, 2, INVALID)),
    ):
        row = Row("GetMemoryErrorCounter", (), inputs=(kind, counter, location))
        assert outcome(row, its, [c_ulonglong()])[0] == status, (kind, counter, location)


def test_states_and_limits_are_those_of_the_board(devices):
    its, _ = devices
    loaded = ctypes.CDLL(_LIBRARY)
    states = pynvml.nvmlDeviceGetSupportedPerformanceStates(its)
    assert states == [0, 8]
    call = loaded.nvmlDeviceGetSupportedPerformanceStates
    assert call(its, (c_uint * 1)(), 4) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    for inputs, status in (((3, 0), UNSUPPORTED), ((0, 1), UNSUPPORTED), ((4, 0), INVALID)):
        row = Row("GetMinMaxClockOfPState", (), inputs=inputs)
        assert outcome(row, its, [c_uint(), c_uint()])[0] == status
    set_limit = loaded.nvmlDeviceSetPowerManagementLimit_v2
    for limit, status in (
        *((power(0, 700_000), 0), (power(0, 10_000), INVALID), (power(1, 700_000), UNSUPPORTED)),
        (power(0, 700_000, 1), pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH),
    ):
        assert set_limit(its, *map(ctypes.byref, limit)) == status
    assert loaded.nvmlDeviceSetPowerManagementLimit(its, 700_000) == 0


def test_the_links_generation_is_that_of_the_boards_bandwidth(libraries, tmp_path):
    path = tmp_path / "management.sock"
    names = [*ARCHITECTURES, "unknown"]
    gpus = [nvml_reports.gpu(number) for number in range(len(names))]
    for record, name in zip(gpus, names, strict=True):
        record.architecture = ARCHITECTURES.get(name, 77)
    with (
        nvml_reports.serve(path, Report(gpus)),
        nvml_views.load_nvml(libraries, MANAGEMENT_SOCKET=str(path)),
    ):
        handles = {name: pynvml.nvmlDeviceGetHandleByIndex(i) for i, name in enumerate(names)}
        with pytest.raises(pynvml.NVMLError_NotSupported):
            pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handles["unknown"])
        for name, board in geometry.BOARDS.items():
            architecture = board.architecture.split()[0]
            generation = pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handles[architecture])
            assert BOARDS[name].pcie_gb_per_s.value == 2 << generation, name


def test_a_text_needs_room_for_its_end(devices):
    loaded = ctypes.CDLL(_LIBRARY)
    expected = {
        "nvmlDeviceGetName": (b"a board", b"a board MIG 1g.10gb"),
        "nvmlDeviceGetUUID": tuple(
            prefix + str(uuid.UUID(bytes=bytes([byte] * 16))).encode()
            for prefix, byte in ((b"GPU-", 0xA1), (b"MIG-", 2))
        ),
    }
    for name, texts in expected.items():
        for device, text in zip(devices, texts, strict=True):
            room = ctypes.create_string_buffer(b"?" * 127)
            call = getattr(loaded, name)
            assert call(device, room, len(text)) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
            assert room.raw == b"?" * 127 + b"\0"
            assert call(device, room, len(text) + 1) == 0
            assert room.value == text
