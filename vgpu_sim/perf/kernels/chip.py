"""Properties of a board or MIG slice that a kernel uses: multiprocessors, pipes, caches, latencies.

The figures have these sources. Lanes per clock and resources of a multiprocessor are from the
CUDA C++ Programming Guide, "Arithmetic Instructions" and "Technical Specifications per Compute
Capability". First-level caches are from the white papers of the architectures. Latencies in
cycles were measured on an H100 (docs/silicon.md), and are used for the other boards too.
DRAM and L2 are fitted by the model for streams (``vgpu_sim.perf.stream``), as is launch except on
boards of the measured architecture.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from vgpu_sim.perf import parameters
from vgpu_sim.perf.boards import Board, board_named
from vgpu_sim.perf.errors import BadShape
from vgpu_sim.perf.kernels.pipes import Pipe
from vgpu_sim.records import dataclass

SCHEDULERS: Final = 4  # per multiprocessor, each issuing one instruction per cycle
WARP: Final = 32
SECTOR: Final = 32  # smallest number of bytes that caches and DRAM move
LINE: Final = 128  # bytes that the first level looks up together
_KB: Final = 1024


@dataclass(frozen=True, slots=True)
class _Architecture:
    """Properties of one compute capability: for each pipe, the lanes per clock of a multiprocessor;
    and the multiprocessor's resources.
    """

    lanes: Mapping[Pipe, float]
    l1_kb: int  # first-level cache and shared memory together
    threads: int
    blocks: int
    mma_share: float  # share of the tensor rate, by instructions that one warp issues and waits for


def _lanes(fp32: int, fp16: int, fp64: int, convert: int) -> Mapping[Pipe, float]:
    return MappingProxyType(
        {
            Pipe.ALU: 64,
            Pipe.FMA: fp32,
            Pipe.IMAD: 64,
            Pipe.FP16: fp16,
            Pipe.FP64: fp64,
            Pipe.XU: 16,
            Pipe.CVT: convert,
            Pipe.LSU: 32,
            Pipe.CBU: 32,
        }
    )


# mma_share: on Hopper, one warp's instructions reach 0.62 of the rate of warp groups (Luo et al.).
# Blackwell's data centre parts have the same division, so the figure is used for them too.
_ARCHITECTURES: Final = {
    (8, 0): _Architecture(_lanes(64, 128, 32, 16), 192, 2048, 32, 0.95),
    (8, 9): _Architecture(_lanes(128, 64, 2, 16), 128, 1536, 24, 0.95),
    (9, 0): _Architecture(_lanes(128, 128, 64, 64), 256, 2048, 32, 0.62),
    (10, 0): _Architecture(_lanes(128, 128, 64, 64), 256, 2048, 32, 0.62),
    (12, 0): _Architecture(_lanes(128, 64, 2, 64), 128, 1536, 24, 0.95),
}
# Measured on an H100 (docs/silicon.md): an empty kernel in a graph of empty kernels.
_LAUNCH_US: Final = {(9, 0): 0.84}
_ATOMIC_STEPS: Final = 44.0  # likewise, of the whole L2
# Cycles of a multiprocessor for each of its blocks, likewise.
BLOCK_START_CYCLES: Final = 157
REGISTERS: Final = 65536
SHARED_OF_BLOCK_RESERVED: Final = _KB  # Guide: the bytes of each block that the system uses


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of instructions: cycles from issue to result."""

    fixed: int = 4
    special: int = 17
    convert: int = 5
    shared: int = 23
    l1: int = 35
    l2: int = 282
    dram: int = 685


@dataclass(frozen=True, slots=True)
class Chip:
    """The properties of a board or a slice of it. Rates are in bytes per microsecond, ``ghz`` is in
    cycles per nanosecond.

    ``tensor`` is the operations per cycle of one multiprocessor, by type, and ``mma_share`` its
    share of what warp groups reach. ``atomic_steps`` is how many steps of atomic updates all slices
    of L2 perform in a cycle. ``launch_us`` is the overhead of a launch: the time until its first
    block starts, plus the time after its last block ends. ``note`` states what was not measured.
    """

    board: Board
    sms: int
    ghz: float
    lanes: Mapping[Pipe, float]
    tensor: Mapping[str, float]
    l1_bytes: int
    shared_bytes: int
    threads: int
    blocks: int
    l2_bytes: float
    l2_sharpness: float
    l2_rate: float
    atomic_steps: float
    dram_rate: float
    dram_peak: float
    launch_us: float
    mma_share: float
    pcie_rate: float
    latencies: Latencies
    note: str = ""

    @property
    def warps(self) -> int:
        """The number of warps for which a multiprocessor has room."""
        return self.threads // WARP

    def us(self, cycles: float) -> float:
        """Return the duration of a number of cycles, in microseconds."""
        return cycles / (self.ghz * 1e3)


def chip_of(
    name: str, multiprocessors: int | None = None, memory: tuple[int, int] = (1, 1)
) -> Chip:
    """Return the properties of a board, or of a slice that has ``multiprocessors`` and a share
    (part, whole) of the board's memory.

    A MIG slice has the same share of L2's and DRAM's capacity and rate.

    Raises:
        UnknownBoard: there is no such board.
        BadShape: the share is invalid, or the board has fewer multiprocessors.
    """
    board = board_named(name)
    whole = int(board.sms.value)
    sms = whole if multiprocessors is None else multiprocessors
    if not 1 <= sms <= whole or not 1 <= memory[0] <= memory[1]:
        raise BadShape(
            f"invalid share: {sms} of {whole} multiprocessors,"
            f" {memory[0]}/{memory[1]} of the memory"
        )
    architecture = _ARCHITECTURES[board.compute_capability]
    share = memory[0] / memory[1]
    # Fitted for streams on this board, or on the board whose parameters it uses.
    streams = parameters.nearest("stream", name, "elementwise", "vllm")
    fitted = streams.values
    # The clock at which the data sheet states the vector rate: boost.
    ghz = board.vector_tflops.value * 1e3 / (whole * architecture.lanes[Pipe.FMA] * 2)
    per_cycle = architecture.mma_share * 1e3 / (whole * ghz)
    peak = board.dram_bytes_per_us * share
    return Chip(
        board=board,
        sms=sms,
        ghz=ghz,
        lanes=architecture.lanes,
        tensor={kind: rate.value * per_cycle for kind, rate in board.tensor_tflops.items()},
        l1_bytes=architecture.l1_kb * _KB,
        shared_bytes=int(board.shared_kb_per_sm.value) * _KB,
        threads=architecture.threads,
        blocks=architecture.blocks,
        l2_bytes=min(1.0, fitted["l2_usable"]) * board.l2_mb.value * 1e6 * share,
        l2_sharpness=fitted["l2_sharpness"],
        l2_rate=fitted["l2_rate"] * board.boost_ghz.value * 1e3 * whole * share,
        atomic_steps=_ATOMIC_STEPS * share,
        dram_rate=min(1.0, fitted["dram"]) * peak,
        dram_peak=peak,
        launch_us=_LAUNCH_US.get(board.compute_capability, fitted["launch"]),
        mma_share=architecture.mma_share,
        pcie_rate=board.pcie_gb_per_s.value * 1e3,
        latencies=Latencies(),
        note=streams.note,
    )
