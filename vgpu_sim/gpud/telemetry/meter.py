"""Utilisation of an instance in a sample period, from its contexts' counters."""

from collections.abc import Hashable, Mapping

from vgpu_sim.gpud.telemetry import counting
from vgpu_sim.hal.management.admin import Activity, Counters
from vgpu_sim.records import dataclass

PERIOD_NS = 1_000_000_000
_STALE_NS = 3 * PERIOD_NS // 2  # a worker that computes reports once a second
_LONGEST_NS = 11 * PERIOD_NS // 10  # between two reports of one that computes, its delays included


@dataclass(frozen=True, slots=True)
class Reading:
    """A live context's counters, and the time of its worker's report (CLOCK_MONOTONIC).

    If ``adopted`` is set, the first report includes what the context did under an earlier gpud.
    """

    counters: Counters
    at_ns: int
    adopted: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """The use of an instance in a sample period: its activity, and the bytes per second copied into
    and out of the device.
    """

    activity: Activity
    in_bytes_per_s: int
    out_bytes_per_s: int


IDLE = Use(Activity(), 0, 0)


@dataclass(frozen=True, slots=True)
class _Rate:
    """The increase of a context's counters during ``ns``, up to a report at ``at_ns``."""

    counted: Counters
    ns: int
    at_ns: int


class Meter:
    """Computes the use of one instance, once per sample period. Contexts report as often as samples
    are taken, but reports and samples are not synchronised with each other.

    Each live context's rate is therefore computed between the last two reports of that context.
    The rate remains valid until the context's next report is overdue. The activity of contexts
    that ended since the last sample is spread over the period.
    """

    def __init__(self, ended_before: Counters | None = None) -> None:
        self._last: dict[Hashable, Reading] = {}
        self._rates: dict[Hashable, _Rate] = {}
        self._ended = ended_before or Counters()
        self._sampled_ns = 0

    def sample(self, live: Mapping[Hashable, Reading], ended: Counters, now_ns: int) -> Use:
        """Return the use of the instance since the last sample; ``ended`` is the sum of the
        counters of all ended contexts.
        """
        period_ns = max(now_ns - self._sampled_ns, 1) if self._sampled_ns else PERIOD_NS
        gone = [reading.counters for key, reading in self._last.items() if key not in live]
        finished = counting.difference(ended, counting.total(self._ended, *gone))
        rates = [_Rate(finished, max(period_ns, PERIOD_NS), now_ns)]
        for key, reading in live.items():
            rate = self._rate(key, reading)
            if rate is not None and now_ns - rate.at_ns <= _STALE_NS:
                rates.append(rate)
        self._rates = {key: rate for key, rate in self._rates.items() if key in live}
        self._last, self._ended, self._sampled_ns = dict(live), ended, now_ns
        return _use(rates)

    def _rate(self, key: Hashable, reading: Reading) -> _Rate | None:
        earlier_reading = self._last.get(key, Reading(Counters(), 0))
        if reading.adopted and not earlier_reading.at_ns:
            return None
        if reading.at_ns != earlier_reading.at_ns:
            counted = counting.difference(reading.counters, earlier_reading.counters)
            # An idle worker reports when it computes again: its idle time does not count.
            ns = min(max(reading.at_ns - earlier_reading.at_ns, 1), _LONGEST_NS)
            self._rates[key] = _Rate(counted, ns, reading.at_ns)
        return self._rates.get(key)


def _use(rates: list[_Rate]) -> Use:
    def share(name: str, limit: float = 1.0) -> float:
        counted: list[float] = [getattr(rate.counted, name) / rate.ns for rate in rates]
        return min(limit, sum(counted))

    def per_second(name: str) -> int:
        return int(sum(getattr(rate.counted, name) * 1e9 / rate.ns for rate in rates))

    engine = share("busy_ns")
    sm_active = share("sm_active_ns", engine)
    activity = Activity(
        engine=engine,
        sm_active=sm_active,
        sm_occupancy=share("sm_occupancy_ns", sm_active),
        tensor=share("tensor_ns", sm_active),
        fp64=share("fp64_ns", sm_active),
        fp32=share("fp32_ns", sm_active),
        fp16=share("fp16_ns", sm_active),
        memory=share("memory_ns"),
    )
    return Use(activity, per_second("host_to_device_bytes"), per_second("device_to_host_bytes"))
