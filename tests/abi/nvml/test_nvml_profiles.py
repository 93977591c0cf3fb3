"""NVML's profiles and instances, from a report in which no two numbers are equal."""

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_char, c_uint, c_uint64, c_void_p

import pynvml
import pytest

from support.processes.nvml_calls import code, handle, layout, of_distinct_figures, of_mig
from support.processes.nvml_reports import Report
from vgpu_sim.hal.management.nvml import NO_RECORD
from vgpu_sim.native import build

INVALID, UNSUPPORTED, NOT_FOUND = 2, 3, 6
NO_ROOM, LOST, WRONG_VERSION = 7, 15, 25


class ProfileInfo3(ctypes.Structure):
    """``nvmlGpuInstanceProfileInfo_v3_t`` of nvml.h."""

    _fields_ = (
        *((name, c_uint) for name in ("version", "id", "sliceCount", "instanceCount")),
        *((name, c_uint) for name in ("multiprocessorCount", "copyEngineCount", "decoderCount")),
        *((name, c_uint) for name in ("encoderCount", "jpegCount", "ofaCount")),
        ("memorySizeMB", c_uint64),
        ("name", c_char * 96),
        ("capabilities", c_uint),
    )


class ComputeInfo3(ctypes.Structure):
    """``nvmlComputeInstanceProfileInfo_v3_t`` of nvml.h."""

    _fields_ = (*pynvml.c_nvmlComputeInstanceProfileInfo_v2_t._fields_, ("capabilities", c_uint))


@pytest.fixture
def report(libraries, tmp_path) -> Iterator[Report]:
    """A report of two GPUs: the first has the profiles 1 and 17, the second has 2."""
    with of_distinct_figures(libraries, tmp_path) as made:
        yield made


@pytest.fixture
def nvml(report) -> ctypes.CDLL:
    return ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1"))


def text(name: bytes | str) -> str:
    """Decode a name, unless pynvml's structure has already decoded it."""
    return name if isinstance(name, str) else name.decode()


def figures(number: int) -> dict[str, object]:
    engines = ("copyEngineCount", "decoderCount", "encoderCount", "jpegCount", "ofaCount")
    return {
        "id": 100 + number,
        "sliceCount": 10 + number,
        "instanceCount": 40 + number,
        "multiprocessorCount": 30 + number,
        "memorySizeMB": (50 + number) * 1024 + 1,
        **{name: 60 + 10 * number + i for i, name in enumerate(engines)},
    }


def test_a_gpu_s_profiles_in_each_layout(nvml):
    first = pynvml.c_nvmlGpuInstanceProfileInfo_t
    second = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t
    plain, wide = (
        nvml.nvmlDeviceGetGpuInstanceProfileInfo,
        nvml.nvmlDeviceGetGpuInstanceProfileInfoV,
    )
    by_id = nvml.nvmlDeviceGetGpuInstanceProfileInfoByIdV
    for index, numbers in ((0, (1, 17)), (1, (2,))):
        its = handle(index)
        for number in range(20):
            expected = 0 if number in numbers else UNSUPPORTED if number < 18 else INVALID
            info = first()
            assert plain(its, number, byref(info)) == expected, number
            infos = [(layout(second, 2), wide, number)]
            infos += [(layout(ProfileInfo3, 3), wide, number)]
            infos += [
                (layout(type(one), one.version >> 24), by_id, 100 + number) for one, _, _ in infos
            ]
            for one, call, named in infos:
                by_number = expected if call is wide or expected == 0 else INVALID
                assert call(its, named, byref(one)) == by_number, number
            if expected:
                continue
            for one in (info, *(one for one, _, _ in infos)):
                assert {n: getattr(one, n) for n in figures(number)} == figures(number)
            assert {text(one.name) for one, _, _ in infos} == {f"MIG {number}g.x"}
    for kind in (second, ProfileInfo3):
        for wrong in (0, 1, 4):
            info = layout(kind, wrong)
            assert wide(its, 2, byref(info)) == WRONG_VERSION
    assert plain(of_mig(0, 0), 1, byref(first())) == INVALID


def test_where_a_profile_may_be_placed(nvml):
    its, count = handle(0), c_uint(77)
    call = nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2
    assert (call(its, 117, None, byref(count)), count.value) == (0, 2)
    places = (pynvml.c_nvmlGpuInstancePlacement_t * 3)()
    for room, expected in ((0, NO_ROOM), (1, NO_ROOM), (2, 0), (3, 0)):
        count.value = room
        assert (call(its, 117, places, byref(count)), count.value) == (expected, 2)
    assert [(one.start, one.size) for one in places] == [(17, 37), (21, 37), (0, 0)]
    assert call(its, 102, places, byref(count)) == INVALID


def instance_of(index: int, number: int) -> c_void_p:
    return ctypes.cast(pynvml.nvmlDeviceGetGpuInstanceById(handle(index), number), c_void_p)


