"""The import contracts are not decoration: each is broken by an import planted against it."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from vgpu_sim.native import generate

ROOT = Path(__file__).parents[3]
PLANTED = {
    "Control plane, node agent, device, MIG geometry and RDMA policy: top to bottom": (
        "vgpu_sim/config.py",
        "import device_plugin.config",
    ),
    "The operator reaches nodes only through Kubernetes objects": (
        "operator/gpu_operator/config.py",
        "import grpc",
    ),
    "The conformance suite imports the kubelet's APIs, and nothing of Tessera": (
        "kubelet_conformance/kubelet.py",
        "import device_plugin.dp",
    ),
    "Plug-ins run in users' programs, and use only public client libraries": (
        "plugins/torch/tessera_torch/settings.py",
        "import vgpu_sim.config",
    ),
    "Inside tessera_torch": (
        "plugins/torch/tessera_torch/settings.py",
        "import tessera_torch.operator",
    ),
    "MIG geometry and planning use the standard library only": ("mig/errors.py", "import click"),
    "Records of boards use the standard library only": ("boards/record/board.py", "import yaml"),
    "The document of facts uses the standard library only": ("facts/fields.py", "import pydantic"),
    "Findings and redaction use the standard library only": (
        "diagnosis/findings.py",
        "import click",
    ),
    "Drawings are made from values: of MIG, of RDMA and of the standard library": (
        "drawing/elements.py",
        "import numpy",
    ),
    "Policies of RDMA use the standard library only": ("rdma/errors.py", "import yaml"),
    "Inside the operator": (
        "operator/gpu_operator/api/v1alpha1/base.py",
        "import gpu_operator.controllers",
    ),
    "The console reads the cluster through the operator's code, and reaches no node": (
        "console/views/reach.py",
        "import device_plugin.config",
    ),
    "Inside the console": ("console/model/pods.py", "import console.views.reach"),
    "Inside the node agent": (
        "device_plugin/inventory/model.py",
        "import device_plugin.dp.service",
    ),
    "Inside a board's record": (
        "boards/record/provenance.py",
        "import boards.record.geometry",
    ),
    "Inside MIG": ("mig/geometry/__init__.py", "import mig.planner"),
    "Inside the simulated GPU": ("vgpu_sim/exec/cfg.py", "import vgpu_sim.compiler"),
    "Inside the hardware abstraction layer": (
        "vgpu_sim/hal/compute/limits.py",
        "import vgpu_sim.hal.observe.modelled_report",
    ),
    "Inside gpud": ("vgpu_sim/gpud/devices/silicon.py", "import vgpu_sim.gpud.slices"),
    "Inside RDMA": ("hca/contract/verbs.py", "import hca.binding"),
    "RDMA knows no part of the GPU": ("hca/binding/links.py", "import vgpu_sim.exec"),
    "No part of the GPU knows RDMA": ("vgpu_sim/gpud/limits/caches.py", "import hca.binding.links"),
    "Inside hcad": ("hca/daemon/common/numbers.py", "import hca.daemon.policy.rates"),
    "Inside the JIT": (
        "vgpu_sim/exec/jit/text/writer.py",
        "import vgpu_sim.exec.jit.values.launch",
    ),
    "No other room knows how the JIT writes code": (
        "vgpu_sim/worker/address_randomization.py",
        "import vgpu_sim.exec.jit.memory.loads",
    ),
    "LLVM's library only where text becomes objects": (
        "vgpu_sim/exec/jit/planning/choose.py",
        "import llvmlite",
    ),
    "No two rooms import each other, at any depth": (
        "vgpu_sim/isa/types.py",
        "import vgpu_sim.isa.table",
    ),
    "gpud never loads an executor, a compiler or LLVM": (
        "vgpu_sim/gpud/model.py",
        "import vgpu_sim.isa",
    ),
    "kopf only in the engine and above": ("device_plugin/errors.py", "import kopf"),
    "The Kubernetes client only in the rooms called kube": (
        "device_plugin/agent/loop.py",
        "import kubernetes",
    ),
    "gRPC only at the kubelet's edge": ("device_plugin/cdi/spec.py", "import grpc"),
    "The JIT's worker never loads numpy": ("vgpu_sim/exec/jit/ir/ssa.py", "import numpy"),
    "No family of the instruction set knows another": (
        "vgpu_sim/isa/families/move.py",
        "import vgpu_sim.isa.families.memory",
    ),
    "No family is lowered by another": (
        "vgpu_sim/compiler/lower/families/compare.py",
        "import vgpu_sim.compiler.lower.families.float",
    ),
    "No family's native code knows another's": (
        "vgpu_sim/exec/jit/families/convert.py",
        "import vgpu_sim.exec.jit.families.float",
    ),
    "Observation knows neither the modelled clock nor the performance model": (
        "vgpu_sim/worker/observing/probes.py",
        "import vgpu_sim.worker.modelling.weights",
    ),
    "The performance model knows boards and shapes, and no part of the device": (
        "vgpu_sim/perf/stack.py",
        "import vgpu_sim.hal",
    ),
}


def lint_imports(directory: Path) -> str:
    """Run the linter on a copy of the packages and return what it prints."""
    paths = (directory, directory / "operator", directory / "plugins" / "torch")
    command = Path(sys.executable).with_name("lint-imports")
    if not command.exists():
        pytest.skip("import-linter is not installed beside this Python")
    done = subprocess.run(
        [command, "--config", ROOT / ".importlinter", "--no-cache"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


PACKAGES = (
    "boards",
    "diagnosis",
    "console",
    "drawing",
    "operator",
    "device_plugin",
    "kubelet_conformance",
    "facts",
    "hca",
    "mig",
    "pytest_tessera",
    "plugins",
    "rdma",
    "vgpu_sim",
)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "lib")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def test_all_contracts_are_kept_and_each_one_breaks_when_violated(packages: Path) -> None:
    kept = lint_imports(packages)
    names = set(re.findall(r"^(.+?) KEPT\b", kept, re.MULTILINE))
    assert names == set(PLANTED), kept
    for path, line in PLANTED.values():
        file = packages / path
        file.write_text(f"{file.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    broken = lint_imports(packages)
    assert set(re.findall(r"^(.+?) BROKEN\b", broken, re.MULTILINE)) == set(PLANTED), broken


def test_a_folder_that_is_not_in_the_order_is_refused(packages: Path) -> None:
    stray = packages / "vgpu_sim" / "misplaced"
    stray.mkdir()
    (stray / "__init__.py").touch()
    assert "misplaced" in lint_imports(packages)


@pytest.mark.parametrize(
    ("house", "alone"),
    [("vgpu_sim/exec/jit", {"__init__.py"}), ("hca/daemon", {"__init__.py", "__main__.py"})],
)
def test_no_room_holds_more_than_can_be_seen_at_once(house: str, alone: set[str]) -> None:
    folder = ROOT / house
    assert {path.name for path in folder.glob("*.py")} == alone
    rooms = [path for path in folder.iterdir() if (path / "__init__.py").exists()]
    assert len(rooms) > 5
    assert not [room.name for room in rooms if len(list(room.rglob("*.py"))) > 25]


def test_no_folder_holds_more_than_can_be_seen_at_once() -> None:
    counts: dict[str, int] = {}
    for top in (*PACKAGES, "benchmarks", "tests"):
        for path in (ROOT / top).rglob("*.py"):
            folder = str(path.parent.relative_to(ROOT))
            counts[folder] = counts.get(folder, 0) + 1
    assert {folder for folder, count in counts.items() if count > 25} == set()


def c_files() -> list[Path]:
    """Return all sources and headers in C, but what the build generates."""
    tops = (ROOT / top for top in ("hca", "vgpu_sim", "benchmarks", "tests"))
    found = [path for top in tops for path in top.rglob("*.[ch]")]
    return [path for path in found if "generated" not in path.parts]


def test_no_folder_of_c_holds_more_than_can_be_seen_at_once() -> None:
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in c_files())
    assert len(counts) > 30
    assert {folder for folder, count in counts.items() if count > 25} == set()


def test_no_header_is_longer_than_500_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): path.read_text() for path in c_files()}
    lengths |= generate.headers()
    assert len(lengths) > 300
    assert {
        name: text.count("\n")
        for name, text in lengths.items()
        if name.endswith(".h") and text.count("\n") > 500
    } == {}


def test_nothing_shadows_the_standard_library() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    spec = importlib.util.find_spec("operator")
    assert spec is not None
    assert spec.origin is not None
    assert ROOT not in Path(spec.origin).parents
    packages = {
        path.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/**/__init__.py")
    }
    assert packages == {"support"}  # every other folder holds tests, which nothing imports
    folders = {path.name for path in (ROOT / "tests").rglob("*") if path.is_dir()}
    assert not folders & sys.stdlib_module_names - {"__pycache__"}


def test_the_environment_has_one_reader_in_each_package() -> None:
    readers = {
        path.relative_to(ROOT)
        for package in (
            "boards",
            "diagnosis",
            "console",
            "drawing",
            "operator/gpu_operator",
            "device_plugin",
            "facts",
            "hca",
            "mig",
            "pytest_tessera",
            "rdma",
            "vgpu_sim",
        )
        for path in (ROOT / package).rglob("*.py")
        if path.name != "config.py"
        and re.search(r"\bos\.(environ|getenv)\b", path.read_text(encoding="utf-8"))
    }
    assert readers == {
        Path("vgpu_sim/native/build.py"),  # runs before anything is installed
        Path("vgpu_sim/machine.py"),  # sets one for a library, reads none
    }
