"""Detects another device plugin that serves one of Tessera's resources on this node.

The kubelet accepts every plugin that registers a name. It uses the devices of the plugin that
last sent a list, and for allocations the plugin that last registered. Its pod resources API
shows that list (GetAllocatableResources): ids that are not of this node's GPUs belong to another
plugin.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from device_plugin.agent.reporting.notices import Notices
from device_plugin.errors import PodResourcesError
from device_plugin.inventory.model import slice_uuid_of
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.podresources.client import PodResources
from facts.wording import list_first
from gpu_operator.api.v1alpha1.base import Reason

LOOK_S: Final = 5.0
CONFIRMED_S: Final = 5.0
"""How long foreign ids must be listed before they count, in seconds.

After an instance was destroyed, the kubelet's list is outdated for a moment.
"""
_SHOWN: Final = 2
_ID_LENGTH: Final = 63  # longest id from the kubelet's API that is shown
_log = logging.getLogger(__name__)


class Rivals:
    """Finds other plugins that serve this node's resources. Used by the reconcile thread only."""

    def __init__(
        self, pods: PodResources, notices: Notices, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pods = pods
        self._notices = notices
        self._clock = clock
        self._looked_at = float("-inf")
        self._seen: dict[
            str, float
        ] = {}  # since when foreign devices have been listed, by resource
        self._messages: dict[str, str] = {}
        self._reported: frozenset[str] = frozenset()

    def find_rivals(
        self, resources: Collection[str], ours: Collection[str], objects: Sequence[GpuObject]
    ) -> Mapping[str, str]:
        """Return a message for each resource that a rival serves.

        An event is posted on the node's first GPU when a rival appears or disappears.

        ``resources`` are the resources of this node's slices, ``ours`` the ids of its slices. While
        the kubelet does not answer, the last result is returned.
        """
        now_s = self._clock()
        if now_s - self._looked_at >= LOOK_S:
            self._looked_at = now_s
            try:
                self._evaluate(self._pods.allocatable(), resources, ours, now_s)
            except PodResourcesError as err:
                _log.debug(
                    "cannot read which devices the kubelet lists for this node's resources: %s", err
                )
        self._notify(objects)
        return self._messages

    def _evaluate(
        self,
        listed: Mapping[str, Sequence[str]],
        resources: Collection[str],
        ours: Collection[str],
        now_s: float,
    ) -> None:
        messages, since = {}, {}
        for name in resources:
            own_ids = {
                device_id for device_id in listed.get(name, ()) if slice_uuid_of(device_id) in ours
            }
            strangers = sorted(set(listed.get(name, ())) - own_ids)
            if not strangers:
                continue
            since[name] = self._seen.get(name, now_s)
            if now_s - since[name] >= CONFIRMED_S:
                id_list = list_first([device_id[:_ID_LENGTH] for device_id in strangers], _SHOWN)
                messages[name] = (
                    f"another device plugin serves {name} on this node: the kubelet lists"
                    f" {id_list}, which this node agent does not have;"
                    " remove one of the two, or change resourcePrefix"
                )
        self._seen, self._messages = since, messages

    def _notify(self, objects: Sequence[GpuObject]) -> None:
        if not objects or self._reported == self._messages.keys():
            return
        notified, self._reported = self._reported, frozenset(self._messages)
        first = min(objects, key=lambda one: one.name)  # one event per node, on its first GPU
        for name in sorted(self._reported - notified):
            _log.error("%s", self._messages[name])
            self._post(first, self._messages[name], warning=True)
        for name in sorted(notified - self._reported):
            self._post(first, f"no other device plugin serves {name} any more", warning=False)

    def _post(self, on: GpuObject, message: str, warning: bool) -> None:
        self._notices.post_gpu(on.name, on.object_uid, Reason.RESOURCE_CONFLICT, message, warning)
