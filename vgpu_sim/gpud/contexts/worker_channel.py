"""gpud's end of a worker's channel (contract: ``vgpu_sim.hal.compute.spawn``).

A tenant may have taken over its worker. gpud therefore validates and rate-limits a worker's
messages, and never blocks on a reply. A message that no worker of Tessera sends is a violation,
which ends the worker.
"""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, field, fields
from typing import Any

from vgpu_sim.gpud.contexts.shares import KEY_CHARACTERS, Shares
from vgpu_sim.gpud.events import ascii_text, clean_text
from vgpu_sim.gpud.limits.budget import CONTEXT_SHARED_BYTES, Account, Budget
from vgpu_sim.gpud.telemetry import counting
from vgpu_sim.hal.compute import abi, spawn
from vgpu_sim.hal.management.admin import Counters
from vgpu_sim.hal.observe import modelled_report
from vgpu_sim.records import dataclass
from vgpu_sim.system import descriptors, seqpacket
from vgpu_sim.system.foreign import ForeignSockets
from vgpu_sim.system.pacing import StepQueue, Turnstile

MAX_MESSAGE_BYTES = 16 << 10
MESSAGES_PER_SECOND = 2000  # of all workers of a slice
EVENT_PAUSE_SECONDS = 5.0  # the same event of the same worker is passed on at most this often
MAX_USAGE_MESSAGES = 64  # per context; further ones are dropped
# Likewise.
MAX_MODELLED_MESSAGES = modelled_report.MOST_ROWS + 2 * modelled_report.MOST_PARTS + 1
_MAX_COUNT = (1 << 63) - 1
_MAX_MECHANISMS = 8
_OF_ENDS = ("usage", "modelled")  # not subject to EVENT_PAUSE_SECONDS
_OWN_COUNTS = ("contexts", "allocations")  # gpud counts these itself
_REPORTED_COUNTS = tuple(one.name for one in fields(Counters) if one.name not in _OWN_COUNTS)
_USAGE_COUNTS = (
    "modules",
    "modules_ns",
    "compiled",
    "cached",
    "shapes",
    "shapes_ns",
    "provisional",
    "improved",
    "swapped",
    "refused",
)


class ChannelViolation(Exception):
    """A worker sent a message that violates the contract of its channel."""


@dataclass(slots=True)
class Statistics:
    """A worker's last report; times are the node's CLOCK_MONOTONIC in ns.

    ``busy_ns`` includes the time of the kernel that runs now; the kernel's name is empty if none
    runs. ``counters`` are the validated counters of the report that arrived at ``reported_ns``,
    which is 0 if none has arrived.
    """

    launches: int = 0
    first_launch_ns: int = 0
    last_launch_ns: int = 0
    busy_ns: int = 0
    running_kernel: str = ""
    running_since_ns: int = 0
    counters: Counters = field(default_factory=lambda: Counters(contexts=1))
    reported_ns: int = 0


def turnstile() -> Turnstile:
    """Return a new queue that limits the rate of messages from the workers of one slice."""
    return Turnstile(MESSAGES_PER_SECOND)


