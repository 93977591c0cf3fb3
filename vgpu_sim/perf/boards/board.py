"""A board: the figures that the models read, each with its source."""

from boards.record import Figure
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Board:
    """One GPU product, with the figures that the models read.

    ``compute_capability`` is the pair in the CUDA programming guide. Tensor rates are dense, in
    Tflop/s (or Tera-operations/s) at the boost clock; a type that the board's tensor cores lack
    is absent. Rates of DRAM and of links are in GB/s (10^9 bytes per second); rates of links are
    for one direction. ``link`` is NVLink if the board has it, else PCIe.
    """

    name: str
    product: str
    architecture: str
    compute_capability: tuple[int, int]
    sms: Figure
    boost_ghz: Figure
    l2_mb: Figure
    shared_kb_per_sm: Figure
    dram_gb_per_s: Figure
    dram_gb: Figure
    power_w: Figure
    link_gb_per_s: Figure
    pcie_gb_per_s: Figure
    vector_tflops: Figure
    tensor_tflops: dict[str, Figure]

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures of the board by name."""
        named = {
            "SMs": self.sms,
            "boost clock (GHz)": self.boost_ghz,
            "L2 (MB)": self.l2_mb,
            "shared memory (KB an SM)": self.shared_kb_per_sm,
            "DRAM (GB/s)": self.dram_gb_per_s,
            "DRAM (GB)": self.dram_gb,
            "power (W)": self.power_w,
            "link (GB/s one way)": self.link_gb_per_s,
            "PCIe (GB/s one way)": self.pcie_gb_per_s,
            "fp32 vector (Tflop/s)": self.vector_tflops,
        }
        return named | {f"{t} (Tflop/s)": rate for t, rate in self.tensor_tflops.items()}

    def require_room(self, size: float) -> None:
        """Check that ``size`` bytes fit into the board's memory. Raises BadShape, which states both
        sizes.
        """
        if size > self.dram_gb.value * 1e9:
            raise BadShape(
                f"operands and result take {size / 1e9:.4g} GB; {self.name} has"
                f" {self.dram_gb.value:.0f}"
            )

    @property
    def has_nvlink(self) -> bool:
        """True if the GPUs of a node are connected by NVLink, not by PCIe alone."""
        return self.link_gb_per_s.value > self.pcie_gb_per_s.value

    @property
    def has_tensor_memory(self) -> bool:
        """True if the tensor cores have a memory for accumulators, so that the epilogue of a tile
        overlaps the next tile.
        """
        return self.compute_capability[0] == 10

    @property
    def dram_bytes_per_us(self) -> float:
        """The rate of DRAM in bytes per microsecond, from the data sheet."""
        return self.dram_gb_per_s.value * 1e3

    def tensor_flop_per_us(self, dtype: str) -> float:
        """The dense tensor operations of all SMs per microsecond. Raises KeyError for a type that
        the board lacks.
        """
        return self.tensor_tflops[dtype].value * 1e6
