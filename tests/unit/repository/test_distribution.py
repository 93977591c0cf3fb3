"""What is packaged: all sources, no binaries, and every dependency that a program imports."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PACKAGES = ("operator/gpu_operator", "device_plugin", "mig", "vgpu_sim")

needs_hatchling = pytest.mark.skipif(
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


@needs_hatchling
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


@needs_hatchling
def test_a_missing_compiler_is_one_line(tmp_path: Path) -> None:
    done = build("wheel", tmp_path, CC="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no C compiler: 'no-such-compiler' is not on PATH" in done.stderr


def with_all_they_need(requirements: list[str]) -> set[str]:
    """Return the names of distributions, and of what those in turn require here."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        for text in importlib.metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                waiting.append(needed)
    return found


def imports_of(file: Path) -> set[str]:
    """Return the first names of all modules that a file imports anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    ("module", "extras"),
    [
        ("vgpu_sim.cli.run, vgpu_sim.cli.smi, vgpu_sim.cli.ptx, vgpu_sim.machine", ()),
        ("gpu_operator.app", ("operator",)),
        ("device_plugin.app", ("plugin",)),
    ],
)
def test_a_program_imports_nothing_that_its_extra_does_not_bring(
    module: str, extras: tuple[str, ...]
) -> None:
    code = f"import json, sys, {module}; print(json.dumps([getattr(m, '__file__', None) for m in sys.modules.values()]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'operator'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [Path(file) for file in json.loads(done.stdout) if file]
    imported: set[str] = set()
    for file in loaded:
        if any(file.is_relative_to(ROOT / package) for package in PACKAGES):
            imported |= imports_of(file)
    assert imported
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = list(project["dependencies"])
    for extra in extras:
        declared += project["optional-dependencies"][extra]
    allowed = with_all_they_need(declared) | {"tessera"}
    for top, distributions in importlib.metadata.packages_distributions().items():
        if top in imported:
            assert {canonicalize_name(name) for name in distributions} & allowed, top
