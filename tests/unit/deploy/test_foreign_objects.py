"""Objects that an earlier user of the demo's cluster left are named before anything is built."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[2]
CLUSTER: dict[str, Any] = {
    "nodes": [
        {"metadata": {"name": "worker", "labels": {"gpu.tessera.dev/mig.config": "all-1g.10gb"}}},
        {"metadata": {"name": "control-plane"}},
    ],
    "miglayouts.gpu.tessera.dev": [{"metadata": {"name": "seven"}}, {"metadata": {"name": "mine"}}],
    "gpupools.gpu.tessera.dev": [{"metadata": {"name": "demo"}}],
    "rdmanetworkpolicies.rdma.tessera.dev": [{"metadata": {"name": "deny", "namespace": "team"}}],
}
REMOVALS = [
    "label node worker gpu.tessera.dev/mig.config- --request-timeout=120s",
    "delete miglayouts.gpu.tessera.dev/mine --ignore-not-found --request-timeout=120s",
    "delete rdmanetworkpolicies.rdma.tessera.dev/deny -n team --ignore-not-found"
    " --request-timeout=120s",
]


def run(folder: Path, *options: str, cluster: dict[str, Any] | None) -> Any:
    """Run the check with a kubectl that serves ``cluster`` and writes down all other calls."""
    for kind, items in (cluster or {}).items():
        (folder / kind).write_text(json.dumps({"items": items}))
    kubectl = folder / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\ncd {folder}\nif [ "$1" = get ]; then exec /bin/cat "$2"; fi\n'
        'echo "$*" >>calls\n'
    )
    kubectl.chmod(0o755)
    return subprocess.run(
        [sys.executable, "-m", "support.cluster.foreign_objects", *options],
        env={"PATH": str(folder), "PYTHONPATH": os.fspath(TESTS)},
        capture_output=True,
        text=True,
    )


def test_each_object_is_named_with_the_cure(tmp_path: Path) -> None:
    check = run(tmp_path, cluster=CLUSTER)
    assert check.returncode == 1
    _, *names, cure = check.stderr.splitlines()
    assert [name.strip() for name in names] == [
        "nodes/worker, label gpu.tessera.dev/mig.config=all-1g.10gb",
        "miglayouts.gpu.tessera.dev/mine",
        "rdmanetworkpolicies.rdma.tessera.dev/deny in namespace team",
    ]
    assert "make test-preflight remove=1" in cure
    assert not (tmp_path / "calls").exists()


def test_they_are_removed_on_request_and_labels_first(tmp_path: Path) -> None:
    assert run(tmp_path, "--remove", cluster=CLUSTER).returncode == 0
    assert (tmp_path / "calls").read_text().splitlines() == REMOVALS


@pytest.mark.parametrize("cluster", [None, {"nodes": [{"metadata": {"name": "worker"}}]}])
def test_a_clean_cluster_and_no_cluster_pass(tmp_path: Path, cluster: Any) -> None:
    check = run(tmp_path, cluster=cluster)
    assert (check.returncode, check.stderr) == (0, "")
