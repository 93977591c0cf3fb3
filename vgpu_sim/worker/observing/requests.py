"""Converts the scheduler's reports of a context's requests to records
(``hal.observe.requests``).
"""

import ctypes
from dataclasses import replace

from vgpu_sim.hal.compute import abi, address_map
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.hal.observe.requests import (
    Copy,
    Fill,
    LaunchBegins,
    LaunchEnded,
    Mark,
    Position,
    Request,
)
from vgpu_sim.worker.observing.observer import Observer


class Requests:
    """Reports each request of a context to its observer."""

    def __init__(self, aperture_base: int, observer: Observer) -> None:
        self._base = aperture_base
        self._observer = observer

    def report(self, stream: int, slot: abi.Slot, parameters: int, ended: bool = False) -> int:
        """Report one request before it runs. If ``ended`` is set, report the end of a launch
        instead.

        Returns the observer's time in ns. Never raises: the caller is C.
        """
        try:
            return self._observer.record_request(self._record(stream, slot, parameters, ended))
        except Exception as err:  # noqa: BLE001
            self._observer.record_failure(err)
            return 0

    def _record(self, stream: int, slot: abi.Slot, parameters: int, ended: bool) -> Request:
        waits = tuple((wait.stream, wait.value) for wait in slot.waits[: slot.wait_count])
        position = Position(stream, slot.value, waits)
        if ended:
            return LaunchEnded(position)
        match slot.opcode:
            case abi.Opcode.LAUNCH:
                return LaunchBegins(
                    position, slot.body.launch.kernel, _launch(slot.body.launch, parameters)
                )
            case abi.Opcode.COPY:
                copy = slot.body.copy
                direction = self._direction(copy.destination, copy.source)
                return Copy(position, direction, copy.bytes)
            case abi.Opcode.COPIED:
                return _client_copy(position, slot.body.copied)
            case abi.Opcode.SET:
                return Fill(position, slot.body.set.count * slot.body.set.width_bytes)
            case _:
                return Mark(position)

    def _direction(self, destination: int, source: int) -> abi.Direction:
        to_host, from_host = is_host(self._base, destination), is_host(self._base, source)
        if to_host == from_host:
            return abi.Direction.DEVICE_TO_DEVICE
        return abi.Direction.DEVICE_TO_HOST if to_host else abi.Direction.HOST_TO_DEVICE


def is_host(aperture_base: int, address: int) -> bool:
    """Return whether an address of the aperture is in host memory."""
    within = (address - aperture_base) % address_map.GPU_WINDOW_BYTES
    return 0 <= within - address_map.HOST_OFFSET < address_map.HOST_BYTES


def _launch(body: abi.LaunchBody, parameters: int) -> Launch:
    return Launch(
        "",
        (body.grid[0], body.grid[1], body.grid[2]),
        (body.block[0], body.block[1], body.block[2]),
        ctypes.string_at(parameters, body.parameter_bytes) if parameters else b"",
        body.shared_bytes,
        body.stack_bytes & ~15,
        cluster=abi.cluster_size(body.cluster),
    )


def _client_copy(position: Position, body: abi.CopiedBody) -> Copy:
    """Return the record of a copy that the program reports, which may be incorrect."""
    copy = Copy(
        position,
        abi.Direction(body.direction),
        min(body.bytes, address_map.APERTURE_BYTES),
        by_client=True,
        pageable=bool(body.pageable),
        gpus=(body.source, body.target),
    )
    if copy.direction is abi.Direction.DEVICE_TO_PEER and body.source == body.target:
        return replace(copy, direction=abi.Direction.DEVICE_TO_DEVICE)  # contexts of one GPU
    return copy
