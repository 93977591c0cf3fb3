"""``tessera fault`` against a real gpud: effects, output, and exit statuses."""

import re

import pytest
from click.testing import CliRunner

from support.processes.gpud_process import gpud
from vgpu_sim.cli import fault

TOKEN = bytes(32)


@pytest.fixture(scope="module")
def node():
    with gpud("--health-seconds", "60", "60", "60", token=TOKEN) as running:
        running.instance_uuid = running.make_slice()["uuid"]
        yield running


@pytest.fixture
def say(monkeypatch, node):
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(node.run_dir / "slices"))

    def run(*arguments: str):
        return CliRunner().invoke(fault.command, arguments)

    return run


def test_injected_faults_are_listed_and_lasting_ones_are_cleared(say, node):
    assert say("inject", "--slice", node.instance_uuid, "--ecc-corrected", "3").exit_code == 0
    lasting = say("inject", "--thermal")
    fault_id = lasting.output.strip()
    assert say("inject", "--slice", node.instance_uuid, "--xid", "94").exit_code == 0
    shown = say("list").output
    assert f"1g.10gb@0 (UUID: {node.instance_uuid}): Suspect: " in shown
    assert "corrected 3/3, uncorrected 0/0" in shown
    assert f"lasts: thermal GPU (id {fault_id})" in shown
    xid = rf"  #1 \d{{4}}-\d\d-\d\dT[\d:]{{8}}Z Xid 94 \(Contained ECC error\), {node.instance_uuid}: injected"
    assert re.search(xid, shown)
    assert say("clear", "--gpu", "0").output.strip() == fault_id
    assert say("clear").output == ""
    assert "lasts" not in say("list").output


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("inject",), 2, "give exactly one of --xid"),
        (("inject", "--hang", "--thermal"), 2, "give exactly one of --xid"),
        (("inject", "--ecc-corrected", "2", "--count", "3"), 2, "--count needs --xid"),
        (("inject", "--hang", "--for", "604801"), 2, "'--for': 604801.0 is not in the range"),
        (("inject", "--xid", "7"), 1, "error: unknown Xid 7; known: 13"),
        (("inject", "--gpu", "3", "--hang"), 1, "error: there is no GPU 3"),
        (("clear", "nothing"), 1, "error: no lasting fault has the id nothing"),
        (("list", "--run-dir", "/nowhere"), 9, "couldn't communicate with gpud: /nowhere"),
    ],
)
def test_a_refusal_is_printed_and_sets_the_exit_status(say, arguments, status, message):
    done = say(*arguments)
    assert done.exit_code == status
    assert message in done.output


def test_without_a_node_the_only_run_in_progress_is_used(monkeypatch, tmp_path, node):
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(tmp_path / "none" / "slices"))
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(fault.config, "private_dir_parents", lambda: (tmp_path,))
    (tmp_path / "tessera-a").symlink_to(node.run_dir)
    assert CliRunner().invoke(fault.command, ["list"]).exit_code == 0
    (tmp_path / "tessera-b").symlink_to(node.run_dir)
    several = CliRunner().invoke(fault.command, ["list"])
    assert (several.exit_code, "choose one with --run-dir" in several.output) == (9, True)
