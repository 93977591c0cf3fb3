"""NVML requests: parsed as hostile input, and answered within the requester's permissions."""

import asyncio
import ctypes
import dataclasses
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from mig.geometry import BOARDS, board
from vgpu_sim.gpud.admin.snapshot import Snapshot
from vgpu_sim.gpud.management import processes, profiles, records
from vgpu_sim.gpud.management.answers import Management
from vgpu_sim.gpud.management.node import InventoryNode
from vgpu_sim.gpud.management.server import ManagementServer
from vgpu_sim.gpud.model import Gpu, MigInstance, new_gpu_uuid, new_instance_uuid, uuid_bytes
from vgpu_sim.gpud.slices import management
from vgpu_sim.gpud.slices.hello import MalformedHello
from vgpu_sim.gpud.telemetry import sensors
from vgpu_sim.hal import messages
from vgpu_sim.hal.management import admin
from vgpu_sim.hal.management.nvml import (
    NO_RECORD,
    GpuRecord,
    InstanceRecord,
    ManagementOperation as Operation,
    ManagementReport,
    ManagementRequest,
    NvmlReturn,
    ProcessRecord,
    ProfileRecord,
    ReportFlag,
    XidRecord,
)
from vgpu_sim.hal.messages import Header, MessageType
from vgpu_sim.system.admin_socket.errors import InUse
from vgpu_sim.system.peers import Peer, PodUid

GPU = Gpu(new_gpu_uuid(), 0, "h100-80gb")
PROFILE = board("h100-80gb").profile("1g.10gb")
SLICES = tuple(MigInstance(new_instance_uuid(), GPU, PROFILE, start, start) for start in (0, 1))
MINE, OTHER = PodUid("aaaa"), PodUid("bbbb")


def request(operation: int = Operation.REPORT, **changes: object) -> bytes:
    requested = ManagementRequest(
        messages.PROTOCOL_OLDEST,
        messages.PROTOCOL_VERSION,
        operation,
        mode=ReportFlag.PROFILES | ReportFlag.RESERVED,
    )
    size = ctypes.sizeof(requested)
    header = Header(
        messages.MAGIC, messages.PROTOCOL_VERSION, MessageType.MANAGEMENT, 7, 0, size, 0
    )
    for name, value in changes.items():
        setattr(header if hasattr(header, name) and name != "reserved" else requested, name, value)
    return bytes(header) + bytes(requested)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes"),
        (request()[:-1], "bytes instead of"),
        (request() + b"\0", "bytes instead of"),
        (request(magic=1), "magic"),
        (request(type=MessageType.HELLO_QUERY), "type"),
        (request(payload_bytes=1), "payload of 1 bytes"),
        (request(reserved=1), "reserved"),
        (request(operation=0), "operation 0"),
        (request(operation=99), "operation 99"),
    ],
)
def test_what_no_library_sends_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedHello, match=reason):
        management.parse(data)


def test_whatever_comes_is_read_or_refused() -> None:
    for _ in range(500):
        data = bytearray(request())
        for _ in range(4):
            data[os.urandom(1)[0] % len(data)] = os.urandom(1)[0]
        try:
            management.parse(bytes(data))
        except MalformedHello:
            continue


def context(pod: PodUid, client_pid: int) -> admin.Context:
    return admin.Context(100, client_pid, 0, pod, 4096, 1, 2, 3, 4, "", 0, {})


def picture(*contexts: admin.Context) -> admin.Gpu:
    """The GPU with both slices; the contexts belong to the first slice."""
    its = board(GPU.board_key)
    instances = tuple(
        admin.Instance(
            *(one.uuid, PROFILE.name, one.start, 1, PROFILE.memory_bytes, 16, 4096, "/s", True),
            holders=(),
            contexts=contexts if one is SLICES[0] else (),
            gi_id=one.gi_id,
            ci_id=one.ci_id,
            counters=admin.Counters(),
            activity=admin.Activity(),
            shared_used_bytes=4096,
        )
        for one in SLICES
    )
    return admin.Gpu(
        *(GPU.uuid, 0, its.key, its.product_name, its.memory_bytes, its.sm_count, (9, 0)),
        health="Healthy",
        instances=instances,
        mig_enabled=True,
        pci_bus_id=GPU.pci_bus_id,
        telemetry=sensors.read(its, sensors.at_rest(its), admin.Activity(), ()),
        xids=(
            admin.Xid(1, 31, 0, SLICES[0].uuid, 5, "mine"),
            admin.Xid(2, 13, 0, SLICES[1].uuid, 6, "another's"),
            admin.Xid(3, 79, 0, "", 0, "the GPU's"),
        ),
    )


RESERVED_BYTES = 5 << 30


