"""Parts of the HCA's engine, compiled separately: a test sets the clock and the kernel's
answers.
"""

import ctypes
import subprocess
from ctypes import POINTER, c_bool, c_double, c_int, c_uint, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path

from hca.contract.hca_engine import HcaFlowCounts, HcaQosClass, HcaWireCounts
from vgpu_sim.native import build, catalogue

SOURCES = (
    *("base/rates.c", "packets/crc.c", "packets/icrc.c", "packets/packet.c"),
    *("wire/pace.c", "wire/rate.c", "wire/send.c", "wire/routes.c"),
)


class Bucket(ctypes.Structure):
    """``struct hca_bucket``."""

    _fields_ = (
        ("per_ns", c_double),
        ("burst", c_double),
        ("tokens", c_double),
        ("filled_ns", c_uint64),
    )


class Limit(ctypes.Structure):
    """``struct hca_limit``."""

    _fields_ = (("bytes", Bucket), ("operations", Bucket))


class Flow(ctypes.Structure):
    """``struct hca_flow``."""

    _fields_ = (
        ("counts", HcaFlowCounts),
        ("limits", POINTER(POINTER(Limit))),
        ("limit_count", c_uint32),
    )


class Congestion(ctypes.Structure):
    """``struct wire_congestion``."""

    _fields_ = (
        ("limited", c_bool),
        ("sent", c_uint32),
        ("notified_ns", c_uint64),
        ("next_cut_ns", c_uint64),
        ("next_ns", c_uint64),
        ("times", c_uint),
        ("volumes", c_uint),
        ("bytes", c_uint64),
        ("alpha", c_double),
        ("rate", c_double),
        ("target", c_double),
        ("bucket", Bucket),
    )


class _Call(ctypes.Structure):
    _fields_ = tuple((name, c_int) for name in ("fd", "count", "answer"))


class Message(ctypes.Structure):
    """A message that the engine passed to the kernel; -1 marks a missing part."""

    _fields_ = tuple(
        (name, c_int)
        for name in (
            *("call", "first", "bytes", "segment", "tos", "level", "port", "scope", "name_bytes"),
        )
    )


@dataclass(frozen=True)
class Call:
    """One call of sendmmsg(): its socket, its messages and the kernel's answer."""

    fd: int
    answer: int
    messages: tuple[Message, ...]

    @property
    def packets(self) -> list[int]:
        """Return the number of the first packet in each message."""
        return [one.first for one in self.messages]


class Parts:
    """An engine with an IPv4 address (wire 0) and a link-local one (wire 1), and queue pairs."""

    def __init__(self, directory: Path) -> None:
        hca, output = catalogue.ENGINE, directory / "parts.so"
        command = [build.compiler(), "-std=c11", "-O1", "-g", "-shared", "-fPIC", "-pthread"]
        command += ["-U_FORTIFY_SOURCE", "-Wall", "-Wextra", "-Werror"]
        command += ["-Dsendmmsg=parts_sendmmsg", "-Dclock_gettime=parts_clock_gettime"]
        command += [
            f"-I{hca}",
            f"-I{catalogue.INCLUDE}",
            str(Path(__file__).parents[1] / "native" / "hca_parts" / "parts.c"),
        ]
        command += [*(str(hca / name) for name in SOURCES), "-o", str(output)]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(output))
        self.library.parts_congestion_bytes.restype = ctypes.c_size_t
        assert self.library.parts_congestion_bytes() == ctypes.sizeof(Congestion)
        for name, restype in (
            ("parts_engine", c_void_p),
            ("parts_qp", c_void_p),
            ("parts_wire", c_void_p),
            ("parts_congestion", POINTER(Congestion)),
            ("parts_counts", POINTER(HcaWireCounts)),
            ("parts_wake_ns", c_uint64),
            ("parts_waited_ns", c_uint64),
            ("parts_segments", c_bool),
            ("parts_icrc", c_uint32),
            ("parts_make", c_uint64),
            ("parts_sealed", c_uint32),
            ("wire_pace_must_wait", c_bool),
            ("wire_pace_end", c_bool),
            ("wire_tos", c_uint8),
            ("wire_congestion_wait_ns", c_uint64),
            ("hca_bucket_of", Bucket),
            ("hca_bucket_wait_ns", c_uint64),
            ("hca_flow_wait_ns", c_uint64),
        ):
            getattr(self.library, name).restype = restype
        self.begin()

    def begin(self, segments: bool = False) -> None:
        """Reset everything; time begins at one second."""
        self.set_clock(1_000_000_000)
        self.library.parts_begin(c_bool(segments))

    def set_clock(self, ns: int) -> None:
        """Set the time."""
        self.now_ns = ns
        self.library.parts_set_clock(c_uint64(ns))

    @staticmethod
    def ns(value: int) -> c_uint64:
        """Return a time as the engine's functions take it."""
        return c_uint64(value)

    @property
    def engine(self) -> c_void_p:
        """Return the engine, for calls of its functions."""
        return c_void_p(self.library.parts_engine())

    def wire(self, number: int = 0) -> c_void_p:
        """Return a wire, for calls of the engine's functions."""
        return c_void_p(self.library.parts_wire(number))

    def qp(self, number: int, wire: int = 0) -> c_void_p:
        """Return a queue pair, for calls of the engine's functions."""
        return c_void_p(self.library.parts_qp(wire, number))

    def set_classes(self, *classes: HcaQosClass) -> int:
        """Set the QoS classes; return an errno value."""
        given = (HcaQosClass * len(classes))(*classes)
        return int(self.library.hca_qos_classes_set(self.engine, given, len(classes)))

    def put(
        self, number: int, size: int = 64, wire: int = 0, opcode: int = 6, tos: int = 2
    ) -> None:
        """Make a packet of a queue pair ready to be sent; packets are numbered from 1."""
        self.library.parts_put(wire, number, size, c_uint8(opcode), c_uint8(tos))

    def flush(self, *answers: int) -> int:
        """Send the ready packets to a kernel that gives these answers, and then accepts
        everything.
        """
        for answer in answers:
            self.library.parts_answer(answer)
        return int(self.library.wire_flush(self.engine))

    @property
    def calls(self) -> list[Call]:
        """Return the calls of sendmmsg() since ``begin``."""
        calls, messages = POINTER(_Call)(), POINTER(Message)()
        count = self.library.parts_calls(ctypes.byref(calls))
        message_count = self.library.parts_messages(ctypes.byref(messages))
        every = messages[:message_count]
        return [
            Call(calls[i].fd, calls[i].answer, tuple(one for one in every if one.call == i))
            for i in range(count)
        ]

    def counts(self, wire: int = 0) -> HcaWireCounts:
        """Return a wire's counters."""
        return self.library.parts_counts(wire).contents  # type: ignore[no-any-return]
