"""The zygote forks, reports ends, refuses invalid requests, and leaves workers unaffected when it
ends.
"""

import contextlib
import os
import re
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.processes.worker_client import Zygote, running_client, running_zygote, worker_config
from vgpu_sim import zygote as zygote_module
from vgpu_sim.hal.compute import address_map, spawn
from vgpu_sim.hal.compute.cuda import CudaError

VECADD = (Path(__file__).parents[4] / "examples/vecadd.ptx").read_bytes()


# A zygote creates no spare worker on a busy machine, such as one that runs all tests.
ON_AN_IDLE_MACHINE = """
import os
os.getloadavg = lambda: (0.0, 0.0, 0.0)
from vgpu_sim.zygote import main
main()
"""


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    with running_zygote("-c", ON_AN_IDLE_MACHINE) as zygote:
        yield zygote


def children_of(zygote: Zygote) -> set[int]:
    pid = zygote.process.pid
    return {int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def processes_of(pid: int) -> set[int]:
    """Return a worker, its helper, and the child that the helper keeps ready."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {pid}.union(*map(processes_of, map(int, children)))


def settled_spare(zygote: Zygote, *others: int) -> int:
    """Return the zygote's child that is none of these workers, once it waits."""
    for _ in range(3000):
        text = ""
        for pid in children_of(zygote) - set(others):
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{pid}/status").read_text()
            if "State:\tS" in text and "Seccomp:\t2" in text:
                before = cpu_ticks(pid)
                time.sleep(0.1)
                if cpu_ticks(pid) == before:
                    return pid
        time.sleep(0.02)
    raise AssertionError("there is no spare")


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_the_next_context_is_served_by_a_spare(zygote: Zygote, tmp_path: Path, backend: str):
    group = tmp_path / "group"
    config = {"backend": backend, "cgroup_procs": (str(group),)}
    with running_client(zygote, **config) as first:
        spare = settled_spare(zygote, first.pid)
        assert group.read_text() == f"{first.pid}\n", "a spare is in no slice's group"
        place = {"context_index": 1, "aperture_base": address_map.APERTURE_BASES[1]}
        with running_client(zygote, **config, **place) as second:
            assert second.pid == spare
            others = processes_of(spare) - {spare}
            assert len(others) == 2 * (backend == "jit")
            assert int(group.read_text()) in (others or {spare}), "what it kept ready joins last"
            assert second.gpud.event("started")["sandbox"] == first.gpud.event("started")["sandbox"]
            module, memory = second.load(VECADD), second.allocate(4000).address
            kernel = module.functions["vecadd"].kernel
            parameters = struct.pack("<QQQi", memory, memory, memory, 1000)
            second.wait(0, second.launch(kernel, (4, 1, 1), (256, 1, 1), parameters))
            # One is the chunk's; others are open only for a moment.
            most, end = 9 + (backend == "jit"), time.monotonic() + 60
            while len(descriptors := os.listdir(f"/proc/{second.pid}/fd")) > most:
                assert time.monotonic() < end, descriptors
            assert settled_spare(zygote, first.pid, spare) != spare


def test_the_first_context_that_is_expected_finds_a_spare(zygote: Zygote):
    message = {"type": "expect", "worker": worker_config().to_json()}
    zygote.socket.send(spawn.encode(message))
    spare = settled_spare(zygote)
    zygote.socket.send(spawn.encode(message))
    assert settled_spare(zygote) == spare
    with running_client(zygote) as client:
        assert client.pid == spare
        assert client.memory_info()[0] > 0


def test_a_spare_is_for_a_context_like_the_last(zygote: Zygote, tmp_path: Path):
    mine, others = tmp_path / "mine", tmp_path / "others"
    for directory in (mine, others):
        directory.mkdir()
    with running_client(zygote, cache_dir=str(mine)) as first:
        spare = settled_spare(zygote, first.pid)
        with running_client(zygote, cache_dir=str(others), context_index=1) as second:
            assert second.pid != spare
            assert os.waitstatus_to_exitcode(zygote.exit_status(spare)) == -signal.SIGKILL
            assert second.memory_info()[0] > 0


def test_a_cache_that_was_made_again_is_another(zygote: Zygote, tmp_path: Path):
    cache = tmp_path / "cache"
    cache.mkdir()
    with running_client(zygote, cache_dir=str(cache)) as first:
        spare = settled_spare(zygote, first.pid)
        cache.rename(tmp_path / "moved")
        cache.mkdir()
        with running_client(zygote, cache_dir=str(cache), context_index=1) as second:
            assert second.pid != spare


def test_a_spare_that_ends_is_not_missed(zygote: Zygote):
    with running_client(zygote) as first:
        spare = settled_spare(zygote, first.pid)
        os.kill(spare, signal.SIGKILL)
        zygote.exit_status(spare)
        with running_client(zygote, context_index=1) as second:
            assert second.pid != spare
            assert second.memory_info()[0] > 0


def test_a_spare_ends_with_the_zygote(zygote: Zygote):
    with running_client(zygote) as first:
        spare = settled_spare(zygote, first.pid)
        zygote.socket.close()
        zygote.process.wait(60)
        deadline = time.monotonic() + 60
        while os.path.exists(f"/proc/{spare}") and time.monotonic() < deadline:
            status = Path(f"/proc/{spare}/status")
            with contextlib.suppress(OSError):
                if "State:\tZ" in status.read_text():
                    break
            time.sleep(0.01)
        else:
            assert not os.path.exists(f"/proc/{spare}")


def test_it_is_single_threaded_and_carries_no_ballast(zygote: Zygote) -> None:
    with running_client(zygote, backend="jit") as client:
        assert client.ready.status == CudaError.SUCCESS
        pid = zygote.process.pid
        assert len(os.listdir(f"/proc/{pid}/task")) == 1
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert "llvmlite" in maps
        assert "numpy" not in maps
        assert "grpc" not in maps
        assert len(os.listdir(f"/proc/{pid}/fd")) < 12


def test_it_does_not_fork_beside_a_thread() -> None:
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        with pytest.raises(RuntimeError, match="threads"):
            zygote_module.assert_single_threaded()
    finally:
        release.set()
        thread.join()


@pytest.mark.parametrize(
    "message",
    [
        {"type": "spawn", "request": 5, "worker": {"backend": "jit"}},
        {"type": "spawn", "request": 5, "worker": {**worker_config().to_json(), "more": 1}},
        {"type": "spawn", "request": 5},
        {"type": "dance", "request": 5},
    ],
)
def test_a_malformed_message_is_answered(zygote: Zygote, message: dict[str, object]) -> None:
    one, two = socket.socketpair()
    socket.send_fds(zygote.socket, [spawn.encode(message)], [one.fileno(), two.fileno()])
    answer = zygote.receive()
    assert (answer["type"], answer["request"]) == ("failed", 5)
    zygote.socket.send(spawn.encode({"type": "spawn", "request": 6}))
    assert zygote.receive()["type"] == "failed"
    one.close()
    two.close()
    with running_client(zygote) as client:
        assert client.ready.status == CudaError.SUCCESS


def test_an_unknown_backend_is_refused_to_the_client(zygote: Zygote) -> None:
    with running_client(zygote, backend="quantum") as client:
        assert client.ready.status == CudaError.OPERATING_SYSTEM
        assert "quantum" in client.gpud.event("failed")["message"]
        assert os.waitstatus_to_exitcode(zygote.exit_status(client.pid)) == 71


@dataclass(frozen=True)
class Refusal:
    """What a client, gpud and the zygote receive from a worker that cannot start."""

    answer: bytes
    events: list[object]
    exit_status: int


def refusal(zygote: Zygote, *, gpud_ends: bool = False, **changes: Any) -> Refusal:
    client, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gpud, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with client, theirs, gpud, channel:
        if gpud_ends:
            gpud.close()
        pid = zygote.spawn(worker_config(**changes), theirs, channel)
        theirs.close()
        channel.close()
        client.settimeout(30)
        answer, events = client.recv(65536), []
        while not gpud_ends and (data := gpud.recv(65536)):
            events.append(spawn.decode(data).get("event"))
    return Refusal(answer, events, os.waitstatus_to_exitcode(zygote.exit_status(pid)))


def test_a_worker_whose_cgroup_is_removed_leaves_the_answer_to_gpud(
    zygote: Zygote, tmp_path: Path
) -> None:
    """A gpud that ends removes empty groups: the client repeats its HELLO to the next one."""
    missing = str(tmp_path / "gone" / "cgroup.procs")
    refused = refusal(zygote, cgroup_procs=(missing,))
    assert refused == Refusal(b"", ["failed"], spawn.REFUSED_STATUS)


def test_a_cgroup_that_refuses_the_worker_is_no_context(zygote: Zygote, tmp_path: Path) -> None:
    with running_client(zygote, cgroup_procs=(str(tmp_path),)) as client:
        assert client.ready.status == CudaError.OPERATING_SYSTEM


@pytest.mark.parametrize("backend", ["quantum", "interp"])
def test_a_worker_gives_no_answer_after_gpud_has_ended(zygote: Zygote, backend: str) -> None:
    """Whether it fails or not: the next gpud may not know it, and would end it."""
    refused = refusal(zygote, gpud_ends=True, backend=backend)
    assert refused == Refusal(b"", [], spawn.REFUSED_STATUS)


def test_cgroups_are_joined_by_pid(zygote: Zygote, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("memory", "cpu")]
    with running_client(zygote, cgroup_procs=tuple(map(str, files))) as client:
        assert [file.read_text() for file in files] == [f"{client.pid}\n"] * 2


def test_a_client_that_has_gone_before_its_worker_serves_is_no_failure(zygote: Zygote) -> None:
    client, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gpud, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, channel, gpud:
        client.close()
        pid = zygote.spawn(worker_config(), theirs, channel)
        channel.close()
        said = []
        while data := gpud.recv(65536):
            said.append(spawn.decode(data).get("event"))
    assert said == ["started"]
    assert os.waitstatus_to_exitcode(zygote.exit_status(pid)) == 0


def test_ends_are_reported_and_nothing_is_left(zygote: Zygote) -> None:
    for status in (0, -signal.SIGKILL):
        with running_client(zygote) as client:
            if status:
                os.kill(client.pid, signal.SIGKILL)
            else:
                client.close()
            ended = os.waitstatus_to_exitcode(zygote.exit_status(client.pid))
            assert ended == status, client.gpud.events
    assert len(children_of(zygote)) <= 1  # the spare


def test_a_worker_that_is_left_by_an_exception_says_why(zygote: Zygote) -> None:
    """Its standard error is detached."""
    with running_client(zygote) as client:
        incomplete = spawn.encode({"type": "export"})
        socket.send_fds(client.gpud.connection, [incomplete], [client.socket.fileno()])
        ended = os.waitstatus_to_exitcode(zygote.exit_status(client.pid))
        assert ended == spawn.CRASHED_STATUS
        said = client.gpud.event("failed")["message"]
        assert re.fullmatch(r"the worker failed: KeyError: 'address' \(channel\.py:\d+\)", said)


def test_workers_outlive_it() -> None:
    with running_zygote() as zygote, running_client(zygote) as client:
        zygote.socket.close()
        assert zygote.process.wait(60) == 0
        assert client.memory_info()[0] > 0
        memory = client.allocate(4096)
        client.wait(0, client.fill(memory.address, 4, 7, 1))
        assert memory.alias[:4] == b"\7\7\7\7"


def test_many_contexts_at_once(zygote: Zygote) -> None:
    with (
        running_client(zygote, backend="jit", context_index=0) as first,
        running_client(zygote, backend="jit", context_index=1) as second,
        running_client(zygote, backend="interp", context_index=2) as third,
    ):
        pids = {client.pid for client in (first, second, third)}
        assert len(pids) == 3
        for client in (first, second, third):
            assert client.ready.status == CudaError.SUCCESS
            client.memory_info()  # by now the descriptors sent with the reply are closed
            descriptors = os.listdir(f"/proc/{client.pid}/fd")
            end_to_helper = client is not third
            assert len(descriptors) <= 8 + end_to_helper, "a worker holds what is not its own"


def test_a_worker_has_no_busy_loop(zygote: Zygote) -> None:
    with running_client(zygote, backend="jit") as client:
        memory = client.allocate(4096)
        client.wait(0, client.fill(memory.address, 4, 7, 1))
        before = cpu_ticks(client.pid)
        time.sleep(1)
        assert cpu_ticks(client.pid) - before <= 3  # of 100 in a second


def _ranges(pid: int) -> dict[tuple[int, int], str]:
    """Return a process's mappings, except its heap and the aperture, whose address clients
    choose.
    """
    low = address_map.APERTURE_BASES[0] - address_map.GUARD_BEFORE_BYTES
    high = low + 2 * address_map.MISALIGNED_OFFSET_BYTES
    found = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        begin, end = (int(part, 16) for part in line.split(" ")[0].split("-"))
        if not low <= begin < high and not line.endswith("[heap]"):
            found[begin, end] = line
    return found


@pytest.mark.parametrize("backend", ["jit", "interp"])
def test_workers_mappings_have_different_addresses(zygote: Zygote, backend: str) -> None:
    """Pages shared with clients, native code, stacks: addresses in one worker reveal no other's."""
    with running_client(zygote, backend=backend) as a, running_client(zygote, backend=backend) as b:
        inherited = _ranges(zygote.process.pid)
        own = []
        for client in (a, b):
            module = client.load(VECADD)
            memory = client.allocate(4000).address
            parameters = struct.pack("<QQQi", memory, memory, memory, 1000)
            kernel = module.functions["vecadd"].kernel
            client.wait(0, client.launch(kernel, (4, 1, 1), (256, 1, 1), parameters))
            ranges = _ranges(client.pid)
            own.append(
                {
                    span: line
                    for span, line in ranges.items()
                    if "---p" not in line  # the gaps that keep them apart
                    and not any(begin <= span[0] < end for begin, end in inherited)
                }
            )
        assert any("tessera-worker-page" in line for line in own[0].values())
        assert len(own[0]) > 5
        shared = [
            line
            for (begin, end), line in own[0].items()
            if any(first < end and begin < last for first, last in own[1])
        ]
        assert not shared, "\n".join(shared)
