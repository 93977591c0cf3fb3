"""Details of a kernel's fault, in the form in which clients read them from the worker's page."""

from vgpu_sim.hal.compute import abi
from vgpu_sim.hal.compute.ports import FaultSite


def record(site: FaultSite, grid: tuple[int, int, int] | None) -> abi.FaultDetail:
    """Return the record of a fault for the worker's page; ``grid`` is the number of blocks of the
    launch, or None if that is unknown.
    """
    detail = abi.FaultDetail(
        is_global=site.is_global,
        source=_cut(site.source, abi.MESSAGE_BYTES),
        text=_cut(site.text, abi.PTX_TEXT_BYTES),
    )
    if grid is not None:
        detail.grid[:] = grid
    if site.thread is not None:
        detail.thread_known = 1
        detail.thread[:] = site.thread
    return detail


def _cut(text: str, room: int) -> bytes:
    """Encode a text, truncated to ``room`` bytes including a final NUL."""
    data = text.encode()
    if len(data) < room:
        return data
    return data[: room - 4].decode(errors="ignore").encode() + b"..."
