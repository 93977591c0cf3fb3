"""Every board's record is complete, and every reader of records has every board."""

import importlib
from pathlib import Path

import pytest

import boards
from boards import RECORDS
from boards.record import ARCHITECTURES
from boards.record.figures import number_of
from mig import geometry
from vgpu_sim.gpud.devices.silicon import BOARDS as SILICON
from vgpu_sim.gpud.telemetry.figures import SENSORS
from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import BOARDS as PREDICTED
from vgpu_sim.perf.errors import UnknownModel

FILES = {path.stem for path in Path(boards.__file__).parent.glob("*.py")} - {"__init__"}
SIMULATED = [key for key, record in RECORDS.items() if record.device is not None]
EACH = pytest.mark.parametrize("key", RECORDS)
EACH_SIMULATED = pytest.mark.parametrize("key", SIMULATED)


def test_each_module_of_the_folder_is_the_board_of_its_name() -> None:
    assert {key.replace("-", "_") for key in RECORDS} == FILES
    for key, record in RECORDS.items():
        assert importlib.import_module(f"boards.{key.replace('-', '_')}").RECORD is record
        assert record.key == key


def test_each_reader_has_its_boards_in_the_records_order() -> None:
    assert list(PREDICTED) == list(RECORDS)
    assert list(geometry.BOARDS) == list(SILICON) == list(SENSORS) == SIMULATED
    orders = [record.order for record in RECORDS.values()]
    assert orders == sorted(set(orders))


@EACH
def test_a_board_has_figures_and_a_source_of_each(key: str) -> None:
    record = RECORDS[key]
    known = record.performance
    assert record.product_name.startswith("NVIDIA ")
    assert record.data_sheet
    assert record.compute_capability in ARCHITECTURES
    figures = [record.sms, record.l2_mb, record.power_w, known.boost_ghz, known.dram_gb_per_s]
    figures += [known.dram_gb, known.link_gb_per_s, known.pcie_gb_per_s, known.vector_tflops]
    assert all(number_of(one) > 0 for one in (*figures, *known.tensor_tflops.values()))
    assert {"bf16", "fp16", "tf32"} <= set(known.tensor_tflops)
    # The rounded properties lose nothing.
    assert record.sm_count == number_of(record.sms)
    assert record.l2_bytes == number_of(record.l2_mb) * 2**20
    assert record.power_limit_w == number_of(record.power_w)


@EACH
def test_a_board_has_parameters_of_its_own_or_of_another(key: str) -> None:
    """A board without parameters has no predictions; a misspelt donor must not pass."""
    known = RECORDS[key].performance
    assert {known.sibling or key, *known.lenders.values()} <= set(RECORDS)
    assert parameters.nearest("stream", key, "elementwise", "vllm").values
    found = []
    for dtype, library in (("bf16", "vllm"), ("fp8", "sglang")):
        try:
            found.append(parameters.nearest("gemm", key, dtype, library))
        except UnknownModel:
            continue
    assert found


@EACH_SIMULATED
def test_a_simulated_board_has_clocks_and_power_in_their_order(key: str) -> None:
    record = RECORDS[key]
    device = record.device
    assert device is not None
    # Two clocks: the largest one, and the one that the data sheet's rates assume.
    assert device.silicon.max_clock_khz >= number_of(record.performance.boost_ghz) * 1e6
    assert 0 < device.sensors.idle_clock_mhz * 1000 < device.silicon.max_clock_khz
    assert (device.sensors.idle_memory_clock_mhz or 0) * 1000 < device.silicon.memory_clock_khz
    assert 0 < device.sensors.idle_w < record.power_limit_w
    assert device.silicon.bus_bits > 0


@EACH_SIMULATED
def test_a_simulated_board_is_divided_into_no_more_than_it_has(key: str) -> None:
    record = RECORDS[key]
    device = record.device
    assert device is not None
    whole = [
        row for row in device.geometry.rows if row.shape.size == device.geometry.placement_units
    ]
    assert whole
    assert {row.shape.compute_slices for row in whole} == {device.geometry.compute_slices}
    for row in device.geometry.rows:
        assert row.memory_mib < device.geometry.memory_mib
        assert row.sm_count <= record.sm_count
        assert row.shape.size * row.shape.max_count <= device.geometry.placement_units


def test_boards_have_numbers_of_their_own_on_the_bus() -> None:
    numbers = [board.pci_device_id for board in geometry.BOARDS.values()]
    assert len(set(numbers)) == len(numbers)
    # together with the vendor's number it must fit a signed attribute
    assert max(numbers) < 1 << 15
