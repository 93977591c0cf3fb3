"""Registration at the kubelet's socket: at once, again when the kubelet hangs up, and not too often."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from device_plugin.dp import registration
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.registrar import Registrar
from device_plugin.dp.resources import Resources
from device_plugin.proto import deviceplugin_pb2 as dp, deviceplugin_pb2_grpc as dp_grpc
from kubelet_conformance.kubelet import SimulatedKubelet
from support.processes.endless import endless
from support.processes.gpud_process import wait_until
from support.rigs.turned_clock import Clock
from support.worlds.offers import make_gpu, offer_of

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[SimulatedKubelet]:
    made = SimulatedKubelet(tmp_path / "k")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def resources(tmp_path: Path) -> Iterator[Resources]:
    directory = tmp_path / "k" / "plugins" / "gpu.tessera.dev"
    made = Resources(directory, "agent", (), True, Allocations(), lambda: None)
    made.update({RESOURCE: offer_of(make_gpu(0, range(2)))})
    yield made
    made.stop()


def test_a_resource_is_registered_and_again_after_the_kubelet_hung_up(
    kubelet: SimulatedKubelet, resources: Resources
) -> None:
    registrar = Registrar(kubelet.device_plugins / "kubelet.sock", resources.find_disconnected)
    with endless(registrar.run, wake=registrar.wake):
        wait_until(lambda: RESOURCE in kubelet.resources())
        first = kubelet.resources()[RESOURCE]
        wait_until(lambda: set(first.healthy()) == {"MIG-0-0", "MIG-0-1"})
        assert not kubelet.refused
        first.close()  # as a kubelet that notices the end of an earlier plugin
        wait_until(lambda: kubelet.resources().get(RESOURCE) not in (None, first))
        kubelet.stop()
        kubelet.start()  # restarted: it has forgotten its plugins
        wait_until(lambda: RESOURCE in kubelet.resources())


class Answering(dp_grpc.RegistrationServicer):
    """A kubelet's socket that refuses, or accepts and never connects."""

    def __init__(self) -> None:
        self.requests: list[dp.RegisterRequest] = []
        self.refuses = True

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        self.requests.append(request)
        if self.refuses:
            context.abort(grpc.StatusCode.UNKNOWN, "unsupported version")
        return dp.Empty()


def test_attempts_become_rarer_and_begin_anew_after_a_connection(tmp_path: Path) -> None:
    answering, clock = Answering(), Clock()
    server = grpc.server(threading_pool := registration.futures.ThreadPoolExecutor(2))
    dp_grpc.add_RegistrationServicer_to_server(answering, server)
    server.add_insecure_port(f"unix:{tmp_path}/kubelet.sock")
    server.start()
    sockets = {RESOURCE: tmp_path / "plugins" / "a.sock"}
    registrar = Registrar(tmp_path / "kubelet.sock", lambda: sockets, lambda: clock.now)
    counts = []
    for step_s in (0.0, 0.01, 0.05, 0.05, 0.05, 1.0, 1.0):
        clock.now += step_s
        registrar.register_due()
        counts.append(len(answering.requests))
    assert counts == [1, 1, 2, 2, 3, 4, 5]
    sockets.clear()
    registrar.register_due()
    sockets[RESOURCE] = tmp_path / "plugins" / "a.sock"
    registrar.register_due()
    assert len(answering.requests) == 6
    (request, *_) = answering.requests
    assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
    assert request.endpoint == "plugins/a.sock"
    assert request.options.get_preferred_allocation_available
    server.stop(0).wait(60)
    threading_pool.shutdown()


def test_without_a_kubelet_nothing_is_sent(tmp_path: Path) -> None:
    registrar = Registrar(tmp_path / "kubelet.sock", lambda: {RESOURCE: tmp_path / "a.sock"})
    registrar.register_due()
    assert not registration.is_listening(tmp_path / "kubelet.sock")
