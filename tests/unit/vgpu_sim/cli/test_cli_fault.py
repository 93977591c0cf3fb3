"""``tessera fault`` against a real gpud: what it does, says, and exits with."""

import re

import pytest
from click.testing import CliRunner

from support.processes.gpud_process import gpud
from vgpu_sim.cli import fault

TOKEN = bytes(32)


@pytest.fixture(scope="module")
def node():
    with gpud("--health-seconds", "60", "60", "60", token=TOKEN) as running:
        running.made = running.make_slice()["uuid"]
        yield running


@pytest.fixture
def say(monkeypatch, node):
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(node.run_dir / "slices"))

    def run(*arguments: str):
        return CliRunner().invoke(fault.command, arguments)

    return run


def test_what_is_injected_is_listed_and_what_lasts_is_cleared(say, node):
    assert say("inject", "--slice", node.made, "--ecc-corrected", "3").exit_code == 0
    lasting = say("inject", "--thermal")
    fault_id = lasting.output.strip()
    assert say("inject", "--slice", node.made, "--xid", "94").exit_code == 0
    shown = say("list").output
    assert f"1g.10gb@0 (UUID: {node.made}): Suspect: " in shown
    assert "corrected 3/3, uncorrected 0/0" in shown
    assert f"lasts: thermal GPU (id {fault_id})" in shown
    xid = (
        rf"  #1 \d{{4}}-\d\d-\d\dT[\d:]{{8}}Z Xid 94 \(Contained ECC error\), {node.made}: injected"
    )
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
        (("inject", "--xid", "7"), 1, "tessera fault: unknown Xid 7; known: 13"),
        (("inject", "--gpu", "3", "--hang"), 1, "tessera fault: there is no GPU 3"),
        (("clear", "nothing"), 1, "tessera fault: no fault nothing lasts"),
        (("list", "--run-dir", "/nowhere"), 9, "couldn't communicate with gpud: /nowhere"),
    ],
)
def test_what_cannot_be_is_said_and_is_the_exit_status(say, arguments, status, message):
    done = say(*arguments)
    assert done.exit_code == status
    assert message in done.output


def test_without_a_node_the_only_run_in_progress_is_asked(monkeypatch, tmp_path, node):
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(tmp_path / "none" / "slices"))
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(fault.config, "private_dir_parents", lambda: (tmp_path,))
    (tmp_path / "tessera-a").symlink_to(node.run_dir)
    assert CliRunner().invoke(fault.command, ["list"]).exit_code == 0
    (tmp_path / "tessera-b").symlink_to(node.run_dir)
    several = CliRunner().invoke(fault.command, ["list"])
    assert (several.exit_code, "say --run-dir" in several.output) == (9, True)
