"""Samples all GPUs once a second; all readers use the last sample."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Never

from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance
from vgpu_sim.gpud.telemetry import sensors
from vgpu_sim.gpud.telemetry.energy import Drawn, EnergyFile
from vgpu_sim.gpud.telemetry.meter import IDLE, PERIOD_NS, Meter, Reading, Use
from vgpu_sim.gpud.telemetry.sensors import State
from vgpu_sim.hal.management.admin import Activity, Counters, Telemetry
from vgpu_sim.records import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """An instance, the counters of each of its live contexts, and the sum of the counters of its
    ended contexts.

    ``inherited`` is the part of that sum that was counted under an earlier gpud.
    """

    instance: MigInstance
    live: Mapping[Hashable, Reading]
    ended: Counters
    inherited: Counters = field(default_factory=Counters)


class Sampler:
    """Keeps each GPU's sensor state, and each instance's use in the last sample period."""

    def __init__(self, energy: EnergyFile | None = None) -> None:
        """Create the sampler. ``energy`` is the file that keeps the energy drawn; if it is None,
        the energy is not kept.
        """
        self._energy = energy
        self._meters: dict[InstanceUuid, Meter] = {}
        self._uses: dict[InstanceUuid, Use] = {}
        self._states: dict[GpuUuid, tuple[Gpu, State]] = {}
        self._telemetry: dict[GpuUuid, Telemetry] = {}
        self._sampled_ns = 0

    def sample(self, gpus: Iterable[Gpu], observed: Iterable[Observed], now_ns: int) -> None:
        """Take a sample of the given GPUs and instances, and drop the state of all others."""
        for _ in self.sample_in_steps(gpus, observed, now_ns):
            pass

    def sample_in_steps(
        self, gpus: Iterable[Gpu], observed: Iterable[Observed], now_ns: int
    ) -> Iterator[None]:
        """Take a sample as ``sample`` does; a step reads one instance with its contexts. The last
        step publishes the sample.
        """
        inherited = Drawn()
        if not self._sampled_ns and self._energy is not None:
            inherited = self._energy.load()
            self._sampled_ns = inherited.at_ns
        seconds = (now_ns - self._sampled_ns) / 1e9 if self._sampled_ns else 0.0
        instances: dict[InstanceUuid, MigInstance] = {}
        meters: dict[InstanceUuid, Meter] = {}
        uses: dict[InstanceUuid, Use] = {}
        for observation in observed:
            uuid = observation.instance.uuid
            instances[uuid] = observation.instance
            meters[uuid] = self._meters.get(uuid) or Meter(observation.inherited)
            uses[uuid] = meters[uuid].sample(observation.live, observation.ended, now_ns)
            yield
        self._sampled_ns, self._meters, self._uses = now_ns, meters, uses
        earlier_states, self._states, telemetry = self._states, {}, {}
        for gpu in gpus:
            earlier_gpu, state = earlier_states.get(gpu.uuid, (gpu, None))
            if state is None or earlier_gpu != gpu:
                state = sensors.at_rest(gpu.board, inherited.energies_mj.get(gpu.uuid, 0.0))
            mine = [instance for instance in instances.values() if instance.gpu.uuid == gpu.uuid]
            activity = sensors.activity_of(
                gpu.board,
                (
                    (instance.profile.size, instance.sm_count, self._uses[instance.uuid].activity)
                    for instance in mine
                ),
            )
            state = sensors.advance(gpu.board, state, activity, seconds)
            self._states[gpu.uuid] = gpu, state
            used = (self._uses[instance.uuid] for instance in mine)
            telemetry[gpu.uuid] = sensors.read(gpu.board, state, activity, used)
        if self._energy is not None:
            energies = {uuid: state.energy_mj for uuid, (_, state) in self._states.items()}
            self._energy.save(Drawn(now_ns, energies))
        self._telemetry = telemetry

    def telemetry(self, gpu: Gpu, now_ns: int) -> Telemetry:
        """Return a GPU's readings in the last sample. If the GPU was added or changed since that
        sample, return the readings of an idle GPU.

        The energy includes what even an idle GPU has drawn since the sample, because programs
        read it at short intervals.
        """
        telemetry = self._telemetry.get(gpu.uuid)
        if telemetry is None or self._states[gpu.uuid][0] != gpu:
            return sensors.read(gpu.board, sensors.at_rest(gpu.board), Activity(), ())
        state = self._states[gpu.uuid][1]
        idle = sensors.advance(gpu.board, state, Activity(), (now_ns - self._sampled_ns) / 1e9)
        return replace(telemetry, energy_mj=round(idle.energy_mj))

    def activity(self, uuid: InstanceUuid) -> Activity:
        """Return an instance's activity in the last sample period."""
        return self._uses.get(uuid, IDLE).activity

    async def run(self, look: Callable[[], tuple[Iterable[Gpu], Iterable[Observed]]]) -> Never:
        """Sample forever, once a period; ``look`` returns the GPUs and instances to sample."""
        while True:
            gpus, observed = look()
            for _ in self.sample_in_steps(gpus, observed, time.monotonic_ns()):
                await asyncio.sleep(0)
            await asyncio.sleep(PERIOD_NS / 1e9)
