"""NVIDIA's CUDA samples, compiled with ``tessera cc``; most of them verify their own results.

A sample passes if its program ends with status 0. It is skipped if it ends with the status by
which the samples say that the device lacks something. Its arguments are those of the samples' own
test run.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["CUDA_SAMPLES"])
PACKAGES = Path(os.environ["CUDA_SAMPLES_PACKAGES"])
NVRTC = PACKAGES / "cuda_nvrtc"
TESSERA = json.loads(os.environ["TESSERA_COMMAND"])
GROUPS = "[012356]_*"
WAIVED = 2
LIMIT_S = 240
ELSEWHERE = re.compile(
    r"#\s*include\s*[<\"](GL/|GLFW/|cuda_gl|EGL/|cudaEGL|vulkan|d3d|dxgi|mpi\.h|nvsci)"
)
TEMPLATES = re.compile(r"#\s*include\s*<(thrust|cub|cuda/std|curand|nvtx3)")
HEADERS = [
    "-DCUB_DISABLE_CDP",
    *(f"-I{PACKAGES / name / 'include'}" for name in ("cuda_cccl", "curand", "nvtx")),
]
ARGUMENTS = json.loads((ROOT / "test_args.json").read_text())


def _cmake(sample):
    """Return the sample's CMake file without comments, with its own variables replaced."""
    text = re.sub(r"#.*", "", (sample / "CMakeLists.txt").read_text())
    values = {"CMAKE_CURRENT_SOURCE_DIR": ".", "CMAKE_CURRENT_BINARY_DIR": "."}
    for name, value in re.findall(r"\bset\((\w+)\s+\"?([^\s\")]+)\"?\s*\)", text):
        values[name] = value
    for _ in range(3):
        text = re.sub(r"\$\{(\w+)\}", lambda match: values.get(match[1], match[0]), text)
    return text


def _samples():
    for folder in sorted(ROOT.glob(f"Samples/{GROUPS}/*/CMakeLists.txt")):
        yield folder.parent


def _sources(folder):
    return [p for p in folder.rglob("*") if p.suffix in (".cu", ".cpp", ".h", ".cuh", ".c")]


def _compile(folder, *arguments):
    command = [*TESSERA, "cc", "-w", "-arch=sm_90", f"-I{ROOT / 'Common'}", *arguments]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if process.returncode:
        match = re.search(r"error: (.+)|(undefined reference to .+)", process.stderr)
        text = match[0] if match else process.stderr
        pytest.fail("not compiled: " + text.replace("'", "`"), pytrace=False)


def _build(sample, folder):
    """Compile a copy of the sample in ``folder``, with what its program loads; return its name."""
    text = _cmake(sample)
    target = re.search(r"add_executable\(\s*(\S+)\s+([^)]*)\)", text)
    if target is None:
        pytest.skip("no program is built on this platform")
    for output, kind, source in re.findall(r"-o\s+(\S+)\s+(-fatbin|-ptx)\s+(\S+)", text):
        _compile(folder, kind, "-o", output, source)
    words = [word for word in target[2].split() if word.endswith((".cu", ".cpp", ".c"))]
    # Like nvcc, the samples' own build leaves the host's code as it is.
    options = ["-Xcompiler", "-O0"]
    for folders in re.findall(r"include_directories\(([^)]*)\)", text):
        options += [f"-I{name}" for name in folders.split() if "$" not in name]
    options += ["-rdc=true"] if "CUDA_SEPARABLE_COMPILATION ON" in text else []
    if any(TEMPLATES.search(path.read_text(errors="replace")) for path in _sources(folder)):
        options += HEADERS
    for name in re.findall(r"include/(cooperative_groups\S*)", text):
        source = PACKAGES / "cuda_runtime" / "include" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
        # They include headers of CCCL, which the toolkit has in the same folder.
        for part in ("cuda", "nv"):
            if not (folder / part).exists():
                (folder / part).symlink_to(PACKAGES / "cuda_cccl" / "include" / part)
    libraries = subprocess.run([*TESSERA, "libdir"], capture_output=True, text=True, check=True)
    options.append(f"-L{libraries.stdout.strip()}")
    if "CUDA::cuda_driver" in text:
        options.append("-l:libcuda.so.1")
    if "CUDA::nvrtc" in text:
        options += [f"-I{NVRTC / 'include'}", "-l:libnvrtc.so.12"]
    if "OpenMP" in text:
        options += ["-Xcompiler", "-fopenmp", "-lomp"]
    _compile(folder, *options, "-o", target[1], *words)
    return target[1]


def _run(folder, program, arguments):
    command = [f"./{program}", *arguments]
    try:
        process = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace",
            check=False, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.fail(f"exceeds {LIMIT_S} s", pytrace=False)
    print(process.stdout)
    lines = [line for line in (process.stdout + process.stderr).splitlines() if line.strip()] or [
        ""
    ]
    error_lines = [
        line for line in process.stderr.splitlines() if "has not ended after" not in line
    ]
    ours = [line for line in error_lines if line.startswith("tessera: ")]
    if process.returncode == WAIVED:
        pytest.skip(lines[-1])
    if process.returncode:
        last = (ours or error_lines or lines)[-1].replace("'", "`")
        pytest.fail(f"{program}: status {process.returncode}: {last}", pytrace=False)


@pytest.mark.parametrize("sample", _samples(), ids=lambda sample: sample.name)
def test_sample(sample, tmp_path):
    if any(ELSEWHERE.search(path.read_text(errors="replace")) for path in _sources(sample)):
        pytest.skip("needs a graphics interface, MPI or NvSci")
    own = ARGUMENTS.get(sample.name, {})
    if own.get("skip"):
        pytest.skip("left out by the samples' own test run")
    folder = tmp_path / "Samples" / sample.parent.name / sample.name
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("doc"))
    (tmp_path / "Common").symlink_to(ROOT / "Common")
    program = _build(sample, folder)
    for run in own.get("runs", [own]):
        _run(folder, program, run.get("args", []))
