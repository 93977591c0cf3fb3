"""Responses of the API server with hostile content from users."""

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

DEEP = 5000  # maximum depth within 10 KiB of opaque parameters; Go accepts 10,000 levels


def deep(levels: int = DEEP, inside: str = "1") -> str:
    return '{"a":[' * (levels // 2) + inside + "]}" * (levels // 2)


def hostile_claim() -> str:
    """Return a tenant's claim as the API server sends it, with its parameters unchanged."""
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


def test_values_nested_too_deeply_become_null() -> None:
    rest = '"after": [1, {"b": "é"}]'
    text = f'{{"before": "]}}\\"[", "x": {deep()}, "y": {deep(DEEP, "[]")}, {rest}}}'
    for found in (documents.read(text), documents.read(text.encode())):
        assert (found["before"], found["after"]) == (']}"[', [1, {"b": "é"}])
        assert documents.DEEPEST - 1 <= depth(found["x"]) <= DEEP
        assert documents.DEEPEST - 1 <= depth(found["y"]) <= DEEP + 1


def test_json_within_python_s_limit_is_read_unchanged() -> None:
    text = deep(2 * documents.DEEPEST)
    assert documents.read(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 200_000, "]" * 10, deep()[:-1], deep() + "]", "[" * 5000 + "}" * 5000]
)
def test_invalid_json_is_refused_at_any_depth(text: str) -> None:
    with pytest.raises(ValueError):
        documents.read(text)


def test_a_deeply_nested_claim_does_not_hide_other_claims() -> None:
    pages = [f'{{"items": [{hostile_claim()}], "metadata": {{"resourceVersion": "8"}}}}']
    event = f'{{"type": "ADDED", "object": {hostile_claim()}}}\n'

    async def read_all(url: str) -> list[Any]:
        cluster = KubernetesCluster(AsyncApiClient(AsyncConfiguration(host=url)))
        try:
            page = await cluster.page("ResourceClaim", Chosen())
            watched = [one async for one in cluster.watch("ResourceClaim", Chosen(), "8")]
            return [*page["items"], *(one["object"] for one in watched)]
        finally:
            await cluster.close()

    with HttpStub(lambda r: Answer(text=event if "watch" in r.query else pages[0])) as stub:
        found = asyncio.run(read_all(stub.url))
    assert [reading.read_claim(one) for one in found] == [
        reading.read_claim(claim_document("want"))
    ] * 2


def test_the_driver_refuses_a_deeply_nested_claim_by_its_content() -> None:
    with HttpStub(lambda _: Answer(text=hostile_claim())) as stub:
        client = ClaimsKube("n", ApiClient(Configuration(host=stub.url)))
        found = client.claim("team", "want")
    assert found is not None
    assert (found.ref.name, found.allocated) == ("want", None)


@pytest.mark.parametrize("about", ["x" * 253, "x" * 179 + "-" * 20 + "y", "x." * 100 + "y", "x"])
def test_an_event_s_name_is_valid_for_any_object_name(about: str) -> None:
    found = events.event_name(about, "why")
    assert len(found) <= 253
    for label in found.split("."):
        assert label
        assert {label[0], label[-1]} <= {*string.ascii_lowercase, *string.digits}
    assert found != events.event_name(about, "why not")
