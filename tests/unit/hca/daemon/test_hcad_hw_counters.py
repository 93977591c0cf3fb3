"""A device's hw_counters: named as mlx5's, written when they change, and always complete."""

import os

import pytest

from hca.binding.addresses import address_of
from hca.contract.hca_engine import HcaWireCounts
from hca.daemon.sysfs import files, hw_counters
from hca.daemon.sysfs.hw_counters import FOLDER, Shown


@pytest.fixture
def device(tmp_path):
    files.write(tmp_path / "tessera_0", address_of(0), "1.2", "B")
    return tmp_path / "tessera_0"


def read(device) -> dict[str, str]:
    return {path.name: path.read_text() for path in (device / FOLDER).iterdir()}


def test_a_device_without_a_wire_has_counted_nothing(device):
    said = read(device)
    assert said.pop("lifespan") == "1000\n"
    assert set(said) >= {"np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled"}
    assert set(said.values()) == {"0\n"}


def test_the_wires_of_a_device_are_counted_together(device):
    shown = Shown(device)
    one = HcaWireCounts(np_cnp_sent=3, np_ecn_marked=40, gaps=1)
    shown.write_changed([one, HcaWireCounts(np_cnp_sent=4, rp_cnp_ignored=2)])
    said = read(device)
    assert said["np_cnp_sent"] == "7\n"
    assert said["np_ecn_marked_roce_packets"] == "40\n"
    assert said["rp_cnp_ignored"] == "2\n"
    assert said["out_of_sequence"] == "1\n"


def test_what_begins_anew_is_shorter(device):
    Shown(device).write_changed([HcaWireCounts(np_cnp_sent=123456)])
    Shown(device).write_changed([HcaWireCounts()])
    assert read(device)["np_cnp_sent"] == "0\n"


def test_what_has_not_changed_is_not_written(device):
    shown = Shown(device)
    shown.write_changed([HcaWireCounts(np_cnp_sent=1)])
    before = (device / FOLDER / "np_cnp_sent").stat().st_mtime_ns
    os.utime(device / FOLDER / "np_cnp_sent", ns=(before - 1000, before - 1000))
    shown.write_changed([HcaWireCounts(np_cnp_sent=1, gaps=1)])
    assert (device / FOLDER / "np_cnp_sent").stat().st_mtime_ns == before - 1000
    assert read(device)["out_of_sequence"] == "1\n"


def test_a_link_in_the_place_of_a_file_is_not_followed(device, tmp_path):
    (tmp_path / "other").write_text("untouched")
    (device / FOLDER / "np_cnp_sent").unlink()
    (device / FOLDER / "np_cnp_sent").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        Shown(device).write_changed([HcaWireCounts(np_cnp_sent=1)])
    assert (tmp_path / "other").read_text() == "untouched"


def test_every_file_is_of_a_field_that_there_is():
    fields = {name for name, *_ in HcaWireCounts._fields_}
    assert set(hw_counters._FIELDS.values()) <= fields
