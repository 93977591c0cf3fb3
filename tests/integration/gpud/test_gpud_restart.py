"""Restarts of gpud: slices keep their names, programs keep their contexts and memory."""

import os
import signal
import subprocess
import sys

import pytest

from support.processes.gpud_process import TIMEOUT_S, gpud, raw_client, wait_until
from support.processes.tessera_run import LIBCUDA
from vgpu_sim import config
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.system import processes, python_process

MIB = 1 << 20
TOKEN = bytes(range(32))


def test_sigkill_of_gpud_leaves_the_program_its_context():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert client.allocate(64 * MIB, 0) == 0
            worker = node.instance(made["uuid"])["contexts"][0]["pid"]
            node.end(signal.SIGKILL)

            # Without gpud the worker serves requests that need no new memory, and answers 2 to
            # others.
            assert client.allocate(64 * MIB, 1) == 2
            assert processes.start_ticks(worker) is not None

            node.start()
            found = node.instance(made["uuid"])
            assert found["socket_dir"] == made["socket_dir"]
            assert [context["pid"] for context in found["contexts"]] == [worker]
            assert found["contexts"][0]["client_pid"] == os.getpid()
            assert 64 * MIB <= found["memory_used_bytes"] < 80 * MIB
            with raw_client(made["socket_dir"], TOKEN) as second:
                assert second.open(context_index=1).status == 0
                assert second.allocate(4 * MIB) == 0
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        assert node.call("inventory")["budget"]["used_bytes"] == 0


PROGRAM = """
from cuda.bindings import driver as d
print([int(d.cuInit(0)[0]), int(d.cuCtxCreate(None, 0, 0)[0]), int(d.cuMemAlloc(1 << 20)[0])])
"""


@pytest.mark.skipif(not LIBCUDA.exists(), reason="NOT RUN: python -m vgpu_sim.native.build")
def test_a_program_that_starts_while_gpud_is_dead_waits_for_the_next_one():
    """Killed, gpud leaves its sockets behind; the next one binds them again and serves."""
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        node.end(signal.SIGKILL)
        environment = python_process.module_environment() | config.program_environment(
            node.run_dir / "slices", TOKEN.hex(), LIBCUDA.parent
        )
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment | {"TESSERA_WAIT_S": str(TIMEOUT_S)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as program:
            waiting = program.stderr.readline()
            assert f"gpud does not serve {made['socket_dir']}" in waiting
            node.start()
            assert program.communicate(timeout=TIMEOUT_S) == ("[0, 0, 0]\n", "")


def test_the_journal_is_moved_aside_when_corrupt_and_gpud_says_so():
    with gpud(token=TOKEN) as node:
        node.make_slice()
        node.end()
        journal = node.root / "state" / "gpud.json"
        journal.write_text(journal.read_text().replace("1g.10gb", "1g.11gb"))
        node.process = None
        with pytest.raises(AssertionError, match=r"1g\.11gb.*gpud\.json\.corrupt-1"):
            node.start()
        assert not journal.exists()


def test_sigterm_ends_it_cleanly_and_removes_the_sockets():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert node.end() == 0
            assert client.wait_closed()  # a run's workers end with it
        assert not os.path.exists(made["socket_dir"])
        assert "gpud_stopped" in node.log


def test_the_zygote_is_started_again():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as before:
            assert before.open().status == 0
            worker = node.instance(made["uuid"])["contexts"][0]["pid"]
            zygote = int(node.log.split("zygote_started pid=")[1].split()[0])
            os.kill(zygote, signal.SIGKILL)
            wait_until(lambda: node.log.count("zygote_started") == 2)
            assert node.instance(made["uuid"])["contexts"][0]["pid"] == worker
            with raw_client(made["socket_dir"], TOKEN) as after:
                assert after.open(context_index=1).status == 0
            assert before.allocate(4 * MIB) == 0
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])


def test_a_killed_worker_gives_everything_back():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client, node.admin() as watcher:
            watcher.call("subscribe")
            assert client.open().status == 0
            assert client.allocate(64 * MIB) == 0
            worker = node.instance(made["uuid"])["contexts"][0]["pid"]
            assert node.call("inventory")["budget"]["used_bytes"] == 64 * MIB
            os.kill(worker, signal.SIGKILL)
            assert watcher.next_event()["event"] == "context_started"
            fault = watcher.next_event()
            assert (fault["event"], fault["pid"]) == ("fault", worker)
            assert fault["message"] == "the worker ended: killed by signal 9"
            assert watcher.next_event()["event"] == "xid"
            ended = watcher.next_event()
            assert (ended["event"], ended["reason"]) == ("context_ended", "killed by signal 9")
            assert node.call("inventory")["budget"]["used_bytes"] == 0


