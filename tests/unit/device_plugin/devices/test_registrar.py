"""Registration at the kubelet's socket: at once, again when the kubelet hangs up, and not too often."""

from collections.abc import Iterator
from concurrent import futures
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from device_plugin.dp.allocations import Allocations
from device_plugin.dp.kubelet_socket import KubeletSocket
from device_plugin.dp.registrar import Registrar
from device_plugin.dp.registration import Endpoint
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
    kubelet_socket = KubeletSocket(kubelet.device_plugins / "kubelet.sock")
    kubelet_socket.connect()  # as the process that stands by: later registrations reconnect
    registrar = Registrar(kubelet_socket, resources.endpoints)
    with closing(kubelet_socket), endless(registrar.run, wake=registrar.wake):
        wait_until(lambda: RESOURCE in kubelet.resources())
        first = kubelet.resources()[RESOURCE]
        wait_until(lambda: set(first.healthy()) == {"MIG-0-0", "MIG-0-1"})
        assert not kubelet.refused
        first.close()  # as a kubelet that notices the end of an earlier plugin
        wait_until(lambda: kubelet.resources().get(RESOURCE) not in (None, first))
        kubelet.stop()
        kubelet.start()  # restarted: it has forgotten its plugins
        wait_until(lambda: RESOURCE in kubelet.resources())


class RegistrationSocket(dp_grpc.RegistrationServicer):
    """A kubelet's socket that refuses, or accepts and never connects."""

    def __init__(self) -> None:
        self.requests: list[dp.RegisterRequest] = []
        self.refuses = True
        self.endpoints: dict[str, Endpoint] = {}
        self.clock = Clock()

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        self.requests.append(request)
        if self.refuses:
            context.abort(grpc.StatusCode.UNKNOWN, "unsupported version")
        return dp.Empty()

    def attempts_after(self, registrar: Registrar, pause_s: float) -> int:
        """Return how many requests have arrived when a registrar has looked after a pause."""
        self.clock.now += pause_s
        registrar.register_due()
        return len(self.requests)


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[RegistrationSocket]:
    servicer = RegistrationSocket()
    server = grpc.server(threads := futures.ThreadPoolExecutor(2))
    dp_grpc.add_RegistrationServicer_to_server(servicer, server)
    server.add_insecure_port(f"unix:{tmp_path}/kubelet.sock")
    server.start()
    yield servicer
    server.stop(0).wait(60)
    threads.shutdown()


@pytest.fixture
def registrar(answering: RegistrationSocket, tmp_path: Path) -> Iterator[Registrar]:
    answering.endpoints[RESOURCE] = Endpoint(tmp_path / "plugins" / "a.sock")
    with closing(KubeletSocket(tmp_path / "kubelet.sock")) as kubelet_socket:
        yield Registrar(kubelet_socket, lambda: answering.endpoints, lambda: answering.clock.now)


def test_attempts_become_rarer_and_begin_anew_after_a_connection(
    answering: RegistrationSocket, registrar: Registrar
) -> None:
    pauses_s = (0.0, 0.005, 0.005, 0.01, 0.01, 1.0, 1.0)
    counts = [answering.attempts_after(registrar, pause_s) for pause_s in pauses_s]
    assert counts == [1, 1, 2, 2, 3, 4, 5]
    path = answering.endpoints[RESOURCE].path
    answering.endpoints[RESOURCE] = Endpoint(path, connected=True)
    registrar.register_due()
    answering.endpoints[RESOURCE] = Endpoint(path, ended_streams=1)
    counts = [answering.attempts_after(registrar, pause_s) for pause_s in (0.0, 0.01, 0.01)]
    assert counts == [6, 7, 7]
    (request, *_) = answering.requests
    assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
    assert request.endpoint == "plugins/a.sock"
    assert request.options.get_preferred_allocation_available


def test_a_kubelet_that_accepts_has_time_to_connect_unless_it_hangs_up(
    answering: RegistrationSocket, registrar: Registrar, tmp_path: Path
) -> None:
    """It hangs up on the newest plugin of a name when it notices the end of an earlier one."""
    answering.refuses = False
    assert answering.attempts_after(registrar, 0.0) == 1
    assert answering.attempts_after(registrar, 0.2) == 1
    answering.endpoints[RESOURCE] = Endpoint(tmp_path / "plugins" / "a.sock", ended_streams=1)
    assert answering.attempts_after(registrar, 0.0) == 2
    assert answering.attempts_after(registrar, 0.2) == 2


def test_a_list_that_is_still_followed_is_registered_again_if_another_stream_ends(
    answering: RegistrationSocket, registrar: Registrar, tmp_path: Path
) -> None:
    """The kubelet has then disconnected the newest plugin of the name, whose stream it was or not."""
    answering.refuses = False
    registrar.register_due()
    path = tmp_path / "plugins" / "a.sock"
    answering.endpoints[RESOURCE] = Endpoint(path, connected=True)
    assert answering.attempts_after(registrar, 5.0) == 1
    answering.endpoints[RESOURCE] = Endpoint(path, ended_streams=1, connected=True)
    assert answering.attempts_after(registrar, 5.0) == 2
    assert answering.attempts_after(registrar, 0.4) == 3, "confirmed"
    assert answering.attempts_after(registrar, 5.0) == 3


def test_a_successor_registers_once_more_although_its_lists_are_followed(
    answering: RegistrationSocket, registrar: Registrar, tmp_path: Path
) -> None:
    answering.refuses = False
    registrar.take_over()
    answering.endpoints[RESOURCE] = Endpoint(tmp_path / "plugins" / "a.sock", connected=True)
    assert registrar.register_due() == pytest.approx(0.1)
    counts = [answering.attempts_after(registrar, pause_s) for pause_s in (0.2, 0.2, 5.0)]
    assert counts == [1, 2, 2]


def test_the_next_look_is_when_an_attempt_is_due(
    answering: RegistrationSocket, registrar: Registrar
) -> None:
    assert registrar.register_due() == pytest.approx(0.01)
    answering.endpoints.clear()
    assert registrar.register_due() == pytest.approx(0.1)


def test_without_a_kubelet_nothing_is_sent(tmp_path: Path) -> None:
    kubelet_socket = KubeletSocket(tmp_path / "kubelet.sock")
    kubelet_socket.connect()
    endpoint = Endpoint(tmp_path / "a.sock")
    Registrar(kubelet_socket, lambda: {RESOURCE: endpoint}).register_due()
    assert not kubelet_socket.is_listening()
