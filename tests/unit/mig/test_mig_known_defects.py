"""Figures that other projects' mock tables get wrong, each with the figure that hardware prints."""

import pytest

from mig import geometry
from mig.geometry import GIB

HOPPER = ("h100-80gb", "h200")
DOUBLE = {"h100-80gb": "1g.20gb", "h200": "1g.35gb", "b200": "1g.45gb"}
THREE = {"h100-80gb": "3g.40gb", "h200": "3g.71gb", "b200": "3g.90gb"}
SEVEN = {"h100-80gb": "7g.80gb", "h200": "7g.141gb", "b200": "7g.180gb"}

CASES = [
    *[(key, DOUBLE[key], "starts", (0, 1, 2, 3, 4, 5, 6), (0, 2, 4, 6)) for key in DOUBLE],
    *[(key, DOUBLE[key], "size", 1, 2) for key in DOUBLE],
    *[(key, THREE[key], "size", 3, 4) for key in THREE],
    *[(key, SEVEN[key], "size", 7, 8) for key in SEVEN],
    *[(key, THREE[key], "sm_count", 48, 60) for key in HOPPER],
    *[(key, SEVEN[key], "sm_count", 112, 132) for key in HOPPER],
    *[(key, SEVEN[key], "engines.decoder", 5, 7) for key in HOPPER],
    *[(key, SEVEN[key], "engines.jpeg", 0, 7) for key in HOPPER],
    *[(key, SEVEN[key], "engines.ofa", 0, 1) for key in HOPPER],
    *[(key, SEVEN[key], "engines.copy", 7, 8) for key in HOPPER],
    ("h200", "1g.18gb", "memory_bytes", 18 * GIB, 16 * GIB),
    ("h100-80gb", "1g.10gb", "memory_bytes", 10 * GIB, int(9.75 * GIB)),
    ("b200", "1g.23gb", "memory_bytes", 23 * GIB, 22 * GIB),
    ("h100-80gb", "1g.20gb", "sm_count", 16, 26),
    ("b200", "7g.180gb", "engines.ofa", 4, 1),
    ("b200", "7g.180gb", "engines.encoder", 4, 0),
    ("b200", "7g.180gb", "sm_count", 126, 148),
    ("b200", "1g.23gb", "engines.encoder", 1, 0),
    ("b200", "2g.45gb", "engines.decoder", 1, 2),
    ("b200", "2g.45gb", "engines.copy", 3, 4),
    ("b200", "1g.45gb", "sm_count", 18, 30),
    # NVML's enumeration values where the driver's own IDs belong.
    ("b200", "1g.23gb", "driver_id", 0, 19),
    ("b200", "1g.23gb+me", "driver_id", 7, 20),
    ("b200", "1g.45gb", "driver_id", 9, 15),
    ("b200", "2g.45gb", "driver_id", 1, 14),
    ("b200", "3g.90gb", "driver_id", 2, 9),
    ("b200", "4g.90gb", "driver_id", 3, 5),
    ("b200", "7g.180gb", "driver_id", 4, 0),
]


@pytest.mark.parametrize(("key", "name", "field", "wrong", "right"), CASES)
def test_profile_figure(key, name, field, wrong, right):
    value = geometry.board(key).profile(name)
    for part in field.split("."):
        value = getattr(value, part)
    assert value == right != wrong


def test_h200_pci_id():
    assert geometry.board("h200").pci_device_id == 0x2335 != 0x2333


@pytest.mark.parametrize("key", ["h200", "b200", "h100-80gb"])
def test_board_memory_is_not_the_names_figure(key):
    board = geometry.board(key)
    assert board.memory_bytes < board.memory_gib * GIB


def test_units_need_not_be_a_power_of_two():
    board = geometry.board("rtx-pro-6000")
    assert board.placement_units == 12
    assert {profile.size for profile in board.profiles} == {3, 6, 12}


def test_seven_classic_slices_do_not_make_a_fourth_two_slice_instance():
    """2g starts at 0, 2 and 4 only although units 6 and 7 exist."""
    assert geometry.board("h100-80gb").profile("2g.20gb").starts == (0, 2, 4)
