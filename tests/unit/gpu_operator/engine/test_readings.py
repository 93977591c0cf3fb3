"""Large objects are read in a thread, and namespaces take turns."""

import asyncio
import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from gpu_operator.api import documents
from gpu_operator.controllers.rdma import reading
from gpu_operator.controllers.rdma.cluster import TABLES_KIND
from gpu_operator.engine import claim_loop, rdma_loop
from gpu_operator.engine.readings import Readings
from gpu_operator.kube import responses
from gpu_operator.kube.client import KubernetesCluster
from rdma.kinds import NETWORK_KIND, POLICY_KIND
from support.processes.http_stub import Answer, HttpStub, Request
from support.watches.loop_iterations import MeasuredLoop, run_measured

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


def make_largest_policy() -> dict[str, Any]:
    """Return a policy that has managed fields for all that it has, as large as etcd stores it."""
    policy = make_policy()
    fields = make_metadata()["managedFields"]
    policy["metadata"]["managedFields"] = fields
    return policy


def make_network() -> dict[str, Any]:
    metadata = make_metadata()
    return {"metadata": metadata, "spec": {"podSelector": {"matchLabels": metadata["labels"]}}}


def make_tables() -> dict[str, Any]:
    """Return tables that cannot be read, whose text is as large as possible."""
    return {"metadata": make_metadata(), "spec": {"node": "n", "tables": "QUJD" * (200 << 10)}}


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


LARGEST_OBJECTS = {
    **OBJECTS,
    POLICY_KIND: make_largest_policy,
    NETWORK_KIND: make_network,
    TABLES_KIND: make_tables,
}


class ApiServer:
    """Answers lists with objects, page by page, and watches with an event for each object."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.limits: list[int] = []
        self._texts = [json.dumps(item) for item in objects]

    def answer(self, request: Request) -> Answer:
        if request.query.get("watch"):
            gone = json.dumps({"type": "ERROR", "object": {"message": "gone"}})
            lines = [f'{{"type":"MODIFIED","object":{text}}}' for text in self._texts]
            return Answer(text="\n".join([*lines, gone, ""]))
        if "gpus" in request.path:
            return Answer(document={"items": []})
        first = int(request.query.get("continue") or 0)
        self.limits.append(int(request.query["limit"]))
        end = first + self.limits[-1]
        items = ",".join(self._texts[first:end])
        token = str(end) if end < len(self._texts) else ""
        metadata = json.dumps({"resourceVersion": "1", "continue": token})
        return Answer(text=f'{{"metadata":{metadata},"items":[{items}]}}')


def run_reflector(kind: str, server: ApiServer, listed: bool) -> tuple[MeasuredLoop, list[str]]:
    """List a kind's objects, or also watch them; return the loop and the keys of read objects."""
    keys: list[str] = []

    async def follow(url: str) -> None:
        cluster = KubernetesCluster(ApiClient(Configuration(host=url)))
        policies = rdma_loop.RdmaLoop(cluster, "ns", [], lambda: None)
        claims = claim_loop.ClaimLoop(cluster, dict, lambda: None)
        policies._readings._sink = lambda kind, key, value: keys.append(key)
        running = asyncio.ensure_future(policies._readings.run())
        reflectors = (*policies.reflectors, *claims.reflectors)
        await cluster.list("GPU")  # so that the client has a connection
        measured = asyncio.get_running_loop()
        assert isinstance(measured, MeasuredLoop)
        await asyncio.sleep(0)
        measured.longest_s = 0.0
        for reflector in (r for r in reflectors if r._kind == kind):
            if kind not in rdma_loop._READ_IN_THREAD:
                reflector._sink = lambda kind, key, value: keys.append(key)
            await (reflector.list_once() if listed else reflector._watch("1"))
        await policies._readings.wait_until_idle()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        policies._readings.close()
        await cluster.close()

    with HttpStub(server.answer) as stub:
        return run_measured(follow(stub.url)), keys


@pytest.mark.parametrize("kind", LARGEST_OBJECTS)
def test_an_edit_of_the_largest_object_costs_the_loop_little_from_its_bytes_on(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    read = documents.read
    monkeypatch.setattr(documents, "read", lambda text: lengths.append(len(text)) or read(text))
    loop, keys = run_reflector(kind, ApiServer(LARGEST_OBJECTS[kind]()), listed=False)
    assert max(lengths) <= responses.LARGEST_ON_LOOP, "of the texts that were parsed on the loop"
    assert set(keys) == {"evil/p" if kind == POLICY_KIND else "evil/x"} or not keys
    assert loop.longest_s < LONGEST_S


def test_a_list_of_the_largest_policies_costs_the_loop_little() -> None:
    policies = [make_largest_policy() for _ in range(6)]
    for number, policy in enumerate(policies):
        policy["metadata"]["name"] = f"p{number}"
    server = ApiServer(*policies)
    loop, keys = run_reflector(POLICY_KIND, server, listed=True)
    assert sorted(keys) == sorted(f"evil/p{number}" for number in range(6))
    assert loop.longest_s < LONGEST_S
    assert max(server.limits) <= 5, "the objects of a page are in memory together"


def test_while_a_large_text_is_parsed_the_loop_runs() -> None:
    """Python's parser would keep the interpreter's lock for the whole text."""
    text = json.dumps([make_policy()] * 16).encode()
    ticks = itertools.count()
    during: list[int] = []

    def parse(text: bytes) -> None:
        began = next(ticks)
        documents.read_in_steps(text)
        during.append(next(ticks) - began)

    async def tick_while_parsing() -> None:
        parsing = asyncio.ensure_future(asyncio.to_thread(parse, text))
        while not parsing.done():
            next(ticks)
            await asyncio.sleep(0.0002)

    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    try:
        asyncio.run(tick_while_parsing())
    finally:
        sys.setswitchinterval(interval_s)
    assert during[0] > 25, "and not only before the parser began"


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
