"""Notices another device plugin that serves a resource of ours on this node.

The kubelet follows every plugin that registers a name and goes by what came last: the list of
devices of whoever sent one last, allocations at whoever registered last. Its pod resources API
says whose list that is (GetAllocatableResources): ids that are not of this node's GPUs are
somebody else's.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from device_plugin.agent.reporting.notices import Notices
from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import shared_uuid
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.podresources.client import PodResources
from gpu_operator.api.v1alpha1.base import Reason

LOOK_S: Final = 5.0
CONFIRMED_S: Final = 5.0
"""The kubelet's list is older than ours for a moment, after an instance was destroyed."""
_SHOWN: Final = 2
_ID_LENGTH: Final = 63  # of the kubelet's API; what is longer is not worth showing
_log = logging.getLogger(__name__)


class Rivals:
    """Used by the reconcile thread only."""

    def __init__(
        self, pods: PodResources, notices: Notices, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pods = pods
        self._notices = notices
        self._clock = clock
        self._looked_at = float("-inf")
        self._seen: dict[str, float] = {}  # since when strangers are listed, by resource
        self._messages: dict[str, str] = {}
        self._told: frozenset[str] = frozenset()

    def look(
        self, resources: Collection[str], ours: Collection[str], objects: Sequence[GpuObject]
    ) -> Mapping[str, str]:
        """Return, by resource, what to say of a rival; an event tells when that changes.

        ``resources`` are the names that this node offers slices as, ``ours`` the ids of its slices.
        While the kubelet does not answer, what was known stands.
        """
        now = self._clock()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            try:
                self._judge(self._pods.allocatable(), resources, ours, now)
            except PodResourcesError as err:
                _log.debug("who serves our resources is not known: %s", err)
        self._tell(objects)
        return self._messages

    def _judge(
        self,
        listed: Mapping[str, Sequence[str]],
        resources: Collection[str],
        ours: Collection[str],
        now: float,
    ) -> None:
        found, since = {}, {}
        for name in resources:
            known = {one for one in listed.get(name, ()) if shared_uuid(one) in ours}
            strangers = sorted(set(listed.get(name, ())) - known)
            if not strangers:
                continue
            since[name] = self._seen.get(name, now)
            if now - since[name] >= CONFIRMED_S:
                shown = ", ".join(one[:_ID_LENGTH] for one in strangers[:_SHOWN])
                more = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
                found[name] = (
                    f"another device plugin serves {name} on this node: the kubelet lists"
                    f" {shown}{more}, which this node agent does not have;"
                    " remove one of the two, or change resourcePrefix"
                )
        self._seen, self._messages = since, found

    def _tell(self, objects: Sequence[GpuObject]) -> None:
        if not objects or self._told == self._messages.keys():
            return
        told, self._told = self._told, frozenset(self._messages)
        first = min(objects, key=lambda one: one.name)  # one of the node's says it for all
        for name in sorted(self._told - told):
            _log.error("%s", self._messages[name])
            self._post(first, self._messages[name], warning=True)
        for name in sorted(told - self._told):
            self._post(first, f"no other device plugin serves {name} any more", warning=False)

    def _post(self, on: GpuObject, message: str, warning: bool) -> None:
        self._notices.post_gpu(on.name, on.object_uid, Reason.RESOURCE_CONFLICT, message, warning)
