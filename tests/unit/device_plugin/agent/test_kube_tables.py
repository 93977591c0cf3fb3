"""An RDMANodeTables object as the API server sends it, read into tables."""

from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from device_plugin.errors import ClusterError
from device_plugin.kube import tables
from device_plugin.kube.tables import Tables, TablesKube
from gpu_operator.api.v1alpha1.rdma.tables import RDMANodeTablesStatus
from support.processes.http_stub import Answer, HttpStub

OWNERS = [{"kind": "ClusterRole", "name": "r"}, {"kind": "Node", "name": "n"}]
SPEC = {"generation": "7", "tables": "text"}


@pytest.mark.parametrize(
    ("metadata", "spec", "read"),
    [
        ({}, {}, Tables("u", 7, "text")),
        ({"ownerReferences": OWNERS}, {}, Tables("u", 7, "text", tuple(OWNERS))),
        ({"ownerReferences": None}, {"encoding": None}, Tables("u", 7, "text")),
        ({"ownerReferences": []}, {"encoding": ""}, Tables("u", 7, "text")),
        ({}, {"encoding": "Deflate"}, Tables("u", 7, "text", (), "Deflate")),
        ({}, {"generation": 0, "tables": ""}, Tables("u", 0, "")),
    ],
)
def test_an_object_is_read_with_its_owners_and_encoding(
    metadata: dict[str, Any], spec: dict[str, Any], read: Tables
) -> None:
    document = {"metadata": {"uid": "u", **metadata}, "spec": {**SPEC, **spec}}
    assert tables._read(document) == read


@pytest.mark.parametrize("missing", ["generation", "tables"])
def test_an_object_without_the_required_fields_is_not_a_table(missing: str) -> None:
    spec = {name: value for name, value in SPEC.items() if name != missing}
    for found in (spec, None):
        with pytest.raises(KeyError):
            tables._read({"metadata": {"uid": "u"}, "spec": found})


@pytest.mark.parametrize(
    ("code", "there"), [(200, True), (404, False), (409, False), (405, None), (410, None)]
)
def test_an_object_that_is_another_by_now_is_not_acknowledged(
    code: int, there: bool | None
) -> None:
    def answer(_: object) -> Answer:
        return Answer(code, {"kind": "Status", "code": code, "message": "why not"})

    with HttpStub(answer) as stub:
        kube = TablesKube("n", "ours", ApiClient(Configuration(host=stub.url)))
        if there is None:
            with pytest.raises(ClusterError, match="why not"):
                kube.acknowledge("u", RDMANodeTablesStatus())
        else:
            assert kube.acknowledge("u", RDMANodeTablesStatus()) == there
    (request,) = stub.requests
    assert request.path.endswith("/rdmanodetables/n/status")
    assert request.body["metadata"] == {"name": "n", "uid": "u"}
