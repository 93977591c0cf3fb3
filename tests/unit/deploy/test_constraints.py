"""Every direct dependency is pinned, by name only, to a version that pyproject.toml allows."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def direct() -> list[str]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = pyproject["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    groups += pyproject["dependency-groups"].values()
    return sorted({r for group in groups for r in group if isinstance(r, str)})


@pytest.mark.parametrize("text", direct())
def test_pin_satisfies_pyproject(text: str) -> None:
    wanted = Requirement(text)
    assert wanted.specifier.contains(pins()[canonicalize_name(wanted.name)])


def test_constraints_contain_only_names_and_versions() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            assert str(Requirement(line)) == line
            assert Requirement(line).url is None
