"""nvidia-smi, tessera smi and NCCL's file agree on the topology of a node's GPUs."""

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from support.processes.gpud_process import gpud
from support.processes.tessera_run import tessera, to_its_end
from vgpu_sim import config
from vgpu_sim.gpud.model import new_gpu_uuid
from vgpu_sim.hal.management.nvml import MANAGEMENT_SOCKET_NAME
from vgpu_sim.perf.topology import topology_named


def cells(text: str, gpus: int) -> list[list[str]]:
    """Return the GPUs' part of a matrix."""
    rows = [line.split("\t") for line in text.splitlines() if line.startswith("GPU")]
    return [[one.strip() for one in row[: gpus + 1]] for row in rows]


def numa_affinity(text: str) -> list[str]:
    """Return the column "NUMA Affinity" of a matrix, a cell for each GPU."""
    head, *rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
    at = [name.strip() for name in head].index("NUMA Affinity")
    return [row[at].strip() for row in rows if row[0].startswith("GPU")]


def test_a_run_takes_a_description_and_refuses_what_is_none(tmp_path: Path) -> None:
    def ran(topology: str) -> subprocess.CompletedProcess[str]:
        command = (str(config.PROGRAMS_DIR / "nvidia-smi"), "--query-gpu=pci.bus_id")
        options = ("--board", "a30", "--topology", topology)
        return to_its_end(tmp_path, "run", *options, "--", *command, "--format=csv,noheader")

    done = ran("custom:numa=1;nvlinks=0;gpus=4b.0.0.0")
    assert (done.returncode, done.stdout) == (0, "00000000:4B:00.0\n"), done.stderr
    for wrong, reported in (
        ("custom:gpus=4b", "is not a valid description of a topology"),
        ("dgx", "dgx-h100"),
    ):
        done = ran(wrong)
        assert done.returncode == 2
        assert reported in done.stderr


@pytest.mark.parametrize(
    ("topology", "board", "gpus", "joined"),
    [
        ("hgx-4", "h100-80gb", 4, {"NV6"}),
        ("dgx-a100", "a100-80gb", 8, {"NV12"}),
        ("pcie-2-socket", "a30", 8, {"PIX", "NODE", "SYS"}),
        ("flat", "h100-80gb", 2, {"PHB"}),
        (
            "custom:numa=2;nvlinks=0;gpus=10.0.0.0,11.0.0.0,20.0.1.1,31.1.2.2",
            *("a30", 4, {"PIX", "NODE", "SYS"}),
        ),
        (
            "custom:numa=2;nvlinks=6;gpus=10.0.0.0,11.0.0.0,20.0.1.1,31.1.2.2",
            *("h100-80gb", 4, {"NV2"}),
        ),
        ("custom:numa=1;nvlinks=18;gpus=10.0.0.0,11.0.1.1", "h100-80gb", 2, {"NV18"}),
        (
            "custom:numa=2;nvlinks=15;gpus=10.0.0.0,11.0.0.0,20.0.1.1,31.1.2.2,32.1.2.2,33.1.3.3",
            *("h100-80gb", 6, {"NV3"}),
        ),
    ],
)
def test_all_readers_agree(topology: str, board: str, gpus: int, joined: set[str]) -> None:
    with gpud() as node:
        rows = [
            {"uuid": new_gpu_uuid(), "index": i, "board": board, "topology": topology}
            for i in range(gpus)
        ]
        node.call("configure", gpus=rows, budget_bytes=0)
        environment = dict(os.environ) | {
            "TESSERA_RUN_DIR": str(node.run_dir),
            "TESSERA_SLICES_DIR": str(node.run_dir / "slices"),
            "TESSERA_MANAGEMENT_SOCKET": str(node.run_dir / MANAGEMENT_SOCKET_NAME),
            "LD_LIBRARY_PATH": str(config.LIBRARIES_DIR),
        }

        def output_of(*command: str) -> str:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr + done.stdout
            return done.stdout

        matrices = (
            output_of(str(config.PROGRAMS_DIR / "nvidia-smi"), "topo", "-m"),
            output_of(*tessera("smi", "topo", "-m")),
        )
        theirs, ours = (cells(text, gpus) for text in matrices)
        assert theirs == ours
        nodes = [numa_affinity(text) for text in matrices]
        places = topology_named(topology, gpus).gpus[:gpus]
        assert nodes[0] == nodes[1] == [str(place.numa) for place in places]
        assert {cell for row in ours for cell in row[1:]} == joined | {"X"}
        xml = ElementTree.fromstring(output_of(*tessera("smi", "topo", "--xml")))
        buses = [one.get("busid") for one in xml.iter("pci") if one.find("gpu") is not None]
        requested = "--query-gpu=pci.bus_id", "--format=csv,noheader"
        reported = output_of(str(config.PROGRAMS_DIR / "nvidia-smi"), *requested).split()
        assert sorted(one.lower().removeprefix("0000") for one in reported) == sorted(buses)
