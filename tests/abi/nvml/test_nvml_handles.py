"""NVML's handles in each form, and texts in buffers of exact size."""

import ctypes
import os
import uuid
from collections.abc import Iterator
from ctypes import byref, c_char_p, c_uint, c_void_p

import pynvml
import pytest

from support.processes.nvml_calls import code, handle, layout, of_distinct_figures, of_mig
from support.processes.nvml_reports import Report
from vgpu_sim.native import build

INVALID, UNSUPPORTED, NOT_FOUND = 2, 3, 6
NO_ROOM, LOST, WRONG_VERSION = 7, 15, 25


@pytest.fixture
def report(libraries, tmp_path) -> Iterator[Report]:
    """A report of two GPUs: the first has the profiles 1 and 17, the second has 2."""
    with of_distinct_figures(libraries, tmp_path) as made:
        yield made


@pytest.fixture
def nvml(report) -> ctypes.CDLL:
    return ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1"))


def test_handles_by_uuid_in_each_form(nvml, report):
    kind = pynvml.c_nvmlUUID_t
    call, plain = nvml.nvmlDeviceGetHandleByUUIDV, nvml.nvmlDeviceGetHandleByUUID
    owners = [
        (f"GPU-{uuid.UUID(bytes=bytes(one.uuid))}", handle(i)) for i, one in enumerate(report.gpus)
    ]
    owners += [
        (f"MIG-{uuid.UUID(bytes=bytes(report.instances[i].uuid))}", of_mig(index, inner))
        for i, index, inner in ((0, 0, 0), (1, 0, 1), (3, 1, 0))
    ]
    made = c_void_p()
    for text, expected in owners:
        requests = [layout(kind, 1, type=kind_of) for kind_of in (1, 2)]
        requests[0].value.str = text.encode()
        raw = uuid.UUID(text[4:]).bytes
        ctypes.memmove(byref(requests[1].value), raw, len(raw))
        for one in requests:
            assert (call(byref(one), byref(made)), made.value) == (0, expected.value)
        assert (plain(text.encode(), byref(made)), made.value) == (0, expected.value)
        assert plain(text.upper().replace("X", "").encode(), byref(made)) == 0
        other = ("MIG-" if text.startswith("GPU") else "GPU-") + text[4:]
        assert plain(other.encode(), byref(made)) == NOT_FOUND
        assert (plain(text[4:].encode(), byref(made)), made.value) == (0, expected.value)
        for wrong in (text[:-1], text + "0", text.replace("-", "_"), text[:-1] + "g", "GPU-"):
            assert plain(wrong.encode(), byref(made)) == INVALID
        for place, letter in enumerate(text):
            if letter == "-":
                assert plain(f"{text[:place]}0{text[place + 1 :]}".encode(), byref(made)) == INVALID
        assert plain(f"CPU-{text[4:]}".encode(), byref(made)) == INVALID
    for number, kind_of, expected in ((2, 1, WRONG_VERSION), (1, 0, INVALID), (1, 3, INVALID)):
        one = layout(kind, number, type=kind_of)
        one.value.str = text.encode()
        assert call(byref(one), byref(made)) == expected
    nothing = layout(kind, 1, type=2)
    assert call(byref(nothing), byref(made)) == NOT_FOUND
    none = f"MIG-{uuid.UUID(bytes=bytes(report.instances[2].uuid))}"
    assert plain(none.encode(), byref(made)) == NOT_FOUND  # it has no compute instance


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((form, 0) for form in ("0000:02:00.0", "00000000:02:00.0", "0:2:0.0", "0000:02:00")),
        *((form, 0) for form in ("02:00.0", "02:00", "2:0")),
        *((form, INVALID) for form in ("0000:02:00.1", "02:00.1", "0000:02:00.0y", "02:00.0y")),
        *((form, INVALID) for form in ("0000:02:00x", "02:00x", "", "02", "x:02:00.0", "02:")),
        *(
            (form, INVALID)
            for form in ("0x0:02:00.0", "0000:0x2:00.0", "0000:02:00.0x", "02:0x0.0")
        ),
        *(
            (form, INVALID)
            for form in (" 02:00.0", "02: 00.0", "+2:00.0", "-0:02:00.0", "02:00.0 ")
        ),
        *(
            (form, INVALID)
            for form in ("100000000:02:00.0", "0000:102:00.0", "02:100.0", "02:00.10")
        ),
        *((form, NOT_FOUND) for form in ("0001:02:00.0", "02:01.0", "03:00.0", "0000:02:01")),
    ],
)
def test_handles_by_the_bus_in_each_form(nvml, text, expected):
    made = c_void_p()
    call = nvml.nvmlDeviceGetHandleByPciBusId_v2
    assert call(text.encode(), byref(made)) == expected
    assert expected or made.value == handle(1).value