class WorkerChannel:
    """gpud's end of one worker's channel: answers reservations and yields events until the worker
    closes it.

    All workers of a slice share ``turns``, which limits the rate of their messages.
    ``opened_ns`` is the context's start time. If ``adopted`` is set, an earlier gpud started the
    worker, and the worker first resumes its account.
    """

    def __init__(
        self,
        sock: socket.socket,
        sockets: ForeignSockets,
        budget: Budget,
        account: Account,
        statistics: Statistics | None = None,
        turns: Turnstile | None = None,
        opened_ns: int | None = None,
        adopted: bool = False,
        shares: Shares | None = None,
        steps: StepQueue | None = None,
    ) -> None:
        self._shares = shares if shares is not None else Shares(budget)
        self._steps = steps if steps is not None else StepQueue()
        self._shares.enter(account, sock)
        self._turns = turns if turns is not None else turnstile()
        self.statistics = statistics if statistics is not None else Statistics()
        self._sock = sock
        self._sockets = sockets
        self._budget = budget
        self._account = account
        self._last_passed: dict[str, float] = {}
        self._usage_messages = 0
        self._modelled_messages = 0
        self._opened_ns = time.monotonic_ns() if opened_ns is None else opened_ns
        self._allocations = 0
        self._adopted = adopted
        self._must_resume = adopted

    async def events(self) -> AsyncIterator[tuple[str, dict[str, object]]]:
        """Serve the channel until the worker closes it; yield its events as (event name, validated
        fields).

        Raises:
            ChannelViolation: a message is not part of the contract.
        """
        while True:
            await seqpacket.wait_until_readable(self._sock.fileno())
            await self._turns.wait_for_turn()
            try:
                packet = await self._sockets.receive(self._sock, MAX_MESSAGE_BYTES)
            except OSError:
                return
            if packet.truncated:
                raise ChannelViolation("the message is too long or carries descriptors")
            if not packet.data:
                return
            try:
                message = spawn.decode(packet.data)
            except (ValueError, RecursionError) as err:
                raise ChannelViolation("the message is not a JSON object with a type") from err
            if message["type"] == "leave" and not self._must_resume:
                await self._leave(message)
                continue
            event = self._handle(message)
            if event is not None and (event[0] in _OF_ENDS or self._passes(event[0])):
                yield event

    def _handle(self, message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
        if self._must_resume != (message["type"] == "resume"):
            raise ChannelViolation(
                "'resume' must be the first message of an adopted worker,"
                " and is allowed nowhere else"
            )
        match message["type"]:
            case "resume":
                return self._resume(message)
            case "reserve":
                return self._reserve(message)
            case "release":
                self._release(message)
            case "offer" | "withdraw" | "open":
                self._serve_sharing(message)
            case "memory":
                self._report_memory(message)
            case "stats":
                self._take_statistics(message)
            case "usage":
                return self._take_usage(message)
            case "modelled":
                self._modelled_messages += 1
                if self._modelled_messages > MAX_MODELLED_MESSAGES:
                    return self._refuse_further_parts()
                return _checked_modelled(message)
            case "event":
                return self._take_event(message)
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
            self._allocations += 1
            return None
        return self._out_of_memory(amount)

    def _resume(self, message: dict[str, Any]) -> tuple[str, dict[str, object]]:
        """Take over the memory account of a worker that an earlier gpud started.

        If the worker reports more memory than was measured, the difference is reserved like any
        other memory. If the worker reports less, the difference stays reserved, because the
        kernel measured it. The exception is a difference no larger than a context's overhead
        (its rings and its page), which the kernel's measurement includes.
        """
        self._must_resume = False
        self._allocations = min(_MAX_COUNT, _count(message, "allocations"))
        beyond = _count(message, "held_bytes") - self._budget.account_bytes(self._account)
        if beyond > 0:
            self._budget.reserve(self._account, beyond)
        elif -CONTEXT_SHARED_BYTES <= beyond < 0:
            self._budget.release(self._account, -beyond)
        self._take_statistics(message)
        return "worker_started", {"sandbox": _sandbox(message.get("sandbox"))}

    def _out_of_memory(self, requested_bytes: int) -> tuple[str, dict[str, object]]:
        """Describe a refused reservation by gpud's own figures, not the worker's."""
        room = self._budget.room(self._account)
        return "out_of_memory", {
            "requested_bytes": requested_bytes,
            "free_bytes": room.free_bytes,
            **asdict(room),
        }

    def _release(self, message: dict[str, Any]) -> None:
        amount = _count(message, "bytes")
        if self._adopted:  # gpud may have reserved less than the worker holds: release at most that
            amount = min(amount, self._budget.account_bytes(self._account))
            if not amount:
                return
        try:
            self._budget.release(self._account, amount)
        except ValueError as err:
            raise ChannelViolation(str(err)) from err

    def _take_usage(self, message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
        self._usage_messages += 1
        return _checked_usage(message) if self._usage_messages <= MAX_USAGE_MESSAGES else None

    def _refuse_further_parts(self) -> tuple[str, dict[str, object]] | None:
        """Report once that the parts of a report beyond the largest number are dropped."""
        if self._modelled_messages > MAX_MODELLED_MESSAGES + 1:
            return None
        reason = f"a context may send at most {MAX_MODELLED_MESSAGES} parts of a report"
        refused = modelled_report.RefusedRecord("report", "", reason)
        return "modelled", {"refused": refused.to_json()}

    def _take_event(self, message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
        if message.get("event") == "out_of_memory":
            return self._out_of_memory(_optional_count(message, "requested_bytes"))
        return _checked_event(message)

    def _report_memory(self, message: dict[str, Any]) -> None:
        grant = self._budget.possible_grant(self._account)
        self._reply(message, "memory", free=grant.free_bytes, total=grant.total_bytes)

    def _serve_sharing(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "offer":
                size, number = _count(message, "bytes"), _count(message, "share")
                number = self._shares.offer(self._account, _key(message), number, size)
                self._reply(message, "offered", share=number)
            case "withdraw":
                self._shares.withdraw(self._account, _key(message))
            case _:
                self._open(message)

    def _open(self, message: dict[str, Any]) -> None:
        opened = self._shares.open(self._account, _key(message))
        if opened is None:
            self._reply(message, "opened", share=0)
            return
        share, end = opened
        with end:
            self._reply(message, "opened", (end.fileno(),), share=share.number, bytes=share.bytes)

    async def _leave(self, message: dict[str, Any]) -> None:
        """Remove one hold, or all (share 0), over several iterations of the loop if needed. The
        worker's next message is read afterwards.
        """
        number, slice_key = _count(message, "share"), self._budget.tenant(self._account)[0]
        is_known, last = True, False
        if number:
            leaving = self._shares.leave_in_steps(self._account, number)
            is_known, last, paid = await self._steps.run(slice_key, leaving)
        else:
            leaving_all = self._shares.leave_all_in_steps(self._account)
            paid = await self._steps.run(slice_key, leaving_all)
        self._reply(message, "left", known=is_known, last=last, bytes=paid)

    def _take_statistics(self, message: dict[str, Any]) -> None:
        self.statistics.launches = _count(message, "launches")
        self.statistics.first_launch_ns = _count(message, "first_launch_ns")
        self.statistics.last_launch_ns = _count(message, "last_launch_ns")
        self.statistics.busy_ns = _count(message, "busy_ns")
        self.statistics.running_kernel = ascii_text(message.get("running_kernel", ""), 128)
        self.statistics.running_since_ns = _optional_count(message, "running_since_ns")
        self._take_counters(message)

    def _take_counters(self, message: dict[str, Any]) -> None:
        reported = {
            name: min(_MAX_COUNT, _optional_count(message, name)) for name in _REPORTED_COUNTS
        }
        # The time spent on compiling for a launch does not count as the GPU's.
        reported["busy_ns"] = min(_MAX_COUNT, _optional_count(message, "computed_ns"))
        now_ns = time.monotonic_ns()
        self.statistics.counters = counting.bound_report(
            Counters(contexts=1, allocations=self._allocations, **reported),
            self.statistics.counters,
            now_ns - self._opened_ns,
        )
        self.statistics.reported_ns = now_ns

    def _reply(
        self,
        message: dict[str, Any],
        kind: str,
        passed: tuple[int, ...] = (),
        **fields: object,
    ) -> None:
        request = _count(message, "request")
        data = spawn.encode({"type": kind, "request": request, **fields})
        try:
            if passed:
                descriptors.send(self._sock, [data], passed, socket.MSG_DONTWAIT)
            else:
                self._sock.send(data)
        except BlockingIOError as err:
            raise ChannelViolation("the worker does not read its replies") from err
        except OSError:
            return  # the worker has ended; the next receive reports that

    def _passes(self, name: str) -> bool:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._last_passed.get(name, -EVENT_PAUSE_SECONDS) < EVENT_PAUSE_SECONDS:
            return False
        self._last_passed[name] = now_s
        return True


def _checked_event(message: dict[str, Any]) -> tuple[str, dict[str, object]] | None:
    match message.get("event"):
        case "fault":
            return "fault", {
                "kind": _fault_kind(message.get("kind")),
                "kernel": clean_text(message.get("kernel"), 128),
                "ptx_line": _optional_count(message, "ptx_line"),
                "address": _optional_count(message, "address"),
                "block": _optional_count(message, "block"),
                "message": clean_text(message.get("message")),
            }
        case "unsupported_ptx":
            return "unsupported_ptx", {"message": clean_text(message.get("message"))}
        case "started":
            return "worker_started", {"sandbox": _sandbox(message.get("sandbox"))}
        case "failed":
            return "worker_failed", {"message": clean_text(message.get("message"))}
        case _:
            return None  # a field of a newer worker: gpud passes on only the fields that it knows


def _fault_kind(name: object) -> str:
    """Return the name of a fault's kind; an unknown one counts as a failure of the worker."""
    is_known = isinstance(name, str) and name in abi.FaultKind.__members__
    return str(name) if is_known else abi.FaultKind.INTERNAL.name


def _checked_usage(message: dict[str, Any]) -> tuple[str, dict[str, object]]:
    rows = message.get("kernels")
    if not isinstance(rows, list):
        raise ChannelViolation("a usage message has no list of kernels")
    kernels = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 3:
            raise ChannelViolation("the usage of a kernel must be a list of a name and two counts")
        name, launches, busy_ns = row
        counts = {"launches": launches, "busy_ns": busy_ns}
        kernels.append(
            {"kernel": clean_text(name, 128), **{key: _count(counts, key) for key in counts}}
        )
    return "usage", {
        "kernels": kernels,
        **{name: _optional_count(message, name) for name in _USAGE_COUNTS},
    }


def _checked_modelled(message: dict[str, Any]) -> tuple[str, dict[str, object]]:
    """Return the event that passes on a part of a worker's report. A part that is not valid is
    reported as refused: the subscriber then knows that its report is incomplete, and receives the
    parts that follow.
    """
    part = modelled_report.parse_part(message)
    return "modelled", {modelled_report.kind_of(part): part.to_json()}


def _sandbox(value: object) -> dict[str, object]:
    """Return the worker's sandbox mechanisms as it reports them: of bounded size, for display."""
    if not isinstance(value, dict):
        return {}
    mechanisms = list(value.items())[:_MAX_MECHANISMS]
    return {ascii_text(name, 24): is_active is True for name, is_active in mechanisms}


def _key(message: dict[str, Any]) -> str:
    key = message.get("key")
    if type(key) is not str or len(key) != KEY_CHARACTERS:
        raise ChannelViolation("the key of shared memory is malformed")
    return key


def _count(message: dict[str, Any], name: str) -> int:
    value = message.get(name)
    if type(value) is not int or not 0 <= value <= _MAX_COUNT:
        raise ChannelViolation(f"{name} is not a count")
    return value


def _optional_count(message: dict[str, Any], name: str) -> int:
    """Validate an unsigned 64-bit number, such as an address; an absent one is 0."""
    value = message.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ChannelViolation(f"{name} is not a 64-bit number")
    return value
