"""Access control for contexts: one interface with two implementations.

In a cluster the holder of a slice is a pod, which the node agent reports through
``set_holders``. In standalone use it is any process with gpud's own uid and the token.
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
ADMISSION_WAIT_SECONDS = 10.0  # then a client gets 46, or must repeat its request
_AGENT = "the node's agent (DaemonSet tessera-node-<pool>)"
MAX_UNLISTED = 32  # unlisted clients that wait per slice: strangers must leave room for the holder


class Admission(Protocol):
    """The interface of access control: determines the owner of a requested context."""

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Return the owner of a context that a client requests. If the next list of holders may
        admit the client, wait for that list.

        Raises:
            HelloRefused: the client may not have a context; the error has the CUresult for it.
            RetryLater: gpud does not know yet whether the client may have a context.
        """

    async def is_holder(self, uuid: InstanceUuid, peer: Peer, sender: Peer | None) -> bool:
        """Return whether a client belongs to a holder of an instance, according to the current
        list.
        """


class TokenAdmission:
    """Access control for standalone use: admits processes that have gpud's own uid and the run's
    token.
    """

    def __init__(self, uid: int, token: bytes) -> None:
        self._uid = uid
        self._token = token

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Return an owner without a pod if the client's uid is gpud's and the client has the run's
        token. The tokens are compared in constant time.

        Raises:
            HelloRefused: the uid or the token is wrong.
        """
        del instance
        same_uid = peer.uid == self._uid and (sender is None or sender.uid == self._uid)
        if not hmac.compare_digest(token, self._token) or not same_uid:
            raise HelloRefused(CudaError.NOT_PERMITTED, "wrong uid or token")
        return Owner(PodUid(""), "")

    async def is_holder(self, uuid: InstanceUuid, peer: Peer, sender: Peer | None) -> bool:
        """Return whether the client's uid is gpud's. The token is checked only when a context
        starts.
        """
        del uuid
        return peer.uid == self._uid and (sender is None or sender.uid == self._uid)


class HolderTable:
    """The pods that may use each instance, as last reported by the node agent. Clients can wait for
    a change of this table.
    """

    def __init__(self) -> None:
        self._holders: dict[InstanceUuid, tuple[Holder, ...]] = {}
        self._entitled: dict[InstanceUuid, frozenset[tuple[PodUid, str]]] = {}
        """By instance: the pods and claims of its holders; the claim is empty for each pod's own
        entry."""
        self._complete = False
        self._changed = asyncio.Event()
        self._reports = 0
        self._last_complete = 0
        self._last_of: dict[InstanceUuid, int] = {}

    def of(self, uuid: InstanceUuid) -> tuple[Holder, ...]:
        """Return an instance's holders."""
        return self._holders.get(uuid, ())

    def find(self, uuid: InstanceUuid, pod_uid: PodUid) -> Holder | None:
        """Return the holder of an instance that has this pod UID; None if there is none."""
        return next((holder for holder in self.of(uuid) if holder.pod_uid == pod_uid), None)

    def has_holder(self, uuid: InstanceUuid, owner: Owner) -> bool:
        """Return whether an owner holds an instance: the owner's pod must be a holder. If the owner
        uses a claim's share, the holder must also name that claim.
        """
        return (owner.pod_uid, owner.claim) in self._entitled.get(uuid, frozenset())

    def is_known(self, uuid: InstanceUuid) -> bool:
        """Return whether any list of holders has covered this instance. As long as none has, a pod
        that is not listed for the instance may nevertheless be one of its holders.
        """
        return self._complete or uuid in self._holders

    def last_report(self, uuid: InstanceUuid) -> int:
        """Return the sequence number of the last list of holders that covers an instance; 0 if no
        list has covered it.
        """
        return max(self._last_complete, self._last_of.get(uuid, 0))

    def replace(self, holders: Mapping[InstanceUuid, Iterable[Holder]], complete: bool) -> None:
        """Replace the holders by a new list. If ``complete`` is set, the list covers the whole
        node, else only the instances that it names.
        """
        new = {uuid: tuple(listed) for uuid, listed in holders.items()}
        entitled = {
            uuid: frozenset(
                (holder.pod_uid, claim) for holder in listed for claim in ("", *holder.claims)
            )
            for uuid, listed in new.items()
        }
        self._holders = new if complete else self._holders | new
        self._entitled = entitled if complete else self._entitled | entitled
        self._complete = self._complete or complete
        self._reports += 1
        if complete:
            self._last_complete, self._last_of = self._reports, {}
        else:
            self._last_of |= dict.fromkeys(new, self._reports)
        self.notify()

    def notify(self) -> None:
        """Wake the clients that wait for a change of the holders."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait until ``condition`` returns True; return False on timeout."""
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
    """Access control for clusters: admits a pod that holds the slice, after the contexts of pods
    that no longer hold it have ended.
    """

    def __init__(
        self,
        holders: HolderTable,
        events: EventBus,
        foreign_contexts: Callable[[InstanceUuid], bool],
        pod_of: Callable[[int], PodUid | None] = pod_of_process,
        wait_seconds: float = ADMISSION_WAIT_SECONDS,
        used_bytes: Callable[[InstanceUuid, str], int] = lambda uuid, sharer: 0,
    ) -> None:
        """Create the access control. ``foreign_contexts`` returns whether contexts of pods that are
        no longer listed are still alive.

        ``used_bytes`` returns how much of an instance a sharer has allocated.
        """
        self._used_bytes = used_bytes
        self._holders = holders
        self._events = events
        self._foreign_contexts = foreign_contexts
        self._pod_of = pod_of
        self._wait_seconds = wait_seconds
        self._requested_at: dict[tuple[InstanceUuid, PodUid], float] = {}
        self._unlisted: Counter[InstanceUuid] = Counter()

    async def authorize(
        self, instance: MigInstance, peer: Peer, sender: Peer | None, token: bytes
    ) -> Owner:
        """Return the client's pod as owner. Wait until the pod is listed as a holder of the
        instance, and until the contexts of the instance's previous holders have ended.
        """
        del token
        # Off the loop: the kernel locks these files while it moves processes between control
        # groups.
        pod_uid, senders_pod = await asyncio.to_thread(self._pods_of, peer, sender)
        if pod_uid is None:
            where = f"process {peer.pid} (uid {peer.uid}) is in no pod"
            if peer.pid <= 0:
                where = "the client's PID namespace is not visible: gpud's pod needs hostPID"
            raise HelloRefused(CudaError.NOT_PERMITTED, where)
        # A connected socket keeps the credentials of its connector: the sender's must agree.
        if senders_pod != pod_uid:
            raise HelloRefused(
                CudaError.NOT_PERMITTED,
                f"the hello was not sent by the pod {pod_uid} that connected",
            )

        def is_admitted() -> bool:
            listed = self._holders.find(instance.uuid, pod_uid) is not None
            return listed and not self._foreign_contexts(instance.uuid)

        last_report = self._holders.last_report(instance.uuid)
        with self._count_waiting(instance.uuid, pod_uid):
            in_time = await self._wait(is_admitted, instance.uuid, pod_uid)
        if not in_time:
            listed = self._holders.find(instance.uuid, pod_uid) is not None
            if not listed and self._holders.last_report(instance.uuid) == last_report:
                raise RetryLater(f"{_AGENT} has not reported whether pod {pod_uid} holds the slice")
            reason = "its former holder has not ended" if listed else "pod is not its holder"
            self._events.emit("refused", instance=instance.uuid, pod_uid=pod_uid, reason=reason)
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, reason)
        holder = self._holders.find(instance.uuid, pod_uid)
        namespace = holder.namespace if holder is not None else ""
        return Owner(pod_uid, namespace, self._claim_of(instance, pod_uid))

    def _claim_of(self, instance: MigInstance, pod_uid: PodUid) -> str:
        """Return the claim whose share the pod uses. If the pod has several, this is the claim with
        the most memory left.

        Raises:
            HelloRefused: claims share the instance, and none of the pod's is among them.
        """
        if not instance.shares:
            return ""
        holders = self._holders.of(instance.uuid)
        mine = {claim for holder in holders if holder.pod_uid == pod_uid for claim in holder.claims}
        shares = [share for share in instance.shares if share.owner in mine and share.admit]
        if not shares:
            reason = "no claim of the pod has a share of the slice"
            raise HelloRefused(CudaError.DEVICE_UNAVAILABLE, reason)
        free_bytes = (s.memory_bytes - self._used_bytes(instance.uuid, s.owner) for s in shares)
        return max(zip(free_bytes, shares, strict=True), key=lambda pair: pair[0])[1].owner

    @contextmanager
    def _count_waiting(self, uuid: InstanceUuid, pod_uid: PodUid) -> Iterator[None]:
        """Count an unlisted client while it waits, or refuse the client if too many wait. No event
        is emitted, because many clients may arrive at once.
        """
        if self._holders.find(uuid, pod_uid) is not None:
            yield
            return
        if self._unlisted[uuid] >= MAX_UNLISTED:
            waiting = f"{MAX_UNLISTED} other pods already wait to be listed as holders"
            reason = f"pod is not its holder, and {waiting}"
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
        """Return whether a client's pod is listed as a holder of an instance. The process that
        connected and the process that sent the message must be in that pod. No new list is
        requested.
        """
        pod_uid, senders_pod = await asyncio.to_thread(self._pods_of, peer, sender)
        if pod_uid is None or pod_uid != senders_pod:
            return False
        return self._holders.find(uuid, pod_uid) is not None

    def _pods_of(self, peer: Peer, sender: Peer | None) -> tuple[PodUid | None, PodUid | None]:
        return self._pod_of(peer.pid), None if sender is None else self._pod_of(sender.pid)

    async def _wait(
        self, admitted: Callable[[], bool], uuid: InstanceUuid, pod_uid: PodUid
    ) -> bool:
        """Wait until ``admitted`` returns True, and request the holders repeatedly, because the
        agent may be restarting; return False on timeout.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        while loop.time() < deadline:
            if self._holders.find(uuid, pod_uid) is None:
                self._request_holders(uuid, pod_uid)
            step = min(ASK_AGAIN_SECONDS, deadline - loop.time())
            if await self._holders.wait_until(admitted, step):
                return True
        return admitted()

    def _request_holders(self, uuid: InstanceUuid, pod_uid: PodUid) -> None:
        """Request the holders, at most once per ASK_AGAIN_SECONDS for all clients of a pod
        together.
        """
        now_s = asyncio.get_running_loop().time()
        for key, at in tuple(self._requested_at.items()):
            if now_s - at >= ASK_AGAIN_SECONDS:
                del self._requested_at[key]
        if (uuid, pod_uid) not in self._requested_at:
            self._requested_at[uuid, pod_uid] = now_s
            self._events.emit("holders_wanted", instance=uuid, pod_uid=pod_uid)
