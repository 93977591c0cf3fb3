"""Two gpuds with one state directory, as during a roll-out of gpud's DaemonSet on a node."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.processes.gpud_process import TIMEOUT_S, Gpud, client_process, gpud, wait_until
from support.processes.pod_groups import NOT_PLAYABLE, PLAYABLE, Pod, played_pods
from support.processes.tessera_run import LIBCUDA
from vgpu_sim import config
from vgpu_sim.system import python_process

pytestmark = pytest.mark.skipif(not PLAYABLE, reason=NOT_PLAYABLE)

PROGRAM = """
from cuda.bindings import driver as d
print([int(d.cuInit(0)[0]), int(d.cuCtxCreate(None, 0, 0)[0]), int(d.cuMemAlloc(1 << 20)[0])])
"""


@pytest.fixture
def pod() -> Iterator[Pod]:
    with played_pods(1) as (made,):
        yield made


@pytest.fixture
def node() -> Iterator[Gpud]:
    with gpud("--cgroup-parent", f"tessera-test-{os.getpid()}") as running:
        yield running


@contextmanager
def successor(node: Gpud) -> Iterator[subprocess.Popen[bytes]]:
    """A second gpud of the node that stands by."""
    assert node.process is not None
    ready = node.root / "ready"
    with (node.root / "log").open("ab") as log:
        process = subprocess.Popen(
            [*node.process.args, "--ready-file", str(ready)],  # type: ignore[misc]
            env=python_process.module_environment(),
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(ready.exists)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(TIMEOUT_S)


def program(node: Gpud, pod: Pod) -> subprocess.Popen[str]:
    """A program in the pod, on the real client library."""
    environment = python_process.module_environment() | config.program_environment(
        node.run_dir / "slices", bytes(32).hex(), LIBCUDA.parent
    )
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        preexec_fn=pod.join,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_gpud_that_stands_by_serves_when_the_one_before_has_ended(
    node: Gpud, pod: Pod, end: signal.Signals
) -> None:
    made = node.make_slice()
    holders = {made["uuid"]: [pod.holder()]}
    node.call("set_holders", holders=holders, complete=True)
    first = node.process
    assert first is not None
    with client_process(made["socket_dir"], pod.join) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "0\n"
        assert client.stdout.readline() == "allocated\n"
        (context,) = node.instance(made["uuid"])["contexts"]
        with successor(node) as second:
            # Until the first one ends, it serves alone: it has the list of holders, no agent sends
            # one to the second, and the second has touched no socket.
            (still,) = node.instance(made["uuid"])["contexts"]
            assert still["pid"] == context["pid"]
            assert "gpud_started" not in node.log.split("gpud_stands_by")[1]
            with client_process(made["socket_dir"], pod.join) as other:
                assert other.stdout is not None
                assert other.stdout.readline() == "0\n"
                other.communicate("")
            wait_until(lambda: len(node.instance(made["uuid"])["contexts"]) == 1)

            node.end(end)
            node.process = second
            wait_until(node._serves)
            found = node.instance(made["uuid"])
            assert found["socket_dir"] == made["socket_dir"]
            assert [one["pid"] for one in found["contexts"]] == [context["pid"]]
            node.call("set_holders", holders=holders, complete=True)
            with client_process(made["socket_dir"], pod.join) as after:
                assert after.stdout is not None
                assert after.stdout.readline() == "0\n"
                after.communicate("")
            client.communicate("")
            wait_until(lambda: not node.instance(made["uuid"])["contexts"])
            assert node.end() == 0


def test_a_gpud_that_stands_by_can_be_taken_away_again(node: Gpud) -> None:
    """As when a roll-out is undone before it reaches the node."""
    made = node.make_slice()
    with successor(node) as second:
        second.terminate()
        assert second.wait(TIMEOUT_S) == 0
    assert node.instance(made["uuid"])["uuid"] == made["uuid"]
    assert Path(made["socket_dir"], "s.sock").exists()


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
def test_a_program_whose_context_is_being_decided_is_not_refused_by_a_hand_over(
    node: Gpud, pod: Pod
) -> None:
    """gpud disconnects waiting clients when it ends; they repeat their requests to its
    successor.
    """
    made = node.make_slice()
    with successor(node) as second, node.admin() as agent:
        agent.call("subscribe")
        with program(node, pod) as running:
            assert agent.next_event()["event"] == "holders_wanted"
            node.end()
            node.process = second
            wait_until(node._serves)
            holders = {made["uuid"]: [pod.holder()]}
            node.call("set_holders", holders=holders, complete=True)
            out, err = running.communicate(timeout=TIMEOUT_S)
        assert out == "[0, 0, 0]\n", err
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        assert node.end() == 0


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
def test_a_program_waits_for_a_node_agent_that_is_away(node: Gpud, pod: Pod) -> None:
    """Without a list of holders the client repeats its request, instead of failing with error
    46.
    """
    made = node.make_slice()
    with program(node, pod) as running:
        wait_until(lambda: "has not reported whether" in node.log)  # after ten seconds
        holders = {made["uuid"]: [pod.holder()]}
        node.call("set_holders", holders=holders, complete=True)
        out, err = running.communicate(timeout=TIMEOUT_S)
    assert out == "[0, 0, 0]\n", err
    assert f"gpud does not serve {made['socket_dir']}/s.sock: waiting" in err
