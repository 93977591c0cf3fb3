"""The objects of one client: what it asked for, checked, and given to the engine.

A client is hostile: every number is looked up or bounded before it is used, and whatever it has is
removed with it. A refusal is an ``OSError`` whose errno the client's verb answers. Each kind of
object has a module of its own.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.common.handover_state import Luggage, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.address_handles import Paths
from hca.daemon.objects.device_regions import DeviceRegions
from hca.daemon.objects.flow_steering import Steering
from hca.daemon.objects.windows import Windows
from hca.daemon.policy.guard import Guard, unmanaged


class Objects(Steering, Paths, DeviceRegions, Windows):
    """A client's objects in the engine, until ``close``."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        gids: tuple[bytes, ...],
        memory_bytes: int,
        guard: Guard | None = None,
        mtu: int = HCA_MAX_MTU,
    ) -> None:
        """Add the client to the engine; without a guard policy asks nothing. Raises OSError.

        ``mtu`` is its port's, of verbs.
        """
        super().__init__(engine, numbers, gids, memory_bytes)
        self._mtu = mtu
        self._guard = guard or unmanaged(engine, gids)
        self.set_pkeys(self._guard.pkeys())

    @property
    def mtu(self) -> int:
        """Return its port's, of verbs."""
        return self._mtu

    def close(self) -> None:
        """Remove everything that the client has."""
        for number in list(self._qps):
            self.destroy_qp(number)
        for handle in list(self._srqs):
            self.destroy_srq(handle)
        for key in list(self._paths):
            self.destroy_ah(key)
        for key in list(self._windows):
            self.destroy_window(key)
        for key in list(self._regions):
            self.destroy_region(key)
        for handle in list(self._segments):
            self.destroy_segment(handle)
        for handle in list(self._cqs):
            self.destroy_cq(handle)
        for handle in list(self._channels):
            self.destroy_channel(handle)
        for handle in list(self._pds):
            self.destroy_pd(handle)
        self.leave()

    def save(self, luggage: Luggage) -> Row:
        """Write the client for a successor of hcad; the engine is held."""
        saved = self.save_place(luggage)
        for kind in _KINDS:
            saved[kind.name] = [kind.save(self, n, luggage) for n in kind.numbers(self)]
        return saved

    def load(self, saved: Row, luggage: Luggage) -> None:
        """Make again what a predecessor saved; the engine is held.

        Raises:
            OSError, ValueError, KeyError, TypeError: what is missing or makes no sense.
        """
        for kind in _KINDS:
            for row in saved[kind.name]:
                kind.load(self, row, luggage)
        self.load_place(saved)


class AdoptedObjects(Objects):
    """The objects of a client that a predecessor has opened."""

    def __init__(
        self,
        engine: Engine,
        numbers: Numbers,
        gids: tuple[bytes, ...],
        memory_bytes: int,
        descriptors: tuple[int, ...],
        guard: Guard | None = None,
        mtu: int = HCA_MAX_MTU,
    ) -> None:
        """Add the client to the engine, with its page and pipes. Raises OSError, ValueError."""
        self._given = descriptors
        super().__init__(engine, numbers, gids, memory_bytes, guard, mtu)

    def _ends(self) -> tuple[int, ...]:
        return self._given


@dataclass(frozen=True, slots=True)
class _Kind:
    """How objects of a kind are handed over to a successor of hcad."""

    name: str
    numbers: Callable[[Objects], Iterable[int]]
    save: Callable[[Objects, int, Luggage], Row]
    load: Callable[[Objects, Row, Luggage], None]


# In this order: who is named comes before who names.
_KINDS: Final = (
    _Kind("domains", lambda o: o._pds, Objects.save_pd, Objects.load_pd),
    _Kind("channels", lambda o: o._channels, Objects.save_channel, Objects.load_channel),
    _Kind("completion_queues", lambda o: o._cqs, Objects.save_cq, Objects.load_cq),
    _Kind("segments", lambda o: o._segments, Objects.save_segment, Objects.load_segment),
    _Kind("regions", lambda o: o._regions, Objects.save_region, Objects.load_region),
    _Kind("windows", lambda o: o._windows, Objects.save_window, Objects.load_window),
    _Kind("address_handles", lambda o: o._paths, Objects.save_ah, Objects.load_ah),
    _Kind("shared_receives", lambda o: o._srqs, Objects.save_srq, Objects.load_srq),
    _Kind("queue_pairs", lambda o: o._qps, Objects.save_qp, Objects.load_qp),
    _Kind("members", lambda o: range(len(o._members)), Objects.save_member, Objects.load_member),
    _Kind("steers", lambda o: o._steers, Objects.save_steer, Objects.load_steer),
)