class OneGpu:
    """A node with one GPU that cannot be changed."""

    def __init__(self, shown: admin.Gpu) -> None:
        self._shown = shown

    def gpus(self) -> tuple[Gpu, ...]:
        return (GPU,)

    def describe_gpu(self, gpu: Gpu, only: MigInstance | None = None) -> admin.Gpu:
        return self._shown

    async def change(self, ask: management.Ask) -> MigInstance | None:
        raise InUse("it is in use")

    def remaining(self, ask: management.Ask) -> int:
        return 3

    def reserved_bytes(self, uuid: str) -> int:
        return RESERVED_BYTES


def answer(
    shown: admin.Gpu,
    data: bytes,
    pods: dict[int, PodUid] | None = None,
    sender: int = 1,
    node: bool = False,
) -> tuple[int, ManagementReport, bytes]:
    """Return status, head and records of an answer to process 1."""
    requested = management.parse(data)
    known = pods or {}
    its = Management(OneGpu(shown), False, known.get, lambda uuid, pod: pod == MINE)
    of_slice = its.answer_slice_request(SLICES[0], requested, Peer(1, 0), Peer(sender, 0))
    reply = asyncio.run(its.answer_node_request(requested) if node else of_slice)
    if node:
        of_slice.close()
    header = Header.from_buffer_copy(reply)
    assert (header.type, header.request) == (MessageType.MANAGED, 7)
    assert header.payload_bytes == len(reply) - ctypes.sizeof(Header)
    if header.status:
        return header.status, ManagementReport(), b""
    head = ManagementReport.from_buffer_copy(reply, ctypes.sizeof(Header))
    return 0, head, reply[ctypes.sizeof(Header) + ctypes.sizeof(ManagementReport) :]


def test_a_slice_is_shown_itself_and_its_gpu() -> None:
    _, head, body = answer(picture(), request(), {1: MINE})
    assert (head.node, head.gpu_count, head.instance_count) == (0, 1, 1)
    gpu = GpuRecord.from_buffer_copy(body)
    assert (bytes(gpu.uuid), gpu.visible, gpu.memory_used_bytes) == (uuid_bytes(GPU.uuid), 0, 0)
    instance = InstanceRecord.from_buffer_copy(body, ctypes.sizeof(GpuRecord))
    assert bytes(instance.uuid) == uuid_bytes(SLICES[0].uuid)
    assert (instance.memory_used_bytes, instance.memory_reserved_bytes) == (4096, RESERVED_BYTES)
    assert head.xid_count == 2, "another slice's Xid is none of its business"


def test_a_library_that_does_not_request_reserved_memory_gets_records_without_it() -> None:
    _, _, body = answer(picture(), request(), {1: MINE})
    _, head, shorter = answer(picture(), request(mode=ReportFlag.PROFILES), {1: MINE})
    at = ctypes.sizeof(GpuRecord) + InstanceRecord.memory_reserved_bytes.offset
    assert head.instance_count == 1
    assert shorter == body[:at] + body[at + 8 :]


@pytest.mark.parametrize("pods", [{1: OTHER}, {1: MINE, 2: OTHER}, {1: OTHER, 2: MINE}, {}])
@pytest.mark.parametrize("mig_enabled", [True, False])
def test_a_process_with_the_socket_of_another_s_slice_sees_an_idle_device(
    pods: dict[int, PodUid], mig_enabled: bool
) -> None:
    """Any pod that names a CDI device in an annotation gets it mounted."""
    busy = dataclasses.replace(
        picture(context(MINE, 5)),
        mig_enabled=mig_enabled,
        telemetry=dataclasses.replace(
            picture().telemetry, gpu_utilization_percent=71, pcie_rx_bytes_per_s=74
        ),
    )
    _, head, body = answer(busy, request(), pods, sender=2 if 2 in pods else 1)
    assert (head.gpu_count, head.instance_count) == (1, 1)
    assert (head.process_count, head.xid_count) == (0, 0)
    gpu = GpuRecord.from_buffer_copy(body)
    instance = InstanceRecord.from_buffer_copy(body, ctypes.sizeof(GpuRecord))
    assert (gpu.memory_used_bytes, instance.memory_used_bytes) == (0, 0)
    assert instance.memory_reserved_bytes == 0
    assert (gpu.telemetry.gpu_percent, gpu.telemetry.pcie_rx_bytes_per_s) == (0, 0)


