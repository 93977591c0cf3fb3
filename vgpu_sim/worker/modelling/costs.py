"""Predicted costs of launches: sampled before they run, scaled by their counters afterwards."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from vgpu_sim.exec.errors import ExecutionError
from vgpu_sim.exec.interp import Memory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.isa import Module, container
from vgpu_sim.perf.errors import PerfError
from vgpu_sim.perf.kernels import Chip, Counts, estimate
from vgpu_sim.records import dataclass
from vgpu_sim.worker.modelling.sampler import Place, find_block, sample
from vgpu_sim.worker.modelling.samples import Sample
from vgpu_sim.worker.modelling.scaling import counts_of, later_blocks, unsampled_words
from vgpu_sim.worker.modelling.unique_bytes import blocks_around
from vgpu_sim.worker.modelling.watch import MOST_WORDS, PROBE_WORDS
from vgpu_sim.worker.modelling.weights import weigh
from vgpu_sim.worker.observing import arguments, tallies
from vgpu_sim.worker.observing.counting import Plan, instrument
from vgpu_sim.worker.observing.dependence import Dependence, dependence_of
from vgpu_sim.worker.observing.tallies import Tally

_MOST_WEIGHT: Final = 1 << 22  # sectors that all samples together may hold
_MOST_COSTS: Final = 256
_MOST_VARIANTS: Final = 256
_ON_QUEUE: Final = "blocks take work from a counter: assumed to be divided evenly"
_MANY: Final = 16  # sets of arguments that get a full sample, per kernel and shape
Extents = Sequence[tuple[int, int]]


@dataclass(slots=True)
class Kernel:
    """A loaded kernel; ``container`` is its code as compiled from the source, without counters."""

    name: str
    container: bytes
    segment_base: int
    dependence: Dependence | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The predicted cost of a launch. If the launch could not be sampled, ``counts`` is None and
    ``note`` has the reason.
    """

    us: float
    share: float
    counts: Counts | None
    note: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A running launch. If it was not sampled, ``sample`` is None and ``note`` has the reason."""

    kernel: Kernel | None
    launch: Launch
    arguments: str = ""
    key: bytes = b""
    sample: Sample | None = None
    note: str = ""
    alone: bool = True  # no other launch adds to the same counters


@dataclass(slots=True)
class _Module:
    module: Module
    plans: Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class _Variant:
    name: str
    container: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int


@dataclass(slots=True)
class _Known:
    """The samples of a kernel and shape, by arguments. ``keys`` are the first keys, at most
    ``_MANY``.
    """

    keys: set[bytes] = field(default_factory=set)
    by_signature: dict[bytes, bytes] = field(default_factory=dict)


class Costs:
    """The predicted costs of one context's launches. ``memory`` creates the interpreter's memory,
    and ``extents`` returns the memory's ranges. ``place_of`` returns a number that identifies
    the kind of memory at an address, or None for an invalid address. Methods must not run
    concurrently.
    """

    def __init__(
        self,
        chip: Chip,
        memory: Callable[[], Memory],
        extents: Callable[[], Extents],
        place_of: Callable[[int], int | None],
    ) -> None:
        self._chip = chip
        self._memory = memory
        self._extents = extents
        self._place_of = place_of
        self._kernels: dict[int, Kernel] = {}
        self._modules: dict[bytes, _Module] = {}
        self._known: dict[_Variant, _Known] = {}
        self._samples: OrderedDict[tuple[_Variant, bytes], Sample] = OrderedDict()
        self._weight = 0
        self._costs: OrderedDict[tuple[int, bytes], tuple[Sample, Cost]] = OrderedDict()

    def record_load(self, kernels: Mapping[str, int], image: bytes, segment_base: int) -> None:
        """Register the kernels of a loaded module by name, with the module's container."""
        for name, handle in kernels.items():
            self._kernels[int(handle)] = Kernel(name, image, segment_base)

    def record_unload(self, kernels: Sequence[int]) -> None:
        """Forget the kernels of an unloaded module."""
        gone = [self._kernels.pop(int(handle), None) for handle in kernels]
        used_containers = {kernel.container for kernel in self._kernels.values()}
        lost = {kernel.container for kernel in gone if kernel is not None} - used_containers
        for lost_container in lost:
            self._modules.pop(lost_container, None)
        for variant in [
            stale_variant for stale_variant in self._known if stale_variant.container in lost
        ]:
            del self._known[variant]
        for key in [stale_key for stale_key in self._samples if stale_key[0].container in lost]:
            self._weight -= self._samples.pop(key).watch.weight

    def begin(self, handle: int, launch: Launch, *, alone: bool) -> Begun:
        """Sample a launch before it runs, and set its kernel's counters to zero. ``alone`` is False
        if another launch adds to the same counters at the same time. The counters then keep
        their values.
        """
        kernel = self._kernels.get(handle)
        if kernel is None:  # unloaded meanwhile: the launch itself reports that
            return Begun(None, launch, note="its module was unloaded")
        module = self._module(kernel)
        function = module.module.function(kernel.name)
        text = arguments.text_of(function, launch.parameters, self._place_of)
        exact = arguments.key_of(launch.parameters, self._place_of)
        key = hashlib.blake2b(exact, digest_size=16).digest()  # parameters are up to kilobytes long
        begun = Begun(kernel, launch, text, key, alone=alone)
        try:
            begun = replace(begun, sample=self._sample(kernel, launch, key))
        except (ExecutionError, ValueError) as err:
            begun = replace(begun, note=f"not sampled: {err}")
        plan = module.plans.get(kernel.name)
        if alone and plan is not None and plan.counters:
            tallies.clear(self._memory(), kernel.segment_base, plan)
        return begun

    def end(self, begun: Begun) -> Cost:
        """Return the predicted cost of a launch that has run."""
        kernel, sample = begun.kernel, begun.sample
        if kernel is None or sample is None:
            return Cost(self._chip.launch_us, 1.0, None, begun.note)
        module = self._module(kernel)
        plan = module.plans.get(kernel.name)
        tally = None
        if begun.alone and plan is not None:
            tally = tallies.read(self._memory(), kernel.segment_base, plan)
        key = (id(sample), repr(tally).encode() if tally is None else _digest(tally))
        stored_cost = self._costs.get(key)
        if stored_cost is not None:
            self._costs.move_to_end(key)
            return stored_cost[1]
        cost = self._cost(begun, sample, (plan, tally) if plan and tally else None)
        self._costs[key] = sample, cost  # keeps the sample alive, so that its identity stays unique
        if len(self._costs) > _MOST_COSTS:
            self._costs.popitem(last=False)
        return cost

    def _cost(self, begun: Begun, sample: Sample, counts: tuple[Plan, Tally] | None) -> Cost:
        try:
            beside = self._later(begun, sample, counts)
            predicted = estimate(self._chip, counts_of(self._chip, sample, counts, beside))
        except (PerfError, ValueError) as err:
            return Cost(self._chip.launch_us, 1.0, None, f"not sampled: {err}")
        queue = (_ON_QUEUE,) if sample.dependence.on_queue else ()
        notes = "; ".join((*predicted.notes, *queue))
        return Cost(predicted.us, predicted.share, predicted.counts, notes)

    def _module(self, kernel: Kernel) -> _Module:
        decoded_module = self._modules.get(kernel.container)
        if decoded_module is None:
            module = container.decode(kernel.container)
            _, plans = instrument(module, weigh)
            decoded_module = self._modules[kernel.container] = _Module(module, plans)
        return decoded_module

    def _sample(self, kernel: Kernel, launch: Launch, key: bytes) -> Sample:
        """Return a sample of this launch, or an earlier sample of a launch that appears to be
        equal.
        """
        variant = _Variant(
            kernel.name, kernel.container, launch.grid, launch.block, launch.shared_bytes
        )
        variant_samples = self._known.setdefault(variant, _Known())
        if len(self._known) > _MOST_VARIANTS:
            del self._known[next(iter(self._known))]
        if kernel.dependence is None:
            function = self._module(kernel).module.function(kernel.name)
            kernel.dependence = dependence_of(function)
        fresh = key not in variant_samples.keys
        stored = self._samples.get((variant, key))
        if stored is not None and not kernel.dependence.on_memory:
            self._samples.move_to_end((variant, key))
            return stored
        if stored is not None or (fresh and len(variant_samples.keys) >= _MANY):
            probe = self._run(kernel, launch, PROBE_WORDS + 1)
            if not probe.truncated:
                return self._keep(variant, key, probe)
            like = variant_samples.by_signature.get(probe.watch.signature)
            stored = self._samples.get((variant, like)) if like is not None else None
            if stored is not None:
                return stored
        return self._keep(variant, key, self._run(kernel, launch, MOST_WORDS))

    def _run(
        self, kernel: Kernel, launch: Launch, most_words: int, blocks: Sequence[int] | None = None
    ) -> Sample:
        module = self._module(kernel).module
        place = Place(kernel.segment_base, self._chip.sms, self._extents())
        function = module.function(kernel.name)
        return sample(module, function, launch, place, self._memory(), most_words, blocks)

    def _search(
        self, kernel: Kernel, launch: Launch, sample: Sample, counts: tuple[Plan, Tally] | None
    ) -> list[int]:
        """Return blocks that may execute what no sampled block executed; empty if none was
        found.
        """
        lacking = unsampled_words(sample, counts)
        if not lacking or sample.truncated:
            return []
        module = self._module(kernel).module
        place = Place(kernel.segment_base, self._chip.sms, self._extents())
        block = find_block(
            module, module.function(kernel.name), launch, place, self._memory(), set(lacking)
        )
        active = max(1.0, max(lacking.values()))
        return [] if block is None else blocks_around(block, active, sample.launch.block_count)

    def _keep(self, variant: _Variant, key: bytes, sample: Sample) -> Sample:
        variant_samples = self._known[variant]
        if len(variant_samples.keys) < _MANY:
            variant_samples.keys.add(key)
        if sample.watch.signature:
            variant_samples.by_signature[sample.watch.signature] = key
        old = self._samples.pop((variant, key), None)
        self._weight += sample.watch.weight - (old.watch.weight if old is not None else 0)
        self._samples[variant, key] = sample
        while self._weight > _MOST_WEIGHT and len(self._samples) > 1:
            (of, old_key), gone = self._samples.popitem(last=False)
            self._weight -= gone.watch.weight
            forgotten_samples = self._known.get(of)
            if (
                forgotten_samples is not None
                and forgotten_samples.by_signature.get(gone.watch.signature) == old_key
            ):
                del forgotten_samples.by_signature[gone.watch.signature]
        return sample

    def _later(
        self, begun: Begun, sample: Sample, counts: tuple[Plan, Tally] | None
    ) -> Sample | None:
        """Sample blocks of a finished launch that executed instructions which no sampled block
        executed.

        Memory already contains the launch's results, so these blocks may behave differently now.
        Their sample is therefore used only for the instructions that were not sampled at all.
        """
        if begun.kernel is None:
            return None
        blocks = later_blocks(sample, counts)
        try:
            blocks = blocks or self._search(begun.kernel, begun.launch, sample, counts)
            if not blocks:
                return None
            return self._run(begun.kernel, begun.launch, MOST_WORDS, blocks)
        except (ExecutionError, ValueError):
            return None


def _digest(tally: Tally) -> bytes:
    slots = b"" if tally.slots is None else tally.slots.tobytes()
    return repr((tally.counters, tally.longest)).encode() + slots
