"""The modelled clock of a context: copies to other GPUs use the topology's links."""

import json
from types import SimpleNamespace

import pytest

from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute import abi, address_map
from vgpu_sim.hal.observe.modelled_report import MOST_ROWS, ModelledSummary
from vgpu_sim.perf.kernels import chip_of
from vgpu_sim.perf.kernels.copies import Way, copy_us
from vgpu_sim.worker.modelling import clock as modelled_clock
from vgpu_sim.worker.modelling.clock import ModelledClock
from vgpu_sim.worker.modelling.clock_setup import peer_rates
from vgpu_sim.worker.modelling.costs import Begun, Cost
from vgpu_sim.worker.observing.requests import Requests

BOARD = "h100-80gb"
SIZE = 1 << 28


class ObservedCopies:
    """A modelled clock without a worker, and its requests."""

    def __init__(self, topology: str) -> None:
        self.failures: list[str] = []
        self.clock = ModelledClock(
            chip_of(BOARD),
            address_map.APERTURE_BASES[0],
            lambda: BufferMemory(0, bytearray()),
            self.failures.append,
            peer_rates(BOARD, topology),
        )
        self.requests = Requests(address_map.APERTURE_BASES[0], self.clock)
        self._value = 0

    def report_request(self, slot: abi.Slot) -> float:
        """Return the modelled time at which a request of stream 0 is reached, in us."""
        self._value += 1
        slot.value = self._value
        return self.requests.report(0, slot, 0) / 1e3

    def measure_copy(self, source: int, target: int) -> float:
        """Return the microseconds of a copy from one GPU's memory to another's."""
        begin = self.report_request(abi.Slot(opcode=abi.Opcode.NOP))
        slot = abi.Slot(opcode=abi.Opcode.COPIED)
        slot.body.copied = abi.CopiedBody(SIZE, abi.Direction.DEVICE_TO_PEER, 0, source, target)
        return self.report_request(slot) - begin

    def ways(self) -> set[str]:
        """Return the paths of the report's copies."""
        *_, last = self.clock.report()
        reported = json.loads(json.dumps(last["summary"]))
        return {one.way for one in ModelledSummary.parse(reported).copies}


@pytest.mark.parametrize(
    ("topology", "target", "gb_per_s"),
    [
        ("dgx-h100", 7, 450),
        ("hgx-4", 3, 150),
        ("flat", 1, 64),  # no NVLink there
        ("pcie-2-socket", 1, 64),
    ],
)
def test_a_peer_copy_takes_the_rate_of_its_way(topology: str, target: int, gb_per_s: float) -> None:
    clock = ObservedCopies(topology)
    least = SIZE / (gb_per_s * 1e3)
    there, back = clock.measure_copy(0, target), clock.measure_copy(target, 0)
    assert least < there < 1.25 * least
    assert back == pytest.approx(there, rel=1e-3)
    assert clock.ways() == {"PtoP"}
    assert not clock.failures


def test_two_contexts_of_one_gpu_copy_in_its_own_memory() -> None:
    clock = ObservedCopies("hgx-4")
    assert clock.measure_copy(2, 2) == pytest.approx(
        copy_us(chip_of(BOARD), Way.D2D, SIZE), abs=2.5
    )
    assert clock.ways() == {"DtoD"}


def test_a_copy_to_a_gpu_that_does_not_exist_gets_the_data_sheets_link() -> None:
    clock = ObservedCopies("hgx-4")
    assert clock.measure_copy(0, 4_000_000_000) == pytest.approx(
        copy_us(chip_of(BOARD), Way.P2P, SIZE), abs=2.5
    )
    assert not clock.failures


def test_kinds_of_launches_are_bounded_and_all_are_counted() -> None:
    clock, launches = ObservedCopies("dgx-h100"), 3 * modelled_clock._MOST_KINDS
    times = iter(range(launches))
    clock.clock._costs = SimpleNamespace(
        begin=lambda handle, launch, alone: Begun(None, launch, alone=alone),
        end=lambda begun: Cost(float(next(times)), 1.0, None, ""),
    )
    slot = abi.Slot(opcode=abi.Opcode.LAUNCH)
    for slot.value in range(1, launches + 1):
        clock.requests.report(0, slot, 0)
        clock.requests.report(0, slot, 0, ended=True)
    assert not clock.failures
    assert len(clock.clock._rows) <= modelled_clock._MOST_KINDS
    reported = list(clock.clock.report())
    listed = [one["launches"] for one in reported if "launches" in one]
    assert [one["us"] for one in listed] == [launches - 1.0 - place for place in range(MOST_ROWS)]
    assert reported[-1]["summary"]["left_out"] == launches - MOST_ROWS


HOST = address_map.HOST_OFFSET, address_map.HOST_OFFSET + address_map.HOST_BYTES - 1
DEVICE = address_map.HOST_OFFSET - 1, address_map.HOST_OFFSET + address_map.HOST_BYTES


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize(
    ("destination", "source", "way"),
    [
        *((to, of, Way.D2H) for to in HOST for of in DEVICE),
        *((to, of, Way.H2D) for to in DEVICE for of in HOST),
        *((to, of, Way.D2D) for ends in (HOST, DEVICE) for to in ends for of in ends),
    ],
)
def test_a_copy_goes_the_way_of_its_ends_to_the_first_and_last_byte(
    window: int, destination: int, source: int, way: Way
) -> None:
    clock = ObservedCopies("flat")
    base = address_map.APERTURE_BASES[0] + window * address_map.GPU_WINDOW_BYTES
    begin = clock.report_request(abi.Slot(opcode=abi.Opcode.NOP))
    slot = abi.Slot(opcode=abi.Opcode.COPY)
    slot.body.copy = abi.CopyBody(base + destination, base + source, SIZE)
    took = clock.report_request(slot) - begin
    assert clock.ways() == {way.value}
    assert took == pytest.approx(copy_us(chip_of(BOARD), way, SIZE), abs=2.5)
    assert not clock.failures


@pytest.mark.parametrize(("count", "width"), [(1 << 26, 4), (1 << 28, 1)])
def test_a_fill_writes_its_elements(count: int, width: int) -> None:
    clock = ObservedCopies("flat")
    begin = clock.report_request(abi.Slot(opcode=abi.Opcode.NOP))
    slot = abi.Slot(opcode=abi.Opcode.SET)
    slot.body.set = abi.SetBody(address_map.APERTURE_BASES[0], count, 7, width)
    took = clock.report_request(slot) - begin
    assert took == pytest.approx(copy_us(chip_of(BOARD), Way.SET, SIZE), abs=2.5)
    *_, last = clock.clock.report()
    (row,) = ModelledSummary.parse(json.loads(json.dumps(last["summary"]))).copies
    assert (row.way, row.count, row.bytes) == ("memset", 1, SIZE)
