"""Programs that parse nvidia-smi's output can parse Tessera's: unmodified programs, and the rules
of others.
"""

import csv
import ctypes
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from support.programs import nvidia_smi
from vgpu_sim.native import build, catalogue

ROOT = Path(__file__).parents[3]
UUIDS = [f"GPU-5eb1e1de-0000-4000-8000-00000000000{index}" for index in range(2)]
MIG_UUIDS = [f"MIG-5eb1e1de-0000-4000-8000-00000000000{last}" for last in "ab"]


def nvsmi(*arguments):
    """Run nvsmi of PyPI, which runs the nvidia-smi in PATH."""
    pytest.importorskip("nvsmi", reason="NOT RUN: nvsmi is not installed (group test)")
    done = subprocess.run(
        [sys.executable, "-m", "nvsmi", *arguments],
        env=nvidia_smi.environment() | {"PYTHONPATH": ""},
        check=True,
        capture_output=True,
        text=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_nvsmi_lists_gpus():
    # It omits a GPU whose utilisation is not a number, such as one in MIG mode.
    (gpu,) = nvsmi("ls", "--json")
    assert (gpu["id"], gpu["uuid"], gpu["mem_used"], gpu["gpu_util"]) == ("0", UUIDS[0], 812, 37)


def test_nvsmi_lists_processes():
    processes = nvsmi("ps", "--json")
    assert [(one["pid"], one["gpu_id"], one["used_memory"]) for one in processes] == [
        (4242, "0", 812.0),
        (7, "1", 37.0),
        (8, "1", 12.0),
    ]


def test_nvidia_htop_reads_the_tables(tmp_path):
    """nvidia-htop of PyPI cuts the summary by line and column, and joins it with ps."""
    program = Path(sys.executable).with_name("nvidia-htop.py")
    if not program.exists():
        pytest.skip("NOT RUN: nvidia-htop is not installed (group test)")
    ps = tmp_path / "ps"
    ps.write_text(
        "PID USER %CPU %MEM ELAPSED COMMAND\n4242 alice 99.0 1.2 01:02:03 python train.py\n"
    )
    done = subprocess.run(
        [sys.executable, str(program), "--meter", "--fake-ps", str(ps)],
        input=nvidia_smi.run().text,
        check=True,
        capture_output=True,
        text=True,
    )
    assert "| [|||      ] Disabled |" in done.stdout, "37 % of its meter"
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"\|    \d ", line)]
    assert rows == [
        ["|", "0", "4242", "alice", "812MiB", "99.0", "1.2", "01:02:03", "python", "train.py", "|"],
        ["|", "1", "7", "37MiB", "|"],
        ["|", "1", "8", "12MiB", "|"],
    ]


def test_csv_readers_get_the_requested_number_of_columns():
    names = re.findall(r'^"([^"]+)"', nvidia_smi.run("--help-query-gpu").text, re.MULTILINE)
    assert len(names) > 90
    answer = nvidia_smi.run(f"--query-gpu={','.join(names)}", "--format=csv")
    header, *rows = csv.reader(io.StringIO(answer.text), skipinitialspace=True)
    assert [column.partition(" [")[0] for column in header] == names
    assert [len(row) for row in rows] == [len(names)] * 2


def test_every_alias_is_a_column_of_its_name():
    help_text = nvidia_smi.run("--help-query-gpu").text
    aliases = re.findall(r'^"([^"]+)" or "([^"]+)"$', help_text, re.MULTILINE)
    assert ("name", "gpu_name") in aliases
    answer = nvidia_smi.run(f"--query-gpu={','.join(a for _, a in aliases)}", "--format=csv")
    columns = answer.text.splitlines()[0].split(", ")
    assert [column.partition(" [")[0] for column in columns] == [name for name, _ in aliases]


def test_xml_has_what_monitors_look_for():
    root = ET.fromstring(nvidia_smi.run("-q", "-x").text)
    assert root.tag == "nvidia_smi_log"
    assert root.findtext("driver_version") == "580.65.06"
    assert root.findtext("attached_gpus") == "2"
    whole, mig = root.findall("gpu")
    assert [gpu.findtext("uuid") for gpu in (whole, mig)] == UUIDS
    assert whole.get("id") == whole.findtext("pci/pci_bus_id") == "00000000:01:00.0"
    assert whole.findtext("fb_memory_usage/used") == "812 MiB"
    assert whole.findtext("utilization/gpu_util") == "37 %"
    assert whole.findtext("gpu_power_readings/power_draw") == "73.28 W"
    assert whole.findtext("temperature/gpu_temp") == "33 C"
    assert whole.find("mig_devices/mig_device") is None
    assert whole.findtext("processes/process_info/pid") == "4242"
    devices = mig.findall("mig_devices/mig_device")
    assert [device.findtext("gpu_instance_id") for device in devices] == ["2", "9"]
    assert devices[1].findtext("device_attributes/shared/multiprocessor_count") == "16"


def test_names_of_a_hostile_program_forge_neither_xml_nor_rows():
    root = ET.fromstring(nvidia_smi.run("-q", "-x", double="hostile").text)
    assert len(root.findall("gpu")) == 2
    assert root.findtext("gpu/processes/process_info/process_name") == "a, 1?<b>"
    answer = nvidia_smi.run(
        "--query-compute-apps=pid,name", "--format=csv,noheader", double="hostile"
    )
    assert answer.text.splitlines()[0] == "4242, a? 1?<b>"


