"""The krew package: a manifest that names its archive, and a program that finds the plugin."""

import hashlib
import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def build(directory: Path, *arguments: str) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, ROOT / "deploy" / "krew" / "build", directory, *arguments], check=True
    )
    document: dict[str, Any] = yaml.safe_load((directory / "tessera.yaml").read_text())
    return document


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the program as krew installs it."""
    build(tmp_path / "krew")
    (tmp_path / "store").mkdir()
    archive = tmp_path / "krew" / f"kubectl-tessera-{VERSION}.tar.gz"
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "store"], check=True)
    folder = tmp_path / "krew-bin"
    folder.mkdir()
    (folder / "kubectl-tessera").symlink_to(tmp_path / "store" / "kubectl-tessera")
    return folder / "kubectl-tessera"


def test_the_manifest_names_the_archive_with_its_digest(tmp_path: Path) -> None:
    document = build(tmp_path / "a", "https://releases.example/v1/")
    build(tmp_path / "b")
    archive = f"kubectl-tessera-{VERSION}.tar.gz"
    content = (tmp_path / "a" / archive).read_bytes()
    assert content == (tmp_path / "b" / archive).read_bytes()
    assert document["metadata"] == {"name": "tessera"}
    assert document["spec"]["version"] == f"v{VERSION}"
    assert len(document["spec"]["shortDescription"]) <= 50  # krew's guideline
    (platform,) = document["spec"]["platforms"]
    assert platform["uri"] == f"https://releases.example/v1/{archive}"
    assert platform["sha256"] == hashlib.sha256(content).hexdigest()
    with tarfile.open(tmp_path / "a" / archive) as packed:
        names = packed.getnames()
        assert packed.getmember(platform["bin"]).mode & 0o111
    assert {one["from"] for one in platform["files"]} == set(names)


def run(program: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, *arguments],
        env={"PATH": path, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_runs_the_installed_plugin_and_never_itself(
    program: Path, tmp_path: Path
) -> None:
    installed = tmp_path / "bin"
    installed.mkdir()
    path = f"{program.parent}{os.pathsep}{installed}{os.pathsep}/usr/bin:/bin"
    done = run(program, path, "map")
    assert done.returncode == 1
    assert f"tessera[console]=={VERSION}" in done.stderr
    plugin = installed / "kubectl-tessera"
    plugin.write_text('#!/bin/sh\necho "$1|$2|$#"\nexit 3\n')
    plugin.chmod(0o755)
    done = run(program, path, "why", "a pod")
    assert (done.returncode, done.stdout) == (3, "why|a pod|2\n")
