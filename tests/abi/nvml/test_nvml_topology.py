"""NVML's topology for the places of GPUs in a report, pair by pair and link by link."""

import ctypes
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import pynvml
import pytest
from pynvml import NVMLError

from support.processes import nvml_reports, nvml_views
from support.processes.nvml_reports import Report
from vgpu_sim.hal.management.nvml import (
    NVSWITCH_BUS,
    PLACE_BRIDGE_SHIFT,
    PLACE_KNOWN,
    PLACE_LINKS_SHIFT,
    PLACE_NUMA_SHIFT,
    PLACE_PEERS_SHIFT,
    PLACE_SWITCHED_SHIFT,
)
from vgpu_sim.hal.messages import MAGIC, PROTOCOL_VERSION, Header, MessageType
from vgpu_sim.native import build


def place(switch: int, bridge: int, node: int, links: int = 0, *, peers: int = 0) -> int:
    """Return a GPU's place; its NVLinks connect to ``peers`` other GPUs or, if 0, to NVSwitches."""
    return (
        PLACE_KNOWN
        | switch
        | bridge << PLACE_BRIDGE_SHIFT
        | node << PLACE_NUMA_SHIFT
        | links << PLACE_LINKS_SHIFT
        | peers << PLACE_PEERS_SHIFT
        | (not peers) << PLACE_SWITCHED_SHIFT
    )


@pytest.fixture
def report() -> Report:
    return Report([])


@pytest.fixture
def open_gpus(libraries, tmp_path, report) -> Iterator[Callable[[Sequence[int]], list[object]]]:
    """A function that opens NVML on GPUs in given places and returns their handles."""
    path = tmp_path / "management.sock"
    with (
        nvml_reports.serve(path, report),
        nvml_views.load_nvml(libraries, MANAGEMENT_SOCKET=str(path)),
    ):

        def open_on(places: Sequence[int]) -> list[object]:
            report.gpus = [nvml_reports.gpu(number) for number in range(len(places))]
            for record, its in zip(report.gpus, places, strict=True):
                record.telemetry.place = its
            pynvml.nvmlShutdown()
            pynvml.nvmlInit()
            return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(len(places))]

        yield open_on


def code(call: Callable[..., object], *arguments: object) -> int:
    """Return the status of a call that must fail."""
    with pytest.raises(NVMLError) as refused:
        call(*arguments)
    return int(refused.value.value)


def test_the_level_of_a_pair_is_the_widest_thing_in_which_they_differ(open_gpus):
    """Each number is tested alone, with its largest value: the bit fields do not overlap."""
    its = open_gpus(
        [
            place(1, 1, 1),
            place(1, 1, 1, 127),  # links are not part of the place
            place(0xFF, 1, 1),
            place(1, 0xFF, 1),
            place(1, 1, 0xF),
            0,
        ]
    )
    expected = [
        pynvml.NVML_TOPOLOGY_INTERNAL,
        pynvml.NVML_TOPOLOGY_SINGLE,
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
        pynvml.NVML_TOPOLOGY_NODE,
        pynvml.NVML_TOPOLOGY_SYSTEM,
        pynvml.NVML_TOPOLOGY_HOSTBRIDGE,
    ]
    for other, level in zip(its, expected, strict=True):
        for pair in ((its[0], other), (other, its[0])):
            assert pynvml.nvmlDeviceGetTopologyCommonAncestor(*pair) == level
            assert pynvml.nvmlDeviceOnSameBoard(*pair) == (other is its[0])
            unknown = pynvml.nvmlDeviceGetP2PStatus(*pair, pynvml.NVML_P2P_CAPS_INDEX_UNKNOWN)
            assert unknown == pynvml.NVML_P2P_STATUS_UNKNOWN
            wrong = code(pynvml.nvmlDeviceGetP2PStatus, *pair, 6)
            assert wrong == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_whole_gpus_access_each_others_memory(open_gpus, report):
    open_gpus([place(0, 0, 0, 18)] * 2 + [place(0, 0, 0)] * 2)
    for number, record in enumerate(report.gpus):
        record.mig_mode = int(number == 3)
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()
    linked, other, alone, divided = [pynvml.nvmlDeviceGetHandleByIndex(n) for n in range(4)]
    kinds = range(pynvml.NVML_P2P_CAPS_INDEX_UNKNOWN)

    def supported(first: object, second: object) -> list[int]:
        ok = pynvml.NVML_P2P_STATUS_OK
        return [kind for kind in kinds if pynvml.nvmlDeviceGetP2PStatus(first, second, kind) == ok]

    assert supported(linked, other) == list(kinds)
    assert supported(linked, alone) == [
        kind for kind in kinds if kind != pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    ]
    assert not supported(linked, linked)
    assert not supported(alone, divided)


def test_links_are_those_of_the_place_and_lead_where_it_says(open_gpus):
    """18 links to switches; 4 links to each of two GPUs; none. None exists after the last."""
    switched, *peers, alone = open_gpus(
        [place(0, 0, 0, 18), *[place(0, 0, 0, 8, peers=3)] * 2, place(0, 0, 0)]
    )
    remote = pynvml.nvmlDeviceGetNvLinkRemotePciInfo
    assert [remote(switched, link).bus for link in range(18)] == [NVSWITCH_BUS] * 18
    assert remote(switched, 0).busId == f"00000000:{NVSWITCH_BUS:02X}:00.0"
    # GPUs 1 and 2 have two links to each of GPUs 0, 2, 3 and 0, 1, 3; the last two connect nothing.
    for its, buses in zip(peers, ([1, 1, 3, 3, 4, 4], [1, 1, 2, 2, 4, 4]), strict=True):
        assert [remote(its, link).bus for link in range(6)] == buses
        for link in (6, 7):
            assert code(remote, its, link) == pynvml.NVML_ERROR_NOT_FOUND
    for its, links in ((switched, 18), (peers[0], 8)):
        for link in range(links):
            assert pynvml.nvmlDeviceGetNvLinkState(its, link) == pynvml.NVML_FEATURE_ENABLED
        for call in (pynvml.nvmlDeviceGetNvLinkState, remote):
            assert code(call, its, links) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    for call in (pynvml.nvmlDeviceGetNvLinkState, remote):
        assert code(call, alone, 0) == pynvml.NVML_ERROR_NOT_SUPPORTED


