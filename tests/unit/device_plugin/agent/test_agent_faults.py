"""The slice of a GPU that a requested fault hits, and the status of the fault."""

import datetime
from typing import Any

import pytest

from device_plugin.agent import faults
from device_plugin.inventory.model import Gpu, MigSlice
from device_plugin.kube.gpu_object import GpuObject
from gpu_operator.api.v1alpha1.gpu import (
    FaultKind,
    FaultPhase,
    FaultStatus,
    GPUSpec,
    GPUStatus,
    WantedFault,
)
from mig import geometry

BOARD = geometry.board("h100-80gb")
NOW = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
PLACES = (
    BOARD.instance("1c.3g.40gb", 4, 2),
    BOARD.instance("1c.3g.40gb", 4, 0),
    BOARD.instance("1g.10gb", 1),
)
SLICES = tuple(MigSlice(str(one), "GPU-0", one, 1, 0, 1, "/run", 0, ()) for one in PLACES)


class _Gpud:
    def __init__(self) -> None:
        self.hit: list[str] = []
        self.lasts_ms: list[int] = []

    def inject_fault(self, **requested: Any) -> None:
        self.lasts_ms.append(requested["duration_ms"])
        self.hit.append(requested["instance"])


def _carried_out(wanted: WantedFault) -> tuple[_Gpud, FaultStatus]:
    spec = GPUSpec(
        node_name="n", index=0, board=BOARD.key, uuid="GPU-0", pool="p", faults=(wanted,)
    )
    gpud: Any = _Gpud()
    gpu = Gpu("GPU-0", 0, BOARD, "Healthy", SLICES)
    of_gpu = GpuObject("gpu-0", "GPU-0", 1, False, spec, GPUStatus())
    (reported,) = faults.carry_out(gpud, of_gpu, gpu, NOW)
    return gpud, reported


@pytest.mark.parametrize(
    ("profile", "start", "compute_start", "hit"),
    [
        ("1g.10gb", None, None, "1g.10gb@1"),
        ("1c.3g.40gb", None, None, "1c.3g.40gb@4.0"),
        ("1c.3g.40gb", 4, 2, "1c.3g.40gb@4.2"),
        ("1c.3g.40gb", 4, 1, None),
        ("3g.40gb", 4, None, None),
    ],
)
def test_a_fault_comes_on_the_slice_that_is_named_or_on_none(
    profile: str, start: int | None, compute_start: int | None, hit: str | None
) -> None:
    wanted = WantedFault(
        id="f",
        kind=FaultKind.XID,
        xid=31,
        profile=profile,
        start=start,
        compute_start=compute_start,
    )
    gpud, reported = _carried_out(wanted)
    if hit is None:
        assert (reported.phase, gpud.hit) == (FaultPhase.REFUSED, [])
        assert f"has no slice {profile}" in reported.message
    else:
        assert (reported.phase, reported.slice, gpud.hit) == (FaultPhase.INJECTED, hit, [hit])


@pytest.mark.parametrize("until", ["tomorrow", "2026-01-03T00:00:00", "2026-01-03", "1e9"])
def test_a_time_that_is_none_is_refused_and_ends_no_agent(until: str) -> None:
    wanted = WantedFault(id="f", kind=FaultKind.HANG, until=until)
    gpud, reported = _carried_out(wanted)
    assert (reported.phase, gpud.hit) == (FaultPhase.REFUSED, [])
    assert until in reported.message


@pytest.mark.parametrize(
    ("kind", "left_ms", "phase", "lasts_ms"),
    [
        (FaultKind.XID, None, FaultPhase.INJECTED, [0]),
        (FaultKind.HANG, None, FaultPhase.ACTIVE, [0]),  # until the spec no longer requests it
        (FaultKind.HANG, -1, FaultPhase.CLEARED, []),
        (FaultKind.HANG, 0, FaultPhase.CLEARED, []),
        (FaultKind.HANG, 1, FaultPhase.ACTIVE, [1]),
        (FaultKind.HANG, 86_400_000, FaultPhase.ACTIVE, [86_400_000]),
    ],
)
def test_a_lasting_fault_ends_at_its_time_and_others_have_no_duration(
    kind: FaultKind, left_ms: int | None, phase: FaultPhase, lasts_ms: list[int]
) -> None:
    until = ""
    if left_ms is not None:
        until = (NOW + datetime.timedelta(milliseconds=left_ms)).isoformat()
    xid = 31 if kind is FaultKind.XID else None
    gpud, result = _carried_out(WantedFault(id="f", kind=kind, xid=xid, until=until))
    assert (result.phase, gpud.lasts_ms) == (phase, lasts_ms)
