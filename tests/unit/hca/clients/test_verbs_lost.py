"""The end of hcad is logged once, whichever call of a program notices it first."""

import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build, catalogue

HARNESS = Path(__file__).parents[3] / "support/native/verbs_parts/lost.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    verbs = catalogue.RDMA_CLIENTS / "libibverbs"
    output = tmp_path_factory.mktemp("lost") / "lost"
    folders = (verbs, catalogue.COMMON, catalogue.INCLUDE, catalogue.GENERATED)
    sources = [*(verbs / "command").glob("*.c"), *catalogue.COMMON.glob("*.c")]
    command = [build.compiler(), "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [
        "-ffunction-sections",
        "-Wl,--gc-sections",
        *(f"-I{folder}" for folder in folders),
        str(HARNESS),
    ]
    subprocess.run([*command, *map(str, sources), "-o", str(output)], check=True)
    return output


@pytest.mark.parametrize("first", ["ring", "look", "ask"])
def test_the_end_of_hcad_is_printed_once(program: Path, first: str) -> None:
    done = subprocess.run([program, first], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "dead 1\n"
    assert done.stderr.count("hcad has gone") == 1
