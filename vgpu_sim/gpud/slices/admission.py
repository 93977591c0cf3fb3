"""Who may have a context: one interface, two answers.

In a cluster the holder of a slice is a pod, known from podresources by way of ``set_holders``. In
standalone use it is whoever has gpud's own uid and the token.
"""

import asyncio
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from vgpu_sim.gpud.errors import HelloRefused, RetryLater
from vgpu_sim.gpud.events import EventBus
from vgpu_sim.gpud.model import Holder, InstanceUuid, MigInstance, Owner
from vgpu_sim.hal.compute.cuda import CudaError
from vgpu_sim.system.peers import Peer, PodUid, pod_of_process

ASK_AGAIN_SECONDS = 2.0
ADMISSION_WAIT_SECONDS = 10.0  # then a client gets 46, or has to ask again
_AGENT = "the node's agent (DaemonSet tessera-node-<pool>)"
MAX_UNLISTED = 32  # clients of a slice that wait to be listed: strangers leave its holder room


class Admission(Protocol):
    """Decides on behalf of whom a context would run."""

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Return the owner, waiting for it to become known if that can help.

        Raises:
            HelloRefused: with the CUresult for the client.
            RetryLater: whether the client may have a context is not known yet.
        """

    async def is_holder(self, uuid: InstanceUuid, peer: Peer, sender: Peer | None) -> bool:
        """Tell whether a client is of somebody who may use an instance, as far as known now."""


class TokenAdmission:
    """Standalone use: gpud's own uid and the run's token."""

    def __init__(self, uid: int, token: bytes) -> None:
        self._uid = uid
        self._token = token

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Compare uid and token (in constant time)."""
        del instance
        same_uid = peer.uid == self._uid and (sender is None or sender.uid == self._uid)
        if not hmac.compare_digest(token, self._token) or not same_uid:
            raise HelloRefused(CudaError.NOT_PERMITTED, "wrong uid or token")
        return Owner(PodUid(""), "")

    async def is_holder(self, uuid: InstanceUuid, peer: Peer, sender: Peer | None) -> bool:
        """Compare uids: a token is asked for where a context starts."""
        del uuid
        return peer.uid == self._uid and (sender is None or sender.uid == self._uid)


