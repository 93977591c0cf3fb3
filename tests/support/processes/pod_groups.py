"""Pods as a node's processes see them: control groups with the kubelet's names, in version 2's tree
or in one hierarchy of version 1.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path("/sys/fs/cgroup")
IS_V2 = (ROOT / "cgroup.controllers").exists()
HIERARCHY = ROOT if IS_V2 else ROOT / "pids"
PLAYABLE = os.geteuid() == 0 and (HIERARCHY / "cgroup.procs").exists()
NOT_PLAYABLE = "NOT RUN: needs root and control groups to play kubelet in"


@dataclass
class Pod:
    uid: str
    group: Path

    def join(self) -> None:
        """Move this process into the pod's container."""
        (self.group / "cgroup.procs").write_text(str(os.getpid()))

    def holder(self, *claims: str) -> dict[str, Any]:
        """Return the pod in the form of ``set_holders``."""
        row: dict[str, Any] = {"pod_uid": self.uid, "namespace": "team", "name": "train"}
        return row | ({"claims": list(claims)} if claims else {})


@contextmanager
def played_pods(count: int) -> Iterator[list[Pod]]:
    """Create ``count`` pods, each with a container; skip the test if that is impossible here."""
    parent = HIERARCHY / f"tessera-pods-{os.getpid()}"
    try:
        parent.mkdir()
    except OSError as err:
        pytest.skip(f"NOT RUN: {err}")
    made = []
    for _ in range(count):
        uid = str(uuid.uuid4())
        name = f"kubelet-kubepods-besteffort-pod{uid.replace('-', '_')}.slice"
        group = parent / name / "cri-containerd-0123.scope"
        group.mkdir(parents=True)
        made.append(Pod(uid, group))
    yield made
    for pod in made:
        for group in (pod.group, pod.group.parent):
            with suppress(OSError):
                group.rmdir()
    parent.rmdir()
