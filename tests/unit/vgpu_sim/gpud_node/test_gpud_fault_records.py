"""Xids and memory errors: which are recorded, for which GPU, and for how long."""

from pathlib import Path

import pytest

from vgpu_sim.gpud.faults import inforom, xid_log
from vgpu_sim.gpud.faults.inforom import MAX_REMAPPED_ROWS, Inforom
from vgpu_sim.gpud.faults.injection import Injection, Kind
from vgpu_sim.gpud.faults.records import MAX_XIDS, Records
from vgpu_sim.gpud.model import GpuUuid

GPU = GpuUuid("GPU-11111111-1111-4111-8111-111111111111")
OTHER = GpuUuid("GPU-22222222-2222-4222-8222-222222222222")


def test_a_program_that_faults_in_a_loop_displaces_no_others_xids(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.record_xid(GPU, 48, "", 0, "", 1)
    records.record_xid(GPU, 31, "MIG-quiet", 7, "", 2)
    for number in range(10 * MAX_XIDS):
        records.record_xid(GPU, 13, "MIG-loud", 8, f"{number}", 3)
    found = records.xids(GPU)
    assert len(found) == MAX_XIDS
    assert [one.instance for one in found[:2]] == ["", "MIG-quiet"]
    assert found[-1].sequence == 10 * MAX_XIDS + 2
    assert found[-1].message == f"{10 * MAX_XIDS - 1}"


def test_xids_are_remembered_over_a_restart_and_counted_on(tmp_path: Path) -> None:
    before = Records(tmp_path)
    before.record_xid(GPU, 79, "", 0, "off the bus", 1)
    before.record_xid(OTHER, 13, "MIG-loud", 8, "", 2)
    after = Records(tmp_path)
    assert (after.xids(GPU), after.xids(OTHER)) == (before.xids(GPU), before.xids(OTHER))
    assert after.record_xid(GPU, 48, "", 0, "", 3).sequence == 3
    assert [one.xid for one in Records(tmp_path).xids(GPU)] == [79, 48]


def test_the_file_of_xids_does_not_grow_with_what_programs_do(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for number in range(2 * xid_log.MAX_LINES):
        records.record_xid(GPU, 13, "MIG-loud", 8, "x" * 256, number)
    lines = (tmp_path / xid_log.FILE_NAME).read_text().splitlines()
    assert len(lines) <= xid_log.MAX_LINES
    assert Records(tmp_path).xids(GPU) == records.xids(GPU)


@pytest.mark.parametrize("line", [b"", b"\xff", b"{}", b"[1]", b'{"gpu": "GPU-1", "xid": 1}'])
def test_a_line_that_is_no_xid_hides_no_other_one(tmp_path: Path, line: bytes) -> None:
    Records(tmp_path).record_xid(GPU, 79, "", 0, "", 1)
    with (tmp_path / xid_log.FILE_NAME).open("ab") as file:
        file.write(line + b"\n")
    assert [one.xid for one in Records(tmp_path).xids(GPU)] == [79]


def test_xids_that_cannot_be_written_are_remembered_while_gpud_lives(tmp_path: Path) -> None:
    (tmp_path / xid_log.FILE_NAME).mkdir()
    records = Records(tmp_path)
    records.record_xid(GPU, 79, "", 0, "", 1)
    assert [one.xid for one in records.xids(GPU)] == [79]


def test_texts_of_tenants_are_bounded_and_printable(tmp_path: Path) -> None:
    entry = Records(tmp_path).record_xid(GPU, 13, "", 1, "a\x1b[31m" + "x" * 5000, 1)
    assert "\x1b" not in entry.message
    assert len(entry.message) == 256


def test_a_reset_ends_volatile_counts_and_remaps_rows_and_a_restart_keeps_the_rest(
    tmp_path: Path,
) -> None:
    records = Records(tmp_path)
    records.count_errors(GPU, corrected=5)
    records.count_errors(GPU, uncorrected=2)
    before = records.ecc(GPU)
    assert (before.corrected_volatile, before.uncorrected_volatile, before.pending_rows) == (
        5,
        2,
        2,
    )
    records.reset(GPU)
    after = Records(tmp_path).ecc(GPU)
    assert after == records.ecc(GPU)
    assert (after.corrected_volatile, after.uncorrected_volatile) == (0, 0)
    assert (after.corrected_aggregate, after.uncorrected_aggregate) == (5, 2)
    assert (after.remapped_rows, after.pending_rows) == (2, 0)


def test_remapping_fails_when_there_are_no_rows_left() -> None:
    rom = Inforom().after(uncorrected=MAX_REMAPPED_ROWS).after_reset()
    assert not rom.failed
    assert rom.after(uncorrected=1).failed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2, "gpus": {}}',
        '{"version": 1, "gpus": {"../x": {}}}',
        '{"version": 1, "gpus": {"GPU-1": {"corrected": -1}}}',
        "[" * 100000,
    ],
)
def test_a_file_that_cannot_be_read_is_put_aside(tmp_path: Path, text: str) -> None:
    (tmp_path / inforom.FILE_NAME).write_text(text)
    records = Records(tmp_path)
    assert records.ecc(GPU).corrected_aggregate == 0
    assert (tmp_path / "inforom.corrupt").read_text() == text
    records.count_errors(GPU, corrected=1)
    assert Records(tmp_path).ecc(GPU).corrected_aggregate == 1


@pytest.mark.parametrize(
    ("injection", "text"),
    [
        (Injection("a", "GPU-1", "", Kind.XID, 48, 2, 0), "id=a kind=xid gpu=GPU-1 xid=48 count=2"),
        (
            Injection("b", "GPU-1", "MIG-2", Kind.ECC_CORRECTED, 0, 3, 0),
            "id=b kind=ecc_corrected gpu=GPU-1 instance=MIG-2 count=3",
        ),
        (Injection("c", "GPU-1", "", Kind.HANG, 0, 1, 9), "id=c kind=hang gpu=GPU-1 duration_ms=9"),
    ],
)
def test_an_injection_is_logged_as_fields(injection: Injection, text: str) -> None:
    assert str(injection) == text
