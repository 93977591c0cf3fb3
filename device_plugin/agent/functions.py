"""Reports to hcad which pod holds which HCA function, and the pod's addresses.

The kubelet reports the holder of a function, the API server the addresses of that pod. hcad
opens a function only after both are known, and compares the addresses with those in the pod's
own network namespace. This runs in its own thread, because a starting pod waits for it and
because problems with hcad must not delay the GPUs.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Never

from device_plugin.agent.holders import Holders
from device_plugin.agent.holding import View
from device_plugin.agent.reporting.notices import Notices
from device_plugin.backends.hcad import FunctionState, Hcad
from device_plugin.errors import AgentError, ClusterError, DaemonUnreachable
from device_plugin.inventory.functions import HcaFunction
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.client import Kube
from device_plugin.kube.pod_facts import PodFacts
from gpu_operator.api.v1alpha1.base import Reason

_RESYNC_S = 5.0
_UNSETTLED_S = 0.25  # a program that was just started waits two seconds at most
_EXPECTING_S = 15.0  # from Allocate until the kubelet has made the pod's folder
_EXPECTED_AGAIN_S = 0.5  # a program that requests its function meanwhile waits two seconds at most
_HCAD_LOST_S = 20.0  # longer than a restart of hcad takes
_ASK_AGAIN_S = (0.25, 2.0)  # between two queries about a pod: at first, and after a while
_FACTS_S = 30.0  # a pod whose sandbox was created again has other addresses
_log = logging.getLogger(__name__)


class FunctionBinder:
    """Binds HCA functions to the pods that hold them.

    Used by its own thread, except for ``healthy``, ``wake`` and ``expect_allocation``.
    """

    def __init__(
        self,
        functions: Sequence[HcaFunction],
        rate_gbps: int,
        hcad: Hcad,
        holders: Holders,
        kube: Kube,
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._functions = tuple(functions)
        self._rate_gbps = rate_gbps
        self._hcad = hcad
        self._holders = holders
        self._kube = kube
        self._notices = notices
        self._clock = clock
        self._wanted = threading.Event()
        self._seen_at = clock()
        self._expecting_until = float("-inf")
        self._known_at: dict[str, float] = {}
        self._said: dict[
            str, PodFacts | None
        ] = {}  # facts read in this pass: a pod may have two functions
        self._queried_at: dict[
            str, tuple[float, float]
        ] = {}  # times of the first and the last query
        self._reported: set[str] = set()

    @property
    def functions(self) -> tuple[HcaFunction, ...]:
        """Return the functions that this node has."""
        return self._functions

    @property
    def healthy(self) -> bool:
        """Return whether hcad has answered recently."""
        return self._clock() - self._seen_at < _HCAD_LOST_S

    def wake(self) -> None:
        """Start a pass over the holders now. Any thread may call this."""
        self._wanted.set()

    def expect_allocation(self) -> None:
        """Query the kubelet repeatedly for a while, because the kubelet is allocating a function.

        Any thread may call this.

        A pod may be deleted and created again under the same name. The kubelet lists the new pod
        at once, but with the old pod's UID until the new pod's log directory exists. Only that
        directory shows that the holder is a different pod, and repeated queries detect it.
        """
        self._expecting_until = self._clock() + _EXPECTING_S
        self._wanted.set()

    def run(self) -> Never:
        """Run passes forever: one at every wake-up, and one every few seconds."""
        while True:
            settled = self.attempt()
            self._wanted.wait(self._pause_s(settled))
            self._wanted.clear()

    def attempt(self) -> bool:
        """Make one pass, and log errors instead of raising them; the next pass repeats what failed.

        Return whether all work is done.
        """
        try:
            return self.reconcile()
        except DaemonUnreachable as err:
            _log.info("will retry: %s", err)
            time.sleep(0.2)
        except AgentError as err:
            _log.warning("will retry: %s", err)
            time.sleep(0.2)
        return False

    def reconcile(self) -> bool:
        """Add missing functions to hcad, bind held functions to their pods, and release the others.

        All functions are added first: hcad divides its resources among the functions that it
        offers.

        Return whether all held functions are bound.

        Raises:
            HcadError, HcadUnreachable, ClusterError: the pass ended early; the next pass does the
                rest.
        """
        self._said.clear()
        states_by_id = self._hcad.functions()
        self._seen_at = self._clock()
        view = self._view()
        holders_by_id = {
            function.id: view.holders.get(function.id, ()) for function in self._functions
        }
        self._forget({pod.uid for pods in holders_by_id.values() for pod in pods})
        for function in self._functions:
            if function.id not in states_by_id:
                self._hcad.add(function.id, self._rate_gbps)
        settled = True
        for function in self._functions:
            state = states_by_id.get(function.id, FunctionState(function.id, "", (), ""))
            if holders_by_id[function.id]:
                pods = [pod for pod in holders_by_id[function.id] if pod.uid]
                settled &= bool(pods) and self._bind(state, pods[-1])
            elif state.pod_uid and view.complete:  # otherwise the kubelet has just started
                self._hcad.release(function.id)
        return settled

    @property
    def _expecting(self) -> bool:
        return self._clock() < self._expecting_until

    def _pause_s(self, settled: bool) -> float:
        if not settled:
            return _UNSETTLED_S
        return _EXPECTED_AGAIN_S if self._expecting else _RESYNC_S

    def _view(self) -> View:
        """Return the holders; list pods again if one had no log directory yet."""
        if self._expecting and self._holders.age_s() >= _UNSETTLED_S:
            return self._holders.refresh()
        view = self._holders.last_view()
        own_holders = [
            pod for function in self._functions for pod in view.holders.get(function.id, ())
        ]
        if all(pod.uid for pod in own_holders) or self._holders.age_s() < _UNSETTLED_S:
            return view
        return self._holders.refresh()

    def _bind(self, state: FunctionState, pod: HolderPod) -> bool:
        """Bind a function to its holder unless it is bound already.

        Return whether the binding is final.
        """
        bound = state.pod_uid == pod.uid
        age_s = self._clock() - self._known_at.get(pod.uid, float("-inf"))
        if bound and age_s < _FACTS_S:
            return True
        if state.pod_uid and state.pod_uid != pod.uid:
            self._hcad.release(state.name)
        if pod.uid not in self._said:
            self._said[pod.uid] = self._ask(pod)
        facts = self._said[pod.uid]
        if facts is None:
            return bound and bool(self._known_at.get(pod.uid))
        refused = _refusal(facts)
        if refused and pod.uid not in self._reported:
            self._reported.add(pod.uid)
            self._notices.post(pod, Reason.REFUSED, refused)
        required_binding = (pod.uid, facts.addresses if not refused else (), refused)
        if required_binding != (state.pod_uid, state.addresses, state.refused):
            self._hcad.bind(state.name, pod, required_binding[1], refused)
            _log.info("%s: bound to %s/%s", state.name, pod.namespace, pod.name)
        return True

    def _ask(self, pod: HolderPod) -> PodFacts | None:
        """Return the API server's facts about exactly this pod, once it has an address.

        Earlier answers do not count: an address that a pod has lost may belong to another pod.
        """
        now_s = self._clock()
        first, last = self._queried_at.get(pod.uid, (now_s, float("-inf")))
        min_pause_s, max_pause_s = _ASK_AGAIN_S
        if now_s - last < min(max(min_pause_s, (now_s - first) / 10), max_pause_s):
            return None
        self._queried_at[pod.uid] = (first, now_s)
        try:
            facts = self._kube.pod(pod.namespace, pod.name)
        except ClusterError as err:
            _log.warning("pod %s/%s: %s", pod.namespace, pod.name, err)
            return None
        if facts is None or facts.uid != pod.uid:
            return None  # deleted, or another pod of that name: the kubelet's next List shows it
        if not facts.addresses and not facts.host_network:
            return None
        self._known_at[pod.uid] = now_s
        return facts

    def _forget(self, uids: set[str]) -> None:
        self._known_at = {uid: at for uid, at in self._known_at.items() if uid in uids}
        self._queried_at = {uid: at for uid, at in self._queried_at.items() if uid in uids}
        self._reported &= uids


def _refusal(facts: PodFacts) -> str:
    if facts.host_network:
        return (
            "an HCA function needs a pod with a network namespace of its own:"
            " spec.hostNetwork pods are refused"
        )
    return ""