class HolderTable:
    """Which pods may use which instance, as last told. ``changed`` wakes those who wait."""

    def __init__(self) -> None:
        self._holders: dict[InstanceUuid, tuple[Holder, ...]] = {}
        self._complete = False
        self._changed = asyncio.Event()
        self._reports = 0
        self._last_complete = 0
        self._last_of: dict[InstanceUuid, int] = {}

    def of(self, uuid: InstanceUuid) -> tuple[Holder, ...]:
        """Return an instance's holders."""
        return self._holders.get(uuid, ())

    def find(self, uuid: InstanceUuid, pod_uid: PodUid) -> Holder | None:
        """Return the holder with this pod UID."""
        return next((one for one in self.of(uuid) if one.pod_uid == pod_uid), None)

    def lists(self, uuid: InstanceUuid, owner: Owner) -> bool:
        """Return whether somebody is a holder: by the claim whose share is used, if one is."""
        return any(
            one.pod_uid == owner.pod_uid and (not owner.claim or owner.claim in one.claims)
            for one in self.of(uuid)
        )

    def known(self, uuid: InstanceUuid) -> bool:
        """Return whether this instance was ever spoken of: only then absence means something."""
        return self._complete or uuid in self._holders

    def last_report(self, uuid: InstanceUuid) -> int:
        """Return the number of the last list that speaks of an instance; 0: there was none."""
        return max(self._last_complete, self._last_of.get(uuid, 0))

    def replace(self, holders: Mapping[InstanceUuid, Iterable[Holder]], complete: bool) -> None:
        """Take a new list: of the whole node when complete, else of the instances it names."""
        new = {uuid: tuple(listed) for uuid, listed in holders.items()}
        self._holders = new if complete else self._holders | new
        self._complete = self._complete or complete
        self._reports += 1
        if complete:
            self._last_complete, self._last_of = self._reports, {}
        else:
            self._last_of |= dict.fromkeys(new, self._reports)
        self.notify()

    def notify(self) -> None:
        """Let those who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait until the condition holds; False when time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while not condition():
            changed = self._changed
            try:
                async with asyncio.timeout_at(deadline):
                    await changed.wait()
            except TimeoutError:
                return condition()
        return True


class PodAdmission:
    """Cluster use: the pod that connected, listed for the slice, and nobody else still there."""

    def __init__(
        self,
        holders: HolderTable,
        events: EventBus,
        foreign_contexts: Callable[[InstanceUuid], bool],
        pod_of: Callable[[int], PodUid | None] = pod_of_process,
        wait_seconds: float = ADMISSION_WAIT_SECONDS,
        used_bytes: Callable[[InstanceUuid, str], int] = lambda uuid, sharer: 0,
    ) -> None:
        """``foreign_contexts`` tells whether contexts of pods no longer listed still live.

        ``used_bytes`` says how much of an instance a sharer has allocated.
        """
        self._used_bytes = used_bytes
        self._holders = holders
        self._events = events
        self._foreign_contexts = foreign_contexts
        self._pod_of = pod_of
        self._wait_seconds = wait_seconds
        self._asked: dict[tuple[InstanceUuid, PodUid], float] = {}
        self._unlisted: Counter[InstanceUuid] = Counter()

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Find the pod and wait until it is listed and its predecessor is gone."""
        del token
        # Off the loop: whoever moves processes between control groups holds these files' lock.
        pod_uid, senders_pod = await asyncio.to_thread(self._pods_of, peer, sender)
        if pod_uid is None:
            where = f"process {peer.pid} (uid {peer.uid}) is in no pod"
            if peer.pid <= 0:
                where = "the client's PID namespace is not visible: gpud's pod needs hostPID"
            raise HelloRefused(CudaError.NOT_PERMITTED, where)
        # A connected socket keeps the credentials of whoever connected it: the sender's must agree.
        if senders_pod != pod_uid:
            raise HelloRefused(
                CudaError.NOT_PERMITTED, f"the hello was not sent by pod {pod_uid} that connected"
            )

        def admitted() -> bool:
            listed = self._holders.find(instance.uuid, pod_uid) is not None
            return listed and not self._foreign_contexts(instance.uuid)

        last_report = self._holders.last_report(instance.uuid)
        with self._counted(instance.uuid, pod_uid):
            in_time = await self._wait(admitted, instance.uuid, pod_uid)
        if not in_time:
            listed = self._holders.find(instance.uuid, pod_uid) is not None
            if not listed and self._holders.last_report(instance.uuid) == last_report:
                raise RetryLater(f"{_AGENT} has not reported whether {pod_uid} is its holder")
            reason = "its former holder has not ended" if listed else "pod is not its holder"
            self._events.emit("refused", instance=instance.uuid, pod_uid=pod_uid, reason=reason)
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, reason)
        holder = self._holders.find(instance.uuid, pod_uid)
        namespace = holder.namespace if holder is not None else ""
        return Owner(pod_uid, namespace, self._claim_of(instance, pod_uid))

    def _claim_of(self, instance: MigInstance, pod_uid: PodUid) -> str:
        """Return by which claim's share a pod is here: of several the one with most left.

        Raises:
            HelloRefused: claims share the instance, and none of the pod's is among them.
        """
        if not instance.shares:
            return ""
        holders = self._holders.of(instance.uuid)
        mine = {claim for one in holders if one.pod_uid == pod_uid for claim in one.claims}
        shares = [one for one in instance.shares if one.owner in mine and one.admit]
        if not shares:
            reason = "no claim of the pod has a share of the slice"
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, reason)
        left = (s.memory_bytes - self._used_bytes(instance.uuid, s.owner) for s in shares)
        return max(zip(left, shares, strict=True), key=lambda one: one[0])[1].owner

    @contextmanager
    def _counted(self, uuid: InstanceUuid, pod_uid: PodUid) -> Iterator[None]:
        """Count who begins to wait unlisted, or refuse it. Of that there is no event: a storm."""
        if self._holders.find(uuid, pod_uid) is not None:
            yield
            return
        if self._unlisted[uuid] >= MAX_UNLISTED:
            reason = f"pod is not its holder, and {MAX_UNLISTED} others wait to be"
            if not self._holders.last_report(uuid):
                raise RetryLater(reason)
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, reason)
        self._unlisted[uuid] += 1
        try:
            yield
        finally:
            self._unlisted[uuid] -= 1
            if not self._unlisted[uuid]:
                del self._unlisted[uuid]

    async def is_holder(self, uuid: InstanceUuid, peer: Peer, sender: Peer | None) -> bool:
        """Compare the pods of who connected and who sent with those listed; asks nobody."""
        pod_uid, senders_pod = await asyncio.to_thread(self._pods_of, peer, sender)
        if pod_uid is None or pod_uid != senders_pod:
            return False
        return self._holders.find(uuid, pod_uid) is not None

    def _pods_of(self, peer: Peer, sender: Peer | None) -> tuple[PodUid | None, PodUid | None]:
        return self._pod_of(peer.pid), None if sender is None else self._pod_of(sender.pid)

    async def _wait(
        self, admitted: Callable[[], bool], uuid: InstanceUuid, pod_uid: PodUid
    ) -> bool:
        """Wait, and keep asking for holders: whoever answers may be restarting just now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        while loop.time() < deadline:
            if self._holders.find(uuid, pod_uid) is None:
                self._ask_for(uuid, pod_uid)
            step = min(ASK_AGAIN_SECONDS, deadline - loop.time())
            if await self._holders.wait_until(admitted, step):
                return True
        return admitted()

    def _ask_for(self, uuid: InstanceUuid, pod_uid: PodUid) -> None:
        """Ask, at most once per ASK_AGAIN_SECONDS for all clients of a pod together."""
        now = asyncio.get_running_loop().time()
        for key, asked in tuple(self._asked.items()):
            if now - asked >= ASK_AGAIN_SECONDS:
                del self._asked[key]
        if (uuid, pod_uid) not in self._asked:
            self._asked[uuid, pod_uid] = now
            self._events.emit("holders_wanted", instance=uuid, pod_uid=pod_uid)
