"""All objects of one client: validate the client's requests and pass them to the engine.

A client may be hostile: every number is looked up or bounded before it is used, and all objects
are removed when the client ends. A refusal is an ``OSError``, whose errno the client's verb
returns. Each kind of object has a module of its own.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Final

from hca.binding.engine import Engine
from hca.contract.hca import HCA_MAX_MTU
from hca.daemon.common.handover_state import HandoverState, Row
from hca.daemon.common.numbers import Numbers
from hca.daemon.objects.address_handles import AddressHandles
from hca.daemon.objects.device_regions import DeviceRegions
from hca.daemon.objects.flow_steering import FlowSteering
from hca.daemon.objects.windows import Windows
from hca.daemon.policy.guard import Guard, new_unrestricted_guard
from vgpu_sim.records import dataclass


class Objects(FlowSteering, AddressHandles, DeviceRegions, Windows):
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
        """Add the client to the engine; without a guard no policy applies. Raises OSError.

        ``mtu`` is the ibv_mtu of the client's port.
        """
        super().__init__(engine, numbers, gids, memory_bytes)
        self._mtu = mtu
        self._guard = guard or new_unrestricted_guard(engine, gids)
        self.set_pkeys(self._guard.pkeys())

    @property
    def mtu(self) -> int:
        """Return the ibv_mtu of the client's port."""
        return self._mtu

    def close(self) -> None:
        """Remove the client with all its objects at once."""
        self.end()
        for _ in self.remove_in_steps():
            pass

    def end(self) -> None:
        """Stop serving the client; ``remove_in_steps`` then removes its objects."""
        self._engine.end_client(self._client)

    def remove_in_steps(self) -> Generator[None, None, None]:
        """Remove the client with all its objects, one object in each step.

        Objects may disappear between two steps, for example if an exporter revokes memory. The
        newest object of a kind comes first, because finding it takes constant time.
        """
        while self._qps:
            self.destroy_qp(next(reversed(self._qps)))
            yield
        while self._srqs:
            self.destroy_srq(next(reversed(self._srqs)))
            yield
        while self._paths:
            self.destroy_ah(next(reversed(self._paths)))
            yield
        while self._windows:
            self.destroy_window(next(reversed(self._windows)))
            yield
        while self._regions:
            self.destroy_region(next(reversed(self._regions)))
            yield
        while self._segments:
            self.destroy_segment(next(reversed(self._segments)))
            yield
        while self._cqs:
            self.destroy_cq(next(reversed(self._cqs)))
            yield
        while self._channels:
            self.destroy_channel(next(reversed(self._channels)))
            yield
        while self._pds:
            self.destroy_pd(next(reversed(self._pds)))
            yield
        self.remove_from_engine()

    def save(self, handover_state: HandoverState) -> Row:
        """Return the client's record for a successor of hcad; the engine must be suspended
        (``Engine.suspend``).
        """
        saved = self.save_place(handover_state)
        for kind in _KINDS:
            saved[kind.name] = [kind.save(self, n, handover_state) for n in kind.numbers(self)]
        return saved

    def load(self, saved: Row, handover_state: HandoverState) -> None:
        """Restore the objects that a predecessor saved; the engine must be suspended
        (``Engine.suspend``).

        Raises:
            OSError, ValueError, KeyError, TypeError: the record is incomplete or invalid.
        """
        for kind in _KINDS:
            for row in saved[kind.name]:
                kind.load(self, row, handover_state)
        self.load_place(saved)


class AdoptedObjects(Objects):
    """The objects of a client that a predecessor of this hcad has handed over."""

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
        """Add the client to the engine, with the page and pipes that it had with the predecessor.

        Raises OSError, ValueError.
        """
        self._given = descriptors
        super().__init__(engine, numbers, gids, memory_bytes, guard, mtu)

    def _ends(self) -> tuple[int, ...]:
        return self._given


@dataclass(frozen=True, slots=True)
class _Kind:
    """The methods that save and load one kind of object for a handover."""

    name: str
    numbers: Callable[[Objects], Iterable[int]]
    save: Callable[[Objects, int, HandoverState], Row]
    load: Callable[[Objects, Row, HandoverState], None]


# Objects come before those that refer to them.
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
