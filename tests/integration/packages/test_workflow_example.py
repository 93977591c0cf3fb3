"""The example of a GitHub workflow: its inputs are the action's, and its steps compute."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JOBS = yaml.safe_load((ROOT / "examples" / "github" / "gpu-tests.yml").read_text())["jobs"]


def steps(job: str, key: str) -> list[dict[str, Any]]:
    return [step for step in JOBS[job]["steps"] if key in step]


def test_the_inputs_are_those_of_the_action() -> None:
    used = [s for job in JOBS for s in steps(job, "uses") if s["uses"].startswith("OWNER/")]
    assert len(used) == len(JOBS)
    for step in used:
        assert set(step["with"]) <= set(ACTION["inputs"])


def test_the_steps_of_the_first_job_compute_on_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    outputs = []
    for number, step in enumerate(steps("programs", "run")):
        script = tmp_path / f"{number}.sh"
        script.write_text(step["run"])
        shell = step.get("shell", "bash -e {0}").replace("{0}", shlex.quote(str(script)))
        done = subprocess.run(
            shlex.split(shell),
            cwd=ROOT,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert all("results verified" in text for text in outputs)
    assert "GPU 0: NVIDIA A30" in outputs[1]


def test_the_steps_of_the_second_job_name_a_manifest_and_its_pod() -> None:
    (step,) = steps("cluster", "run")
    (manifest,) = (word for word in step["run"].split() if word.endswith(".yaml"))
    pod = yaml.safe_load((ROOT / manifest).read_text())
    assert step["run"].count(f"pod/{pod['metadata']['name']}") == 2
    assert "namespace" not in pod["metadata"]
