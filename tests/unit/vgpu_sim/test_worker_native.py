"""The worker's native runtime under sanitizers, driven by C programs that play the client.

``tests/support/worker_harness``: ``order`` many streams, waits, full rings, all parameter sizes;
``memory`` copies, fills and chunks; ``hostile`` requests that no client library writes; ``fault``
kernels that fault; ``doze`` a worker on its client's CPU; ``nap`` requests that come just before it
sleeps; ``turns`` whose request comes first, which kernel runs, what is left of a removed one.
``latency`` only measures, and must still build.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORKER = ROOT / "vgpu_sim/native/worker"
HARNESS = ROOT / "tests/support/worker_harness"
FLAGS = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
SANITIZERS = {
    "plain": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}


def build(program: str, sanitizer: str, directory: Path) -> Path:
    target = directory / program
    sources = [HARNESS / "client.c", HARNESS / f"{program}.c", *sorted(WORKER.glob("*.c"))]
    command = ["cc", *FLAGS, *SANITIZERS[sanitizer], f"-I{WORKER}"]
    command += [f"-I{ROOT / 'vgpu_sim/native/include'}", "-o", str(target), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "cannot find -l" in done.stderr or "libtsan" in done.stderr:
        pytest.skip(f"this compiler has no {sanitizer} sanitizer: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.parametrize(
    ("program", "sanitizer"),
    [
        ("order", "plain"),
        ("order", "address"),
        # Only here: elsewhere memory lies where the thread sanitizer keeps its own.
        ("order", "thread"),
        ("memory", "plain"),
        ("memory", "address"),
        ("hostile", "plain"),
        ("hostile", "address"),
        ("fault", "plain"),
        ("doze", "plain"),
        ("nap", "plain"),
        ("turns", "plain"),
        ("turns", "thread"),
    ],
)
def test_native_runtime(program: str, sanitizer: str, tmp_path: Path) -> None:
    executable = build(program, sanitizer, tmp_path)
    done = subprocess.run([executable], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("ok")
    assert "WARNING" not in done.stderr


def test_latency_program_builds(tmp_path: Path) -> None:
    build("latency", "plain", tmp_path)