def test_programs_that_cut_the_summary_by_line_and_column():
    """The rules of nvgpu, PyTorch's collect_env and shell scripts."""
    lines = nvidia_smi.run().text.splitlines()
    assert float(lines[2].split("CUDA Version: ")[1].split(" ")[0]) == 13.0
    assert re.search(r"Driver Version: (\S+)", lines[2]).group(1) == "580.65.06"
    assert "Tessera" in lines[2]
    for gpu, used in enumerate(("812", "24")):
        row = lines[8 + 4 * gpu + 1]
        assert row.split("|")[2].strip().split("/")[0].strip() == f"{used}MiB"
    assert len({len(line) for line in lines[1:]}) == 1


def test_programs_that_cut_the_list():
    gpus = re.findall(
        r"^GPU ([0-9]+): (.+?) \(UUID: ([^)]+)\)$",
        listed := nvidia_smi.run("-L").text,
        re.MULTILINE,
    )
    assert [uuid for _, _, uuid in gpus] == UUIDS
    migs = re.findall(
        r"^  MIG (\S+)\s+Device +(\d+): \(UUID: (MIG-[0-9a-f-]+)\)$", listed, re.MULTILINE
    )
    assert migs == [("3g.40gb", "0", MIG_UUIDS[0]), ("1g.10gb", "1", MIG_UUIDS[1])]


def test_without_the_library_it_says_so(tmp_path):
    program = shutil.copy(nvidia_smi.program(), tmp_path / "bin")  # separate from the adjacent one
    environment = {name: os.environ[name] for name in ("PATH",)}
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    assert done.returncode == 12
    assert "couldn't find libnvidia-ml.so" in done.stdout


def test_a_loop_ends_when_its_reader_closes():
    command = [str(nvidia_smi.program()), "-L", "-lms", "1"]
    with subprocess.Popen(command, env=nvidia_smi.environment(), stdout=subprocess.PIPE) as loop:
        assert loop.stdout is not None
        assert loop.stdout.readline().startswith(b"GPU 0: NVIDIA H100 80GB HBM3")
        loop.stdout.close()
        assert loop.wait(30) != 0


def test_a_loop_prints_the_header_once(tmp_path):
    command = [str(nvidia_smi.program()), "--query-gpu=index", "--format=csv", "-lms=1"]
    with subprocess.Popen(command, env=nvidia_smi.environment(), stdout=subprocess.PIPE) as loop:
        assert loop.stdout is not None
        lines = [loop.stdout.readline() for _ in range(5)]
        loop.kill()
    assert lines == [b"index\n", b"0\n", b"1\n", b"0\n", b"1\n"]


def test_output_into_a_file(tmp_path):
    path = tmp_path / "log"
    assert nvidia_smi.run("-L", "-f", str(path)) == nvidia_smi.Answer("", 0)
    assert path.read_text() == nvidia_smi.run("-L").text


def test_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(nvidia_smi.program()), "-L"], env=nvidia_smi.environment(), stdout=full
        )
    assert done.returncode == 255


def test_runs_where_the_libraries_run():
    """It runs on the glibc of old images (ADR 6); the system's C start file would need 2.34."""
    symbols = subprocess.run(
        ["objdump", "-T", str(nvidia_smi.program())], check=True, capture_output=True, text=True
    ).stdout
    versions = {
        tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)
    }
    assert versions
    assert max(versions) <= (2, 17)
    dynamic = subprocess.run(
        ["readelf", "-d", str(nvidia_smi.program())], check=True, capture_output=True, text=True
    ).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", dynamic)) <= {"libc.so.6", "libdl.so.2"}


def test_says_the_version_of_the_product():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    first = nvidia_smi.run("--version").text.splitlines()[0]
    assert first == f"Tessera-SMI version : {project['version']}"


def test_its_structures_are_those_of_the_public_binding(tmp_path):
    """Compared with nvidia-ml-py, which carries the sizes of NVML's structures."""
    pynvml = pytest.importorskip("pynvml", reason="NOT RUN: nvidia-ml-py is not installed")
    pairs = {
        "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
        "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
        "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t,
        "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
        "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_v2_t,
        "nvmlDeviceAttributes_t": pynvml.c_nvmlDeviceAttributes,
        "nvmlGpuInstanceProfileInfo_v2_t": pynvml.c_nvmlGpuInstanceProfileInfo_v2_t,
        "nvmlGpuInstanceInfo_t": pynvml.c_nvmlGpuInstanceInfo_t,
        "nvmlComputeInstanceProfileInfo_v2_t": pynvml.c_nvmlComputeInstanceProfileInfo_v2_t,
        "nvmlComputeInstanceInfo_t": pynvml.c_nvmlComputeInstanceInfo_t,
    }
    source = tmp_path / "sizes.c"
    asserts = "".join(
        f"_Static_assert(sizeof({name}) == {ctypes.sizeof(type_)}, {json.dumps(name)});\n"
        for name, type_ in pairs.items()
    )
    source.write_text(f'#include "nvml/nvml_types.h"\n{asserts}')
    command = [
        build.compiler(),
        "-std=c11",
        "-fsyntax-only",
        f"-I{catalogue.CLIENTS / 'nvidia_smi'}",
    ]
    subprocess.run([*command, str(source)], check=True)
