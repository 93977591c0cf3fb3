"""Compute instances in one GPU instance on a real gpud: shared memory, common faults, separate
SMs.
"""

import signal
from typing import Any

import pytest

from mig.geometry import board
from support.processes.gpud_process import Gpud, gpud, raw_client, wait_until
from vgpu_sim.cli.clients.admin import AdminRefused
from vgpu_sim.gpud.model import new_gpu_uuid

MIB = 1 << 20
TOKEN = bytes(range(32))
ECC = 214
TWO = board("a30").profile("2g.12gb")


def make_a30(node: Gpud) -> dict[str, Any]:
    """Create a GPU with a slice of one kind at its beginning; the rest is free."""
    gpu = {"uuid": new_gpu_uuid(), "index": 0, "board": "a30"}
    node.call("configure", gpus=[gpu], budget_bytes=0)
    return node.make_slice("1g.6gb", 0)


def narrow(node: Gpud, compute_start: Any, start: int = 2, profile: str = "1c.2g.12gb") -> Any:
    (gpu,) = node.call("inventory")["gpus"]
    place = {"gpu_uuid": gpu["uuid"], "profile": profile, "start": start}
    return node.call("create_instance", compute_start=compute_start, **place)


def test_what_one_holds_the_other_has_not_and_gpud_s_death_changes_nothing() -> None:
    with gpud("--budget", str(1 << 45), token=TOKEN) as node:
        make_a30(node)
        mine, other = narrow(node, 0), narrow(node, 1)
        assert [one["multiprocessors"] for one in (mine, other)] == [14, 14]
        assert [one["memory_bytes"] for one in (mine, other)] == [TWO.memory_bytes] * 2
        assert (mine["gi_id"], mine["ci_id"], other["ci_id"]) == (other["gi_id"], 0, 1)
        with (
            raw_client(mine["socket_dir"], TOKEN) as client,
            raw_client(other["socket_dir"], TOKEN) as neighbour,
        ):
            assert (client.open().status, neighbour.open().status) == (0, 0)
            assert client.allocate(64 * MIB) == 0
            # It would fit if each had memory of its own. A refused allocation reserves nothing.
            assert neighbour.allocate(TWO.memory_bytes - 62 * MIB) == 2
            assert neighbour.allocate(4 * MIB) == 0
            shown = [node.instance(one["uuid"]) for one in (mine, other)]
            assert [one["memory_used_bytes"] for one in shown] == [64 * MIB, 4 * MIB]
            assert [one["shared_used_bytes"] for one in shown] == [68 * MIB] * 2

            node.end(signal.SIGKILL)
            node.start()
            again = [node.instance(one["uuid"]) for one in (mine, other)]
            assert [(one["profile"], one["start"], one["compute_start"]) for one in again] == [
                ("1c.2g.12gb", 2, 0),
                ("1c.2g.12gb", 2, 1),
            ]
            assert [len(one["contexts"]) for one in again] == [1, 1]
            sums = {one["shared_used_bytes"] for one in again}
            assert sums == {sum(one["memory_used_bytes"] for one in again)}
            assert sums.pop() >= 68 * MIB
            with raw_client(other["socket_dir"], TOKEN) as second:
                assert second.open(context_index=1).status == 0
                assert second.allocate(TWO.memory_bytes - 62 * MIB) == 2
            with pytest.raises(AdminRefused, match="has contexts"):
                node.call("destroy_instance", uuid=mine["uuid"])
        wait_until(lambda: not any(node.instance(one["uuid"])["contexts"] for one in shown))
        node.call("destroy_instance", uuid=mine["uuid"])
        with pytest.raises(AdminRefused, match=r"1c\.2g\.12gb@2\.1 overlaps"):
            node.make_slice("2g.12gb", 2)
        node.call("destroy_instance", uuid=other["uuid"])
        assert node.make_slice("2g.12gb", 2)["compute_start"] is None  # the GPU instance was gone


def test_a_fault_of_the_gpu_instance_ends_what_runs_on_all_in_it() -> None:
    with gpud("--health-seconds", "0.5", "0.5", "0.5", token=TOKEN) as node:
        apart = make_a30(node)
        mine, other = narrow(node, 0), narrow(node, 1)
        with (
            raw_client(mine["socket_dir"], TOKEN) as client,
            raw_client(other["socket_dir"], TOKEN) as neighbour,
            raw_client(apart["socket_dir"], TOKEN) as stranger,
        ):
            assert {one.open().status for one in (client, neighbour, stranger)} == {0}
            (gpu,) = node.call("inventory")["gpus"]
            where = {"id": "", "gpu_uuid": gpu["uuid"], "instance": mine["uuid"]}
            fault = {"kind": "ecc_uncorrected", "xid": 0, "count": 1, "duration_ms": 0}
            node.call("inject_fault", **where, **fault)
            assert client.wait_closed()
            assert neighbour.wait_closed()
            assert (client.error(), neighbour.error()) == (ECC, ECC)
            assert stranger.allocate(4 * MIB) == 0


@pytest.mark.parametrize(
    ("profile", "start", "compute_start", "why"),
    [
        ("1c.2g.12gb", 2, 2, "legal starts: 0, 1"),
        ("1c.2g.12gb", 2, None, "needs a place in its GPU instance"),
        ("2g.12gb", 2, 0, "has all of its GPU instance"),
        ("2c.2g.12gb", 2, 0, r"legal profiles: 1c\.2g\.12gb, 2g\.12gb"),
        ("1c.2g.12gb", 2, "0", "compute_start is not an integer"),
        ("2c.4g.24gb", 0, 0, r"1c\.2g\.12gb@2\.0 overlaps 2c"),
    ],
)
def test_what_cannot_be_is_refused_and_named(
    one_gpud: Gpud, profile: str, start: int, compute_start: Any, why: str
) -> None:
    with pytest.raises(AdminRefused, match=why):
        narrow(one_gpud, compute_start, start, profile)


@pytest.fixture(scope="module")
def one_gpud() -> Any:
    with gpud(token=TOKEN) as node:
        make_a30(node)
        narrow(node, 0)
        yield node
