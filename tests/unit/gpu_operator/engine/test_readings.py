"""Large objects are read in a thread, and namespaces take turns."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.cluster import TABLES_KIND
from gpu_operator.engine import claim_loop, rdma_loop
from gpu_operator.engine.readings import Readings
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from support.watches.loop_iterations import run_measured

LONGEST_S = 0.05
LARGEST_BYTES = 1_500_000  # what the API server stores, etcd's limit


def make_policy(rules: int = 128, peers: int = 128, generation: int = 1) -> dict[str, Any]:
    """Return a policy with as many address blocks as the schema allows."""
    blocks = [
        [{"ipBlock": {"cidr": f"10.{rule}.{peer}.0/24"}} for peer in range(peers)]
        for rule in range(rules)
    ]
    metadata = {"name": "p", "namespace": "evil", "uid": "u", "generation": generation}
    return {
        "kind": POLICY_KIND,
        "metadata": {**metadata, "resourceVersion": "1"},
        "spec": {"podSelector": {}, "ingress": [{"from": listed} for listed in blocks]},
    }


def make_metadata() -> dict[str, Any]:
    """Return metadata with annotations of 256 KiB and managed fields, as large as possible."""
    fields = {f"f:field{number}": {".": {}, "f:value": {}} for number in range(20_000)}
    return {
        "name": "x",
        "namespace": "evil",
        "uid": "u",
        "resourceVersion": "1",
        "labels": {f"key{number}": "v" * 63 for number in range(1000)},
        "annotations": {"a": "b" * (256 << 10)},
        "managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": fields}],
    }


def make_pod() -> dict[str, Any]:
    """Return a pod with thousands of containers, whose largest lists are all used."""
    containers = [
        {
            "name": f"c{number}",
            "resources": {
                "claims": [{"name": f"claim{number % 64}"}],
                "limits": {"rdma.tessera.dev/hca": "1", f"x.io/r{number}": "1"},
            },
        }
        for number in range(5000)
    ]
    claims = [{"name": f"claim{n}", "resourceClaimName": f"claim{n}"} for n in range(64)]
    return {
        "metadata": make_metadata(),
        "spec": {"nodeName": "n", "containers": containers, "resourceClaims": claims},
        "status": {"phase": "Pending", "podIPs": [{"ip": "10.0.0.1"}]},
    }


def make_claim() -> dict[str, Any]:
    """Return a claim with 32 requests of 8 alternatives, each with 32 selectors of 10 KiB."""
    selector = {"cel": {"expression": " || ".join(["device.driver == 'x'"] * 50)}}
    alternative = {"name": "s", "deviceClassName": "c", "selectors": [selector] * 4}
    requests = [{"name": f"r{number}", "firstAvailable": [alternative] * 8} for number in range(32)]
    results = [
        {"request": f"r{number}", "driver": "gpu.tessera.dev", "pool": "n", "device": f"d{number}"}
        for number in range(32)
    ]
    return {
        "metadata": make_metadata(),
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": f"p{n}", "uid": "u"} for n in range(256)],
        },
    }


def make_class() -> dict[str, Any]:
    selector = {"cel": {"expression": " || ".join(["device.driver == 'x'"] * 400)}}
    return {"metadata": make_metadata(), "spec": {"selectors": [selector] * 32}}


def make_node() -> dict[str, Any]:
    capacity = {"rdma.tessera.dev/hca": "1"} | {f"x.io/r{number}": "1" for number in range(20_000)}
    return {"metadata": make_metadata(), "status": {"capacity": capacity}}


def make_lease() -> dict[str, Any]:
    return {"metadata": make_metadata(), "spec": {"renewTime": "2026-01-01T00:00:00Z"}}


def make_namespace() -> dict[str, Any]:
    return {"metadata": make_metadata()}


OBJECTS: dict[str, Callable[[], dict[str, Any]]] = {
    "Namespace": make_namespace,
    "Node": make_node,
    "Pod": make_pod,
    "Lease": make_lease,
    "ResourceClaim": make_claim,
    "DeviceClass": make_class,
}
ON_THE_LOOP = {
    **{
        ("rdma", kind): read
        for kind, read in rdma_loop._READERS.items()
        if kind not in rdma_loop._READ_IN_THREAD
    },
    **{("claims", kind): read for kind, (_, read) in claim_loop._READERS.items()},
}
"""The readers that run on the event loop."""


@pytest.mark.parametrize("reader", ON_THE_LOOP, ids="-".join)
def test_what_is_read_on_the_loop_takes_little_time_whatever_the_object(
    reader: tuple[str, str],
) -> None:
    document = OBJECTS[reader[1]]()
    began = time.thread_time()
    ON_THE_LOOP[reader](document)
    assert time.thread_time() - began < LONGEST_S


def test_a_policy_would_take_too_long_on_the_loop() -> None:
    """The check of the test above: it is found."""
    began = time.thread_time()
    reading.read_policy(make_policy())
    assert time.thread_time() - began > LONGEST_S
    assert {POLICY_KIND, NETWORK_KIND, TABLES_KIND} == set(rdma_loop._READ_IN_THREAD)


async def read_all(readings: Readings, *puts: tuple[str, str, dict[str, Any] | None]) -> None:
    running = asyncio.ensure_future(readings.run())
    for put in puts:
        readings.put(*put)
    await readings.wait_until_idle()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    readings.close()


def test_the_largest_policy_costs_the_loop_little() -> None:
    received: list[tuple[str, str, Any]] = []
    readings = Readings(
        "t",
        {POLICY_KIND: reading.SpecReader().read_policy},
        lambda *change: received.append(change),
    )
    loop = run_measured(read_all(readings, (POLICY_KIND, "evil/p", make_policy())))
    assert loop.longest_s < LONGEST_S
    ((kind, key, value),) = received
    assert (kind, key, len(value.policy.ingress)) == (POLICY_KIND, "evil/p", 128)


def test_a_namespace_that_changes_much_delays_another_one_by_one_object() -> None:
    received: list[tuple[str, Any]] = []
    readings = Readings(
        "t", {"K": lambda d: d["v"]}, lambda _, key, value: received.append((key, value))
    )
    evil = [("K", f"evil/{number}", {"v": number}) for number in range(50)]
    edits = [("K", "evil/0", {"v": number}) for number in range(100)]
    good = [("K", "good/a", {"v": 1}), ("K", "good/b", {"v": 2}), ("K", "cluster", {"v": 3})]
    gone = [("K", "good/b", None)]
    asyncio.run(read_all(readings, *evil, *edits, *good, *gone))
    assert [key for key, _ in received].index("good/a") == 1
    assert len(received) == 50 + 3, "only the latest version of each object"
    assert dict(received)["evil/0"] == 99
    assert dict(received)["good/b"] is None


def test_an_object_that_cannot_be_read_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    received: list[Any] = []
    readings = Readings("t", {"K": lambda d: d["v"]}, lambda *change: received.append(change))
    asyncio.run(read_all(readings, ("K", "a/x", {}), ("K", "a/y", {"v": 1})))
    assert received == [("K", "a/y", 1)]
    assert "cannot read K a/x" in caplog.text


def test_a_specification_that_has_not_changed_is_not_parsed_again() -> None:
    specs = reading.SpecReader()
    first = specs.read_policy(make_policy())
    assert specs.refresh(POLICY_KIND, make_policy(generation=2)) is None
    changed = make_policy()
    changed["metadata"]["resourceVersion"] = "7"
    changed["spec"] = {"not": "looked at"}
    second = specs.refresh(POLICY_KIND, changed)
    assert second is not None
    assert second.version == 7
    assert second.policy is first.policy
    specs.forget(POLICY_KIND, "evil/p")
    assert specs.refresh(POLICY_KIND, changed) is None
