"""The image of the embedded mode: built as a release builds it, run as docs/packages.md states.

It needs a Docker engine and what the cluster's own images were built from, so it is tested with
these: their wheel, their dependencies and their base image.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("TESSERA_CACHE") or Path.home() / ".cache/tessera-cluster")
pytestmark = pytest.mark.timeout(900)  # the image is built beside other lanes
VALIDATE = ("tessera", "run", "--board", "a30", "--", "tessera", "validate")


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    (wheel,) = (CACHE / "images").glob("own-*/tessera-*.whl")
    wheels = list((CACHE / "images").glob("wheels-tessera-*"))
    settings = ROOT / "deploy/kind/settings.sh"
    base = subprocess.run(
        ["bash", "-c", f'. {settings}; [ "$(images_from)" = published ] || echo "$BASE_IMAGE"'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    done = subprocess.run(
        [ROOT / "deploy/images/embedded", "tessera.local/tessera-embedded:test"],
        env={
            **os.environ,
            "WHEEL": str(wheel),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": " ".join(map(str, wheels)),
            **({"BASE": base} if base else {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield done.stdout.strip()
    docker("image", "rm", done.stdout.strip())


def test_it_computes_without_rights_a_network_or_a_writable_root(image: str) -> None:
    rights = ("--user", "12345", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    world = ("--network", "none", "--read-only", "--tmpfs", "/tmp")
    done = docker("run", "--rm", *rights, *world, image, *VALIDATE)
    assert done.returncode == 0, done.stderr
    assert "verified on NVIDIA A30" in done.stdout


def test_the_container_s_status_is_the_program_s(image: str) -> None:
    run = ("run", "--rm", image, "tessera", "run", "--board", "a30", "--")
    assert docker(*run, "sh", "-c", "exit 7").returncode == 7
    assert docker(*run, "no-such-program").returncode == 127


def test_docker_stop_ends_the_program_with_its_signal(image: str) -> None:
    run = ("tessera", "run", "--board", "a30", "--", "sh", "-c", "echo begun; exec sleep 600")
    name = docker("run", "--detach", image, *run).stdout.strip()
    try:
        deadline = time.monotonic() + 120
        while "begun" not in docker("logs", name).stdout:
            assert time.monotonic() < deadline, docker("logs", name)
            time.sleep(0.2)
        docker("stop", "--time", "60", name)
        assert docker("wait", name).stdout.strip() == str(128 + 15)
    finally:
        docker("rm", "--force", name)
