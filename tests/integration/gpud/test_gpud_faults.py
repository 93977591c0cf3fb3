"""Faults on a real gpud with real workers: the contexts that end, their errors, and recovery."""

import signal
from typing import Any

import pytest

from support.processes.gpud_process import Gpud, gpud, raw_client, wait_until
from vgpu_sim.cli.clients.admin import AdminRefused

TOKEN = bytes(range(32))
QUICK = ("--health-seconds", "0.5", "0.5", "0.5")
FAILED, ECC, UNKNOWN, UNAVAILABLE, NO_DEVICE = 719, 214, 999, 46, 100


def inject(node: Gpud, kind: str, instance: str = "", **values: Any) -> str:
    gpu = node.call("inventory")["gpus"][0]["uuid"]
    fields = {"id": "", "gpu_uuid": gpu, "instance": instance, "kind": kind}
    wanted: dict[str, Any] = {**fields, "xid": 0, "count": 1, "duration_ms": 0, **values}
    return str(node.call("inject_fault", **wanted)["id"])


def gpu_of(node: Gpud) -> dict[str, Any]:
    return dict(node.call("inventory")["gpus"][0])


def health(node: Gpud, uuid: str) -> str:
    return str(node.instance(uuid)["health"]).partition(":")[0]


def ended_with(client: Any) -> int:
    """Return the CUresult in the page that the worker shares with its client."""
    assert client.wait_closed()
    return int(client.error())


def test_an_ecc_error_ends_one_instances_contexts_and_no_others() -> None:
    with gpud(*QUICK, token=TOKEN) as node:
        mine, others = node.make_slice(), node.make_slice(start=1)
        with (
            raw_client(mine["socket_dir"], TOKEN) as client,
            raw_client(others["socket_dir"], TOKEN) as neighbour,
        ):
            assert (client.open().status, neighbour.open().status) == (0, 0)
            inject(node, "ecc_uncorrected", mine["uuid"], count=2)
            assert ended_with(client) == ECC
            assert neighbour.allocate(4 << 20) == 0
            gpu = gpu_of(node)
            assert [(one["xid"], one["instance"]) for one in gpu["xids"]] == [
                (63, ""),
                (94, mine["uuid"]),
            ]
            assert gpu["ecc"]["uncorrected_volatile"] == gpu["ecc"]["pending_rows"] == 2
            assert health(node, others["uuid"]) == "Healthy"  # the error is contained
        wait_until(lambda: health(node, mine["uuid"]) == "Healthy")
        node.end(signal.SIGKILL)
        node.start()
        ecc = gpu_of(node)["ecc"]
        assert (ecc["uncorrected_volatile"], ecc["uncorrected_aggregate"]) == (0, 2)


def test_a_critical_xid_refuses_new_contexts_until_the_gpu_was_reset() -> None:
    with gpud(*QUICK, token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            inject(node, "xid", xid=48)
            assert ended_with(client) == ECC
        assert health(node, made["uuid"]) == "Unhealthy"
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == UNAVAILABLE
        wait_until(lambda: health(node, made["uuid"]) == "Probation")
        wait_until(lambda: health(node, made["uuid"]) == "Healthy")
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0


def test_a_gpu_off_the_bus_is_no_device_until_it_is_cleared() -> None:
    with gpud(*QUICK, token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            fault = inject(node, "off_bus")
            assert ended_with(client) == UNKNOWN
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == NO_DEVICE
        assert [one["kind"] for one in gpu_of(node)["faults"]] == ["off_bus"]
        assert node.call("clear_faults", gpu_uuid="", id=fault) == {"cleared": [fault]}
        wait_until(lambda: health(node, made["uuid"]) == "Healthy")
        assert [one["xid"] for one in gpu_of(node)["xids"]] == [79]


def test_a_hung_slice_answers_nothing_until_its_reset_ends_its_contexts() -> None:
    with gpud(*QUICK, token=TOKEN) as node:
        made, others = node.make_slice(), node.make_slice(start=1)
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            worker = node.instance(made["uuid"])["contexts"][0]["pid"]
            inject(node, "hang", made["uuid"], duration_ms=3000)

            def is_stopped() -> bool:
                with open(f"/proc/{worker}/stat", encoding="ascii") as stat:
                    return stat.read().rpartition(")")[2].split()[0] == "T"

            wait_until(is_stopped)
            assert health(node, others["uuid"]) == "Healthy"
            assert ended_with(client) == FAILED
        assert [one["xid"] for one in gpu_of(node)["xids"]] == [109, 45]
        wait_until(lambda: health(node, made["uuid"]) == "Healthy")


def test_thermal_slowdown_shows_in_the_sensors_and_leaves_programs_alone() -> None:
    with gpud(*QUICK, token=TOKEN) as node:
        made = node.make_slice()
        with raw_client(made["socket_dir"], TOKEN) as client:
            assert client.open().status == 0
            inject(node, "thermal")
            hot = gpu_of(node)["telemetry"]
            assert hot["temperature_c"] >= hot["slowdown_temperature_c"]
            assert health(node, made["uuid"]) == "Suspect"
            assert client.allocate(4 << 20) == 0
            node.call("clear_faults", gpu_uuid="", id="")
            wait_until(lambda: health(node, made["uuid"]) == "Healthy")
            cool = gpu_of(node)["telemetry"]
            assert cool["temperature_c"] < cool["slowdown_temperature_c"]


def test_health_checks_that_are_off_count_and_take_nothing_out_of_service() -> None:
    with gpud("--disable-health-checks", "all", token=TOKEN) as node:
        made = node.make_slice()
        inject(node, "xid", xid=95)
        assert health(node, made["uuid"]) == "Healthy"
        assert [one["xid"] for one in gpu_of(node)["xids"]] == [95]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "xid", "xid": 7}, "unknown Xid 7; known: 13, 31"),
        ({"kind": "xid", "xid": 79, "instance": "mine"}, "Xid 79 concerns a whole GPU"),
        ({"kind": "melt"}, "kind 'melt' is not one of xid"),
        ({"kind": "xid"}, "'xid' must be set for the kind"),
        ({"kind": "hang", "count": 2}, "'count' must be 1"),
        ({"kind": "xid", "xid": 13, "duration_ms": 5}, "ends at once: 'duration_ms' must be 0"),
        ({"kind": "thermal", "duration_ms": -1}, "duration_ms must be 0 to"),
        ({"kind": "hang", "instance": "MIG-1"}, "no instance MIG-1"),
        ({"kind": "hang", "gpu_uuid": "GPU-1"}, "no GPU GPU-1"),
        ({"kind": "hang", "id": "a/b"}, "'id' must be 1 to 63"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(
    one_gpud: tuple[Gpud, str], values: dict[str, Any], message: str
) -> None:
    node, uuid = one_gpud
    if values.get("instance") == "mine":
        values = {**values, "instance": uuid}
    with pytest.raises(AdminRefused, match=message):
        inject(node, **values)
    assert gpu_of(node)["xids"] == []


def test_the_same_id_is_carried_out_once(one_gpud: tuple[Gpud, str]) -> None:
    node, _ = one_gpud
    for _ in range(2):
        inject(node, "ecc_corrected", id="once", count=3)
    assert gpu_of(node)["ecc"]["corrected_aggregate"] == 3


@pytest.fixture(scope="module")
def one_gpud() -> Any:
    with gpud(*QUICK, token=TOKEN) as node:
        yield node, node.make_slice()["uuid"]
