"""The benchmark of the operator's loop, at a size suitable for tests."""

import pytest

from benchmarks.rdma import operator_loop, policies as rdma_policy


def test_all_nodes_tables_and_statuses_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"PODS": 60, "POLICIES": 20, "NAMESPACES": 4, "NODES": 6}
    for name, size in sizes.items():
        monkeypatch.setattr(rdma_policy, name, size)
    monkeypatch.setattr(operator_loop, "ONE_BY_ONE", 3)
    apis: list[operator_loop.Api] = []
    filled = operator_loop.make_cluster

    def make_and_keep() -> tuple[rdma_policy.Cluster, operator_loop.Api]:
        made = filled()
        apis.append(made[1])
        return made

    monkeypatch.setattr(operator_loop, "make_cluster", make_and_keep)
    rows = operator_loop.measure().rows
    assert "60 pods, 20 policies, 6 nodes" in rows[0].name
    assert all(row.measured > 0 for row in rows)
    (api,) = apis
    tables = [one for (kind, _), one in api.objects.items() if kind == "RDMANodeTables"]
    assert len(tables) == 6
    policies = [one for (kind, _), one in api.objects.items() if kind == "RDMANetworkPolicy"]
    edited = [one for one in policies if one.get("status")]
    assert len(edited) == 20
    programmed = [
        condition["status"]
        for one in edited
        for condition in one["status"]["conditions"]
        if condition["type"] == "Programmed"
    ]
    assert programmed == ["True"] * 20
