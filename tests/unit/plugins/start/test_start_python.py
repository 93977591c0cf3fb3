"""A Python of a run prepares a framework when it imports it, however the Python was started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vgpu_sim import config, frameworks

JAX = {
    "jax/__init__.py": "from jax._src import xla_bridge\n",
    "jax/_src/__init__.py": "",
    "jax/_src/xla_bridge.py": "from jax._src import hardware_utils\n",
    "jax_plugins/xla_cuda13/__init__.py": "",
}
DETECTION = """
import os
_NVIDIA_GPU_DEVICES = ["/nowhere/nvidia0"]
def has_visible_nvidia_gpu(): return any(os.path.exists(d) for d in _NVIDIA_GPU_DEVICES)
"""
OTHER_DETECTION = "def has_visible_nvidia_gpu(): return False\n"
TORCH = {"torch/__init__.py": "", "torch/version.py": "cuda: Optional[str] = '13.2'\n"}
LOADED = """
import torch
lines = open("/proc/self/maps").read().splitlines()
print(sorted({line.split("/")[-1] for line in lines if "/libcudart.so" in line}))
"""


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    (tmp_path / "slices").mkdir()
    write(folder, TORCH)
    (folder / "program.py").write_text("#!" + sys.executable + "\n" + LOADED)
    (folder / "program.py").chmod(0o755)
    (folder / "script.sh").write_text(f"#!/bin/sh\ncd /\n{sys.executable} -m program\n")
    (folder / "script.sh").chmod(0o755)
    (folder / "launcher.py").write_text(
        "import subprocess, sys; subprocess.run([sys.executable, '-m', 'program'], check=True)"
    )
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(
    packages: Path, *command: str, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    plugins = (frameworks.start_plugin(), frameworks.torch_plugin(), packages)
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(map(str, plugins)),
        "TESSERA_SLICES_DIR": str(packages.parent / "slices"),
        "TESSERA_LIBRARIES_DIR": str(config.LIBRARIES_DIR),
        **(variables or {}),
    }
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


PYTHON = sys.executable


@pytest.mark.parametrize(
    "command",
    [
        (PYTHON, "{0}/program.py"),
        (PYTHON, "-m", "program"),
        ("{0}/program.py",),
        ("env", "A=1", PYTHON, "-c", "import program"),
        ("{0}/script.sh",),
        ("sh", "-c", "exec {0}/script.sh"),
        (PYTHON, "-m", "launcher"),
    ],
    ids=lambda command: " ".join(Path(part).name for part in command),
)
def test_tesseras_libraries_are_loaded_first(packages: Path, command: tuple[str, ...]) -> None:
    done = run(packages, *(part.format(packages) for part in command))
    assert done.stdout == "['libcudart.so.13']\n"
    assert done.stderr == "tessera: PyTorch: Tessera's libraries of CUDA 13 are loaded first\n"


@pytest.mark.parametrize("choice", ["none", "12", "13"])
def test_another_choice_leaves_the_libraries_to_the_linker(packages: Path, choice: str) -> None:
    done = run(packages, PYTHON, "-m", "program", variables={"TESSERA_PRELOAD": choice})
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_a_slice_nothing_is_prepared(packages: Path) -> None:
    done = run(packages, PYTHON, "-m", "program", variables={"TESSERA_SLICES_DIR": "/nowhere"})
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_line_names_a_framework_that_cannot_use_the_gpu(packages: Path) -> None:
    write(packages, {"torch/version.py": "cuda: Optional[str] = None\n"})
    done = run(packages, PYTHON, "-m", "program")
    assert done.stderr == (
        "tessera: this PyTorch is not built for CUDA, so it computes on the CPU\n"
    )
    write(packages, {"torch/version.py": "cuda: Optional[str] = '11.8'\n"})
    done = run(packages, PYTHON, "-m", "program")
    assert "this PyTorch is built for CUDA 11, so it computes on the CPU" in done.stderr


def test_a_process_and_its_children_report_a_framework_once(packages: Path) -> None:
    code = "import torch, launcher"
    done = run(packages, PYTHON, "-c", code)
    assert done.stderr.count("PyTorch") == 1


def test_jax_detects_the_slices_and_gets_its_variables(packages: Path) -> None:
    write(packages, JAX | {"jax/_src/hardware_utils.py": DETECTION})
    code = (
        "import os, jax; print(jax._src.hardware_utils.has_visible_nvidia_gpu(),"
        " os.environ['XLA_FLAGS'], os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'])"
    )
    done = run(packages, PYTHON, "-c", code, variables={"XLA_FLAGS": "--xla_other"})
    assert done.stdout == "True --xla_other --xla_gpu_autotune_level=0 false\n"
    assert "XLA_FLAGS=--xla_other --xla_gpu_autotune_level=0" in done.stderr
    assert "device node" not in done.stderr


def test_a_line_has_the_remedy_for_a_jax_that_detects_gpus_in_another_way(packages: Path) -> None:
    write(packages, JAX | {"jax/_src/hardware_utils.py": OTHER_DETECTION})
    done = run(packages, PYTHON, "-c", "import jax")
    assert "JAX finds no device node and computes on the CPU: use `tessera run --dev" in done.stderr


def test_a_sitecustomize_of_the_user_runs_in_the_place_of_ours(packages: Path) -> None:
    code = (
        "import sys; print(sys.modules['sitecustomize'].__file__, 'tessera' in str(sys.path[:2]))"
    )
    (packages / "sitecustomize.py").write_text("import sys; sys.path.append('/mine')\n")
    done = run(packages, PYTHON, "-c", f"{code}; print(sys.path[-1])")
    assert done.stdout.splitlines()[0].startswith(str(packages / "sitecustomize.py"))
    assert done.stdout.splitlines()[1] == "/mine"
    assert run(packages, PYTHON, "-m", "program").stdout == "['libcudart.so.13']\n"
    (packages / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    done = run(packages, PYTHON, "-c", "print('goes on')")
    assert "ValueError: theirs" in done.stderr
    assert "goes on" in done.stdout


def test_a_library_that_cannot_be_loaded_ends_no_import(packages: Path) -> None:
    done = run(packages, PYTHON, "-m", "program", variables={"TESSERA_LIBRARIES_DIR": "/nowhere"})
    assert done.stdout == "[]\n"
    assert done.stderr.startswith("tessera: torch is not prepared: OSError")


def test_a_framework_that_is_not_installed_raises_what_python_raises(packages: Path) -> None:
    code = "\ntry: import tensorflow\nexcept ModuleNotFoundError as err: print(err)"
    done = run(packages, PYTHON, "-c", code)
    assert (done.stdout, done.stderr) == ("No module named 'tensorflow'\n", "")
