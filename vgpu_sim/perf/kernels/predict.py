"""One launch of a user's kernel on one board or slice."""

from dataclasses import dataclass

from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.metrics import metrics_of
from vgpu_sim.perf.kernels.model import Times, times_of
from vgpu_sim.perf.kernels.pipes import Pipe


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a launch would take, modelled. ``notes`` say what the figure does not cover."""

    chip: Chip
    counts: Counts
    times: Times
    notes: tuple[str, ...]

    @property
    def us(self) -> float:
        """The predicted time in microseconds."""
        return self.times.total

    @property
    def is_bound(self) -> bool:
        """Whether the launch takes this time at least, rather than about this time."""
        return bool(self.counts.bound)

    @property
    def stack(self) -> dict[str, float]:
        """Named causes that add to the time."""
        return self.times.stack()

    @property
    def bound_by(self) -> str:
        """What takes longest, in a word or two."""
        times = self.times
        parts = {
            "launch": times.launch,
            "latency": times.latency,
            "L2": times.l2,
            "DRAM": times.dram,
            "one address": times.hot,
            **times.pipes,
        }
        return max(parts, key=lambda name: parts[name])

    @property
    def share(self) -> float:
        """What it takes of the chip at least, of 1: a launch beside it has the rest."""
        times, body = self.times, max(self.us - self.times.launch, 1e-9)
        blocks = self.counts.blocks
        room = self.chip.sms * times.occupancy.blocks
        used = [min(1.0, blocks / room), times.l2 / body, times.dram / body]
        return min(1.0, max(used))

    def metrics(self) -> dict[str, float]:
        """Return the prediction in the names of Nsight Compute."""
        return metrics_of(self.chip, self.counts, self.times)


def bound_us(chip: Chip, counts: Counts) -> float:
    """Return what nothing that does this can be faster than, in microseconds.

    Bytes over the data sheet's DRAM rate, and operations on binary32 over its peak.
    """
    moved = counts.unique_load_bytes + counts.unique_store_bytes
    products = counts.tensor_fp16 + counts.tensor_bf16 + counts.tensor_tf32
    vector = counts.blocks * max(0.0, counts.flop - products)
    return max(moved / chip.dram_peak, chip.us(vector / (chip.sms * chip.lanes[Pipe.FP16] * 4)))


def estimate(chip: Chip, counts: Counts) -> Estimate:
    """Predict one launch.

    Raises:
        BadShape: no block of it fits a multiprocessor.
    """
    notes = [chip.note] if chip.note else []
    if counts.bound:
        notes.append("at least: not all that the launch does was counted")
    return Estimate(chip, counts, times_of(chip, counts), tuple(notes))
