"""Regions in device memory: accessible by RDMA until the exporter revokes the memory."""

import asyncio
import ctypes
import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hca.binding.engine import Engine
from hca.contract import hca
from hca.contract.hca import HcaMessage
from hca.contract.hca_objects import (
    HcaDeviceSegment,
    HcaMwCreate,
    HcaSegmentDevice,
    HcaSegmentShared,
)
from hca.contract.verbs import VerbsAccess, VerbsMwType, VerbsOpcode as Op, VerbsStatus as Status
from hca.daemon.common.handover_state import HandoverState
from hca.daemon.common.numbers import Numbers
from hca.daemon.common.quotas import Shares
from hca.daemon.objects.client_objects import AdoptedObjects, Objects
from hca.daemon.objects.providers import Providers
from hca.daemon.policy.enforcement import Enforcer
from hca.daemon.policy.parties import Parties
from hca.daemon.programs import device_memory
from support.rigs import hca_rig, rdma_lab
from support.rigs.direct_rig import SIZE, FakeGpud, Worker, refuse, serving, until
from support.rigs.hca_rig import ALL_ACCESS, BASE, Client, Pair, write
from support.rigs.share_room import room
from vgpu_sim.hal import messages
from vgpu_sim.hal.direct import DirectGrant, ExportRequest
from vgpu_sim.hal.messages import Header, SharedRange
from vgpu_sim.system import seqpacket
from vgpu_sim.system.peers import Peer
from vgpu_sim.worker.memory import create_populated

TOKEN = bytes([7]) * 32
SKIPPED = 8192
"""The requested memory's offset in its chunk."""


@dataclass
class Chunk:
    """A worker's memory, and the worker's ends of the connections to importers."""

    memory: int = field(default_factory=lambda: create_populated("test", SIZE))
    ends: list[socket.socket] = field(default_factory=list)

    def lend(self, end: socket.socket, request: ExportRequest) -> None:
        del request
        grant = DirectGrant(0, 0, SKIPPED, SIZE)
        socket.send_fds(end, [bytes(grant)], [self.memory])
        self.ends.append(end)

    def read(self, size: int) -> bytes:
        return os.pread(self.memory, size, SKIPPED)

    def take_back(self) -> None:
        """Revoke the memory as a worker does."""
        self.ends[-1].shutdown(socket.SHUT_WR)

    async def is_let_go(self) -> None:
        """Wait, as a worker does, until the importer closes its end."""
        await until(lambda: hung_up(self.ends[-1]))


