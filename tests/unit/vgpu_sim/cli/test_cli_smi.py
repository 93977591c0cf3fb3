"""The output of ``tessera smi`` on a node, in a pod, and without either."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.processes.gpud_process import gpud
from vgpu_sim.cli.smi import command, view
from vgpu_sim.cli.smi.view import DeviceView, GpuView, NodeView, ProcessView
from vgpu_sim.hal.management import admin

TOKEN = bytes(32)


@pytest.fixture(scope="module")
def node():
    with gpud(token=TOKEN) as running:
        running.slices = [running.make_slice(start=3), running.make_slice("3g.40gb", 4)]
        yield running


@pytest.fixture
def look(monkeypatch, node):
    """Run smi on the node ("gpud"), or where only slice sockets exist ("slices")."""

    def run(where: str, *arguments: str):
        hidden = node.root / "elsewhere"
        slices = node.run_dir / "slices"
        if where == "slices":
            hidden.mkdir(exist_ok=True)
            link = hidden / "slices"
            if not link.exists():
                link.symlink_to(slices)
            slices = link
        monkeypatch.setenv("TESSERA_RUN_DIR", str(node.run_dir if where == "gpud" else hidden))
        monkeypatch.setenv("TESSERA_SLICES_DIR", str(slices))
        return CliRunner().invoke(command.command, arguments)

    return run


@pytest.mark.parametrize("where", ["gpud", "slices"])
def test_the_list_matches_nvidia_smi(look, node, where):
    done = look(where, "-L")
    assert done.exit_code == 0
    gpu = node.call("inventory")["gpus"][0]
    assert done.output.splitlines() == [
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {gpu['uuid']})",
        f"  MIG 1g.10gb     Device  0: (UUID: {node.slices[0]['uuid']})",
        f"  MIG 3g.40gb     Device  1: (UUID: {node.slices[1]['uuid']})",
    ]


def test_both_sources_agree_on_what_both_know(look):
    from_gpud = json.loads(look("gpud", "--json").output)
    from_slices = json.loads(look("slices", "--json").output)
    assert (from_gpud["source"], from_slices["source"]) == ("gpud", "slices")
    assert from_slices["budget_total_bytes"] is None
    for one, other in zip(from_gpud["gpus"], from_slices["gpus"], strict=True):
        for unknown in ("health", "topology"):
            assert other.pop(unknown) is None
            one.pop(unknown)
        for mine, its in zip(one["devices"], other["devices"], strict=True):
            for unknown in ("admit", "holders", "processes"):
                assert its.pop(unknown) is None
                mine.pop(unknown)
        assert one == other


def test_the_overview_shows_memory_budget_and_isolation(look):
    done = look("gpud")
    assert "0MiB / 9984MiB" in done.output
    assert "0MiB / 40448MiB" in done.output
    assert "No running processes found" in done.output
    assert "Isolation: not enforced (standalone run" in done.output
    assert "Node memory budget: 0MiB / " in done.output
    lengths = {len(line) for line in done.output.splitlines() if line.startswith(("+", "|"))}
    assert len(lengths) == 2  # two tables, each with straight edges
    in_a_pod = look("slices").output
    assert "Node memory budget: N/A" in in_a_pod
    assert "unknown: slice sockets" in in_a_pod


def test_the_query_has_a_field_for_everything(look):
    lines = look("gpud", "-q").output.splitlines()
    values = {
        line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip()
        for line in lines
        if ":" in line
    }
    assert values["CUDA Compute Capability"] == "9.0"
    assert values["Placement"] == "{4}:4"
    assert values["FB Memory Total"] == "40448 MiB"
    assert values["New Contexts"] == "admitted"
    assert values["MIG Mode"] == "Enabled"
    assert values["Holders"] == "-"


def test_the_query_is_laid_out_in_levels(look):
    lines = look("gpud", "-q").output.splitlines()
    device = ["MIG Device"]
    device += [f"    {name}" for name in ("Index", "UUID", "Profile", "Placement")]
    device += [f"    {name}" for name in ("Multiprocessors", "FB Memory Total", "FB Memory Used")]
    device += [f"    {name}" for name in ("Contexts", "New Contexts", "Holders")]
    gpu = ["Product Name", "Board", "GPU UUID", "CUDA Compute Capability", "Multiprocessors"]
    gpu += ["FB Memory Total", "Health", "MIG Mode", *device, *device]
    assert [line.split(":")[0].rstrip() for line in lines] == [
        *(
            "Source",
            "Tessera Version",
            "CUDA Version",
            "Isolation",
            "Event Clock",
            "Worker Sandbox",
        ),
        *("Node Memory Budget", "    Total", "    Used", "Attached GPUs"),
        *("", "GPU 0", *(f"    {name}" for name in gpu)),
    ]
    assert {line.index(":") for line in lines if ":" in line} == {40}


@pytest.mark.parametrize("where", ["gpud", "slices"])
def test_the_event_clock_is_known_on_the_node_and_in_pods(look, where):
    assert json.loads(look(where, "--json").output)["clock"] == "wall"
    assert "Event clock" not in look(where).output  # the default, which is not shown


def test_the_overview_shows_a_modelled_clock():
    node = dataclasses.replace(used_by(process()), clock="modelled")
    for lines in (command.query_lines(node), command.table_lines(node)):
        (line,) = (one for one in lines if one.lower().startswith("event clock"))
        assert "modelled (events measure what the board would take" in line


def process(**changes) -> ProcessView:
    fields = {
        "pid": 11,
        "name": "train",
        "worker_pid": 12,
        "uid": 65432,
        "holder": "team/train-0",
        "memory_bytes": 3 << 20,
        "launches": 4,
        "first_launch_ns": 0,
        "last_launch_ns": 0,
        "busy_ns": 0,
        "running_kernel": "vecadd",
        "running_seconds": 1.5,
        "sandbox": {"own_user": False, "seccomp": True, "landlock": True, "namespaces": False},
    }
    return ProcessView(**fields | changes)


def used_by(*processes: ProcessView, **changes) -> NodeView:
    """A node with one slice, as gpud reports it."""
    device = DeviceView(
        *(0, "MIG-1", "1g.10gb", 3, 1, 16, 9984 << 20, 3 << 20, len(processes)),
        **{"admit": False, "holders": ["team/train-0"], "processes": list(processes)} | changes,
    )
    gpu = GpuView(0, "GPU-1", "h100-80gb", "H100", "9.0", 80 << 30, 132, "Healthy", [device])
    return NodeView("gpud", "1", "13.0", True, "", ["seccomp"], 8 << 30, 1 << 30, [gpu])


def test_the_query_shows_each_processs_kernel_and_sandbox():
    lines = [line.strip() for line in command.query_lines(used_by(process()))]
    fields = [[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]
    assert fields[-9:] == [
        ["PID", "11"],
        ["Name", "train"],
        ["Worker PID", "12"],
        ["User ID", "65432"],
        ["Holder", "team/train-0"],
        ["Used GPU Memory", "3 MiB"],
        ["Launches", "4"],
        ["Running Kernel", "vecadd, 1.5 s"],
        ["Sandbox", "seccomp, landlock"],
    ]
    assert lines.count("Process") == 1


def test_the_query_marks_unknown_fields_of_a_process():
    stranger = process(
        pid=0,
        name=None,
        holder="",
        sandbox={"seccomp": False},
        running_kernel=None,
        running_seconds=None,
    )
    lines = list(command.query_lines(used_by(stranger, stranger)))
    values = {line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip() for line in lines[-9:]}
    assert values["PID"] == "N/A (another PID namespace)"
    assert values["Name"] == "N/A"
    assert values["Holder"] == values["Running Kernel"] == values["Sandbox"] == "-"
    assert sum(line.strip() == "Process" for line in lines) == 2


def test_the_overview_lists_processes():
    lines = list(command.table_lines(used_by(process(), process(pid=0, name=None, holder=""))))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert rows[3] == [
        *("0", "0", "1g.10gb", "{3}:1", "16", "3MiB / 9984MiB", "2 (closed)", "team/train-0")
    ]
    assert rows[-2:] == [
        ["0", "0", "11", "train", "12", "team/train-0", "3 MiB"],
        ["0", "0", "N/A", "N/A", "12", "uid 65432", "3 MiB"],
    ]
    assert lines[0].endswith("Node memory budget: 1024MiB / 8192MiB")
    assert lines[-1].startswith("Isolation: enforced")
    open_again = list(command.table_lines(used_by(admit=True)))
    assert not any("(closed)" in line for line in open_again)
    assert "  No running processes found" in open_again


def test_without_gpud_and_slices_the_status_is_9(monkeypatch, tmp_path):
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(tmp_path / "slices"))
    done = CliRunner().invoke(command.command, [])
    assert done.exit_code == command.EXIT_NO_DRIVER
    assert str(tmp_path / "gpud.sock") in done.output


def test_a_slice_without_its_gpud_is_9_and_named(monkeypatch, tmp_path):
    (tmp_path / "slices" / "MIG-0").mkdir(parents=True)
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(tmp_path / "slices"))
    done = CliRunner().invoke(command.command, ["-L"])
    assert done.exit_code == command.EXIT_NO_DRIVER
    assert "MIG-0/s.sock" in done.output


def test_folders_without_slices_give_status_9(monkeypatch, tmp_path):
    monkeypatch.setenv("TESSERA_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("TESSERA_SLICES_DIR", str(tmp_path))
    (tmp_path / "systemd").mkdir()
    done = CliRunner().invoke(command.command, ["-L"])
    assert done.exit_code == command.EXIT_NO_DRIVER
    assert "systemd" not in done.output


def test_a_node_without_devices_is_6(monkeypatch):
    with gpud(token=TOKEN) as empty:
        monkeypatch.setenv("TESSERA_RUN_DIR", str(empty.run_dir))
        monkeypatch.setenv("TESSERA_SLICES_DIR", str(empty.run_dir / "slices"))
        done = CliRunner().invoke(command.command, [])
        assert done.exit_code == command.EXIT_NO_DEVICES
        assert "error: no devices were found\n" in done.output
        assert json.loads(CliRunner().invoke(command.command, ["--json"]).output)["gpus"] == []


def test_layouts_exclude_each_other():
    assert CliRunner().invoke(command.command, ["-L", "--json"]).exit_code == 2


def context_of(pod_uid: str, running_since_ns: int) -> admin.Context:
    """Return a context of this process, with arbitrary figures."""
    figures = (1 << 20, 1, 10, 20, 5, "k" if running_since_ns else "", running_since_ns)
    return admin.Context(7, os.getpid(), 1000, pod_uid, *figures, {})


def test_run_times_are_in_tenths_of_seconds_or_absent(monkeypatch):
    """A kernel that began after the query's time (clocks are read one by one) has run for 0 s."""
    now_ns = 50 * 10**9
    monkeypatch.setattr(view.time, "monotonic_ns", lambda: now_ns)
    since = {0: None, 1: 50.0, now_ns - 1_260_000_000: 1.3, now_ns: 0.0, now_ns + 10**9: 0.0}
    shown = {begin: view._process(context_of("", begin), {}).running_seconds for begin in since}
    assert shown == since


def test_a_process_has_the_name_of_its_pod_and_of_no_other():
    names = {"a": "team/first", "b": "team/second"}
    holders = [view._process(context_of(uid, 0), names).holder for uid in ("b", "a", "gone", "")]
    assert holders == ["team/second", "team/first", "gone", ""]


def test_a_process_is_named_by_its_first_argument_where_it_is_there():
    own = view._process(context_of("", 0), {})
    (first, *_) = Path("/proc/self/cmdline").read_bytes().split(b"\0")
    assert own.name == first.decode()[:128]
    gone = dataclasses.replace(context_of("", 0), client_pid=2**22 + 1)  # beyond pid_max
    assert view._process(gone, {}).name is None