def test_a_slice_s_report_costs_no_time_for_others() -> None:
    """A tenant may send 500 requests a second; its GPU can have 448 contexts."""
    looked_at = []

    class Counting(Snapshot):
        def instance(self, instance: MigInstance) -> admin.Instance:
            looked_at.append(instance)
            return next(one for one in picture().instances if one.uuid == instance.uuid)

    parts: list[Any] = [MagicMock() for _ in range(8)]
    parts[0].instances_of = lambda _: SLICES
    shot = Counting(*parts)
    node = InventoryNode(parts[0], shot, lambda: "", *([MagicMock()] * 4))
    assert [one.uuid for one in node.describe_gpu(GPU, only=SLICES[1]).instances] == [
        SLICES[1].uuid
    ]
    assert looked_at == [SLICES[1]]
    assert len(node.describe_gpu(GPU).instances) == len(SLICES)

    class Strict(OneGpu):
        def describe_gpu(self, gpu: Gpu, only: MigInstance | None = None) -> admin.Gpu:
            assert only is SLICES[0]
            return super().describe_gpu(gpu, only)

    its = Management(Strict(picture()), False, lambda _: None, lambda *_: False)
    requested = management.parse(request())
    assert asyncio.run(its.answer_slice_request(SLICES[0], requested, Peer(1, 0), None))


def test_what_tenants_of_a_gpu_add_up_to_is_in_no_reply_to_one_of_them() -> None:
    """That libnvidia-ml hides such sums is not enough: a program can read the reply itself."""
    busy = picture()
    reported = dataclasses.replace(
        busy.telemetry,
        gpu_utilization_percent=71,
        memory_utilization_percent=72,
        pcie_tx_bytes_per_s=73,
        pcie_rx_bytes_per_s=74,
    )
    busy = dataclasses.replace(busy, telemetry=reported)

    def sums(shown: admin.Gpu, node: bool) -> tuple[int, ...]:
        its = GpuRecord.from_buffer_copy(
            answer(shown, request(), {1: MINE}, node=node)[2]
        ).telemetry
        rates = its.pcie_tx_bytes_per_s, its.pcie_rx_bytes_per_s
        return its.gpu_percent, its.memory_percent, *rates

    assert sums(busy, node=False) == (0, 0, 0, 0)
    assert sums(busy, node=True) == (71, 72, 73, 74)
    assert sums(dataclasses.replace(busy, mig_enabled=False), node=False) == (71, 72, 73, 74)


def test_the_node_is_shown_everything() -> None:
    shown = picture(context(MINE, 5), context(OTHER, 6), context(OTHER, 0))
    _, head, body = answer(shown, request(), node=True)
    assert (head.node, head.instance_count, head.process_count, head.xid_count) == (1, 2, 2, 3)
    assert GpuRecord.from_buffer_copy(body).memory_used_bytes == 2 * 4096


def test_an_xid_names_its_instance_s_place_among_all_that_are_shown() -> None:
    """With two GPUs: the instances' numbers continue from the first GPU to the second."""
    names = [new_instance_uuid() for _ in SLICES]
    first = picture()
    second = dataclasses.replace(
        first,
        uuid=new_gpu_uuid(),
        index=1,
        instances=tuple(
            dataclasses.replace(one, uuid=name)
            for one, name in zip(first.instances, names, strict=True)
        ),
        xids=tuple(admin.Xid(number, 13, 0, name, 0, "") for number, name in enumerate(names)),
    )
    data = records.report(records.View((first, second), node=True, reserved={}), False, 0)
    head = ManagementReport.from_buffer_copy(data)
    assert (head.gpu_count, head.instance_count, head.xid_count) == (2, 4, 5)
    assert head.driver_release == b"580.0.1"
    xids = (XidRecord * 5).from_buffer_copy(data, len(data) - 5 * ctypes.sizeof(XidRecord))
    places = [(one.gpu, one.instance, one.xid) for one in xids]
    assert places == [(0, 0, 31), (0, 1, 13), (0, NO_RECORD, 79), (1, 2, 13), (1, 3, 13)]


@pytest.mark.parametrize(
    ("pods", "sender", "expected"),
    [
        ({1: MINE, 2: MINE}, 1, 1),
        ({1: MINE, 2: MINE}, 2, 1),
        ({1: OTHER}, 1, 0),
        ({1: MINE, 2: OTHER}, 2, 0),  # a connection that was passed on
        ({}, 1, 0),  # in no pod
    ],
)
def test_processes_are_shown_to_their_own_pod(
    monkeypatch: pytest.MonkeyPatch, pods: dict[int, PodUid], sender: int, expected: int
) -> None:
    monkeypatch.setattr(processes, "_cgroups", lambda proc, pid: b"the same container")
    monkeypatch.setattr(processes, "_innermost_pid", lambda proc, pid: pid)
    _, head, _ = answer(picture(context(MINE, 5)), request(), pods, sender)
    assert head.process_count == expected


def proc_of(directory: Path, rows: dict[int, tuple[str, str]]) -> Path:
    """A /proc with these processes: their control group, and their NSpid."""
    for pid, (cgroup, numbers) in rows.items():
        (directory / str(pid)).mkdir(parents=True)
        (directory / str(pid) / "cgroup").write_text(f"0::/{cgroup}\n")
        (directory / str(pid) / "status").write_text(f"Name:\tx\nNSpid:\t{numbers}\n")
    return directory


