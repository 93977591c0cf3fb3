"""gpud of a cluster's node: real processes in real pod-named cgroups (version 1) as clients."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kept import native_parts
from support.processes.gpud_process import (
    Gpud,
    RawClient,
    client_process,
    gpud,
    status_of_passed_on_socket,
    wait_until,
)
from support.processes.pod_groups import NOT_PLAYABLE, PLAYABLE, Pod, played_pods
from vgpu_sim.native import build

pytestmark = pytest.mark.skipif(not PLAYABLE, reason=NOT_PLAYABLE)


@pytest.fixture
def pods() -> Iterator[list[Pod]]:
    with played_pods(2) as made:
        yield made


@pytest.fixture
def node() -> Iterator[Gpud]:
    parent = f"tessera-test-{os.getpid()}"
    with gpud("--cgroup-parent", parent) as running:
        yield running
        for gpu in running.call("inventory")["gpus"]:
            for instance in gpu["instances"]:
                found = instance["uuid"]
                running.call("set_holders", holders={}, complete=True)
                wait_until(lambda found=found: not running.instance(found)["contexts"])
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{parent}")), "gpud left control groups behind"


def test_a_pod_that_is_listed_late_computes_and_is_fenced_when_it_is_not(node, pods):
    made = node.make_slice()
    pod, successor = pods
    with node.admin() as agent:
        agent.call("subscribe")
        with client_process(made["socket_dir"], pod.join) as client:
            wanted = agent.next_event()
            assert (wanted["event"], wanted["pod_uid"]) == ("holders_wanted", pod.uid)
            agent.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
            assert client.stdout.readline() == "0\n"
            assert client.stdout.readline() == "allocated\n"
            (context,) = node.instance(made["uuid"])["contexts"]
            assert (context["client_pid"], context["pod_uid"]) == (client.pid, pod.uid)

            # The next pod comes while the old container still runs (a force delete).
            agent.call("set_holders", holders={made["uuid"]: [successor.holder()]}, complete=True)
            with client_process(made["socket_dir"], successor.join) as second:
                assert second.stdout.readline() == "0\n"
                assert second.stdout.readline() == "allocated\n"
                contexts = node.instance(made["uuid"])["contexts"]
                assert [context["pod_uid"] for context in contexts] == [successor.uid]
                second.communicate("")
            client.stdin.write("?\n")
            client.stdin.flush()
            assert client.stdout.readline() == "closed\n"
            client.communicate("")
        events = [agent.next_event() for _ in range(4)]
        assert [one["xid"] for one in events if one["event"] == "xid"] == [45]
        events = [one for one in events if one["event"] != "xid"]
        assert [one["event"] for one in events] == ["context_started", "fenced", "context_ended"]
        assert {one["pod_uid"] for one in events} == {pod.uid}
        assert events[2]["reason"].startswith("fenced")


NVML_PIDS = """
import ctypes, sys, pynvml
ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)
print([one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(mig)])
"""


def test_nvml_shows_a_container_its_own_processes_alone(node, pods):
    native_parts.build_once("libnvidia-ml.so.1")
    made = node.make_slice()
    pod, stranger = pods
    sidecar = Pod(pod.uid, pod.group.with_name("cri-containerd-4567.scope"))
    sidecar.group.mkdir()

    def seen_by(join) -> str:
        return subprocess.run(
            [sys.executable, "-c", NVML_PIDS, str(build.LIBRARIES / "libnvidia-ml.so.1")],
            env=os.environ | {"TESSERA_SLICES_DIR": str(Path(made["socket_dir"]).parent)},
            preexec_fn=join,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    try:
        with client_process(made["socket_dir"], pod.join) as client:
            assert client.stdout.readline() == "0\n"
            assert client.stdout.readline() == "allocated\n"
            assert seen_by(pod.join) == f"[{client.pid}]"
            for other in (sidecar.join, stranger.join, lambda: None):
                assert seen_by(other) == "[]"
            client.communicate("")
    finally:
        sidecar.group.rmdir()


def test_a_worker_that_ignores_the_fence_is_killed(node, pods):
    made = node.make_slice()
    pod = pods[0]
    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    with client_process(made["socket_dir"], pod.join) as client, node.admin() as agent:
        agent.call("subscribe")
        assert client.stdout.readline() == "0\n"
        assert client.stdout.readline() == "allocated\n"
        worker = node.instance(made["uuid"])["contexts"][0]["pid"]
        os.kill(worker, 19)  # SIGSTOP: it cannot even read the fence
        agent.call("set_holders", holders={}, complete=True)
        wait_until(lambda: not node.instance(made["uuid"])["contexts"], 60)
        events = {}
        while "context_ended" not in events:
            event = agent.next_event()
            events[event["event"]] = event
        assert events["fenced"]["pid"] == worker
        assert events["context_ended"]["reason"].startswith("fenced")
        client.communicate("")
    assert node.call("inventory")["budget"]["used_bytes"] == 0


def test_another_pod_and_a_process_in_no_pod_get_nothing(node, pods):
    made = node.make_slice()
    node.call("set_holders", holders={made["uuid"]: [pods[0].holder()]}, complete=True)
    with client_process(made["socket_dir"], lambda: None) as outsider:
        assert outsider.stdout.readline() == "800\n"
        outsider.communicate("")
    with node.admin() as agent:
        agent.call("subscribe")
        with client_process(made["socket_dir"], pods[1].join) as stranger:
            assert agent.next_event()["event"] == "holders_wanted"
            agent.call("set_holders", holders={made["uuid"]: [pods[0].holder()]}, complete=True)
            assert stranger.stdout.readline() == "46\n"  # after the ten seconds of the timeout
            stranger.communicate("")


def test_a_connection_passed_to_another_pod_is_worth_nothing(node, pods):
    made = node.make_slice()
    holder, other = pods
    node.call("set_holders", holders={made["uuid"]: [holder.holder()]}, complete=True)

    def status(giver: Pod, taker: Pod) -> int:
        client = RawClient(made["socket_dir"])
        reader, writer = os.pipe()
        if os.fork() == 0:
            giver.join()
            os.write(writer, b"%d" % status_of_passed_on_socket(client, taker.join, exits=False))
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            text = answer.read()
        os.wait()
        return int(text)

    assert status(holder, holder) == 0
    assert status(holder, other) == 800
    assert status(other, holder) == 800


def test_workers_live_in_the_slices_group_under_its_own_user(node, pods):
    made = node.make_slice()
    pod = pods[0]
    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    inventory = node.call("inventory")
    assert inventory["isolation"] == {"enforced": True, "reason": ""}
    with client_process(made["socket_dir"], pod.join) as client:
        assert client.stdout.readline() == "0\n"
        worker = node.instance(made["uuid"])["contexts"][0]["pid"]
        status = Path(f"/proc/{worker}/status").read_text()
        assert "Uid:\t70000\t70000\t70000\t70000" in status
        sandbox = node.instance(made["uuid"])["contexts"][0]["sandbox"]
        mechanisms = {name: stands for name, stands in sandbox.items() if name != "cache"}
        assert len(mechanisms) == 6, "the worker has not reported its sandbox"
        assert all(mechanisms.values()), mechanisms
        groups = Path(f"/proc/{worker}/cgroup").read_text()
        for hierarchy in ("memory", "cpu", "cpuset", "pids"):
            (line,) = (one for one in groups.splitlines() if one.split(":")[1] == hierarchy)
            assert line.endswith(made["uuid"])
        client.communicate("")


def test_the_socket_is_open_to_every_user_of_the_pod_and_stays_where_it_is(node):
    made = node.make_slice()
    directory = Path(made["socket_dir"])
    assert (directory / "s.sock").stat().st_mode & 0o777 == 0o666
    assert directory.stat().st_mode & 0o777 == 0o711
    node.end()
    assert directory.is_dir()  # it is mounted into containers
    (directory / "s.sock").mkdir()  # a container runtime creates this for a missing file
    node.start()
    assert (directory / "s.sock").is_socket()


def test_memory_that_a_client_keeps_after_its_worker_stays_counted(node, pods):
    made = node.make_slice()
    pod = pods[0]
    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    with client_process(made["socket_dir"], pod.join, chunk_bytes=256 << 20) as client:
        assert client.stdout.readline() == "0\n"
        assert client.stdout.readline() == "allocated\n"
        (context,) = node.instance(made["uuid"])["contexts"]
        os.kill(context["pid"], 9)  # the client keeps the chunk's descriptor
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        assert node.instance(made["uuid"])["memory_used_bytes"] > 200 << 20
        assert node.call("inventory")["budget"]["used_bytes"] > 200 << 20
        client.communicate("")
    wait_until(lambda: node.instance(made["uuid"])["memory_used_bytes"] == 0)


def test_workers_outlive_gpud_and_are_known_to_the_next(node, pods):
    made = node.make_slice()
    pod = pods[0]
    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    with client_process(made["socket_dir"], pod.join) as client:
        assert client.stdout.readline() == "0\n"
        assert client.stdout.readline() == "allocated\n"
        (before,) = node.instance(made["uuid"])["contexts"]
        node.end()
        node.start()
        (after,) = node.instance(made["uuid"])["contexts"]
        assert (after["pid"], after["pod_uid"]) == (before["pid"], pod.uid)
        assert after["memory_bytes"] >= before["memory_bytes"]
        node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
        assert node.instance(made["uuid"])["contexts"]
        node.call("set_holders", holders={}, complete=True)
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        client.communicate("")


def test_a_worker_without_its_client_is_ended_after_a_restart(node, pods):
    made = node.make_slice()
    pod = pods[0]
    node.call("set_holders", holders={made["uuid"]: [pod.holder()]}, complete=True)
    with client_process(made["socket_dir"], pod.join) as client:
        assert client.stdout.readline() == "0\n"
        worker = node.instance(made["uuid"])["contexts"][0]["pid"]
        os.kill(worker, 19)  # stopped, it does not observe its client's end
        node.end()
        client.kill()
        client.communicate()
    node.start()
    assert node.instance(made["uuid"])["contexts"]
    wait_until(lambda: not node.instance(made["uuid"])["contexts"], 60)


def test_a_slice_is_held_to_the_nodes_budget_where_that_is_less(node):
    made = node.make_slice()
    parent = node.options[node.options.index("--cgroup-parent") + 1]
    group = Path("/sys/fs/cgroup/memory") / parent / made["uuid"]
    gpus = [{k: g[k] for k in ("uuid", "index", "board")} for g in node.call("inventory")["gpus"]]

    def limit_with(budget_bytes: int) -> int:
        node.call("configure", gpus=gpus, budget_bytes=budget_bytes)
        return int((group / "memory.limit_in_bytes").read_text())

    overhead = limit_with(1 << 45) - made["memory_bytes"]
    assert 0 < overhead < 1 << 30
    assert limit_with(100 << 20) == (100 << 20) + overhead
    assert limit_with(1 << 45) == made["memory_bytes"] + overhead
