"""nvidia-smi under ``tessera run`` shows gpud's state through Tessera's NVML."""

import csv
import json
import os
import re
import shlex
import subprocess
import xml.etree.ElementTree as ET

import pytest

from support.processes import tessera_run
from vgpu_sim import config

SCRIPT = """
{tessera}; echo ---; nvidia-smi -L; echo ---; nvidia-smi; echo ---; nvidia-smi -q -x; echo ---
nvidia-smi --query-gpu=index,name,uuid,mig.mode.current,driver_version --format=csv,noheader; echo ---
nvidia-smi mig -cgi 19; echo $?; echo ---; nvidia-smi -mig 0; echo $?
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The output of each command in one run with two slices, in the order of SCRIPT."""
    script = SCRIPT.format(tessera=shlex.join(tessera_run.tessera("smi", "--json")))
    place = tmp_path_factory.mktemp("run")
    done = tessera_run.run(place, "sh", "-c", script, options=("--count", "2"))
    assert done.returncode == 0, done.stderr
    return done.stdout.split("---\n")


def test_it_lists_what_gpud_has(outputs):
    (gpu,) = json.loads(outputs[0])["gpus"]
    first, *migs = outputs[1].splitlines()
    assert first == f"GPU 0: {gpu['product']} (UUID: {gpu['uuid']})"
    found = [re.fullmatch(r"  MIG 1g\.10gb     Device  \d: \(UUID: (.*)\)", line) for line in migs]
    uuids = {one["uuid"] for one in gpu["devices"]}
    assert {one.group(1) for one in found} == {
        uuid if uuid.startswith("MIG-") else f"MIG-{uuid}" for uuid in uuids
    }


def test_the_summary_names_tessera_and_the_slices(outputs):
    lines = outputs[2].splitlines()
    assert "Tessera-SMI" in lines[2]
    assert "CUDA Version: " in lines[2]
    assert len(re.findall(r"MiB / 9984MiB", outputs[2])) >= 2
    assert len({len(line) for line in lines[1:]}) == 1


def test_the_xml_agrees(outputs):
    root = ET.fromstring(outputs[3])
    (gpu,) = json.loads(outputs[0])["gpus"]
    assert root.findtext("gpu/uuid") == gpu["uuid"]
    devices = root.findall("gpu/mig_devices/mig_device")
    assert [one.findtext("fb_memory_usage/total") for one in devices] == ["9984 MiB"] * 2
    counts = [one.findtext("device_attributes/shared/multiprocessor_count") for one in devices]
    assert counts == ["16", "16"]


def test_the_csv_agrees(outputs):
    (row,) = csv.reader(outputs[4].splitlines(), skipinitialspace=True)
    (gpu,) = json.loads(outputs[0])["gpus"]
    assert row[:4] == ["0", gpu["product"], gpu["uuid"], "Enabled"]
    assert re.fullmatch(r"[0-9.]+", row[4])


def test_a_program_with_a_slice_changes_nothing(outputs):
    created, disabled = outputs[5].splitlines(), outputs[6].splitlines()
    assert created[-1] != "0"
    assert not any("Successfully" in line for line in created)
    assert disabled[0].endswith(": Insufficient Permissions")
    assert disabled[-1] == "4"


def test_a_whole_gpu_has_mig_off(tmp_path):
    done = tessera_run.run(tmp_path, "nvidia-smi", profile="whole")
    assert done.returncode == 0, done.stderr
    assert "Disabled |" in done.stdout
    assert "MIG devices" not in done.stdout
    assert "MiB /  81559MiB" in done.stdout


def test_a_run_has_the_requested_topology(tmp_path):
    options = ("--topology", "dgx-h100", "--count", "2")
    done = tessera_run.run(tmp_path, "nvidia-smi", "topo", "-m", profile="whole", options=options)
    assert done.returncode == 0, done.stderr
    assert "NV18" in done.stdout
    refused = ("--topology", "hgx-4", "--count", "5")
    done = tessera_run.run(tmp_path, "true", profile="whole", options=refused)
    assert done.returncode == 2
    assert "hgx-4 has room for 4 GPUs, not 5" in done.stderr


