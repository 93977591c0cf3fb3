"""What a launch does, as sampled blocks tell: the input of the model."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from vgpu_sim.perf.errors import BadShape


@dataclass(frozen=True, slots=True)
class Counts:
    """One launch. What is not said to be of the launch or of a warp is the mean of a block.

    ``pipe_*`` are issues of a warp, ``tensor_*`` operations by type, sectors have 32 bytes.
    ``l1_*_wavefronts`` are cycles of the first level's data stage. Of the launch: ``blocks``,
    ``unique_*_bytes`` (what it touches, each byte once), ``wave_load_bytes`` (the same of blocks
    that are resident together), ``hot_updates`` (of the address with most atomic updates). Of a
    warp: ``fixed_cycles`` (waits for results of known latency), ``long_waits`` and
    ``short_waits`` (times that it has to wait for global or local, for shared memory and special
    functions), ``long_covered`` (cycles between those accesses and the waits).
    ``longest_cycles`` and ``mean_cycles`` are what the chains of the longest and of the mean thread
    take at least, 0 where they are equal; ``heaviest_block`` is how often the mean block's
    instructions the heaviest one executes. ``bound``: 1 where all this may be too small.
    """

    blocks: float
    block_threads: float
    registers: float
    shared_bytes: float
    sampled: float
    bound: float
    warp_instructions: float
    thread_instructions: float
    flop: float
    pipe_alu: float
    pipe_fma: float
    pipe_fp16: float
    pipe_fp64: float
    pipe_xu: float
    pipe_cvt: float
    pipe_lsu: float
    pipe_cbu: float
    tensor_fp16: float
    tensor_bf16: float
    tensor_tf32: float
    tensor_int8: float
    load_requests: float
    load_sectors: float
    load_bytes: float
    l1_missed_sectors: float
    store_requests: float
    store_sectors: float
    store_bytes: float
    atomic_requests: float
    atomic_sectors: float
    hot_updates: float
    longest_cycles: float
    mean_cycles: float
    heaviest_block: float
    l1_global_wavefronts: float
    l1_shared_wavefronts: float
    shared_requests: float
    shared_ideal_wavefronts: float
    barriers: float
    warp_issued: float
    fixed_cycles: float
    short_waits: float
    long_waits: float
    long_covered: float
    unique_load_bytes: float
    unique_store_bytes: float
    wave_load_bytes: float

    @classmethod
    def of(cls, values: Mapping[str, float]) -> "Counts":
        """Make them of a mapping. Raises BadShape for a name that is missing, or unknown."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            wrong = ", ".join(sorted(set(values) ^ names))
            raise BadShape(f"counts of a launch: {wrong} missing or unknown")
        return cls(**values)

    def as_dict(self) -> dict[str, float]:
        """Return them by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
