"""Records of a context's requests: an observer without a clock gets one for each."""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from vgpu_sim.hal.compute import abi, address_map
from vgpu_sim.hal.compute.abi import Direction
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.hal.observe.requests import (
    Copy,
    Fill,
    LaunchBegins,
    LaunchEnded,
    Mark,
    Position,
    Request,
)
from vgpu_sim.worker.modules.images import Image
from vgpu_sim.worker.observing.requests import Requests

BASE = address_map.APERTURE_BASES[0]
HOST = BASE + address_map.HOST_OFFSET
DEVICE = BASE + address_map.DEVICE_OFFSET
TIME = 77


class Recorder:
    """Keeps the records."""

    def __init__(self) -> None:
        self.records: list[Request] = []
        self.errors: list[Exception] = []

    def instrument(self, image: Image) -> Image:
        return image

    def record_load(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        raise AssertionError("no module is loaded")

    def record_unload(self, kernels: Sequence[int]) -> None:
        raise AssertionError("no module is unloaded")

    def record_allocation(self, address: int, size: int) -> None:
        raise AssertionError("no memory is allocated")

    def record_request(self, request: Request) -> int:
        self.records.append(request)
        return TIME

    def record_failure(self, err: Exception) -> None:
        self.errors.append(err)

    def report(self) -> Iterator[dict[str, Any]]:
        yield {"records": len(self.records)}


def record_of(slot: abi.Slot, parameters: int = 0, *, ended: bool = False) -> Request:
    """Return the record of a request of stream 5."""
    recorder = Recorder()
    assert Requests(BASE, recorder).report(5, slot, parameters, ended) == TIME
    assert not recorder.errors
    (record,) = recorder.records
    return record


def test_a_launch_is_recorded_with_its_parameters_when_it_begins_and_when_it_has_ended() -> None:
    parameters = ctypes.create_string_buffer(b"parameters and more", 19)
    slot = abi.Slot(opcode=abi.Opcode.LAUNCH, value=9, wait_count=2)
    slot.waits[0].stream, slot.waits[0].value = 3, 4
    slot.waits[1].stream, slot.waits[1].value = 1, 2
    body = slot.body.launch
    body.kernel, body.parameter_bytes, body.shared_bytes = 6, 10, 48
    body.grid[:], body.block[:] = (2, 3, 4), (32, 5, 1)
    body.stack_bytes = 1024 | 7  # the low bits are flags
    at = Position(5, 9, ((3, 4), (1, 2)))
    launch = Launch("", (2, 3, 4), (32, 5, 1), b"parameters", 48, 1024)
    assert record_of(slot, ctypes.addressof(parameters)) == LaunchBegins(at, 6, launch)
    assert record_of(slot, ended=True) == LaunchEnded(at)


@pytest.mark.parametrize(
    ("destination", "source", "direction"),
    [
        (DEVICE, HOST, Direction.HOST_TO_DEVICE),
        (HOST, DEVICE, Direction.DEVICE_TO_HOST),
        (DEVICE, DEVICE, Direction.DEVICE_TO_DEVICE),
    ],
)
def test_a_copy_is_recorded_with_its_direction(
    destination: int, source: int, direction: Direction
) -> None:
    slot = abi.Slot(opcode=abi.Opcode.COPY, value=1)
    slot.body.copy = abi.CopyBody(destination, source, 4096)
    assert record_of(slot) == Copy(Position(5, 1), direction, 4096)


@pytest.mark.parametrize(
    ("gpus", "direction"),
    [((2, 3), Direction.DEVICE_TO_PEER), ((2, 2), Direction.DEVICE_TO_DEVICE)],
)
def test_a_copy_that_the_program_has_made_is_recorded_as_such(
    gpus: tuple[int, int], direction: Direction
) -> None:
    slot = abi.Slot(opcode=abi.Opcode.COPIED, value=1)
    slot.body.copied = abi.CopiedBody(1 << 60, Direction.DEVICE_TO_PEER, 1, *gpus)
    most = address_map.APERTURE_BYTES
    assert record_of(slot) == Copy(Position(5, 1), direction, most, True, True, gpus)


def test_other_requests_are_recorded() -> None:
    slot = abi.Slot(opcode=abi.Opcode.SET, value=1)
    slot.body.set = abi.SetBody(DEVICE, 100, 7, 4)
    assert record_of(slot) == Fill(Position(5, 1), 400)
    for opcode in (abi.Opcode.NOP, abi.Opcode.TIMESTAMP):
        assert record_of(abi.Slot(opcode=opcode, value=2)) == Mark(Position(5, 2))


def test_a_request_without_a_record_is_an_error_that_the_observer_gets() -> None:
    recorder = Recorder()
    slot = abi.Slot(opcode=abi.Opcode.COPIED)
    slot.body.copied = abi.CopiedBody(1, 9, 0, 0, 0)
    assert Requests(BASE, recorder).report(0, slot, 0) == 0
    assert not recorder.records
    assert [type(err) for err in recorder.errors] == [ValueError]
