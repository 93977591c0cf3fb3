"""What is packaged: all sources, no binaries, and every dependency that a program imports."""

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
PACKAGES = (
    "boards",
    "console",
    "diagnosis",
    "drawing",
    "operator/gpu_operator",
    "device_plugin",
    "kubelet_conformance",
    "facts",
    "hca",
    "mig",
    "pytest_tessera",
    "rdma",
    "vgpu_sim",
)
# what the extras of the programs bring, as modules
EXTRAS = [
    "aiohttp",
    "google",
    "grpc",
    "jinja2",
    "kopf",
    "kubernetes",
    "prometheus_client",
    "pydantic",
    "pyroute2",
]
EXTRAS += ["starlette", "urllib3", "uvicorn"]

needs_hatchling = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed"
)


def build(
    target: str, directory: Path, checkout: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(directory)],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@needs_hatchling
def test_the_source_distribution_has_all_sources_and_no_binary(tmp_path: Path) -> None:
    native = ROOT / "vgpu_sim" / "native"
    compiled, built = native / "lib", {native / "lib", native / "generated"}
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
        if path.is_file() and not built & {*path.parents} and "__pycache__" not in path.parts
    }
    assert wanted <= names
    assert {"pyproject.toml", "hatch_build.py", "README.md", "LICENSE"} <= names
    assert not [name for name in names if "native/lib/" in name or "native/generated/" in name]


def copy_of_the_sources(directory: Path) -> Path:
    """Return a checkout of what is tracked or new, without anything that is compiled."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    return directory


@needs_hatchling
def test_a_wheel_is_built_beside_the_checkout(tmp_path: Path) -> None:
    checkout = copy_of_the_sources(tmp_path / "checkout")
    # The build takes what is up to date, and compiles all else.
    compiled = "vgpu_sim/native/lib"
    if (ROOT / compiled).is_dir():
        shutil.copytree(ROOT / compiled, checkout / compiled, symlinks=True)
    before = sorted(checkout.rglob("*"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    quiet = {"TMPDIR": str(scratch), "PYTHONDONTWRITEBYTECODE": "1"}  # byte code is Python's doing
    done = build("wheel", tmp_path / "dist", checkout, **quiet)
    assert done.returncode == 0, done.stderr
    assert sorted(checkout.rglob("*")) == before, "a checkout may be read-only"
    assert not list(scratch.iterdir())
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        programs = [
            one.external_attr >> 16 & 0o111 for one in packed.infolist() if "/bin/" in one.filename
        ]
    assert len(names) == len(set(names))
    assert re.fullmatch(r"tessera-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl", wheel.name)
    shared = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert {
        "share/man/man1/tessera.1",
        "share/man/man1/tessera-run.1",
        "share/man/man1/kubectl-tessera-why.1",
        "share/bash-completion/completions/tessera",
        "share/zsh/site-functions/_tessera",
        "share/fish/vendor_completions.d/tessera.fish",
    } <= shared
    assert programs == [0o111, 0o111], "pip keeps the bits that let a program run"
    libraries = sorted(name for name in names if "native/lib/" in name)
    assert [name.partition("native/lib/")[2] for name in libraries] == [
        "bin/nvidia-smi",
        "bin/ptxas",
        "libcuda.so",
        "libcuda.so.1",
        "libcudart.so",
        "libcudart.so.12",
        "libcudart.so.13",
        "libnvJitLink.so.12",
        "libnvJitLink.so.13",
        "libnvidia-ml.so",
        "libnvidia-ml.so.1",
        "libnvrtc.so.12",
        "libnvrtc.so.13",
        "libtessera_hca.so",
        "libtessera_worker.so",
        "math/libcublas.so.12",
        "math/libcublas.so.13",
        "math/libcublasLt.so.12",
        "math/libcublasLt.so.13",
        "math/libcudnn.so.9",
        "math/libcudnn_adv.so.9",
        "math/libcudnn_cnn.so.9",
        "math/libcudnn_engines_precompiled.so.9",
        "math/libcudnn_engines_runtime_compiled.so.9",
        "math/libcudnn_engines_tensor_ir.so.9",
        "math/libcudnn_ext.so.9",
        "math/libcudnn_graph.so.9",
        "math/libcudnn_heuristic.so.9",
        "math/libcudnn_ops.so.9",
        "math/libcufft.so.11",
        "math/libcufft.so.12",
        "math/libcufile.so.0",
        "math/libcupti.so.13",
        "math/libcurand.so.10",
        "math/libcusolver.so.11",
        "math/libcusolver.so.12",
        "math/libcusparse.so.12",
        "math/libcusparseLt.so.0",
        "math/libnccl.so.2",
        "math/libnvshmem_host.so.3",
        "math/libtessera-cuda12.so",
        "math/libtessera-cuda13.so",
        "provider/libtessera-rdmav34.so",
        "rdma/libibverbs.so",
        "rdma/libibverbs.so.1",
        "rdma/librdmacm.so",
        "rdma/librdmacm.so.1",
    ]


def scripts() -> dict[str, str]:
    """Return the entry point of each program."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return dict(project["scripts"])


def run_without(missing: list[str], program: str) -> subprocess.CompletedProcess[str]:
    """Run a program's entry point as its script does, where packages are not installed."""
    module, _, function = scripts()[program].partition(":")
    hide = f"import sys; sys.modules.update(dict.fromkeys({missing!r}))"
    start = f"sys.argv = [{program!r}, '--help']; from {module} import {function}; {function}()"
    return subprocess.run(
        [sys.executable, "-c", f"{hide}; {start}"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "operator")])},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("program", "missing", "extra"),
    [
        ("tessera-operator", "kopf", "operator"),
        ("tessera-device-plugin", "grpc", "plugin"),
        ("tessera-exporter", "prometheus_client", "plugin"),
        ("tessera-linkd", "pyroute2", "plugin"),
    ],
)
def test_a_missing_extra_is_one_line(program: str, missing: str, extra: str) -> None:
    done = run_without([missing], program)
    assert done.returncode == 1
    assert done.stderr == f"{program}: {missing} is not installed: pip install 'tessera[{extra}]'\n"


@pytest.mark.parametrize("program", scripts())
def test_without_extras_no_program_has_a_traceback(program: str) -> None:
    done = run_without(EXTRAS, program)
    assert "Traceback" not in done.stderr
    assert "No module" not in done.stderr


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
        (
            "vgpu_sim.cli.run.command, vgpu_sim.cli.smi.command, vgpu_sim.cli.ptx.commands, vgpu_sim.cli.rdma.commands, vgpu_sim.machine",
            (),
        ),
        ("gpu_operator.app", ("operator",)),
        ("device_plugin.app", ("plugin",)),
        ("console.kubectl.command", ("console",)),
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
