"""The device plugin's gRPC services, called as a kubelet calls them."""

import dataclasses
import os
import queue
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from device_plugin.cdi import nvidia
from device_plugin.dp import registration
from device_plugin.dp.allocations import LISTED_WITHIN_S, Allocations
from device_plugin.dp.offer import CLAIM_SERVED
from device_plugin.dp.resources import Resources
from device_plugin.dp.service import DevicePlugin
from device_plugin.dp.slices import SliceOffer
from device_plugin.proto import (
    deviceplugin_pb2 as dp,
    deviceplugin_pb2_grpc as dp_grpc,
)
from support.rigs.turned_clock import Clock
from support.worlds.offers import make_gpu, offer_of

RESOURCE = "gpu.tessera.dev/mig-1g.10gb"
OWN = ("gpu.tessera.dev/mig-*",)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def resources(tmp_path: Path, clock: Clock) -> Iterator[Resources]:
    made = Resources(tmp_path, "agent-abc12", OWN, True, Allocations(), lambda: None, clock)
    yield made
    made.stop()


def channel_of(tmp_path: Path) -> grpc.Channel:
    (path,) = tmp_path.glob("*.sock")
    return grpc.insecure_channel(f"unix:{path}")


def test_list_and_watch_sends_every_change_and_an_empty_list_before_it_retires(
    tmp_path: Path, resources: Resources, clock: Clock
) -> None:
    resources.update({RESOURCE: offer_of(make_gpu(0, range(3)))})
    with channel_of(tmp_path) as channel:
        stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
        assert [d.ID for d in next(stream).devices] == ["MIG-0-0", "MIG-0-1", "MIG-0-2"]
        resources.update({RESOURCE: offer_of(make_gpu(0, range(3), health="Unhealthy"))})
        assert {d.health for d in next(stream).devices} == {"Unhealthy"}
        resources.update({})
        assert list(next(stream).devices) == []
        assert resources.names() == (RESOURCE,)
        clock.now += 31
        resources.update({})
        assert resources.names() == ()
        assert list(tmp_path.glob("*.sock")) == []


def test_a_name_that_claims_serve_is_registered_without_devices_and_never_retires(
    tmp_path: Path, resources: Resources, clock: Clock
) -> None:
    """This also holds while pods still have withdrawn slices of that name."""
    held = make_gpu(0, range(1)).slices
    for offer in (
        CLAIM_SERVED,
        SliceOffer((), (), "/lib", held, stays_registered=True),
        CLAIM_SERVED,
    ):
        resources.update({RESOURCE: offer})
        clock.now += 3600
        resources.update({RESOURCE: offer})
        assert resources.names() == (RESOURCE,)
    with channel_of(tmp_path) as channel:
        stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
        assert list(next(stream).devices) == []
    resources.update({})
    clock.now += 3600
    resources.update({})
    assert resources.names() == ()


def test_a_resource_that_returns_before_it_is_retired_is_served_on(
    tmp_path: Path, resources: Resources, clock: Clock
) -> None:
    resources.update({RESOURCE: offer_of(make_gpu(0, range(1)))})
    resources.update({})
    clock.now += 31
    resources.update({RESOURCE: offer_of(make_gpu(0, range(2)))})
    with channel_of(tmp_path) as channel:
        stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)
        assert len(next(stream).devices) == 2


def test_allocate_names_cdi_devices_and_refuses_destroyed_ones(
    tmp_path: Path, resources: Resources
) -> None:
    resources.update({RESOURCE: offer_of(make_gpu(0, range(2)))})
    with channel_of(tmp_path) as channel:
        stub = dp_grpc.DevicePluginStub(channel)
        wanted = [dp.ContainerAllocateRequest(devices_ids=["MIG-0-1"])]
        response = stub.Allocate(dp.AllocateRequest(container_requests=wanted), timeout=60)
        (container,) = response.container_responses
        assert [d.name for d in container.cdi_devices] == ["gpu.tessera.dev/slice=MIG-0-1"]
        assert container.envs["TRITON_PTXAS_PATH"] == "/usr/local/bin/ptxas"
        gone = [dp.ContainerAllocateRequest(devices_ids=["MIG-9-9"])]
        with pytest.raises(grpc.RpcError) as error:
            stub.Allocate(dp.AllocateRequest(container_requests=gone), timeout=60)
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        assert "MIG-9-9" in error.value.details()


class Slow(SliceOffer):
    """An offer whose choice takes a moment, as on a busy node."""

    chooses, stops = threading.Event(), threading.Event()

    def prefer(self, available: Sequence[str], *others: Any) -> list[str]:
        self.chooses.set()
        assert self.stops.wait(60)
        threading.Event().wait(0.7)  # longer than gRPC's own grace for calls in progress was
        return [available[0]]


