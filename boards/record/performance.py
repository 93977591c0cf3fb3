"""What the performance models know of a board, beside its identity."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from boards.record.figures import Bare


@dataclass(frozen=True, slots=True)
class CublasException:
    """Shapes for which cuBLAS takes a kernel that does not split k and hardly prefetches.

    At most ``m`` tokens, ``n`` features, at most ``k``; ``stages`` is its pipeline's depth.
    """

    m: int
    n: int
    k: int
    stages: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Rates of the data sheet, and whose fitted parameters predictions take.

    Tensor rates are dense, in Tflop/s (or Tera-operations/s) at the boost clock; a type that the
    board's tensor cores do not have is absent. Rates of DRAM and of links are in GB/s of 10^9
    bytes, links one way; ``link`` is NVLink where the board has it, and PCIe otherwise.
    """

    boost_ghz: Bare
    """The clock that the data sheet's rates hold at; see ``Silicon.max_clock_khz``."""
    dram_gb_per_s: Bare
    dram_gb: Bare
    link_gb_per_s: Bare
    pcie_gb_per_s: Bare
    vector_tflops: Bare
    tensor_tflops: Mapping[str, Bare]
    sibling: str | None = None
    """Key of the board whose parameters it takes, since no measurements of this one exist."""
    lenders: Mapping[str, str] = field(default_factory=dict)
    """By family of operations whose tables leave the board out: the board that lends its own."""
    cublas_exception: CublasException | None = None
    """What cuBLAS chooses on this board and not on others with the same chip."""
