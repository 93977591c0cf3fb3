"""A gpud that answers REPORTs with a test's records, well-formed or hostile."""

import contextlib
import ctypes
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vgpu_sim.hal.management.nvml import (
    NO_RECORD,
    GpuRecord,
    InstanceRecord,
    ManagementReport,
    MigMode,
    ProcessRecord,
    ProfileRecord,
    XidRecord,
)
from vgpu_sim.hal.messages import MAGIC, PROTOCOL_VERSION, Header, MessageType

_LARGEST_REQUEST = 4096


@dataclass
class Report:
    """The next report; a test changes the lists between two calls."""

    gpus: Sequence[GpuRecord]
    instances: Sequence[InstanceRecord] = ()
    processes: Sequence[ProcessRecord] = ()
    profiles: Sequence[ProfileRecord] = ()
    xids: Sequence[XidRecord] = ()
    served: int = field(default=0, init=False)

    def packet(self, request: int) -> bytes:
        """Return the answer to a request of this number."""
        lists = (self.gpus, self.instances, self.processes, self.profiles, self.xids)
        head = ManagementReport(*map(len, lists), node=1, driver_version=13000)
        head.driver_release = b"580.0.1"
        payload = bytes(head) + b"".join(bytes(one) for records in lists for one in records)
        kind = MessageType.MANAGED
        return bytes(Header(MAGIC, PROTOCOL_VERSION, kind, request, 0, len(payload), 0)) + payload


def gpu(number: int, *, uuid: int | None = None, visible: int = 1, lost: int = 0) -> GpuRecord:
    """Return a divided GPU; its UUID is derived from ``number`` unless given."""
    own = number if uuid is None else uuid
    return GpuRecord(
        uuid=(ctypes.c_uint8 * 16)(*bytes([0xA0 + own] * 16)),
        name=b"a board",
        index=number,
        pci_bus=number + 1,
        mig_mode=MigMode.ENABLED,
        max_mig_devices=7,
        visible=visible,
        lost=lost,
        memory_bytes=80 << 30,
    )


def instance(number: int, of: int, start: int, ids: tuple[int, int]) -> InstanceRecord:
    """Return an instance of the GpuRecord number ``of``; ``ids`` are those of GPU and compute
    instance.
    """
    return InstanceRecord(
        uuid=(ctypes.c_uint8 * 16)(*bytes([number + 1] * 16)),
        name=b"1g.10gb",
        gpu=of,
        gpu_instance_id=ids[0],
        compute_id=ids[1],
        start=start,
        size=1,
        compute_slices=1,
        multiprocessors=16,
        memory_bytes=10 << 30,
    )


def whole(of: int, gpu_record: GpuRecord) -> InstanceRecord:
    """Return the instance that spans a GPU with MIG off, and set MIG off in the GPU's record."""
    gpu_record.mig_mode = MigMode.DISABLED
    return InstanceRecord(
        uuid=gpu_record.uuid, gpu=of, gpu_instance_id=NO_RECORD, compute_id=NO_RECORD, whole=1
    )


def numbered_profile(number: int) -> ProfileRecord:
    """Return a profile with two compute instance profiles; all its figures derive from
    ``number``.
    """
    record = ProfileRecord(
        name=f"{number}g.x".encode(),
        profile=100 + number,
        profile_enum=number,
        compute_slices=10 + number,
        size=20 + number,
        multiprocessors=30 + number,
        max_count=40 + number,
        start_count=2,
        memory_bytes=((50 + number) << 30) + (1 << 20),
        compute_count=2,
    )
    record.engines[:] = range(60 + 10 * number, 65 + 10 * number)
    record.starts[:2] = (number, 4 + number)
    for place, one in enumerate((number, 8)):  # the narrower one, then the one of full width
        inner = record.computes[place]
        inner.compute_enum, inner.start_count = one, 1 + place
        inner.compute_slices = record.compute_slices if place else 2
        inner.multiprocessors = 70 + number + place
        inner.starts[:2] = (2 * number, 2 * number + 1)
    return record


def _divided() -> list[InstanceRecord]:
    """GPU 0: instance 5 with two devices, instance 6 with none; GPU 1: instance 5, of another
    profile.
    """
    found = [
        instance(0, 0, 0, (5, 0)),
        instance(1, 0, 0, (5, 2)),
        instance(2, 0, 4, (6, NO_RECORD)),
        instance(3, 1, 0, (5, 1)),
    ]
    for one, (number, inner) in zip(found, ((1, 1), (1, 0), (1, 0), (2, 2)), strict=True):
        one.profile, one.profile_enum, one.compute_enum = 100 + number, number, inner
        one.compute_slices, one.size = 10 + number, 20 + number
    return found


def distinct() -> Report:
    """Return a report in which no two figures are equal: two GPUs, with profiles 1 and 17, and
    2.
    """
    gpus = [gpu(0), gpu(1)]
    gpus[0].first_profile, gpus[0].profile_count = 0, 2
    gpus[1].first_profile, gpus[1].profile_count = 2, 1
    return Report(gpus, _divided(), (), [numbered_profile(one) for one in (1, 17, 2)])


@contextlib.contextmanager
def serve(path: Path, report: Report) -> Iterator[Report]:
    """Answer every connection to a socket with the report's current contents."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(16)
        ended = threading.Event()

        def answer() -> None:
            while True:
                connection, _ = listener.accept()
                with connection:
                    if ended.is_set():
                        return
                    request = connection.recv(_LARGEST_REQUEST)
                    number = Header.from_buffer_copy(request).request
                    report.served += 1  # before the client continues and checks it
                    connection.sendall(report.packet(number))

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield report
        finally:
            ended.set()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as last:
                last.connect(str(path))
            thread.join()