def test_affinities_are_the_process_s_cpus_and_the_place_s_node(open_gpus):
    first, second, unknown = open_gpus([place(1, 2, 3), place(1, 2, 0xF), 0])
    words = os.sysconf("SC_NPROCESSORS_CONF") // 64 + 2
    for its in (first, unknown):
        found = pynvml.nvmlDeviceGetCpuAffinity(its, words)
        cpus = {
            64 * i + bit for i, word in enumerate(found) for bit in range(64) if word >> bit & 1
        }
        assert cpus == os.sched_getaffinity(0)
        for scope in (0, 1):
            scoped = pynvml.nvmlDeviceGetCpuAffinityWithinScope(its, words, scope)
            assert list(scoped) == list(found)
        status = code(pynvml.nvmlDeviceGetCpuAffinityWithinScope, its, words, 2)
        assert status == pynvml.NVML_ERROR_INVALID_ARGUMENT
    for its, node in ((first, 3), (second, 0xF)):
        for scope in (0, 1):
            assert list(pynvml.nvmlDeviceGetMemoryAffinity(its, 2, scope)) == [1 << node, 0]
        for words, scope in ((0, 0), (1, 2)):
            status = code(pynvml.nvmlDeviceGetMemoryAffinity, its, words, scope)
            assert status == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code(pynvml.nvmlDeviceGetMemoryAffinity, unknown, 1, 0) == (
        pynvml.NVML_ERROR_NOT_SUPPORTED
    )


def test_sets_of_gpus_are_those_near_a_gpu_or_a_cpu(open_gpus):
    its = open_gpus(
        [place(1, 1, 1), place(1, 1, 1), place(2, 1, 1), place(1, 2, 1), place(1, 1, 2)]
    )
    for level, others in ((10, 1), (20, 1), (30, 2), (40, 3), (50, 4)):
        near = pynvml.nvmlDeviceGetTopologyNearestGpus(its[0], level)
        assert [ctypes.cast(one, ctypes.c_void_p).value for one in near] == [
            ctypes.cast(one, ctypes.c_void_p).value for one in its[1 : others + 1]
        ]
    call = ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1")).nvmlSystemGetTopologyGpuSet
    own, room = min(os.sched_getaffinity(0)), (ctypes.c_void_p * 2)()
    for cpu, offered, status, found in (
        *((own, 5, pynvml.NVML_SUCCESS, 5), (own, 2, pynvml.NVML_ERROR_INSUFFICIENT_SIZE, 5)),
        (max(os.sched_getaffinity(0)) + 1, 5, pynvml.NVML_SUCCESS, 0),
    ):
        count = ctypes.c_uint(offered)
        assert call(cpu, ctypes.byref(count), room if offered == 2 else None) == status
        assert count.value == found
    assert call(1 << 20, ctypes.byref(count), None) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_gpud_that_never_answers_is_waited_for_ten_seconds(libraries, tmp_path, monkeypatch):
    """The limit is read from the library's socket, so that the test need not wait that long."""
    loaded = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"))
    path = tmp_path / "management.sock"
    monkeypatch.setenv("TESSERA_MANAGEMENT_SOCKET", str(path))
    statuses: list[int] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def sockets() -> set[int]:
            links = ((int(one), f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd"))
            return {fd for fd, link in links if os.path.lexists(link) and _is_socket(link)}

        before = sockets()
        asking = threading.Thread(target=lambda: statuses.append(loaded.nvmlInit_v2()))
        asking.start()
        answering, _ = listener.accept()
        with answering:
            request = answering.recv(4096)
            (own,) = sockets() - before - {answering.fileno()}
            with socket.socket(fileno=os.dup(own)) as its:
                limit = its.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
            number = Header.from_buffer_copy(request).request
            status = pynvml.NVML_ERROR_NO_PERMISSION
            kind = MessageType.MANAGED
            answering.sendall(bytes(Header(MAGIC, PROTOCOL_VERSION, kind, number, status, 0, 0)))
        asking.join()
    assert limit == (10).to_bytes(8, sys.byteorder) + bytes(8)
    assert statuses == [status]


def _is_socket(link: str) -> bool:
    return os.readlink(link).startswith("socket:")


def test_a_program_that_closed_its_input_has_names_of_processes(open_gpus):
    """Descriptor 0 is valid: the first file that a daemon opens may get it."""
    open_gpus([0])
    name = os.fsencode(sys.orig_argv[0])
    kept = os.dup(0)
    os.close(0)
    try:
        found = pynvml.nvmlSystemGetProcessName(os.getpid())
        room = ctypes.create_string_buffer(b"?" * 8)
        call = ctypes.CDLL(str(build.LIBRARIES / "libnvidia-ml.so.1")).nvmlSystemGetProcessName
        assert call(os.getpid(), room, 4) == 0
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert os.fsencode(found) == name
    assert room.raw == name[:3] + b"\0" + b"?" * 4 + b"\0"
