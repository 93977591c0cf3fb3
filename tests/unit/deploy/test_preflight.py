"""Preflight reports everything that is missing at once; a failed bring-up names its logs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

KIND = Path(__file__).parents[3] / "deploy/kind"
SYSTEM = (
    "awk basename bash cat cc cut date df dirname env flock grep head mkdir nproc sed sha256sum "
    "tail timeout tr uname"
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Make a directory for PATH with the system's basic tools and a regular user's id."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in SYSTEM.split():
        found = shutil.which(name)
        if found:
            (programs / name).symlink_to(found)
    install(programs, "id", "echo 1000")
    return programs


def install(programs: Path, name: str, body: str) -> None:
    (programs / name).write_text(f"#!{shutil.which('bash')}\n{body}\n")
    (programs / name).chmod(0o755)


def run(script: str, programs: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(programs), "HOME": str(programs.parent), **variables}
    return subprocess.run([KIND / script], env=environment, capture_output=True, text=True)


def test_without_docker_a_regular_user_gets_an_error(machine: Path) -> None:
    done = run("preflight", machine)
    assert done.returncode == 1
    assert "a Docker engine that answers this user" in done.stderr


def test_if_images_can_be_pulled_missing_tools_are_listed_together(machine: Path) -> None:
    install(machine, "docker", "[ $1 != image ]")  # a Docker engine that can pull any image
    install(machine, "kubectl", "true")
    done = run("preflight", machine)
    assert done.returncode == 1
    assert "kind's published node image will be pulled" in done.stdout
    assert f"kubectl    {machine}/kubectl" in done.stdout
    assert [line for line in done.stderr.splitlines() if "or Go, to build it" in line] == [
        "  - kind (or Go, to build it)",
        "  - helm (or Go, to build it)",
    ]


@pytest.mark.parametrize("variables", [{}, {"FROM_SOURCE": "1"}], ids=["no registry", "forced"])
def test_building_from_source_reports_missing_go(machine: Path, variables: dict[str, str]) -> None:
    install(machine, "docker", "[ $1 = info ] || " + ("true" if variables else "false"))
    done = run("preflight", machine, **variables)
    assert done.returncode == 1
    assert "a node image is built here" in done.stdout
    assert "Go 1.26, to build Kubernetes" in done.stderr


def test_if_nothing_is_missing_the_requirements_are_printed(machine: Path) -> None:
    install(machine, "docker", "[ $1 != image ]")
    for name in ("kind", "kubectl", "helm"):
        install(machine, name, "true")
    done = run("preflight", machine)
    assert (done.returncode, done.stderr) == (0, "")
    assert "about 3 minutes, 2 GiB of disk" in done.stdout
    assert os.listdir(machine.parent / ".cache") == ["tessera-cluster"]


def test_a_failed_bring_up_prints_where_to_look(machine: Path) -> None:
    install(machine, "docker", "[ $1 != image ]")
    install(machine, "kubectl", "true")
    install(machine, "helm", "true")
    install(machine, "kind", "[ $1 = get ] || { echo no space for nodes; exit 1; }")
    done = run("up", machine)
    assert done.returncode == 1
    assert "no space for nodes" in done.stderr
    cache = machine.parent / ".cache/tessera-cluster"
    assert f"{cache}/log/create.log" in done.stderr
    assert f"KUBECONFIG={cache}/tessera.kubeconfig {machine}/kubectl get nodes,pods" in done.stderr
    assert "export logs --name tessera" in done.stderr
