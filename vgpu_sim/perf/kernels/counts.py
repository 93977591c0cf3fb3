"""The counts of a launch, extrapolated from sampled blocks. They are the input of the model."""

from collections.abc import Mapping
from dataclasses import fields

from vgpu_sim.perf.errors import BadShape
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one launch. Each field is the mean over the launch's blocks, unless it is
    described below as a count of the whole launch or of one warp.

    ``pipe_*`` count the instructions that warps issue to a pipe. ``tensor_*`` count operations by
    type, and ``group_*`` those of them that are products of warp groups. ``*_sectors`` count
    sectors of 32 bytes. ``l1_*_wavefronts`` are cycles of the first-level cache's data stage.
    ``atomic_steps`` are the steps in which L2 performs atomic updates: one for a sector, and one
    for each further lane that updates the same word. ``cluster_bytes`` count accesses of shared
    memory by addresses that name a block of the cluster, ``bulk_bytes`` what bulk copies and
    asynchronous stores complete at mbarriers, and ``tensor_memory_bytes`` accesses of tensor
    memory, also by products; no time is predicted from the last two.

    Counts of the launch are ``blocks``, ``unique_*_bytes`` (the bytes that the launch touches, each
    counted once), ``wave_load_bytes`` (the same for blocks that are resident together),
    ``load_spread`` (the bytes that DRAM returns for loads, divided by those of their sectors) and
    ``hot_updates`` (steps of atomic updates in the slice of L2 that has the most of them). Counts
    of a warp are ``fixed_cycles`` (waits for results of known latency, for products of warp groups
    and at barriers of clusters), ``long_waits`` (waits for global or local memory and for bulk
    copies), ``short_waits`` (waits for shared memory) and ``long_covered`` (cycles between an
    access to global or local memory and the wait for it).

    ``longest_cycles`` is a lower bound for the length of the longest thread's dependence chain.
    ``mean_cycles`` is a lower bound for the mean length over all threads. Both are 0 if all threads
    have equal chains or the chains are unknown. ``heaviest_block`` is the number of instructions of
    the heaviest block, divided by the mean over all blocks. ``bound`` is 1 if the counts are lower
    bounds.
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
    pipe_imad: float
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
    group_fp16: float
    group_bf16: float
    group_tf32: float
    group_int8: float
    load_requests: float
    load_sectors: float
    load_bytes: float
    l1_missed_sectors: float
    store_requests: float
    store_sectors: float
    store_bytes: float
    atomic_requests: float
    atomic_sectors: float
    atomic_steps: float
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
    load_spread: float
    bulk_bytes: float
    cluster_bytes: float
    tensor_memory_bytes: float

    @property
    def tensor_operations(self) -> float:
        """The operations of tensor cores, of all types."""
        return self.tensor_fp16 + self.tensor_bf16 + self.tensor_tf32 + self.tensor_int8

    @classmethod
    def of(cls, values: Mapping[str, float]) -> "Counts":
        """Return the counts with the values of a mapping. Raises BadShape for a missing or unknown
        name.
        """
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            wrong = ", ".join(sorted(set(values) ^ names))
            raise BadShape(f"missing or unknown counts of a launch: {wrong}")
        return cls(**values)

    def as_dict(self) -> dict[str, float]:
        """Return the counts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