def test_outside_of_a_run_there_is_no_driver(tmp_path):
    """The library is found next to the command, but no gpud runs."""
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(config.LIBRARIES_DIR),
        "TESSERA_SLICES_DIR": str(tmp_path),
    }
    command = [str(config.PROGRAMS_DIR / "nvidia-smi")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in done.stdout


MANAGE = """
export TESSERA_MANAGEMENT_SOCKET=$(dirname "$TESSERA_SLICES_DIR")/management.sock
nvidia-smi mig -lgip; echo ---; nvidia-smi mig -lgipp; echo ---
nvidia-smi mig -cgi 14,1g.10gb:6 -C; echo $?; echo ---; nvidia-smi mig -lgi; echo ---; nvidia-smi -L; echo ---
nvidia-smi mig -cgi 7g.80gb; echo $?; echo ---; nvidia-smi mig -dci; nvidia-smi mig -dgi; echo $?; echo ---
nvidia-smi -L; echo ---
nvidia-smi mig -cgi 3g.40gb:4; nvidia-smi mig -cci 1c.3g.40gb:2,0; echo $?; echo ---
nvidia-smi mig -lcip; nvidia-smi mig -lci; nvidia-smi -L; nvidia-smi; echo ---
nvidia-smi mig -cci 1; echo $?; nvidia-smi mig -dci -ci 2; nvidia-smi mig -lci; nvidia-smi mig -dci; nvidia-smi mig -dgi
"""


def test_the_user_of_gpud_creates_and_destroys_instances(tmp_path):
    """Over the management socket, as on a node."""
    done = tessera_run.run(tmp_path, "sh", "-c", MANAGE)
    assert done.returncode == 0, done.stderr
    outputs = done.stdout.split("---\n")
    profiles, places, created, listed, devices, refused, destroyed, left = outputs[:8]
    rows = re.findall(
        r"^\|   0  MIG (\S+) +(\d+) +(\d+/\d+) +(\S+) +No +(\d+) ", profiles, re.MULTILINE
    )
    assert rows == [
        ("1g.10gb", "19", "6/7", "9.75", "16"),
        ("1g.10gb+me", "20", "1/1", "9.75", "16"),
        ("1g.20gb", "15", "3/4", "19.62", "26"),
        ("2g.20gb", "14", "2/3", "19.62", "32"),
        ("3g.40gb", "9", "1/2", "39.50", "60"),
        ("4g.40gb", "5", "0/1", "39.50", "64"),
        ("7g.80gb", "0", "0/1", "79.25", "132"),
    ]
    assert "GPU  0 Profile ID  9 Placements: {0,4}:4" in places.splitlines()
    assert [line[:32] for line in created.splitlines()] == [
        "Successfully created GPU instanc",
        "Successfully created compute ins",
        "Successfully created GPU instanc",
        "Successfully created compute ins",
        "0",
    ]
    found = re.findall(r"^\|   0  MIG (\S+) +\d+ +\d+ +(\d:\d)", listed, re.MULTILINE)
    assert sorted(found)[:2] == [("1g.10gb", "0:1"), ("1g.10gb", "6:1")]
    assert [name for name, _ in sorted(found)] == ["1g.10gb", "1g.10gb", "2g.20gb"]
    assert devices.count("  MIG ") == 3
    assert refused.splitlines()[-2:] == [
        "Failed to create GPU instances: Insufficient Resources",
        "23",
    ]
    assert destroyed.splitlines()[-1] == "0"
    assert "MIG " not in left
    divided, shown, less = outputs[8:]
    assert divided.splitlines()[1:] == [
        f"Successfully created compute instance ID  {number} on GPU  0 GPU instance ID  2 using"
        " profile MIG 1c.3g.40gb (ID  0)"
        for number in (2, 0)
    ] + ["0"]
    inner = re.findall(r"MIG (\S*3g\.40gb) +(\d\*?) +(\d/\d) +(\d+) +3", shown)
    assert inner == [
        ("1c.3g.40gb", "0", "1/3", "16"),
        ("2c.3g.40gb", "1", "0/1", "32"),
        ("3g.40gb", "2*", "0/1", "60"),
    ]
    listing = r"^\|   0      2       MIG 1c\.3g\.40gb +0 +(\d) +(\d:\d) "
    assert re.findall(listing, shown, re.MULTILINE) == [("0", "0:1"), ("2", "2:1")]
    assert shown.count("  MIG 1c.3g.40gb  Device ") == 2
    assert re.findall(r"^\|  0    2   (\d)   (\d)  .*\| 16 ", shown, re.MULTILINE) == [
        ("0", "0"),
        ("2", "1"),
    ]
    assert "Failed to create compute instances: Insufficient Resources\n23\n" in less
    assert "destroyed compute instance ID  2 from GPU  0 GPU instance ID  2" in less
    assert re.findall(listing, less, re.MULTILINE) == [("0", "0:1")]
    assert less.splitlines()[-1] == "Successfully destroyed GPU instance ID  2 from GPU  0"
