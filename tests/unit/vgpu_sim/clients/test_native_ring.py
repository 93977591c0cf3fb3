"""The client's rings: order of requests and memory ordering, tested with a hostile worker in C."""

import subprocess
from pathlib import Path

import pytest

from vgpu_sim.native import build

HARNESS = Path(__file__).parents[3] / "support" / "native" / "client_ring" / "rules.c"
SOURCES = (
    "exchange/list.c",
    "exchange/ring.c",
    "exchange/wait.c",
    "exchange/doorbell.c",
    "base/objects.c",
)


def compile_harness(output: Path, sanitizer: str) -> Path:
    client = build.CLIENTS / "libcuda"
    command = [build.compiler(), "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [
        f"-fsanitize={sanitizer}",
        f"-I{client}",
        f"-I{build.COMMON}",
        f"-I{build.INCLUDE}",
        str(HARNESS),
    ]
    command += [str(client / name) for name in SOURCES]
    subprocess.run([*command, "-o", str(output)], check=True)
    return output


@pytest.fixture(scope="module", params=build.SANITIZERS)
def harness(request, tmp_path_factory) -> Path:
    return compile_harness(tmp_path_factory.mktemp("ring") / "rules", request.param)


def run(harness: Path, *arguments: int) -> str:
    done = subprocess.run(
        [str(harness), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode == 0, done.stderr[:3000] + done.stdout
    return done.stdout


@pytest.mark.parametrize("seed", range(3))
def test_order_of_streams_events_and_the_legacy_stream(harness, seed):
    """No request overtakes one that it must follow; non-blocking streams run concurrently."""
    assert run(harness, seed, 8000, 1) == "failures 0, free 1\n"


def test_many_threads_share_the_rings(harness):
    assert run(harness, 7, 4000, 4) == "failures 0, free 0\n"
