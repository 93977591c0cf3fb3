"""No process of ours imports from the current directory: a clone there would hide the package."""

import ast
from pathlib import Path

import pytest

from vgpu_sim.system import python_process

ROOT = Path(__file__).parents[3]
PRODUCT = (
    "boards",
    "diagnosis",
    "vgpu_sim",
    "device_plugin",
    "operator",
    "drawing",
    "facts",
    "hca",
    "rdma",
    "mig",
    "pytest_tessera",
    "kubelet_conformance",
)
STARTER = "vgpu_sim/system/python_process.py"


def _modules() -> list[Path]:
    return [path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py"))]


def _names_interpreter(text: str) -> bool:
    return "executable" in text and any(
        isinstance(node, ast.Attribute)
        and node.attr == "executable"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
        for node in ast.walk(ast.parse(text))
    )


def test_one_module_knows_how_a_module_is_started() -> None:
    """No module but the helper may contain ``sys.executable, "-m"``: it would lack ``-P``."""
    found = [
        str(path.relative_to(ROOT)) for path in _modules() if _names_interpreter(path.read_text())
    ]
    assert found == [STARTER]


def test_the_current_directory_is_no_place_to_import_from() -> None:
    assert python_process.module_command("some.module", "word")[1:] == [
        "-P", "-m", "some.module", "word",
    ]  # fmt: skip


@pytest.mark.parametrize("folder", PRODUCT)
def test_the_scan_sees_every_folder(folder: str) -> None:
    assert any(path.is_relative_to(ROOT / folder) for path in _modules())
