"""What the API server sends, where users wrote parts of it as they liked."""

import asyncio
import json
import string
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient as AsyncApiClient, Configuration as AsyncConfiguration
from kubernetes.client import ApiClient, Configuration

from device_plugin.kube.claims import ClaimsKube
from gpu_operator.api import documents, events
from gpu_operator.controllers.claims import reading
from gpu_operator.kube.client import KubernetesCluster
from gpu_operator.kube.port import Chosen
from support.processes.http_stub import Answer, HttpStub
from support.worlds.waiting_claims import claim_document

DEEP = 5000  # as deep as the 10 KiB of opaque parameters can be; Go reads 10,000 levels


def deep(levels: int = DEEP, inside: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inside + "]}" * (levels // 2)


def hostile_claim() -> str:
    """A claim of a tenant, as the API server sends it: parameters are kept as they were sent."""
    found = claim_document("want")
    found["spec"]["devices"]["config"] = [{"opaque": {"driver": "x", "parameters": "HERE"}}]
    found["metadata"]["resourceVersion"] = "7"
    return json.dumps(found).replace('"HERE"', deep())


def depth(found: Any) -> int:
    levels = 0
    while isinstance(found, dict | list) and found:
        found = found["a"] if isinstance(found, dict) else found[0]
        levels += 1
    return levels


def test_what_lies_too_deep_is_left_out_and_the_rest_is_read() -> None:
    rest = '"after": [1, {"b": "é"}]'
    text = f'{{"before": "]}}\\"[", "x": {deep()}, "y": {deep(DEEP, "[]")}, {rest}}}'
    for found in (documents.read(text), documents.read(text.encode())):
        assert (found["before"], found["after"]) == (']}"[', [1, {"b": "é"}])
        assert documents.DEEPEST - 1 <= depth(found["x"]) <= DEEP
        assert documents.DEEPEST - 1 <= depth(found["y"]) <= DEEP + 1


def test_what_python_can_read_is_read_as_it_is() -> None:
    text = deep(2 * documents.DEEPEST)
    assert documents.read(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 200_000, "]" * 10, deep()[:-1], deep() + "]", "[" * 5000 + "}" * 5000]
)
def test_what_is_no_json_is_refused_however_deep(text: str) -> None:
    with pytest.raises(ValueError):
        documents.read(text)


def test_a_claim_of_absurd_depth_keeps_the_operator_from_no_other_claim() -> None:
    pages = [f'{{"items": [{hostile_claim()}], "metadata": {{"resourceVersion": "8"}}}}']
    event = f'{{"type": "ADDED", "object": {hostile_claim()}}}\n'

    async def seen(url: str) -> list[Any]:
        cluster = KubernetesCluster(AsyncApiClient(AsyncConfiguration(host=url)))
        try:
            page = await cluster.page("ResourceClaim", Chosen())
            watched = [one async for one in cluster.watch("ResourceClaim", Chosen(), "8")]
            return [*page["items"], *(one["object"] for one in watched)]
        finally:
            await cluster.close()

    with HttpStub(lambda r: Answer(text=event if "watch" in r.query else pages[0])) as stub:
        found = asyncio.run(seen(stub.url))
    assert [reading.claim(one) for one in found] == [reading.claim(claim_document("want"))] * 2


def test_a_claim_of_absurd_depth_is_read_by_the_driver_and_refused_for_what_it_is() -> None:
    with HttpStub(lambda _: Answer(text=hostile_claim())) as stub:
        client = ClaimsKube("n", ApiClient(Configuration(host=stub.url)))
        found = client.claim("team", "want")
    assert found is not None
    assert (found.ref.name, found.allocated) == ("want", None)


@pytest.mark.parametrize("about", ["x" * 253, "x" * 179 + "-" * 20 + "y", "x." * 100 + "y", "x"])
def test_an_event_s_name_is_one_whatever_its_object_is_called(about: str) -> None:
    found = events.name(about, "why")
    assert len(found) <= 253
    for label in found.split("."):
        assert label
        assert {label[0], label[-1]} <= {*string.ascii_lowercase, *string.digits}
    assert found != events.name(about, "why not")
