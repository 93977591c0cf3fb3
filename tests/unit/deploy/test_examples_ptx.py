"""The committed PTX is what clang makes of the source file, or its header states that it is not."""

import shutil
import subprocess
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
SOURCES = sorted(EXAMPLES.glob("*.cu"))
CLANG = "clang-14"
FLAGS = [
    "-S",
    "-O3",
    "-x",
    "cuda",
    "--cuda-device-only",
    "-nocudainc",
    "-nocudalib",
    "--cuda-gpu-arch=sm_80",
]


def test_every_source_has_its_ptx_and_no_ptx_is_without_source() -> None:
    by_hand = {p.stem for p in EXAMPLES.glob("*.ptx") if "Written by hand" in p.read_text()}
    assert {p.stem for p in SOURCES} == {p.stem for p in EXAMPLES.glob("*.ptx")} - by_hand
    assert SOURCES


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_header_comment_names_the_command(source: Path) -> None:
    header = source.read_text().split("*/")[0].replace("\\\n", " ").replace("*", " ")
    command = [CLANG, *FLAGS, source.name, "-o", source.with_suffix(".ptx").name]
    assert " ".join(command) in " ".join(header.split())


@pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"{CLANG} is not installed")
@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_ptx_is_reproduced_by_clang(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "out.ptx"
    subprocess.run([CLANG, *FLAGS, source.name, "-o", made], cwd=EXAMPLES, check=True)
    assert made.read_text() == source.with_suffix(".ptx").read_text()
