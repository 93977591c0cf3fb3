"""What is packaged: sources without binaries, and one line where the C compiler is missing."""

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("operator/gpu_operator", "device_plugin", "mig", "vgpu_sim")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed"
)


def build(target: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_source_distribution_has_all_sources_and_no_binary(tmp_path: Path) -> None:
    compiled = ROOT / "vgpu_sim" / "native" / "lib"
    if not any(compiled.glob("*.so*")):
        pytest.skip("nothing is compiled that could get into it")
    done = build("sdist", tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    wanted = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and compiled not in path.parents and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= names
    assert not [name for name in names if "native/lib/" in name]


def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    done = build("wheel", tmp_path, CC="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no C compiler: 'no-such-compiler' is not on PATH" in done.stderr
