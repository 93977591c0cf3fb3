"""A pool with a modelled clock, on the control plane's node: status, events and event times."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster import interpreter_pool
from support.cluster.control_plane import control_plane_pool, place
from support.cluster.kubectl import DONE, EXAMPLES, Cluster, until
from support.processes.tessera_run import to_its_end

Manifest = Callable[..., dict[str, Any]]
POOL = "e2e-clock"
BOARD = "a30"
PROGRAM = Path(__file__).parents[2] / "support" / "scripts" / "timed_vecadd.py"
PTX = EXAMPLES / "vecadd.ptx"
pytestmark = pytest.mark.backend


@pytest.fixture
def node(namespace: Cluster) -> Iterator[str]:
    """A node of a separate pool, with one whole GPU and events in modelled time."""
    spec = {"board": BOARD, "clock": "Modelled", "nodeBudget": "1Gi"}
    if interpreter_pool.is_chosen():
        spec["backend"] = interpreter_pool.INTERPRETER
    with control_plane_pool(namespace, POOL, **spec) as name:
        try:
            wait = ("wait", "--for=condition=ModelledClock", f"gpupool/{POOL}", "--timeout=120s")
            namespace.kubectl(*wait)
            yield name
        finally:
            namespace.delete("pods", "--all")


def gpus_on(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("gpus", "-l", f"gpu.tessera.dev/node={node}")["items"]
    return found


def events(cluster: Cluster, name: str) -> dict[str, str]:
    found = cluster.get("events", "--field-selector", f"involvedObject.name={name}")["items"]
    return {e["reason"]: e["type"] for e in found}


def timing_pod(pod: dict[str, Any], node: str) -> dict[str, Any]:
    """Return the sample pod with the timing program, which keeps its GPU until it is deleted."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    run = "python /files/timed_vecadd.py /files/vecadd.ptx && exec tail -f /dev/null"
    container["command"] = ["sh", "-c", run]
    container["resources"] = {"limits": {"gpu.tessera.dev/gpu": 1}}
    return place(pod, node)


def predicted_us(tmp_path: Path) -> float:
    """Return the time that ``tessera perf run`` predicts on this machine for one launch of the
    kernel.
    """
    report = tmp_path / "report.json"
    options = ("--board", BOARD, "--json", str(report))
    python = (sys.executable, str(PROGRAM), str(PTX))
    done = to_its_end(tmp_path, "perf", "run", *options, "--", *python, timeout_s=120)
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(report.read_text())["kernels"]
    return float(kernel["us"] / kernel["launches"])


def test_event_times_in_a_pod_match_the_prediction_and_are_marked_as_modelled(
    namespace: Cluster, sample_pod: Manifest, node: str, tmp_path: Path
) -> None:
    data = {"timed_vecadd.py": PROGRAM.read_text(), "vecadd.ptx": PTX.read_text()}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "timed"}, "data": data}
    namespace.apply(files, timing_pod(sample_pod("timed", files="timed", node=node), node))
    namespace.wait_pod("timed", "Running", *DONE)

    def printed() -> str:
        ended = namespace.get("pod", "timed")["status"]["phase"] in DONE
        logs = namespace.logs("timed")
        assert not ended, logs
        return logs

    output = json.loads(until(printed, 120))
    launch_us = output["events_us"][3]
    assert launch_us == pytest.approx(predicted_us(tmp_path), abs=0.01)
    assert output["wall_us"] > 3 * launch_us  # the launch's duration on the node
    until(lambda: events(namespace, "timed").get("ModelledClock") == "Normal")
    (gpu,) = gpus_on(namespace, node)
    assert gpu["status"]["clock"] == "Modelled"
    condition = namespace.condition(f"gpupool/{POOL}", "ModelledClock")
    assert f"the modelled time of {BOARD}, or of its slice" in condition.message
    until(lambda: events(Cluster(), POOL).get("ModelledClock") == "Normal")
