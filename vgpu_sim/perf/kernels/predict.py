"""Predicts one launch of a user's kernel on one board or slice."""

from vgpu_sim.perf.kernels.chip import Chip
from vgpu_sim.perf.kernels.counts import Counts
from vgpu_sim.perf.kernels.metrics import metrics_of
from vgpu_sim.perf.kernels.model import Times, times_of
from vgpu_sim.perf.kernels.pipes import Pipe
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """The modelled time of a launch; ``notes`` state what the predicted time does not cover."""

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
        """True if the time is a lower bound, not an estimate."""
        return bool(self.counts.bound)

    @property
    def stack(self) -> dict[str, float]:
        """The causes of the predicted time, in microseconds by name. They add up to it."""
        return self.times.stack()

    @property
    def bound_by(self) -> str:
        """A short name of the cause that takes the longest time."""
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
        """A lower bound for the share of the chip (0 to 1) that the launch occupies. Concurrent
        launches get the rest.
        """
        times, body = self.times, max(self.us - self.times.launch, 1e-9)
        blocks = self.counts.blocks
        room = self.chip.sms * times.occupancy.blocks
        used = [min(1.0, blocks / room), times.l2 / body, times.dram / body]
        return min(1.0, max(used))

    def metrics(self) -> dict[str, float]:
        """Return the prediction as Nsight Compute's metrics."""
        return metrics_of(self.chip, self.counts, self.times)


def bound_us(chip: Chip, counts: Counts) -> float:
    """Return a lower bound in microseconds for the time of any implementation of the work that
    ``counts`` describe.

    The bound is the longer of two times: the bytes divided by the data sheet's DRAM rate, and
    the binary32 operations divided by their peak rate.
    """
    moved = counts.unique_load_bytes + counts.unique_store_bytes
    products = counts.tensor_fp16 + counts.tensor_bf16 + counts.tensor_tf32
    vector = counts.blocks * max(0.0, counts.flop - products)
    return max(moved / chip.dram_peak, chip.us(vector / (chip.sms * chip.lanes[Pipe.FP16] * 4)))


def estimate(chip: Chip, counts: Counts) -> Estimate:
    """Predict the time of one launch from its counts.

    Raises:
        BadShape: no block of the launch fits a multiprocessor.
    """
    notes = [chip.note] if chip.note else []
    if counts.bound:
        notes.append("at least: not all that the launch does was counted")
    return Estimate(chip, counts, times_of(chip, counts), tuple(notes))
