"""The GitHub Action's steps, run as a runner does, against a wheel of this checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


def expand(text: str, values: dict[str, str]) -> str:
    """Replace the expressions of a step; an unknown one is an error."""
    return re.sub(r"\$\{\{ *([\w.]+) *\}\}", lambda found: values[found[1]], text)


class Runner:
    """Runs the action's steps, each in a shell of its own."""

    def __init__(self, temp: Path, action: Path, **inputs: str) -> None:
        self.files = {n: temp / n for n in ("GITHUB_PATH", "GITHUB_ENV", "GITHUB_OUTPUT")}
        for file in self.files.values():
            file.touch()
        self.temp = temp
        given = {name: one["default"] for name, one in ACTION["inputs"].items()} | inputs
        self.values = {f"inputs.{name}": value for name, value in given.items()}
        self.values["github.action_path"] = str(action)

    def run(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        (step,) = (one for one in ACTION["runs"]["steps"] if one["id"] == name)
        assert step["shell"] == "bash"
        own = {k: v for k, v in os.environ.items() if not k.startswith(("TESSERA_", "PYTHON"))}
        added = {key: expand(text, self.values) for key, text in step.get("env", {}).items()}
        path = [*self.files["GITHUB_PATH"].read_text().split(), own["PATH"]]
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
            env=own
            | {key: str(file) for key, file in self.files.items()}
            | added
            | {"PATH": os.pathsep.join(path), "RUNNER_TEMP": str(self.temp)}
            | environment,
            cwd=self.temp,
            capture_output=True,
            text=True,
            check=False,
        )

    def outputs(self, name: str = "GITHUB_OUTPUT") -> dict[str, str]:
        pairs = (line.partition("=") for line in self.files[name].read_text().splitlines())
        return {key: value for key, _, value in pairs}


def link_dependencies(target: Path) -> None:
    """Link this environment's packages, without its editable Tessera, into another one.

    An editable installation has a folder vgpu_sim for the plug-ins alone. If it were linked, pip
    would write the wheel's modules into it, and they would hide the checkout from then on.
    """
    own = ("tessera", "editable", "vgpu_sim")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        tessera = path.name.lower().lstrip("_").startswith(own)
        if not (tessera or path.suffix == ".pth" or (target / path.name).exists()):
            (target / path.name).symlink_to(path)


def test_a_job_computes_after_the_first_step(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "dist").iterdir()
    runner = Runner(tmp_path, ROOT, python=sys.executable, source=str(wheel))
    environment = tmp_path / "tessera"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    (own,) = environment.glob("lib/python*/site-packages")
    link_dependencies(own)
    # dependencies come from this environment instead of an index
    done = runner.run("install", PIP_NO_DEPS="1", PIP_NO_INDEX="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tessera, version ")
    assert runner.outputs()["environment"] == str(environment)
    done = runner.run("check")
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout


def test_an_old_python_is_refused_with_advice(tmp_path: Path) -> None:
    python = tmp_path / "old-python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    done = Runner(tmp_path, ROOT, python=str(python)).run("install")
    assert done.returncode == 1
    assert "::error::Tessera needs Python 3.11" in done.stderr


def test_the_cluster_s_step_exports_its_kubeconfig(tmp_path: Path) -> None:
    action = tmp_path / "action"
    (action / "deploy" / "kind").mkdir(parents=True)
    shutil.copytree(ROOT / "deploy" / "action", action / "deploy" / "action")
    scripts: dict[str, Any] = {
        "kind/up": 'echo "up $TESSERA_PYTHON" >>"$RUNNER_TEMP/calls"',
        "install": 'echo install >>"$RUNNER_TEMP/calls"',
        "kind/shell": 'PATH=$RUNNER_TEMP/bin:$PATH KUBECONFIG=/of/the/cluster exec "$@"',
    }
    for name, text in scripts.items():
        (action / "deploy" / name).write_text(f"#!/bin/sh\n{text}\n")
        (action / "deploy" / name).chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").touch(mode=0o755)
    runner = Runner(tmp_path, action, cluster="true")
    done = runner.run("cluster")
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == [f"up {tmp_path}/tessera/bin/python", "install"]
    assert runner.outputs("GITHUB_ENV") == {"KUBECONFIG": "/of/the/cluster"}
    assert runner.outputs() == {"kubeconfig": "/of/the/cluster"}
    assert runner.files["GITHUB_PATH"].read_text() == f"{tmp_path}/bin\n"
    (action / "deploy" / "install").write_text("#!/bin/sh\nexit 4\n")
    assert runner.run("cluster").returncode == 4


def test_outputs_and_steps_agree() -> None:
    steps = {one["id"]: one for one in ACTION["runs"]["steps"]}
    assert "cluster" in steps["cluster"]["if"]
    for output in ACTION["outputs"].values():
        found = re.search(r"steps\.(\w+)\.outputs\.(\w+)", output["value"])
        assert found is not None
        script = (ROOT / "deploy" / "action" / found[1]).read_text()
        assert f"{found[2]}=" in script