def hung_up(end: socket.socket) -> bool:
    try:
        return end.recv(1, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:  # closed with unread data
        return True


def request(address: int = 0x1000, size: int = 4096, named: SharedRange | None = None) -> bytes:
    """Return a request for memory; with a range in ``named``, ``address`` is an offset in it."""
    body: ctypes.Structure = HcaSegmentDevice(address, size)
    kind = HcaMessage.SEGMENT_DEVICE
    if named is not None:
        body, kind = HcaSegmentShared(named, address, size), HcaMessage.SEGMENT_SHARED
    start = (messages.MAGIC, messages.PROTOCOL_VERSION, kind, 7, 0, ctypes.sizeof(body), 0)
    return bytes(Header(*start)) + bytes(body)


@dataclass
class Reply:
    status: int
    segment: HcaDeviceSegment


OWN = Peer(os.getpid(), os.geteuid())


async def ask(
    objects: Objects,
    address: int = 0x1000,
    size: int = 4096,
    sender: Peer | None = OWN,
    client: socket.socket | None = None,
    named: SharedRange | None = None,
) -> Reply:
    """Send a request, as this process or as another sender."""
    message = request(address, size, named)
    assert device_memory.is_device_memory_request(message)
    ours, theirs = seqpacket.pair()
    with ours, theirs:
        reply, descriptors, why = await device_memory.answer(
            *(objects, TOKEN, client or ours, sender, message)
        )
    assert descriptors == ()
    header = Header.from_buffer_copy(reply)
    assert (header.type, header.request) == (Header.from_buffer_copy(message).type + 1, 7)
    assert bool(why) == bool(header.status)
    body = reply[ctypes.sizeof(Header) :]
    return Reply(header.status, HcaDeviceSegment.from_buffer_copy(body or bytes(16)))


def register(client: Client, made: HcaDeviceSegment, size: int = 4096) -> int:
    """Register the requested memory as a region; return its key. Raises OSError."""
    wanted = hca.HcaMrCreate(client.pd, ALL_ACCESS, BASE, size, 1)
    wanted.pieces[0] = hca.HcaPiece(made.handle, 0, made.offset, size)
    return client.objects.create_region(wanted).handle


def run(
    tmp_path: Path, body: Callable[[Providers, FakeGpud], Awaitable[None]], *workers: Worker
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as served:
            gpud = FakeGpud(tmp_path / "d", *workers)
            try:
                await body(served, gpud)
            finally:
                gpud.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_device_memory_is_written_and_taken_back(tmp_path: Path, fresh_engine: Engine) -> None:
    chunk = Chunk()

    async def body(served: Providers, gpud: FakeGpud) -> None:
        pair = Pair(fresh_engine)
        objects = pair.b.objects
        objects.providers = served
        room = objects._room
        made = (await ask(objects)).segment
        assert gpud.requests[0].pid == os.getpid()
        assert made.offset == SKIPPED
        assert objects._room == room, "it is not host memory of the client"
        key = register(pair.b, made)
        pair.here.view[:5] = b"hallo"
        write(pair, 5, remote_key=key)
        assert pair.a_send.statuses(1) == [Status.SUCCESS]
        assert chunk.read(5) == b"hallo"

        chunk.take_back()
        await chunk.is_let_go()
        write(pair, 5, remote_key=key)
        assert pair.a_send.statuses(1) == [Status.REM_ACCESS_ERR]
        with pytest.raises(OSError, match="Bad address") as caught:
            register(pair.b, made)
        assert caught.value.errno == errno.EFAULT
        with pytest.raises(OSError, match="busy"):
            objects.destroy_segment(made.handle)
        objects.destroy_region(key)
        objects.destroy_segment(made.handle)
        pair.close()

    run(tmp_path, body, chunk.lend)


def test_the_range_of_a_descriptor_is_requested_as_it_was_read(
    tmp_path: Path, fresh_engine: Engine
) -> None:
    """The range is passed on as the process sent it: hcad does not trust the descriptor's
    content.
    """
    chunk = Chunk()

    async def body(served: Providers, gpud: FakeGpud) -> None:
        client = Client(fresh_engine, Numbers(), 0)
        client.objects.providers = served
        named = SharedRange(1, 2, 3, 4)
        made = (await ask(client.objects, 8192, named=named)).segment
        exported = gpud.requests[0]
        assert (exported.pid, exported.address, exported.size) == (os.getpid(), 8192, 4096)
        assert exported.range == bytes(named)
        assert register(client, made)
        stranger = Peer(os.getpid() + 1, os.geteuid())
        refused = await ask(client.objects, sender=stranger, named=named)
        assert refused.status == errno.EFAULT
        assert len(gpud.requests) == 1
        client.objects.close()

    run(tmp_path, body, chunk.lend)


def test_its_own_key_is_dead_for_its_owner_too(tmp_path: Path, fresh_engine: Engine) -> None:
    chunk = Chunk()

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        pair = Pair(fresh_engine)
        pair.a.objects.providers = served
        key = register(pair.a, (await ask(pair.a.objects)).segment)
        chunk.ends[0].send(b"an invalid message")  # a worker that breaks the protocol has ended
        await chunk.is_let_go()
        write(pair, 5, key=key)
        assert pair.a_send.statuses(1) == [Status.LOC_PROT_ERR]
        pair.close()

    run(tmp_path, body, chunk.lend)


def test_only_the_memory_that_is_taken_back_is_lost(tmp_path: Path, fresh_engine: Engine) -> None:
    chunk = Chunk()

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        pair = Pair(fresh_engine)
        pair.b.objects.providers = served
        keys = [register(pair.b, (await ask(pair.b.objects)).segment) for _ in range(2)]
        chunk.take_back()
        await chunk.is_let_go()
        write(pair, 5, remote_key=keys[0])
        assert pair.a_send.statuses(1) == [Status.SUCCESS]
        write(pair, 5, remote_key=keys[1])
        assert pair.a_send.statuses(1) == [Status.REM_ACCESS_ERR]
        pair.close()
        await until(lambda: hung_up(chunk.ends[0]))

    run(tmp_path, body, chunk.lend)


def test_it_is_taken_back_under_writes(tmp_path: Path, fresh_engine: Engine) -> None:
    """At any time: each write succeeds or fails, and the memory is not touched afterwards."""
    chunk, size, rounds = Chunk(), 1 << 20, 40

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        results = set()
        for i in range(rounds):
            pair = Pair(fresh_engine, first=2 * i)
            pair.b.objects.providers = served
            source = pair.a.region(size)
            key = register(pair.b, (await ask(pair.b.objects, size=size)).segment, size)
            for _ in range(12):
                write(pair, size, key=source.key, remote_key=key)
            for _ in range(i % 4):
                await asyncio.sleep(0)
            chunk.take_back()
            await chunk.is_let_go()
            os.pwrite(chunk.memory, b"mine", SKIPPED)
            statuses = pair.a_send.statuses(12)
            assert chunk.read(4) == b"mine"
            refused = statuses.index(Status.REM_ACCESS_ERR) if statuses[-1] else 12
            assert statuses[:refused] == [Status.SUCCESS] * refused
            assert set(statuses[refused + 1 :]) <= {Status.WR_FLUSH_ERR}
            results.add(refused)
            pair.close()
        assert min(results) < 12, "it was never taken back in time"

    run(tmp_path, body, chunk.lend)


def test_a_client_that_ends_gives_everything_back(tmp_path: Path, fresh_engine: Engine) -> None:
    chunk = Chunk()

    async def body(served: Providers, gpud: FakeGpud) -> None:
        share = Shares(1000, 1000, 1 << 20).new_share()
        free = room(share)
        client = Client(fresh_engine, Numbers(), 0, share=share)
        client.objects.providers = served
        register(client, (await ask(client.objects)).segment)
        descriptors, rings, objects = room(share)
        assert (descriptors, rings) == (free[0] - 2, free[1]), "the memory and its connection"
        assert objects < free[2]
        before = len(os.listdir("/proc/self/fd"))
        client.objects.close()
        assert room(share) == free
        await chunk.is_let_go()
        assert len(os.listdir("/proc/self/fd")) < before
        assert len(gpud.requests) == 1

    run(tmp_path, body, chunk.lend)


@pytest.mark.parametrize(
    ("address", "size", "status"),
    [
        (0x1000, 0, errno.EINVAL),
        ((1 << 64) - 1, 2, errno.EINVAL),
        (0, hca.HCA_MAX_MR_BYTES + 1, errno.EINVAL),
        (0x1000, SIZE, errno.EPROTO),  # ends beyond the worker's memory
    ],
)
def test_ranges_that_cannot_be_are_refused(
    tmp_path: Path, fresh_engine: Engine, address: int, size: int, status: int
) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        client = Client(fresh_engine, Numbers(), 0)
        client.objects.providers = served
        assert (await ask(client.objects, address, size)).status == status
        assert len(gpud.requests) == (status != errno.EINVAL)
        client.objects.close()

    run(tmp_path, body, Chunk().lend)


def test_what_no_context_has_is_a_bad_address(tmp_path: Path, fresh_engine: Engine) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        client = Client(fresh_engine, Numbers(), 0)
        assert (await ask(client.objects)).status == errno.ENODEV  # no exporter
        client.objects.providers = served
        assert (await ask(client.objects)).status == errno.EFAULT
        assert len(gpud.requests) == 2
        client.objects.close()

    run(tmp_path, body, refuse)


def test_memory_that_cannot_be_written_is_given_back(tmp_path: Path, fresh_engine: Engine) -> None:
    """The memory is sealed against writing: the engine could not write to a mapping, so it makes
    none.
    """
    chunk = Chunk(os.memfd_create("test", os.MFD_ALLOW_SEALING))
    os.truncate(chunk.memory, SIZE)
    os.posix_fallocate(chunk.memory, 0, SIZE)
    fcntl.fcntl(
        chunk.memory,
        fcntl.F_ADD_SEALS,
        fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE,
    )

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        share = Shares(1000, 1000, 1 << 20).new_share()
        client = Client(fresh_engine, Numbers(), 0, share=share)
        client.objects.providers = served
        free = room(share)
        for _ in range(2):
            assert (await ask(client.objects)).status == errno.EPERM
            await chunk.is_let_go()
            assert room(share) == free
        client.objects.close()

    run(tmp_path, body, chunk.lend)


@pytest.mark.parametrize("sender", [None, Peer(1, 0), Peer(0, 0)])
def test_a_process_that_only_holds_the_connection_gets_no_memory(
    tmp_path: Path, fresh_engine: Engine, sender: Peer | None
) -> None:
    async def body(served: Providers, gpud: FakeGpud) -> None:
        client = Client(fresh_engine, Numbers(), 0)
        client.objects.providers = served
        assert (await ask(client.objects, sender=sender)).status == errno.EFAULT
        assert gpud.requests == []
        client.objects.close()

    run(tmp_path, body, Chunk().lend)


_CONNECTS = """
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
    link.connect(sys.argv[1])
"""


def test_no_memory_is_imported_for_a_process_that_has_ended(
    tmp_path: Path, fresh_engine: Engine
) -> None:
    """Its pid may belong to another process by now."""
    chunk = Chunk()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.settimeout(60)
        listener.bind(str(tmp_path / "l"))
        listener.listen(1)
        with subprocess.Popen([sys.executable, "-c", _CONNECTS, str(tmp_path / "l")]) as process:
            client, _ = listener.accept()
        dead = Peer(process.pid, os.geteuid())

    async def body(served: Providers, gpud: FakeGpud) -> None:
        objects = Client(fresh_engine, Numbers(), 0).objects
        objects.providers = served
        assert (await ask(objects, sender=dead, client=client)).status == errno.EFAULT
        assert gpud.requests[0].pid == process.pid
        await chunk.is_let_go()
        objects.close()

    with client:
        run(tmp_path, body, chunk.lend)


def test_too_many_segments_are_refused_before_a_request_to_gpud(
    tmp_path: Path, fresh_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hca, "HCA_MAX_SEGMENTS", 1)

    async def body(served: Providers, gpud: FakeGpud) -> None:
        objects = Client(fresh_engine, Numbers(), 0).objects
        objects.providers = served
        assert (await ask(objects)).status == 0
        assert (await ask(objects)).status == errno.ENOMEM
        assert len(gpud.requests) == 1
        objects.close()

    run(tmp_path, body, Chunk().lend)


def test_a_successor_takes_it_over_with_the_connection(
    tmp_path: Path, fresh_engine: Engine
) -> None:
    chunks = [Chunk(), Chunk()]
    with hca_rig.running_engine() as new:
        new.suspend()

        async def body(served: Providers, gpud: FakeGpud) -> None:
            pair = Pair(fresh_engine)
            old = pair.b.objects
            old.providers = served
            segments = [(await ask(old)).segment]
            gpud.workers = [chunks[1].lend]
            segments.append((await ask(old)).segment)
            keys = [register(pair.b, one) for one in segments]
            chunks[1].take_back()
            await chunks[1].is_let_go()

            handover_state = HandoverState()
            saved = json.loads(json.dumps(old.save(handover_state)))
            arrived = HandoverState([os.dup(one) for one in handover_state.descriptors])
            gids = (bytes(16), pair.b.gid)
            ends = arrived.take_descriptors(saved["descriptors"])
            objects = AdoptedObjects(new, Numbers(), gids, 1 << 30, ends)
            objects.providers = served
            objects.load(saved, arrived)
            assert arrived.list_unclaimed() == []
            pair.close()
            assert not hung_up(chunks[0].ends[0]), "the successor's end is there"
            chunks[0].take_back()
            await chunks[0].is_let_go()
            assert [objects._regions[key].engine for key in keys] == [None, None]
            for key in keys:
                objects.destroy_region(key)
            for one in segments:
                objects.destroy_segment(one.handle)
            new.resume()
            objects.close()

        run(tmp_path, body, chunks[0].lend)


def test_a_message_without_a_type_requests_nothing() -> None:
    assert not device_memory.is_device_memory_request(b"")
    assert not device_memory.is_device_memory_request(request()[: ctypes.sizeof(Header) - 1])
    with pytest.raises(device_memory.requests.Malformed):
        asyncio.run(
            device_memory.answer(
                *(None, TOKEN, None, OWN, request()[:-1]),  # type: ignore[arg-type]
            )
        )


DEVICE = {"scope": "Named", "regions": ["device"]}
RULES = {
    "all verbs": ([{"memory": DEVICE}], {"write", "read"}),
    "only reading": ([{"memory": {**DEVICE, "maxAccess": "ReadOnly"}}], {"read"}),
    "writing alone, and reading of everything": (
        [{"verbs": ["Write"], "memory": DEVICE}, {"verbs": ["Read"]}],
        {"write", "read", "host read"},
    ),
    "a rule for everything beside it": (
        [{"memory": DEVICE}, {}],
        {"write", "read", "host write", "host read"},
    ),
    "and an unknown name": (
        [{"memory": {"scope": "Named", "regions": ["device", "weights"]}}],
        {"write", "read"},
    ),
    "an unknown name": ([{"memory": {"scope": "Named", "regions": ["weights"]}}], set()),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_may_open_a_gpu_s_memory_alone(
    tmp_path: Path, fresh_engine: Engine, name: str
) -> None:
    """An access to other memory fails as with a wrong key."""
    rules, expected = RULES[name]
    pods = (rdma_lab.pod(0, app="client"), rdma_lab.pod(1, app="server"))
    enforcer = Enforcer(fresh_engine, Parties())
    limited = [rdma_lab.policy({"app": "server"}, ingress=[*rules, {"verbs": ["Send"]}])]
    enforcer.replace_tables(rdma_lab.tables(1, pods, limited))

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        found = set()
        for what in ("write", "read", "host write", "host read"):
            pair = Pair(fresh_engine, 0, enforcer)
            pair.b.objects.providers = served
            key = register(pair.b, (await ask(pair.b.objects)).segment)
            opcode = Op.RDMA_READ if "read" in what else Op.RDMA_WRITE
            target = pair.there.key if "host" in what else key
            write(pair, 5, remote_key=target, opcode=opcode)
            (status,) = pair.a_send.statuses(1)
            assert status in (Status.SUCCESS, Status.REM_ACCESS_ERR)
            if status == Status.SUCCESS:
                found.add(what)
            pair.close()
            enforcer.parties.remove(pair.a.party)
            enforcer.parties.remove(pair.b.party)
        assert found == expected

    run(tmp_path, body, *[Chunk().lend] * 4)


def test_a_region_that_is_partly_a_gpu_s_is_not_a_gpu_s(
    tmp_path: Path, fresh_engine: Engine
) -> None:
    pods = (rdma_lab.pod(0, app="client"), rdma_lab.pod(1, app="server"))
    enforcer = Enforcer(fresh_engine, Parties())
    limited = [rdma_lab.policy({"app": "server"}, ingress=[{"memory": DEVICE}])]
    enforcer.replace_tables(rdma_lab.tables(1, pods, limited))

    async def body(served: Providers, gpud: FakeGpud) -> None:
        del gpud
        pair = Pair(fresh_engine, 0, enforcer)
        pair.b.objects.providers = served
        made = (await ask(pair.b.objects)).segment
        wanted = hca.HcaMrCreate(pair.b.pd, ALL_ACCESS, 1 << 32, 8192, 2)
        wanted.pieces[0] = hca.HcaPiece(made.handle, 0, made.offset, 4096)
        wanted.pieces[1] = hca.HcaPiece(pair.there.segment, 0, 0, 4096)
        key = pair.b.objects.create_region(wanted).handle
        write(pair, 5, remote_key=key, remote=1 << 32)
        assert pair.a_send.statuses(1) == [Status.REM_ACCESS_ERR]
        pair.close()

    run(tmp_path, body, Chunk().lend)


def test_a_window_opens_no_more_than_its_region(fresh_engine: Engine) -> None:
    """The window is bound to host memory, while the rules permit only GPU memory."""
    pods = (rdma_lab.pod(0, app="client"), rdma_lab.pod(1, app="server"))
    enforcer = Enforcer(fresh_engine, Parties())
    enforcer.replace_tables(rdma_lab.tables(1, pods))
    pair = Pair(fresh_engine, 0, enforcer)
    wanted = HcaMwCreate(pair.b.pd, VerbsMwType.TYPE_1)
    window = pair.b.objects.create_window(wanted).handle
    slot = pair.qb.send_slots[0]
    slot.opcode, slot.flags, slot.remote_key, slot.immediate = Op.BIND_MW, 2, window, window
    slot.remote_address, slot.compare_add = BASE, 64
    slot.swap = VerbsAccess.REMOTE_WRITE
    slot.payload.sges[0].lkey = pair.there.key
    pair.qb.page.send_head += 1
    pair.qb.ring()
    assert pair.b_send.statuses(1) == [Status.SUCCESS]
    write(pair, 5, remote_key=window)
    assert pair.a_send.statuses(1) == [Status.SUCCESS]
    limited = [rdma_lab.policy({"app": "server"}, ingress=[{"memory": DEVICE}])]
    enforcer.replace_tables(rdma_lab.tables(2, pods, limited))
    write(pair, 5, remote_key=window)
    assert pair.a_send.statuses(1) == [Status.REM_ACCESS_ERR]
    pair.close()


def test_no_program_says_that_its_memory_is_a_gpu_s(fresh_engine: Engine) -> None:
    client = Client(fresh_engine, Numbers(), 0)
    with pytest.raises(OSError, match="not supported"):
        client.region(access=ALL_ACCESS | hca.HCA_ACCESS_DEVICE)
    client.objects.close()
