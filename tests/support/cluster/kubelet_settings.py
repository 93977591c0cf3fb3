"""Temporary changes of a kubelet's own configuration, in a node of the kind cluster."""

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator

from support.cluster.cluster_restarts import settle
from support.cluster.kubectl import Cluster, in_node, until

DEFAULT = "0s"
"""The value for which a kubelet uses its own default: it checks the node's status every 10 s."""
_CONFIG = "/var/lib/kubelet/config.yaml"
_PERIOD = re.compile(r"^nodeStatusUpdateFrequency: .*$", re.MULTILINE)
_RESTARTED_S = 60


@contextlib.contextmanager
def default_status_period(node: str) -> Iterator[None]:
    """Run a node's kubelet with the default status period; restore its setting afterwards.

    ``deploy/kind/cluster.yaml`` sets a shorter one, so that tests wait less.
    """
    before = in_node(node, "cat", _CONFIG)
    changed, count = _PERIOD.subn(f"nodeStatusUpdateFrequency: {DEFAULT}", before)
    assert count == 1, before
    try:
        _configure(node, changed)
        assert status_period(node) == "10s"
        yield
    finally:
        _configure(node, before)


def status_period(node: str) -> str:
    """Return how often a node's running kubelet checks its status for changes."""
    found = json.loads(Cluster().kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/configz"))
    return str(found["kubeletconfig"]["nodeStatusUpdateFrequency"])


def _configure(node: str, text: str) -> None:
    """Write the configuration and restart the kubelet; return once the node is as before."""
    write = ["docker", "exec", "-i", node, "sh", "-c", f"cat >{_CONFIG}"]
    subprocess.run(write, input=text, text=True, check=True, timeout=60)
    running = ("systemctl", "show", "--value", "--property=MainPID", "kubelet")
    before = in_node(node, *running)
    in_node(node, "systemctl", "restart", "kubelet")
    until(lambda: in_node(node, *running) not in (before, "0\n"), _RESTARTED_S)
    until(lambda: _answers(node), _RESTARTED_S)
    settle(node)


def _answers(node: str) -> bool:
    """Return whether the kubelet answers the API server again."""
    try:
        return bool(status_period(node))
    except AssertionError:
        return False