def test_a_killed_worker_is_reported_even_without_its_zygote():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client, node.admin() as watcher:
            watcher.call("subscribe")
            assert client.open().status == 0
            worker = node.instance(made["uuid"])["contexts"][0]["pid"]
            os.kill(int(node.log.split("zygote_started pid=")[1].split()[0]), signal.SIGKILL)
            wait_until(lambda: node.log.count("zygote_started") == 2)
            os.kill(worker, signal.SIGKILL)
            events = [watcher.next_event() for _ in range(4)]
            names = [one["event"] for one in events]
            assert names == ["context_started", "fault", "xid", "context_ended"]
            assert events[3]["reason"] == "killed by signal 9"
            assert not os.path.exists(f"/proc/{worker}")  # gpud is its parent now, and reaps it


def test_beyond_the_budget_is_out_of_memory_and_an_event():
    with gpud("--budget", str(100 * MIB), token=TOKEN) as node:
        one, two = node.make_slice(start=0), node.make_slice(start=1)
        with (
            raw_client(one["socket_dir"], TOKEN) as first,
            raw_client(two["socket_dir"], TOKEN) as second,
            node.admin() as watcher,
        ):
            watcher.call("subscribe")
            assert first.open().status == second.open().status == 0
            assert first.allocate(80 * MIB) == 0
            assert second.allocate(40 * MIB) == 2
            events = [watcher.next_event() for _ in range(3)]
            assert events[2]["event"] == "out_of_memory"
            assert events[2]["instance"] == two["uuid"]
            assert events[2]["requested_bytes"] == 40 * MIB
            assert events[2]["free_bytes"] == events[2]["node_free_bytes"] == 20 * MIB
            assert events[2]["node_total_bytes"] == 100 * MIB
            assert events[2]["slice_free_bytes"] == events[2]["slice_total_bytes"] > 9000 * MIB
            assert second.allocate(20 * MIB, 1) == 0


def test_an_instance_in_use_is_not_destroyed():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            with pytest.raises(AdminRefused) as refused:
                node.call("destroy_instance", uuid=made["uuid"])
            assert refused.value.code == "in_use"
            assert client.allocate(4 * MIB) == 0
        wait_until(lambda: not node.instance(made["uuid"])["contexts"])
        node.call("destroy_instance", uuid=made["uuid"])
        assert not os.path.exists(made["socket_dir"])


def test_what_was_made_for_a_claim_survives_gpud_and_goes_with_the_claim_s_programs():
    claim = "claim:33333333-3333-4333-8333-333333333333"
    with gpud(token=TOKEN) as node:
        gpu = node.make_slice()
        (uuid,) = (one["uuid"] for one in node.call("inventory")["gpus"])
        made_for = {"owner": claim, "owner_name": "team/job"}
        made = node.call("create_instance", gpu_uuid=uuid, profile="1g.10gb", start=3, **made_for)
        assert (made["owner"], made["owner_name"]) == (claim, "team/job")
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            assert client.allocate(4 * MIB) == 0
            for owner in ("", f"{claim[:-1]}4"):
                with pytest.raises(AdminRefused, match="made for claim team/job") as refused:
                    node.call("destroy_instance", uuid=made["uuid"], owner=owner, evict=True)
                assert refused.value.code == "conflict"
            assert len(node.instance(made["uuid"])["contexts"]) == 1
            node.call("destroy_instance", uuid=made["uuid"], owner=claim, evict=True)
        assert not os.path.exists(made["socket_dir"])
        left = node.call("inventory")
        assert left["budget"]["used_bytes"] == 0
        assert [one["uuid"] for one in left["gpus"][0]["instances"]] == [gpu["uuid"]]


def test_a_second_gpud_of_the_same_node_waits_and_then_gives_up():
    with gpud(token=TOKEN) as node:
        made = node.make_slice()
        second = subprocess.run(
            [*node.process.args, "--takeover-wait", "0.3"],
            env=python_process.module_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 1
        assert "another gpud holds the lock" in second.stderr
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
