"""Inputs of the performance models for a board, apart from its identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from boards.record.figures import Bare


@dataclass(frozen=True, slots=True)
class CublasException:
    """Shapes of matrix products for which cuBLAS chooses an exceptional kernel on one board.

    The kernel has no split-k and prefetches little. ``stages`` is the depth of its pipeline.
    The shapes are those with at most ``m`` tokens, exactly ``n`` features and an inner dimension
    of at most ``k``.
    """

    m: int
    n: int
    k: int
    stages: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The inputs for predictions of a board's performance, such as the rates in its data sheet.

    Predictions also need parameters that were fitted to measurements. ``sibling`` and
    ``lenders`` name the boards whose parameters are used where this board has none.

    Tensor rates are those of dense matrices, in Tflop/s (or Tera-operations/s) at the boost clock.
    A type that the board's tensor cores do not support has no tensor rate. Rates of DRAM and links
    are in GB/s; a GB is 10^9 bytes. The rate of a link is that of one direction.
    ``link_gb_per_s`` is the rate of NVLink if the board has NVLink, else the rate of PCIe.
    """

    boost_ghz: Bare
    """The clock that the data sheet's rates assume; see ``Silicon.max_clock_khz``."""
    dram_gb_per_s: Bare
    dram_gb: Bare
    link_gb_per_s: Bare
    pcie_gb_per_s: Bare
    vector_tflops: Bare
    tensor_tflops: Mapping[str, Bare]
    sibling: str | None = None
    """Key of the board whose fitted parameters are used, because this one was never measured."""
    lenders: Mapping[str, str] = field(default_factory=dict)
    """For families of operations whose tables omit this board: the board whose table is used."""
    cublas_exception: CublasException | None = None
    """The shapes for which cuBLAS chooses other kernels than on boards with the same chip."""
