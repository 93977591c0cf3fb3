"""Takes a sample of all GPUs once a second; everybody else reads what it found."""

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Never

from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance
from vgpu_sim.gpud.telemetry import sensors
from vgpu_sim.gpud.telemetry.energy import Drawn, EnergyFile
from vgpu_sim.gpud.telemetry.meter import IDLE, PERIOD_NS, Meter, Reading, Use
from vgpu_sim.gpud.telemetry.sensors import State
from vgpu_sim.hal.management.admin import Activity, Counters, Telemetry


@dataclass(frozen=True, slots=True)
class Observed:
    """An instance and its contexts: those that live, and the sum of those that have ended.

    ``inherited``: of that sum, what was counted before this gpud.
    """

    instance: MigInstance
    live: Mapping[Hashable, Reading]
    ended: Counters
    inherited: Counters = field(default_factory=Counters)


class Sampler:
    """Remembers each GPU's state and each instance's last use."""

    def __init__(self, energy: EnergyFile | None = None) -> None:
        """``energy``: where what GPUs have drawn is kept; None: nowhere."""
        self._energy = energy
        self._meters: dict[InstanceUuid, Meter] = {}
        self._uses: dict[InstanceUuid, Use] = {}
        self._states: dict[GpuUuid, tuple[Gpu, State]] = {}
        self._telemetry: dict[GpuUuid, Telemetry] = {}
        self._sampled_ns = 0

    def sample(self, gpus: Iterable[Gpu], observed: Iterable[Observed], now_ns: int) -> None:
        """Look at everything that is there now; what is not is forgotten."""
        inherited = Drawn()
        if not self._sampled_ns and self._energy is not None:
            inherited = self._energy.load()
            self._sampled_ns = inherited.at_ns
        seconds = (now_ns - self._sampled_ns) / 1e9 if self._sampled_ns else 0.0
        self._sampled_ns = now_ns
        instances = {one.instance.uuid: one for one in observed}
        self._meters = {
            uuid: self._meters.get(uuid) or Meter(one.inherited) for uuid, one in instances.items()
        }
        self._uses = {
            uuid: self._meters[uuid].sample(one.live, one.ended, now_ns)
            for uuid, one in instances.items()
        }
        before, self._states, telemetry = self._states, {}, {}
        for gpu in gpus:
            known, state = before.get(gpu.uuid, (gpu, None))
            if state is None or known != gpu:
                state = sensors.at_rest(gpu.board, inherited.energies_mj.get(gpu.uuid, 0.0))
            mine = [one.instance for one in instances.values() if one.instance.gpu.uuid == gpu.uuid]
            activity = sensors.activity_of(
                gpu.board,
                ((one.profile.size, one.sm_count, self._uses[one.uuid].activity) for one in mine),
            )
            state = sensors.advance(gpu.board, state, activity, seconds)
            self._states[gpu.uuid] = gpu, state
            uses = (self._uses[one.uuid] for one in mine)
            telemetry[gpu.uuid] = sensors.read(gpu.board, state, activity, uses)
        if self._energy is not None:
            energies = {uuid: state.energy_mj for uuid, (_, state) in self._states.items()}
            self._energy.save(Drawn(now_ns, energies))
        self._telemetry = telemetry

    def telemetry(self, gpu: Gpu) -> Telemetry:
        """Return what the last sample found; of a GPU that is newer than that, one at rest."""
        found = self._telemetry.get(gpu.uuid)
        if found is None or self._states[gpu.uuid][0] != gpu:
            return sensors.read(gpu.board, sensors.at_rest(gpu.board), Activity(), ())
        return found

    def activity(self, uuid: InstanceUuid) -> Activity:
        """Return how busy an instance was in the last sample period."""
        return self._uses.get(uuid, IDLE).activity

    async def run(self, look: Callable[[], tuple[Iterable[Gpu], Iterable[Observed]]]) -> Never:
        """Sample for ever, once a period."""
        while True:
            gpus, observed = look()
            self.sample(gpus, observed, time.monotonic_ns())
            await asyncio.sleep(PERIOD_NS / 1e9)
