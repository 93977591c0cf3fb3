"""The chart as Helm renders it; skips tests loudly where there is no Helm."""

import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "tessera"
_SHELL = ROOT / "deploy" / "kind" / "shell"

Manifests = dict[str, dict[str, dict[str, Any]]]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the Helm of the kind cluster, or the machine's."""
    command = [str(_SHELL), "helm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def require_helm() -> None:
    """Skip the test where Helm cannot be run."""
    try:
        version = helm("version", "--short")
    except OSError as err:
        pytest.skip(f"NOT RUN: no helm: {err}")
    if version.returncode:
        pytest.skip(f"NOT RUN: no helm (make demo brings it): {version.stderr.strip()}")


@cache
def render(*settings: str, api: bool = True) -> Manifests:
    """Manifests by kind and name."""
    arguments = [f"--set={s}" for s in settings]
    if api:
        arguments.append("--api-versions=admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    done = helm("template", "tessera", str(CHART), "-n", "ns", *arguments)
    assert done.returncode == 0, done.stderr
    found: Manifests = defaultdict(dict)
    for document in yaml.safe_load_all(done.stdout):
        if document:
            found[document["kind"]][document["metadata"]["name"]] = document
    return found


def rules(found: Manifests, kind: str, name: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb of everything that a role allows."""
    return {
        (group, resource, verb)
        for rule in found[kind][name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
