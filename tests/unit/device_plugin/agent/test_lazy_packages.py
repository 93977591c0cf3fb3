"""The Kubernetes client: the parts that a program uses are loaded, the others on demand."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from gpu_operator.api import lazy_packages

REPOSITORY = Path(__file__).resolve().parents[4]
UNUSED = (
    "kubernetes.config.kube_config",
    "kubernetes.stream",
    "oauthlib",
    "requests",
    "yaml.loader",
)


def run(program: str) -> str:
    """Run a program in a process that has not imported anything."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'operator'}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_the_agent_imports_no_part_of_the_client_that_it_does_not_use() -> None:
    program = "import sys, device_plugin.app; print(*sys.modules)"
    imported = run(program).split()
    assert "kubernetes.dynamic.client" in imported
    assert not set(UNUSED) & set(imported)


def test_the_console_and_the_operator_import_no_synchronous_client() -> None:
    unused = {"kubernetes.stream", "kubernetes.client.rest", "oauthlib", "requests", "websocket"}
    for module in ("console.command", "gpu_operator.kube.connection"):
        imported = run(f"import sys, {module}; print(*sys.modules)").split()
        assert "kubernetes.aio.client.api_client" in imported
        assert not unused & set(imported)


def test_every_attribute_of_the_client_is_available() -> None:
    program = (
        "import device_plugin.kube.client, kubernetes;"
        " print(kubernetes.__version__, kubernetes.config.load_kube_config.__name__,"
        " kubernetes.stream.stream.func.__module__)"
    )
    version = metadata.version("kubernetes")
    assert run(program) == f"{version} load_kube_config kubernetes.stream.stream"


def test_a_package_in_a_package_that_is_in_use_is_its_attribute() -> None:
    program = (
        "import kubernetes, gpu_operator.kube;"
        " print(type(kubernetes).__name__, kubernetes.aio.config.__name__)"
    )
    assert run(program) == "module kubernetes.aio.config"


def test_a_package_that_is_in_use_is_left_as_it_is() -> None:
    before = sys.modules["importlib"]
    lazy_packages.install("importlib")
    assert sys.modules["importlib"] is before


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ModuleNotFoundError) as failure:
        lazy_packages.install("not_installed_anywhere")
    assert failure.value.name == "not_installed_anywhere"