def test_a_lost_gpu_gets_no_handle(nvml, report):
    before, slice_of_it = handle(1), of_mig(1, 0)
    report.gpus[1].lost = 1
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    made = c_void_p()
    text = f"GPU-{uuid.UUID(bytes=bytes(report.gpus[1].uuid))}".encode()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(1, byref(made)) == LOST
    assert nvml.nvmlDeviceGetHandleByUUID(text, byref(made)) == LOST
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"02:00.0", byref(made)) == LOST
    assert nvml.nvmlDeviceGetHandleByIndex_v2(2, byref(made)) == INVALID
    for one in (before, slice_of_it):
        assert code(pynvml.nvmlDeviceGetName, one) == LOST
    assert nvml.nvmlDeviceGetHandleByIndex_v2(0, byref(made)) == 0


def test_names_of_processes_have_the_room_that_there_is(nvml):
    own = os.getpid()
    with open("/proc/self/cmdline", "rb") as file:
        name = file.read().split(b"\0")[0]
    for room in (0, 1, 2, len(name), len(name) + 1, 4096):
        buffer = ctypes.create_string_buffer(b"." * 4096, 4096)
        result = nvml.nvmlSystemGetProcessName(own, buffer, room)
        if room == 0:
            assert (result, buffer.raw[:1]) == (INVALID, b".")
            continue
        # A buffer of one byte has room for no letter, and a name is never empty.
        assert result == (NOT_FOUND if room == 1 else 0)
        if result == 0:
            assert buffer.value == name[: room - 1]
        assert buffer.raw[room:] == b"." * (4096 - room)
    assert nvml.nvmlSystemGetProcessName(own, None, 9) == INVALID
    assert nvml.nvmlSystemGetProcessName(1 << 30, buffer, 9) == NOT_FOUND


def test_versions_have_the_room_that_there_is(nvml):
    for call, text in (
        (nvml.nvmlSystemGetDriverVersion, b"580.0.1"),
        (nvml.nvmlSystemGetNVMLVersion, b"13.580.0.1"),
    ):
        buffer = ctypes.create_string_buffer(80)
        assert call(buffer, len(text)) == NO_ROOM
        assert (call(buffer, len(text) + 1), buffer.value) == (0, text)
        assert call(None, 80) == INVALID
    found = ctypes.c_int()
    for call in (nvml.nvmlSystemGetCudaDriverVersion, nvml.nvmlSystemGetCudaDriverVersion_v2):
        assert (call(byref(found)), found.value) == (0, 13000)
    for call in (nvml.nvmlUnitGetCount, nvml.nvmlGetExcludedDeviceCount):
        count = c_uint(5)
        assert (call(byref(count)), count.value) == (0, 0)
        assert call(None) == INVALID
    nvml.nvmlErrorString.restype = c_char_p
    assert nvml.nvmlErrorString(12345) == b"Unknown Error"


def test_indices_count_the_mig_devices_of_one_gpu(nvml):
    index = c_uint(77)
    expected = [(handle(0), 0), (handle(1), 1), (of_mig(0, 0), 0), (of_mig(0, 1), 1)]
    for its, number in (*expected, (of_mig(1, 0), 0)):
        assert (nvml.nvmlDeviceGetIndex(its, byref(index)), index.value) == (0, number)
    for its, mode, result in (
        *((handle(0), 1, 0), (handle(0), 0, UNSUPPORTED), (handle(0), 2, INVALID)),
        *((of_mig(0, 0), 1, UNSUPPORTED), (of_mig(0, 0), 2, UNSUPPORTED)),
    ):
        assert nvml.nvmlDeviceSetPersistenceMode(its, mode) == result
    for mode, result in ((0, 0), (1, UNSUPPORTED), (3, UNSUPPORTED)):
        assert nvml.nvmlDeviceSetComputeMode(handle(0), mode) == result