def test_pids_are_those_of_the_asker_s_container(tmp_path: Path) -> None:
    proc = proc_of(
        tmp_path,
        {
            10: ("pod/a", "10\t1"),
            11: ("pod/a", "11\t7"),
            12: ("pod/b", "12\t7"),  # in the pod's other container, where 7 is another process
        },
    )
    contexts = [context(MINE, pid) for pid in (11, 12, 0)] + [context(OTHER, 11)]
    found = processes.as_seen_in_container(contexts, Peer(10, 0), MINE, proc)
    assert [(one.pid, one.context.client_pid) for one in found] == [(7, 11)]
    assert processes.as_seen_in_container(contexts, Peer(0, 0), MINE, proc) == []
    assert [one.pid for one in processes.as_seen_on_node(contexts)] == [11, 12, 11]


@pytest.mark.parametrize("operation", [one for one in Operation if one != Operation.REPORT])
def test_a_slice_s_holder_changes_nothing(operation: Operation) -> None:
    assert answer(picture(), request(operation))[0] == NvmlReturn.NO_PERMISSION


def test_the_node_gets_the_reason_of_a_refusal() -> None:
    busy = request(Operation.DESTROY_GPU_INSTANCE)
    assert answer(picture(), busy, node=True)[0] == NvmlReturn.IN_USE
    _, head, _ = answer(picture(), request(Operation.REMAINING_CAPACITY), node=True)
    assert head.remaining == 3


def test_another_protocol_is_refused_on_both_sockets() -> None:
    alien = request(version_min=98, version_max=99)
    for node in (False, True):
        status, *_ = answer(picture(), alien, node=node)
        assert status == NvmlReturn.ARGUMENT_VERSION_MISMATCH


@pytest.mark.parametrize("key", sorted(BOARDS))
def test_each_board_s_profiles_fit_into_their_records(key: str) -> None:
    rows = [ProfileRecord.from_buffer_copy(one) for one in profiles.profile_records(key)]
    assert {row.name.decode(): row.profile for row in rows} == {
        one.name: one.driver_id for one in BOARDS[key].profiles
    }
    for row in rows:
        its = BOARDS[key].profile(row.name.decode())
        assert tuple(row.starts[: row.start_count]) == its.starts
        inner = [(one.compute_slices, one.start_count) for one in row.computes[: row.compute_count]]
        assert inner == [(one.compute_slices, len(one.starts)) for one in its.ci_profiles]


def test_the_largest_report_is_one_packet() -> None:
    """Eight GPUs of eight boards, seven slices each, and the largest number of contexts."""
    crowd = [processes.Process(5, context(MINE, 5))] * 64
    gpus = []
    for key in sorted(BOARDS)[:8]:
        instances = tuple(
            dataclasses.replace(
                picture().instances[0],
                uuid=new_instance_uuid(),
                profile=BOARDS[key].profiles[0].name,
            )
            for _ in range(7)
        )
        gpus.append(dataclasses.replace(picture(), board=key, instances=instances))
    shown = {one.uuid: crowd for gpu in gpus for one in gpu.instances}
    report = records.report(
        records.View(tuple(gpus), node=True, processes=shown, reserved={}), True, 0
    )
    head = ManagementReport.from_buffer_copy(report)
    assert head.process_count == 8 * 7 * 64
    assert (
        len(management.encode(management.parse(request()), 0, report))
        > ctypes.sizeof(ProcessRecord) * head.process_count
    )


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="m-", dir="/tmp") as name:
        yield Path(name)


def test_the_management_socket_is_the_owner_s_alone(directory: Path) -> None:
    async def scenario() -> None:
        path = directory / "management.sock"

        async def echo(ask: management.Ask) -> bytes:
            return management.encode(ask, NvmlReturn.NOT_FOUND)

        server = ManagementServer(path, echo)
        server.open()
        assert path.stat().st_mode & 0o777 == 0o600
        loop = asyncio.get_running_loop()
        for data, expected in ((request(), NvmlReturn.NOT_FOUND), (b"nonsense", None)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                client.setblocking(False)
                await loop.sock_connect(client, str(path))
                await loop.sock_sendall(client, data)
                reply = await asyncio.wait_for(loop.sock_recv(client, 1 << 18), 60)
            if expected is None:
                assert reply == b""
            else:
                assert Header.from_buffer_copy(reply).status == expected
        server._uids = set()  # another process's socket
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.setblocking(False)
            await loop.sock_connect(client, str(path))
            assert await asyncio.wait_for(loop.sock_recv(client, 1), 60) == b""
        await server.close()
        assert not path.exists()

    asyncio.run(scenario())