def test_a_call_that_is_under_way_when_the_plugin_stops_is_answered(
    tmp_path: Path, resources: Resources
) -> None:
    """The kubelet fails the pod of an aborted call."""
    gpu = make_gpu(0, range(2))
    resources.update({RESOURCE: offer_of(gpu)})  # a new server chooses once before it is called
    resources.update({RESOURCE: Slow(gpu.slices, (gpu,), "/lib")})
    ids = [s.uuid for s in gpu.slices]
    wanted = dp.ContainerPreferredAllocationRequest(available_deviceIDs=ids, allocation_size=1)
    with channel_of(tmp_path) as channel:
        stub = dp_grpc.DevicePluginStub(channel)
        request = dp.PreferredAllocationRequest(container_requests=[wanted])
        answer = stub.GetPreferredAllocation.future(request, timeout=60)
        assert Slow.chooses.wait(60)
        stopping = threading.Thread(target=resources.stop)
        stopping.start()
        Slow.stops.set()
        assert list(answer.result().container_responses[0].deviceIDs) == ids[:1]
        stopping.join()


def allocate(tmp_path: Path, device: str) -> dp.AllocateResponse:
    with channel_of(tmp_path) as channel:
        wanted = [dp.ContainerAllocateRequest(devices_ids=[device])]
        request = dp.AllocateRequest(container_requests=wanted)
        return dp_grpc.DevicePluginStub(channel).Allocate(request, timeout=60)


def test_a_withdrawn_slice_is_allocated_or_destroyed_never_both(
    tmp_path: Path, clock: Clock
) -> None:
    allocations = Allocations(clock)
    resources = Resources(tmp_path, "agent", OWN, True, allocations, lambda: None)
    try:
        whole = offer_of(make_gpu(0, range(2)))
        kept, withdrawn = whole.slices
        resources.update({RESOURCE: whole})
        resources.update(
            {RESOURCE: dataclasses.replace(whole, slices=(kept,), withdrawn=(withdrawn,))}
        )
        assert allocate(tmp_path, withdrawn.uuid).container_responses
        assert not allocations.forbid(withdrawn.uuid)
        assert allocations.has_pending()
        clock.now += LISTED_WITHIN_S
        assert allocations.forbid(withdrawn.uuid)
        with pytest.raises(grpc.RpcError, match=withdrawn.uuid):
            allocate(tmp_path, withdrawn.uuid)
        allocations.allow(withdrawn.uuid)  # gpud refused to destroy it because it is in use
        assert allocate(tmp_path, withdrawn.uuid).container_responses
        allocations.confirm_listed([withdrawn.uuid])  # from now on the kubelet's Lists show its pod
        assert not allocations.has_pending()
        assert allocations.forbid(withdrawn.uuid)
    finally:
        resources.stop()


def test_memory_use_is_no_news_to_the_kubelet(tmp_path: Path, resources: Resources) -> None:
    offer = offer_of(make_gpu(0, range(1)))
    busy = tuple(dataclasses.replace(s, memory_used_bytes=1 << 20) for s in offer.slices)
    resources.update({RESOURCE: offer})
    answers: queue.Queue[list[str]] = queue.Queue()
    with channel_of(tmp_path) as channel:
        stream = dp_grpc.DevicePluginStub(channel).ListAndWatch(dp.Empty(), timeout=60)

        def collect() -> None:
            try:
                for answer in stream:
                    answers.put([d.ID for d in answer.devices])
            except grpc.RpcError:
                pass

        reader = threading.Thread(target=collect)
        reader.start()
        assert answers.get(timeout=60) == ["MIG-0-0"]
        resources.update({RESOURCE: dataclasses.replace(offer, slices=busy)})
        resources.update({RESOURCE: offer_of(make_gpu(0, range(2)))})
        assert answers.get(timeout=60) == ["MIG-0-0", "MIG-0-1"]
        stream.cancel()
        reader.join(5)
    assert answers.empty()


def test_only_sockets_without_a_server_are_removed_at_start(tmp_path: Path) -> None:
    dead = registration.socket_path(tmp_path, RESOURCE, "agent-killed")
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(dead))
        killed.listen()
    foreign = tmp_path / "other-plugin.sock"
    foreign.touch()
    live = registration.socket_path(tmp_path, RESOURCE, "agent-alive")
    own = registration.socket_path(tmp_path, RESOURCE, "agent-own")
    with socket.socket(socket.AF_UNIX) as alive, socket.socket(socket.AF_UNIX) as starting:
        alive.bind(str(live))
        alive.listen()
        starting.bind(str(own))  # and does not listen yet
        registration.remove_stale(tmp_path, OWN[0], "agent-own")
        assert sorted(os.listdir(tmp_path)) == sorted([foreign.name, live.name, own.name])


