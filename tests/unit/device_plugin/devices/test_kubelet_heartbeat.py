"""The process that serves the kubelet sends a heartbeat only while it can answer the kubelet."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from device_plugin.dp import registration
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_side import KubeletServer
from device_plugin.dp.resources import Resources
from device_plugin.metrics import METRICS
from device_plugin.proto import (
    deviceplugin_pb2 as dp,
    deviceplugin_pb2_grpc as dp_grpc,
)
from support.worlds.offers import make_gpu, offer_of

RESOURCES = ("gpu.tessera.dev/gpu", "gpu.tessera.dev/mig-1g.10gb", "gpu.tessera.dev/mig-2g.20gb")
SHORT_S = 0.2


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KubeletServer]:
    def make(allocations: Allocations) -> Resources:
        return Resources(tmp_path, "agent-abc12", RESOURCES, True, allocations, lambda: None)

    server = KubeletServer(make)
    server.update({name: offer_of(make_gpu(0, range(3))) for name in RESOURCES})
    yield server
    server.stop()


def channel_of(server: KubeletServer, resource: str) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{server.endpoints()[resource].path}")


def is_responsive_to_all(server: KubeletServer) -> bool:
    """Return whether as many heartbeats are due as there are resources."""
    return all(server.is_responsive(SHORT_S) for _ in RESOURCES)


def lock_of(server: KubeletServer, name: str) -> AbstractContextManager[Any]:
    """Return a lock that calls of the kubelet take."""
    plugin = server._resources._servers[RESOURCES[1]].plugin
    return {
        "changes": server._lock,
        "allocations": server._allocations._lock,
        "a resource's list": plugin._changed,
    }[name]


@pytest.mark.parametrize("name", ["changes", "allocations", "a resource's list"])
def test_a_lock_that_stays_taken_ends_the_heartbeat(server: KubeletServer, name: str) -> None:
    assert is_responsive_to_all(server)
    with lock_of(server, name):
        assert not is_responsive_to_all(server)
        assert not server.is_responsive(SHORT_S), "another resource does not hide the one"
    assert server.is_responsive(5)
    assert is_responsive_to_all(server)


def test_a_resource_without_a_thread_for_calls_ends_the_heartbeat(server: KubeletServer) -> None:
    with channel_of(server, RESOURCES[2]) as channel:
        streams = [
            dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
            for _ in range(registration._THREADS)
        ]
        for stream in streams:
            next(stream)
        assert not is_responsive_to_all(server)
        assert not server.is_responsive(SHORT_S)
        for stream in streams:
            stream.cancel()
        assert server.is_responsive(10)


def test_a_resource_that_is_retired_ends_no_heartbeat(server: KubeletServer) -> None:
    assert is_responsive_to_all(server)
    with ExitStack() as stack:
        stack.callback(server._resources._servers.pop(RESOURCES[1]).begin_stop())
        assert is_responsive_to_all(server)


def test_a_resource_that_is_retired_during_the_call_ends_no_heartbeat(
    server: KubeletServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def retire(instance: registration.ResourceServer, within_s: float) -> bool:
        del within_s, server._resources._servers[instance.plugin.resource]
        instance.begin_stop()()
        return False

    monkeypatch.setattr(registration.ResourceServer, "is_answering", retire)
    assert is_responsive_to_all(server)
    assert server.is_responsive(SHORT_S), "without resources there is nothing to answer for"


def test_heartbeats_are_no_calls_of_the_kubelet(server: KubeletServer) -> None:
    counts = list(METRICS.collect())
    assert is_responsive_to_all(server)
    assert list(METRICS.collect()) == counts
