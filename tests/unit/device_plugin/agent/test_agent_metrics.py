"""The agent's counters, which keep their values when one of its processes restarts."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families as parsed

from device_plugin.dp import service
from device_plugin.dp.allocations import Allocations
from device_plugin.metrics import AgentMetrics
from device_plugin.proto import deviceplugin_pb2 as pb

Values = dict[tuple[str, ...], float]


def values(metrics: AgentMetrics) -> Values:
    families = parsed(generate_latest(metrics).decode())
    return {
        (one.name, *one.labels.values()): one.value for family in families for one in family.samples
    }


def changed_values(metrics: AgentMetrics, act: Callable[[], object]) -> Values:
    before = values(metrics)
    act()
    return {key: new - before[key] for key, new in values(metrics).items() if new != before[key]}


def test_every_row_is_there_from_the_start() -> None:
    found = values(AgentMetrics())
    assert set(found.values()) == {0.0}
    assert ("tessera_agent_kubelet_calls_total", "Allocate", "failed") in found


def test_a_child_s_counts_are_visible_to_its_parent_and_its_successor() -> None:
    metrics = AgentMetrics()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            metrics.count_pass(0.5, succeeded=True)
            os._exit(0)
        os.waitpid(child, 0)
    found = values(metrics)
    assert found["tessera_agent_passes_total", "ok"] == 2
    assert found["tessera_agent_pass_seconds_total",] == 1.0


def test_processes_of_two_containers_share_a_file(tmp_path: Path) -> None:
    agent, standby = AgentMetrics(), AgentMetrics()
    agent.share(tmp_path)
    agent.count_pass(0.5, succeeded=True)
    standby.share(tmp_path)
    standby.count_registration(accepted=True)
    counts = values(agent)
    assert counts == values(standby)
    assert counts["tessera_agent_passes_total", "ok"] == 1
    assert counts["tessera_agent_registrations_total", "ok"] == 1


def test_a_call_that_raises_has_failed() -> None:
    metrics = AgentMetrics()
    with pytest.raises(RuntimeError), metrics.counting_kubelet_call("List"):
        raise RuntimeError
    with metrics.counting_kubelet_call("List"):
        pass
    name = "tessera_agent_kubelet_calls_total"
    found = values(metrics)
    assert (found[name, "List", "failed"], found[name, "List", "ok"]) == (1, 1)


class _Context:
    def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise grpc.RpcError(f"{code}: {details}")


class _Offer:
    noun = "slice"

    def __init__(self, **health: str) -> None:
        self._health = health

    def devices(self) -> list[pb.Device]:
        return [pb.Device(ID=name, health=health) for name, health in self._health.items()]

    def allocatable_ids(self) -> set[str]:
        return set(self._health)

    def problem(self, ids: list[str]) -> str:
        return ""

    def container(self, ids: list[str], use_cdi: bool) -> pb.ContainerAllocateResponse:
        return pb.ContainerAllocateResponse()


def test_allocations_and_changes_of_health_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = AgentMetrics()
    monkeypatch.setattr(service, "METRICS", metrics)
    plugin = service.DevicePlugin("r", True, Allocations(), lambda: None)

    def allocation(*ids: str) -> pb.AllocateRequest:
        return pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])

    healthy, ill = "Healthy", "Unhealthy"
    assert changed_values(metrics, lambda: plugin.offer(_Offer(a=ill, b=healthy))) == {}
    assert changed_values(metrics, lambda: plugin.offer(_Offer(a=healthy, b=healthy))) == {}
    kubelet: Any = SimpleNamespace(add_callback=lambda _: None, is_active=lambda: True)
    stream = plugin.ListAndWatch(pb.Empty(), kubelet)
    next(stream)  # no kubelet has followed the changes so far
    assert changed_values(metrics, lambda: plugin.offer(_Offer(a=ill, b=healthy, c=ill))) == {
        ("tessera_agent_health_changes_total", ill): 1
    }
    calls = "tessera_agent_kubelet_calls_total"
    assert changed_values(metrics, lambda: plugin.Allocate(allocation("a", "b"), _Context())) == {
        (calls, "Allocate", "ok"): 1,
        ("tessera_agent_devices_allocated_total",): 2,
    }

    def refuse() -> None:
        with pytest.raises(grpc.RpcError):
            plugin.Allocate(allocation("gone"), _Context())

    assert changed_values(metrics, refuse) == {(calls, "Allocate", "failed"): 1}
    stream.close()