def test_allocate_without_cdi_mounts_slice_library_and_ptxas(
    tmp_path: Path,
) -> None:
    resources = Resources(tmp_path, "agent", OWN, False, Allocations(), lambda: None)
    try:
        resources.update({RESOURCE: offer_of(make_gpu(0, range(1)))})
        with channel_of(tmp_path) as channel:
            wanted = [dp.ContainerAllocateRequest(devices_ids=["MIG-0-0"])]
            response = dp_grpc.DevicePluginStub(channel).Allocate(
                dp.AllocateRequest(container_requests=wanted), timeout=60
            )
    finally:
        resources.stop()
    (container,) = response.container_responses
    mounts = {m.container_path: m.host_path for m in container.mounts}
    assert mounts["/run/tessera/slices/MIG-0-0"] == "/run/tessera/slices/MIG-0-0"
    assert mounts["/usr/lib/x86_64-linux-gnu/libcuda.so.1"].endswith("/x/libcuda.so.1")
    assert all(m.read_only for m in container.mounts)
    assert mounts["/usr/local/bin/ptxas"].endswith("/x/ptxas")
    assert container.envs == {
        **dict.fromkeys(
            ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), "/usr/local/bin/ptxas"
        ),
        "TRITON_LIBCUDA_PATH": "/usr/lib/x86_64-linux-gnu",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


def test_variables_for_pytorch_lead_to_mounted_files_and_are_set_on_request() -> None:
    offer = offer_of(make_gpu(0, range(1)))
    without = dict(offer.container(["MIG-0-0"], use_cdi=True).envs)
    wanted = dataclasses.replace(offer, pytorch=True).container(["MIG-0-0"], use_cdi=False)
    added = {name: value for name, value in wanted.envs.items() if name not in without}
    assert set(added) == {"PYTHONPATH", "LD_PRELOAD"}
    assert set(added.values()) <= {mount.container_path for mount in wanted.mounts}


@pytest.mark.parametrize("use_cdi", [True, False])
def test_with_nvidias_names_the_variable_lists_the_allocated_devices(use_cdi: bool) -> None:
    programs = nvidia.optional_mounts("/x", nvidia_smi=True)
    offer = dataclasses.replace(
        offer_of(make_gpu(0, range(3))), prefix="nvidia.com", programs=programs
    )
    container = offer.container(["MIG-0-2", "MIG-0-0"], use_cdi)
    assert container.envs["NVIDIA_VISIBLE_DEVICES"] == "MIG-0-2,MIG-0-0"
    paths = [mount.container_path for mount in container.mounts]
    assert ("/usr/bin/nvidia-smi" in paths) is not use_cdi  # with CDI it is part of the devices


def test_allocation_wakes_the_reconcile_loop(tmp_path: Path) -> None:
    woken = threading.Event()
    resources = Resources(tmp_path, "agent", OWN, True, Allocations(), woken.set)
    try:
        resources.update({RESOURCE: offer_of(make_gpu(0, range(1)))})
        with channel_of(tmp_path) as channel:
            wanted = [dp.ContainerAllocateRequest(devices_ids=["MIG-0-0"])]
            dp_grpc.DevicePluginStub(channel).Allocate(
                dp.AllocateRequest(container_requests=wanted), timeout=60
            )
    finally:
        resources.stop()
    assert woken.is_set()


def test_a_resource_is_connected_exactly_while_a_kubelet_listens() -> None:
    reported: list[bool] = []
    plugin = DevicePlugin(RESOURCE, True, Allocations(), lambda: reported.append(plugin.connected))
    assert not plugin.connected
    looks = iter([True, True])  # the stream must end without a third call
    kubelet: Any = SimpleNamespace(add_callback=lambda _: None, is_active=looks.__next__)
    stream = plugin.ListAndWatch(dp.Empty(), kubelet)
    assert len(next(stream).devices) == 0
    plugin.stop()
    assert plugin.ended_streams == 0
    assert list(stream) == []
    assert reported == [True, False]
    assert plugin.ended_streams == 1


def test_preference_fills_the_gpu_that_is_in_use_and_keeps_big_placements() -> None:
    offer = offer_of(make_gpu(0, range(7)), make_gpu(1, range(7)))
    available = [s.uuid for s in offer.slices if s.uuid != "MIG-1-0"]
    (chosen,) = offer.prefer(available, [], 1, ())
    assert chosen.startswith("MIG-1-")  # GPU 1 already has a slice in use
    # With 1g@0 in use, only 1g@1 keeps both 3g@4 and a 2g placement possible.
    assert chosen == "MIG-1-1"


def test_preferred_allocation_has_the_mandatory_devices_and_the_requested_size() -> None:
    offer = offer_of(make_gpu(0, range(7)))
    available = [s.uuid for s in offer.slices]
    chosen = offer.prefer(available, ["MIG-0-5"], 3, ())
    assert "MIG-0-5" in chosen
    assert len(set(chosen)) == 3
    assert set(chosen) <= set(available)


def test_socket_names_differ_between_agents_and_fit_the_kernels_limit() -> None:
    directory = Path("/var/lib/kubelet/plugins/gpu.tessera.dev")
    one = registration.socket_path(directory, RESOURCE, "tessera-node-demo-abcde")
    two = registration.socket_path(directory, RESOURCE, "tessera-node-demo-fghij")
    assert one != two
    with pytest.raises(OSError, match="too long"):
        registration.socket_path(Path("/" + "x" * 90), RESOURCE, "pod")
