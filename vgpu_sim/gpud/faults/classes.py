"""The Xids that Tessera supports: the meaning, the scope and the effect on contexts of each.

Numbers, meanings and remedies follow NVIDIA's "Xid Errors" (docs.nvidia.com/deploy/xid-errors).
``IGNORED_XIDS`` is the default of NVIDIA's device plugin. docs/faults.md has the table.
"""

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Final

from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.records import dataclass


class Scope(Enum):
    """The widest set of objects that an Xid can affect."""

    CONTEXT = auto()  # a program's channel
    INSTANCE = auto()  # a MIG instance, or the GPU if the instance is unknown
    GPU = auto()


class Severity(Enum):
    """The effect of an Xid on the health of the GPU or instance that it concerns."""

    NONE = auto()  # a program's own fault
    SUSPICIOUS = auto()  # the hardware recovered; if it recurs soon, the GPU is faulty
    CRITICAL = auto()  # out of service until a reset


@dataclass(frozen=True, slots=True)
class XidClass:
    """The meaning and the effects of an Xid: one row of the table.

    ``error`` is the CUresult that live contexts get if the Xid ends them. None means that live
    contexts continue.
    """

    xid: int
    meaning: str
    scope: Scope
    severity: Severity
    error: CudaError | None


IGNORED_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""The Xids that NVIDIA's device plugin ignores by default, because programs cause them."""

_FAILED = CudaError.LAUNCH_FAILED
_ECC = CudaError.ECC_UNCORRECTABLE
_NVLINK = CudaError.NVLINK_UNCORRECTABLE
_ROWS: Final = (
    XidClass(13, "Graphics Engine Exception", Scope.CONTEXT, Severity.NONE, _FAILED),
    XidClass(31, "GPU memory page fault", Scope.CONTEXT, Severity.NONE, CudaError.ILLEGAL_ADDRESS),
    XidClass(
        32, "Invalid or corrupted push buffer stream", Scope.CONTEXT, Severity.CRITICAL, _FAILED
    ),
    XidClass(38, "Driver firmware error", Scope.GPU, Severity.CRITICAL, _FAILED),
    XidClass(43, "GPU stopped processing", Scope.CONTEXT, Severity.NONE, _FAILED),
    XidClass(
        45,
        "Preemptive cleanup, due to previous errors",
        Scope.CONTEXT,
        Severity.NONE,
        _FAILED,
    ),
    XidClass(48, "Double Bit ECC Error", Scope.INSTANCE, Severity.CRITICAL, _ECC),
    XidClass(61, "Internal micro-controller breakpoint", Scope.GPU, Severity.CRITICAL, _FAILED),
    XidClass(62, "Internal micro-controller halt", Scope.GPU, Severity.CRITICAL, _FAILED),
    XidClass(
        63, "ECC page retirement or row remapping event", Scope.GPU, Severity.SUSPICIOUS, None
    ),
    XidClass(64, "ECC page retirement or row remapper failure", Scope.GPU, Severity.CRITICAL, None),
    XidClass(68, "NVDEC0 Exception", Scope.CONTEXT, Severity.NONE, _FAILED),
    XidClass(69, "Graphics Engine class error", Scope.CONTEXT, Severity.CRITICAL, _FAILED),
    XidClass(74, "NVLINK Error", Scope.GPU, Severity.CRITICAL, _NVLINK),
    XidClass(79, "GPU has fallen off the bus", Scope.GPU, Severity.CRITICAL, CudaError.UNKNOWN),
    XidClass(92, "High single-bit ECC error rate", Scope.GPU, Severity.SUSPICIOUS, None),
    XidClass(94, "Contained ECC error", Scope.INSTANCE, Severity.SUSPICIOUS, _ECC),
    XidClass(95, "Uncontained ECC error", Scope.GPU, Severity.CRITICAL, _ECC),
    XidClass(109, "Context Switch Timeout Error", Scope.CONTEXT, Severity.NONE, _FAILED),
    XidClass(119, "GSP RPC Timeout", Scope.GPU, Severity.CRITICAL, _FAILED),
    XidClass(120, "GSP Error", Scope.GPU, Severity.CRITICAL, _FAILED),
)
XIDS: Final[Mapping[int, XidClass]] = {row.xid: row for row in _ROWS}

XID_OF_FAULT: Final[Mapping[str, int]] = {
    FaultKind.ADDRESS.name: 31,
    FaultKind.MISALIGNED.name: 13,
    FaultKind.TRAP.name: 13,
    FaultKind.STACK.name: 13,
    FaultKind.FUNCTION.name: 13,
    FaultKind.INSTRUCTION.name: 13,
    FaultKind.PROTOCOL.name: 13,  # as an invalid method: a program cannot cause a critical error
    FaultKind.ASSERTION.name: 43,
    FaultKind.TIMEOUT.name: 43,
    FaultKind.INTERNAL.name: 43,
    FaultKind.OUT_OF_MEMORY.name: 43,
    FaultKind.FENCED.name: 45,
    "": 45,  # its worker was killed, for an unknown reason
}
"""The Xid for each way in which a context ends in Tessera. COMPILE has no Xid, because no kernel
ran.

All of them are ignored by default. A tenant may have taken over its worker, so a worker's report
of its end must not take a slice out of service.
"""


def known_xids() -> str:
    """Return the numbers of all supported Xids, as text for a message."""
    return ", ".join(map(str, sorted(XIDS)))


def parse_ignored(disabled: Iterable[str], enabled: Iterable[str]) -> frozenset[int] | None:
    """Return the Xids that do not affect health. None means that health checks are off, so that no
    Xid affects health.

    ``disabled`` and ``enabled`` are the words of ``DP_DISABLE_HEALTHCHECKS`` and
    ``DP_ENABLE_HEALTHCHECKS`` as NVIDIA's device plugin reads them: numbers, or ``all`` and
    ``xids``. An enabled Xid takes precedence over one that is disabled by name or by default.

    Raises:
        ValueError: a word is neither a number nor a known name.
    """
    off, off_all = _numbers(disabled)
    on, on_all = _numbers(enabled)
    if on_all:
        return frozenset()
    if off_all:
        return None if not on else frozenset(XIDS) - on
    return (IGNORED_XIDS | off) - on


def _numbers(words: Iterable[str]) -> tuple[frozenset[int], bool]:
    stripped = [word.strip().lower() for word in words if word.strip()]
    wrong = [word for word in stripped if not word.isdecimal() and word not in ("all", "xids")]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is neither the number of an Xid, nor 'all', nor 'xids'")
    numbers = frozenset(int(word) for word in stripped if word.isdecimal())
    return numbers, any(not word.isdecimal() for word in stripped)