def test_compute_profiles_in_each_layout(nvml):
    first = pynvml.c_nvmlComputeInstanceProfileInfo_t
    second = pynvml.c_nvmlComputeInstanceProfileInfo_v2_t
    plain = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    wide = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfoV
    for index, number in ((0, 1), (1, 2)):
        its = instance_of(index, 5)
        for inner in range(11):
            expected = 0 if inner in (number, 8) else UNSUPPORTED if inner < 9 else INVALID
            infos = [
                first(),
                layout(second, 2),
                layout(ComputeInfo3, 3, capabilities=9),
            ]
            for one in infos:
                call = plain if isinstance(one, first) else wide
                assert call(its, inner, 0, byref(one)) == expected
                assert call(its, inner, 1, byref(one)) == INVALID
            if expected:
                continue
            is_whole = inner == 8
            for one in infos:
                assert (one.id, one.sliceCount) == (inner, 10 + number if is_whole else 2)
                assert one.instanceCount == 1 + is_whole
                assert one.multiprocessorCount == 70 + number + is_whole
                shared = ("CopyEngine", "Decoder", "Encoder", "Jpeg", "Ofa")
                engines = [getattr(one, f"shared{name}Count") for name in shared]
                assert engines == [60 + 10 * number + i for i in range(5)]
            name = f"MIG {number}g.x" if is_whole else f"MIG 2c.{number}g.x"
            assert [text(one.name) for one in infos[1:]] == [name] * 2
            assert infos[2].capabilities == 0
            count = c_uint()
            where = nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements
            assert (where(its, inner, None, byref(count)), count.value) == (0, 1 + is_whole)
            places = (pynvml.c_nvmlComputeInstancePlacement_t * 3)()
            for room in range(4):
                count.value = room
                fits = 0 if room >= 1 + is_whole else NO_ROOM
                assert where(its, inner, places, byref(count)) == fits
            found = [(one.start, one.size) for one in places[: 1 + is_whole]]
            size = 10 + number if is_whole else 2
            assert found == [(2 * number + i, size) for i in range(1 + is_whole)]
            assert (places[1 + is_whole].start, places[1 + is_whole].size) == (0, 0)
    for kind, right in ((second, 2), (ComputeInfo3, 3)):
        for wrong in (0, 1, 5 - right, 4):
            info = layout(kind, wrong)
            assert wide(its, 2, 0, byref(info)) == WRONG_VERSION


def test_instances_are_found_by_number_and_by_profile(nvml, report):
    found = {(index, number): instance_of(index, number).value for index, number in _INSTANCES}
    assert len(set(found.values())) == 3
    for (index, number), its in found.items():
        info = pynvml.nvmlGpuInstanceGetInfo(c_void_p(its))
        records = [
            one for one in report.instances if (one.gpu, one.gpu_instance_id) == (index, number)
        ]
        placed = (info.placement.start, info.placement.size)
        assert (info.id, info.profileId) == (number, records[0].profile)
        assert placed == (records[0].start, records[0].size)
        assert ctypes.cast(info.device, c_void_p).value == handle(index).value
    for index, number in ((0, 4), (0, 7), (1, 6), (1, NO_RECORD)):
        assert code(pynvml.nvmlDeviceGetGpuInstanceById, handle(index), number) == NOT_FOUND
    assert code(pynvml.nvmlDeviceGetGpuInstanceById, of_mig(0, 0), 5) == INVALID
    for index, wanted, numbers in ((0, 101, (5, 6)), (0, 117, ()), (1, 102, (5,))):
        room, many = c_uint(9), (c_void_p * 4)()
        assert nvml.nvmlDeviceGetGpuInstances(handle(index), wanted, many, byref(room)) == 0
        assert many[: room.value] == [found[index, number] for number in numbers]
    for index, wanted in ((0, 102), (1, 101)):
        assert nvml.nvmlDeviceGetGpuInstances(handle(index), wanted, many, byref(room)) == INVALID


_INSTANCES = ((0, 5), (0, 6), (1, 5))


def test_compute_instances_are_found_by_number_and_by_profile(nvml):
    by_id = nvml.nvmlGpuInstanceGetComputeInstanceById
    for (index, number), numbers in zip(_INSTANCES, ({0: 1, 2: 0}, {}, {1: 2}), strict=True):
        its, made = instance_of(index, number), c_void_p()
        for inner in range(4):
            expected = 0 if inner in numbers else NOT_FOUND
            assert by_id(its, inner, byref(made)) == expected, (index, number, inner)
            if expected:
                continue
            info = pynvml.nvmlComputeInstanceGetInfo(made)
            sizes = (1, 2, 3, 4, 7, 8, 6, 1, 7)  # index: an enumeration of nvml.h
            assert (info.id, info.profileId, info.placement.start) == (inner, numbers[inner], inner)
            assert info.placement.size == sizes[numbers[inner]]
            assert ctypes.cast(info.gpuInstance, c_void_p).value == its.value
            assert ctypes.cast(info.device, c_void_p).value == handle(index).value
        for kind in range(4):
            room, many = c_uint(9), (c_void_p * 4)()
            listed = nvml.nvmlGpuInstanceGetComputeInstances(its, kind, many, byref(room))
            assert (listed, room.value) == (0, list(numbers.values()).count(kind))
    assert by_id(of_mig(0, 0), 0, byref(made)) == INVALID
    assert code(pynvml.nvmlComputeInstanceGetInfo, instance_of(0, 5)) == INVALID


def test_what_is_left_of_a_gpu_instance(nvml, report):
    """Device 0 has slices 0 and 1, device 2 has slice 2; a profile starts at its placements."""
    count, call = c_uint(77), nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity
    inner = report.profiles[0].computes[0]
    for starts, left in (((0, 1), 0), ((1, 2), 0), ((2, 3), 1), ((3, 4), 2), ((1, 3), 1)):
        inner.start_count, inner.compute_slices = 2, 2
        inner.starts[:2] = starts
        pynvml.nvmlShutdown()
        pynvml.nvmlInit()
        assert (call(instance_of(0, 5), 1, byref(count)), count.value) == (0, left), starts
        assert (call(instance_of(0, 6), 1, byref(count)), count.value) == (0, 2)
    assert call(instance_of(0, 5), 5, byref(count)) == UNSUPPORTED
    assert call(handle(0), 1, byref(count)) == INVALID
