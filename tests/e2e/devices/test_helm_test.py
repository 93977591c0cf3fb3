"""``helm test`` passes on a release that runs as it should."""

import subprocess

import pytest

from support.cluster.helm_release import RELEASE
from support.cluster.kubectl import SYSTEM


@pytest.mark.alone("control-plane")  # it checks the pools of other tests, too
@pytest.mark.usefixtures("whole_cluster")
def test_helm_s_own_test_passes() -> None:
    command = ["helm", "test", RELEASE, "-n", SYSTEM, "--timeout", "2m"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
