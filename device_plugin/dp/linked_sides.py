"""The process that serves the kubelet and the one that stands by, as one ``KubeletSide``.

Both get every call, so that the one that stands by can continue at once. A process that is being
restarted is not waited for as long as the other one answers. A process that is silent is an error:
it may be the one that the kubelet calls.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from device_plugin.dp.kubelet_side import KubeletSide
from device_plugin.dp.offer import Offer
from device_plugin.errors import KubeletSideLost, KubeletSideSilent

Result = TypeVar("Result")


class LinkedSides:
    """Makes each call to all sides. Used by the reconcile thread only."""

    def __init__(self, sides: Sequence[KubeletSide]) -> None:
        self._sides = tuple(sides)

    def update(self, offers: Mapping[str, Offer]) -> None:
        self._call_all(lambda side: side.update(offers))

    def connected_resources(self) -> frozenset[str]:
        """Return the resources whose lists the kubelet follows; those of the active process."""
        return frozenset().union(*self._call_all(lambda side: side.connected_resources()))

    def confirm_listed(self, uuids: Collection[str]) -> None:
        self._call_all(lambda side: side.confirm_listed(uuids))

    def keep_only(self, uuids: Collection[str]) -> None:
        self._call_all(lambda side: side.keep_only(uuids))

    def forbid(self, uuid: str) -> bool:
        """Forbid allocation of a slice in all processes, or in none."""
        if all(self._call_all(lambda side: side.forbid(uuid))):
            return True
        self.allow(uuid)
        return False

    def allow(self, uuid: str) -> None:
        self._call_all(lambda side: side.allow(uuid))

    def has_pending(self) -> bool:
        return any(self._call_all(lambda side: side.has_pending()))

    def all_ours(self, held_uuids: Collection[str]) -> bool:
        """Return whether one process has allocated all slices that pods hold."""
        return any(self._call_all(lambda side: side.all_ours(held_uuids)))

    def report_claim_health(self, healths: Mapping[str, str]) -> None:
        self._call_all(lambda side: side.report_claim_health(healths))

    def _call_all(self, call: Callable[[KubeletSide], Result]) -> list[Result]:
        """Make a call to all sides; return the results of those that answer.

        Raises:
            KubeletSideLost: no side can be reached, or one is silent.
        """
        results: list[Result] = []
        failures: list[KubeletSideLost] = []
        for side in self._sides:
            try:
                results.append(call(side))
            except KubeletSideLost as err:
                failures.append(err)
        silent = (err for err in failures if isinstance(err, KubeletSideSilent))
        if failure := next(silent, None if results else failures[0]):
            raise failure
        return results
