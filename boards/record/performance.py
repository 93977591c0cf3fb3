"""Inputs of the performance models for a board, apart from its identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from boards.record.figures import Bare


@dataclass(frozen=True, slots=True)
class CublasException:
    """Shapes for which cuBLAS chooses a kernel without split-k and with little prefetching.

    Such a shape has at most ``m`` tokens, exactly ``n`` features and an inner dimension of at
    most ``k``. ``stages`` is the depth of the kernel's pipeline.
    """

    m: int
    n: int
    k: int
    stages: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Rates from the data sheet, and the board whose fitted parameters predictions use.

    Tensor rates are dense, in Tflop/s (or Tera-operations/s) at the boost clock; a type that the
    board's tensor cores do not support is absent. Rates of DRAM and links are in GB/s of 10^9
    bytes. The rate of a link is that of one direction. ``link`` is NVLink if the board has it, else
    PCIe.
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
