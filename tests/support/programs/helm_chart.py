"""The chart as Helm renders it; tests are skipped with a message if there is no Helm."""

import os
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "tessera"
_SHELL = ROOT / "deploy" / "kind" / "shell"

Manifests = dict[str, dict[str, dict[str, Any]]]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the kind cluster's Helm, or the machine's."""
    command = [str(_SHELL), "helm", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def require_helm() -> None:
    """Skip the test if Helm cannot be run; in continuous integration, fail it."""
    try:
        version = helm("version", "--short")
        reason = version.stderr.strip() if version.returncode else ""
    except OSError as err:
        reason = str(err)
    if reason:
        absent = pytest.fail if os.environ.get("CI") else pytest.skip
        absent(f"NOT RUN: no helm (deploy/kind/up brings it): {reason}")


@cache
def render(*settings: str, api: bool = True) -> Manifests:
    """Return the manifests by kind and name, with an image of the chart's own name."""
    arguments = [f"--set={s}" for s in ("image.repository=tessera", *settings)]
    if api:
        arguments.append("--api-versions=admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy")
    done = helm("template", "tessera", str(CHART), "-n", "ns", *arguments)
    assert done.returncode == 0, done.stderr
    found: Manifests = defaultdict(dict)
    for document in yaml.load_all(done.stdout, yaml.CSafeLoader):
        if document:
            found[document["kind"]][document["metadata"]["name"]] = document
    return found


def rules(found: Manifests, kind: str, name: str) -> set[tuple[str, str, str]]:
    """Return group, resource and verb of everything that a role permits."""
    return {
        (group, resource, verb)
        for rule in found[kind][name]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
