"""Sets up a modelled clock: reads files before the worker enters its sandbox, then creates the
clock.
"""

import struct
from itertools import permutations

from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.abi import FaultKind
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.hal.compute.spawn import WorkerConfig
from vgpu_sim.perf.boards import board_named
from vgpu_sim.perf.kernels import chip_of, estimate
from vgpu_sim.perf.topology import topology_named
from vgpu_sim.perf.topology.routes import Routes
from vgpu_sim.perf.topology.transfers import payload_rates
from vgpu_sim.worker.backends.aperture_memory import ApertureMemory
from vgpu_sim.worker.modelling.clock import ModelledClock
from vgpu_sim.worker.modelling.sampler import Place, predict_counts
from vgpu_sim.worker.runtime.binding import NativeRuntime
from vgpu_sim.worker.warm_up import BUFFER_BYTES, KERNEL, warm_up_module

_PAGE_BYTES = 4096


def warm_up(config: WorkerConfig) -> None:
    """Sample a small kernel before the sandbox is entered, because the first sample reads files:
    numpy imports parts of itself on first use, and the board's fitted parameters are in files.

    Raises:
        PerfError: the board, the slice of it, or its topology cannot be modelled.
    """
    chip = chip_of(config.board, config.multiprocessors, config.memory_share)
    peer_rates(config.board, config.facts.topology)
    module = warm_up_module()
    memory = BufferMemory(_PAGE_BYTES, bytearray(-(-BUFFER_BYTES // _PAGE_BYTES) * _PAGE_BYTES))
    launch = Launch(KERNEL, (1, 1, 1), (32, 1, 1), struct.pack("<Qf", _PAGE_BYTES, 1.0))
    counts = predict_counts(chip, module, module.function(KERNEL), launch, Place(0, 1), memory)
    estimate(chip, counts)


def make_clock(config: WorkerConfig, runtime: NativeRuntime) -> ModelledClock:
    """Create a context's modelled clock; called inside the sandbox."""
    return ModelledClock(
        chip_of(config.board, config.multiprocessors, config.memory_share),
        config.aperture_base,
        lambda: ApertureMemory(runtime.regions()),
        lambda why: runtime.fail(FaultKind.INTERNAL, CudaError.LAUNCH_FAILED, why),
        peer_rates(config.board, config.facts.topology),
        lambda: [(region.address, region.address + region.size) for region in runtime.regions()],
    )


def peer_rates(board: str, topology: str) -> dict[tuple[int, int], float]:
    """Return the rate of the links between each pair of a node's GPUs, in bytes per microsecond.

    All GPUs are assumed to be the same board. The rates do not account for other contexts that
    use the links at the same time, because each context has a clock of its own, which begins at
    its first request.

    Raises:
        PerfError: no such board or topology.
    """
    routes = Routes(topology_named(topology), board_named(board))
    carried = payload_rates(routes)
    return {
        (a, b): min(carried[link] for link in routes.path(f"gpu{a}", f"gpu{b}"))
        for a, b in permutations(range(len(routes.topology.gpus)), 2)
    }
