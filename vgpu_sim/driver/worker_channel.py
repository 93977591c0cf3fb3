"""gpud's end of a worker's channel (contract: ``vgpu_sim.hal.spawn``).

A worker may have been taken over by its tenant, so its messages are validated, paced, and answered
without ever waiting for it. What no worker of ours sends is a violation, which ends the worker.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from vgpu_sim.driver import seqpacket
from vgpu_sim.driver.budget import Account, Budget
from vgpu_sim.driver.events import clean_text
from vgpu_sim.driver.pacing import Pace
from vgpu_sim.hal import spawn

MAX_MESSAGE_BYTES = 16 << 10
MESSAGES_PER_SECOND = 2000
EVENT_PAUSE_SECONDS = 5.0  # the same event of the same worker is passed on at most this often
_MAX_COUNT = (1 << 63) - 1


class ChannelViolation(Exception):
    """The worker broke the contract."""


@dataclass(slots=True)
class Statistics:
    """What a worker reported last; times are CLOCK_MONOTONIC of the node in ns."""

    launches: int = 0
    first_launch_ns: int = 0
    last_launch_ns: int = 0
    busy_ns: int = 0


class WorkerChannel:
    """Answers reservations and yields events until the worker closes the channel."""

    def __init__(
        self,
        sock: socket.socket,
        budget: Budget,
        account: Account,
        statistics: Statistics | None = None,
    ) -> None:
        self.statistics = statistics if statistics is not None else Statistics()
        self._sock = sock
        self._budget = budget
        self._account = account
        self._last_passed: dict[str, float] = {}

    async def events(self) -> AsyncIterator[tuple[str, dict[str, object]]]:
        """Serve the channel; yields (event name, checked fields).

        Raises:
            ChannelViolation: on anything that the contract does not know.
        """
        pace = Pace(MESSAGES_PER_SECOND)
        while True:
            await pace.turn()
            try:
                packet = await seqpacket.receive(self._sock, MAX_MESSAGE_BYTES)
            except OSError:
                return
            if packet.truncated:
                raise ChannelViolation("message too long or with descriptors")
            if not packet.data:
                return
            try:
                message = spawn.decode(packet.data)
            except (ValueError, RecursionError) as err:
                raise ChannelViolation("not a JSON object with a type") from err
            event = self._handle(message)
            if event is not None and self._passes(event[0]):
                yield event

    def _handle(self, message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
        match message["type"]:
            case "reserve":
                return self._reserve(message)
            case "release":
                self._release(message)
            case "memory":
                grant = self._budget.report(self._account)
                self._reply(message, "memory", free=grant.free_bytes, total=grant.total_bytes)
            case "stats":
                self._take_statistics(message)
            case "event":
                return _checked_event(message)
            case other:
                raise ChannelViolation(f"unknown message {clean_text(other, 32)!r}")
        return None

    def _reserve(self, message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
        amount = _count(message, "bytes")
        try:
            grant = self._budget.reserve(self._account, amount)
        except ValueError as err:
            raise ChannelViolation(str(err)) from err
        self._reply(
            message,
            "reserved",
            granted=grant.granted,
            free=grant.free_bytes,
            total=grant.total_bytes,
        )
        if grant.granted:
            return None
        return "out_of_memory", {"requested_bytes": amount, "free_bytes": grant.free_bytes}

    def _release(self, message: dict[str, Any]) -> None:
        try:
            self._budget.release(self._account, _count(message, "bytes"))
        except ValueError as err:
            raise ChannelViolation(str(err)) from err

    def _take_statistics(self, message: dict[str, Any]) -> None:
        self.statistics.launches = _count(message, "launches")
        self.statistics.first_launch_ns = _count(message, "first_launch_ns")
        self.statistics.last_launch_ns = _count(message, "last_launch_ns")
        self.statistics.busy_ns = _count(message, "busy_ns")

    def _reply(self, message: dict[str, Any], kind: str, **fields: object) -> None:
        request = _count(message, "request")
        try:
            self._sock.send(spawn.encode({"type": kind, "request": request, **fields}))
        except BlockingIOError as err:
            raise ChannelViolation("it does not read its replies") from err
        except OSError:
            return  # it has gone; the next receive says so

    def _passes(self, name: str) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._last_passed.get(name, -EVENT_PAUSE_SECONDS) < EVENT_PAUSE_SECONDS:
            return False
        self._last_passed[name] = now
        return True


def _checked_event(message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
    match message.get("event"):
        case "fault":
            return "fault", {
                "kernel": clean_text(message.get("kernel"), 128),
                "ptx_line": _optional_count(message, "ptx_line"),
                "address": _optional_count(message, "address"),
                "block": _optional_count(message, "block"),
                "message": clean_text(message.get("message")),
            }
        case "unsupported_ptx":
            return "unsupported_ptx", {"message": clean_text(message.get("message"))}
        case "out_of_memory":
            return "out_of_memory", {
                "requested_bytes": _optional_count(message, "requested_bytes"),
                "free_bytes": _optional_count(message, "free_bytes"),
            }
        case "started":
            return "worker_started", {"sandbox": _sandbox(message.get("sandbox"))}
        case "failed":
            return "worker_failed", {"message": clean_text(message.get("message"))}
        case _:
            return None  # of a newer worker: what gpud does not know it does not pass on


def _sandbox(value: object) -> dict[str, object]:
    """Return the walls around a worker as it names them: bounded, flat, for people to read."""
    if not isinstance(value, dict):
        return {}
    return {
        clean_text(name, 32): one if isinstance(one, bool) else clean_text(one, 64)
        for name, one in list(value.items())[:16]
    }


def _count(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ChannelViolation(f"{name} is not a count")
    return value


def _optional_count(message: dict[str, Any], name: str) -> int:
    """An address may use all 64 bits; what is absent is 0."""
    value = message.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ChannelViolation(f"{name} is not a 64-bit number")
    return value
