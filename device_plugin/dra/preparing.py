"""Creates the slices of a ResourceClaim when the kubelet prepares it, and destroys them afterwards.

gpud is the arbiter: it creates an instance only at a free place, so that a slice of a layout,
the device plugin or another claim is never given twice. It stores the claim's UID with each
instance that it creates for a claim (``MigInstance.owner``, ``shares``): this is the driver's
only checkpoint. A device for several claims is created for the first of them, and shared by the
others.

A kubelet whose Prepare fails tries again only after more than a minute. So Prepare waits for
conflicting slices: usually they are about to be destroyed, because their pod was deleted before
this one was created.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from device_plugin.cdi import claims as cdi
from device_plugin.cdi.spec import Mount
from device_plugin.dra import blockers
from device_plugin.errors import AgentError, ClaimError, ClusterError, GpudError, GpudUnreachable
from device_plugin.inventory.claims import ClaimRef, device_id, is_claim_uid
from device_plugin.inventory.model import CLAIM, Gpu, Inventory, MigSlice
from device_plugin.kube.claims import Allocated, Claim
from facts.health import is_in_service
from gpu_operator.api import claim_devices as names
from mig.errors import MigError
from mig.geometry import Instance
from vgpu_sim.records import dataclass

WAIT_S = 30.0  # the kubelet allows 45 s for a call
PAUSE_S = 0.2
_log = logging.getLogger(__name__)


class Node(Protocol):
    """The part of gpud's client that the preparer uses (``backends.gpud.Gpud``)."""

    def inventory(self) -> Inventory: ...
    def create_instance(
        self,
        gpu_uuid: str,
        profile: str,
        start: int,
        owner: str = "",
        owner_name: str = "",
        *,
        memory_bytes: int | None = None,
    ) -> None: ...
    def destroy_instance(self, uuid: str, owner: str = "", evict: bool = False) -> None: ...


class Claims(Protocol):
    """The part of the API server's client that the preparer uses (``kube.claims.ClaimsKube``)."""

    def claim(self, namespace: str, name: str) -> Claim | None: ...


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared device of a claim, and the CDI names that give the device to the claim's
    containers.
    """

    allocated: Allocated
    cdi_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an allocated device on a GPU of this node."""

    allocated: Allocated
    gpu: Gpu
    instance: Instance


@dataclass(slots=True)
class _Call:
    """The state of one call that prepares a claim.

    ``before`` are the slices that the claim already had. It is None before they are read; until
    then the call has created nothing.
    """

    ref: ClaimRef
    before: frozenset[str] | None = None


class Preparer:
    """Prepares and unprepares claims. Several threads may call it."""

    def __init__(
        self,
        node: Node,
        claims: Claims,
        pool: str,
        cdi_dir: Path,
        libraries_dir: str,
        programs: Sequence[Mount] = (),
        notify: Callable[[ClaimRef, str], None] = lambda claim, message: None,
        changed: Callable[[], None] = lambda: None,
        wait_s: float = WAIT_S,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Initialize; ``pool`` is the node's name.

        ``notify`` reports to the claim's owner what the claim waits for; ``changed`` is called
        after slices were created or destroyed.
        """
        self._node = node
        self._claims = claims
        self._pool = pool
        self._cdi_dir = cdi_dir
        self._libraries_dir = libraries_dir
        self._programs = tuple(programs)
        self._notify = notify
        self._changed = changed
        self._wait_s = wait_s
        self._pause = pause
        self._lock = threading.Lock()  # guards the files
        self._turns = threading.Condition()  # guards the next two
        self._busy: set[str] = set()
        self._unwanted: set[str] = set()

    def refresh_files(self) -> None:
        """Update the CDI files of claims that an earlier driver prepared. Raises OSError."""
        with self._lock:
            cdi.refresh(self._cdi_dir, self._libraries_dir, self._programs)

    def prepare(self, ref: ClaimRef) -> tuple[Prepared, ...]:
        """Create the claim's allocated devices unless they exist; return them with their CDI names.

        Raises:
            ClaimError: the claim cannot be prepared, for the reason in the message. Slices that
            this call created are destroyed.
        """
        if not is_claim_uid(ref.uid):
            raise ClaimError(f"not a claim's UID: {ref.uid[:64]!r}")
        with self._turn(ref.uid):
            return self._prepare(_Call(ref))

    def _prepare(self, call: _Call) -> tuple[Prepared, ...]:
        end = time.monotonic() + self._wait_s
        reported = ""
        while True:
            try:
                return self._attempt(call)
            except _Blocked as err:
                problem: AgentError = err
                if str(err) != reported:
                    reported = str(err)
                    self._notify(call.ref, reported)
            except (ClusterError, GpudUnreachable) as err:
                problem = err
            except (GpudError, ClaimError, OSError) as err:
                if not isinstance(err, GpudError) or err.code != "internal":
                    self._take_back(call)
                    raise ClaimError(str(err)) from err
                problem = err  # gpud's own failure, such as a busy control group
            with self._turns:
                unwanted = call.ref.uid in self._unwanted
            if unwanted or time.monotonic() >= end:
                self._take_back(call)
                why = (
                    "it was unprepared meanwhile"
                    if unwanted
                    else f"gave up after {self._wait_s:.0f} s"
                )
                raise ClaimError(f"{why}: {problem}") from problem
            self._pause(PAUSE_S)

    def unprepare(self, uid: str) -> None:
        """Destroy the slices of a claim; an unknown claim is not an error.

        Raises:
            ClaimError: gpud refuses to destroy a slice, or is away.
        """
        if not is_claim_uid(uid):
            raise ClaimError(f"not a claim's UID: {uid[:64]!r}")
        with self._turns:
            self._unwanted.add(uid)  # a Prepare that waits for this claim gives up
        try:
            with self._turn(uid):
                self._unprepare(uid)
        finally:
            with self._turns:
                self._unwanted.discard(uid)

    def _unprepare(self, uid: str) -> None:
        end = time.monotonic() + self._wait_s
        while True:
            try:
                self.release(uid)
            except (GpudError, GpudUnreachable) as err:
                if time.monotonic() >= end:
                    raise ClaimError(str(err)) from err
            except OSError as err:
                raise ClaimError(str(err)) from err
            else:
                return
            self._pause(PAUSE_S)

    @contextmanager
    def _turn(self, uid: str) -> Iterator[None]:
        """Serialize the calls for one claim."""
        with self._turns:
            self._turns.wait_for(lambda: uid not in self._busy)
            self._busy.add(uid)
        try:
            yield
        finally:
            with self._turns:
                self._busy.discard(uid)
                self._turns.notify_all()

    def release(self, uid: str) -> None:
        """Destroy the slices of a claim, without retries.

        Raises GpudError, GpudUnreachable, OSError.
        """
        owner = CLAIM + uid
        own = [s.uuid for s in self._node.inventory().slices() if s.is_of(owner)]
        self._destroy(owner, own)
        with self._lock:
            cdi.remove(self._cdi_dir, uid)

    def _attempt(self, call: _Call) -> tuple[Prepared, ...]:
        ref, owner = call.ref, CLAIM + call.ref.uid
        claim = self._claims.claim(ref.namespace, ref.name)
        if claim is None or claim.ref.uid != ref.uid:
            raise ClaimError(f"claim {ref} with UID {ref.uid} does not exist")
        if claim.allocated is None:
            raise ClaimError(f"claim {ref} is not allocated")
        _check_configs(claim)
        inventory = self._node.inventory()
        if call.before is None:
            call.before = frozenset(s.uuid for s in inventory.slices() if s.is_of(owner))
        own = [allocated for allocated in claim.allocated if allocated.driver == names.DRIVER]
        places = [self._place(inventory, allocated) for allocated in own]
        if self._make(ref, [p for p in places if not p.allocated.admin_access]):
            inventory = self._node.inventory()
        placed_slices = [(place, _find_slices(inventory, place, owner)) for place in places]
        for place, slices in placed_slices:
            _check_health(place, slices)
        with self._lock:
            cdi.write(
                self._cdi_dir,
                ref,
                dict.fromkeys(s for _, slices in placed_slices for s in slices),
                self._libraries_dir,
                self._programs,
            )
        return tuple(
            Prepared(place.allocated, tuple(device_id(ref.uid, s.uuid) for s in slices))
            for place, slices in placed_slices
        )

    def _place(self, inventory: Inventory, allocated: Allocated) -> _Place:
        if allocated.pool != self._pool:
            raise ClaimError(
                f"{allocated.device} belongs to pool {allocated.pool},"
                f" but this node's pool is {self._pool}"
            )
        try:
            device = names.parse(allocated.device)
            gpu = next((g for g in inventory.gpus if g.index == device.gpu_index), None)
            if gpu is None:
                raise ClaimError(
                    f"{allocated.device}: this node has no GPU {device.gpu_index} (any more)"
                )
            profile = gpu.board.whole if device.profile is None else None
            profile = profile or gpu.board.profile(device.profile or "")
            instance = Instance(profile, device.start or 0)
        except (ValueError, MigError) as err:
            raise ClaimError(f"{allocated.device}: {err}") from err
        if allocated.share_id and not allocated.memory_bytes:
            raise ClaimError(
                f"{allocated.device} was allocated as a share,"
                f" but its allocation lacks the capacity {names.MEMORY!r}"
            )
        return _Place(allocated, gpu, instance)

    def _make(self, ref: ClaimRef, places: Iterable[_Place]) -> bool:
        """Create the missing slices of a claim; return whether there were any.

        Slices of another size, from an earlier allocation of the claim, are destroyed first.
        Raises _Blocked, GpudError.
        """
        owner = CLAIM + ref.uid
        missing = []
        for place, share in _by_instance(places):
            own = _own(place.gpu, place.instance, owner)
            if not own or any(_claimed_bytes(s, owner) != share for s in own):
                self._destroy(owner, [s.uuid for s in own])
                missing.append((place, share))
        for place, share in missing:
            gpu, instance = place.gpu, place.instance
            if blocking_slices := blockers.find_blockers(gpu, instance, share):
                owners = "; ".join(map(blockers.describe_owner, blocking_slices))
                raise _Blocked(f"{place.allocated.device}: {owners}")
            try:
                self._node.create_instance(
                    gpu.uuid,
                    profile=instance.profile.name,
                    start=instance.start,
                    owner=owner,
                    owner_name=str(ref),
                    memory_bytes=share,
                )
            except GpudError as err:
                # another caller took the place: find its owner in the next attempt
                if err.code == "conflict":
                    raise _Blocked(f"{place.allocated.device}: {err.message}") from err
                raise
            finally:
                self._changed()
            memory_text = "all" if share is None else f"{share} bytes"
            _log.info("claim %s: got %s of %s on GPU %d", ref, memory_text, instance, gpu.index)
        return bool(missing)

    def _take_back(self, call: _Call) -> None:
        if call.before is None:
            return
        owner = CLAIM + call.ref.uid
        try:
            own = [s.uuid for s in self._node.inventory().slices() if s.is_of(owner)]
            self._destroy(owner, [uuid for uuid in own if uuid not in call.before])
        except (GpudError, GpudUnreachable) as err:  # the agent finds the leftover (agent.orphans)
            _log.warning("claim %s: not taken back yet: %s", call.ref, err)

    def _destroy(self, owner: str, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            try:
                self._node.destroy_instance(uuid, owner, evict=True)
            except GpudError as err:
                if err.code != "not_found":
                    raise
            finally:
                self._changed()
            _log.info("%s: destroyed %s", owner, uuid)


class _Blocked(ClaimError):
    """A slice prevents the creation of another one; another caller may soon destroy it."""


def _check_configs(claim: Claim) -> None:
    """Refuse opaque parameters for this driver, which supports none and must not ignore them.

    Raises ClaimError.
    """
    for config in claim.configs:
        if config.driver == names.DRIVER:
            kind = f" {config.kind}" if config.kind else ""
            raise ClaimError(
                f"claim {claim.ref} or its class has opaque parameters{kind} for {names.DRIVER},"
                " which supports no parameters: remove them; to share a device between pods, share"
                " its claim"
            )


def _by_instance(places: Iterable[_Place]) -> list[tuple[_Place, int | None]]:
    """Return each instance once, with the bytes of it that a claim has; None if it has all alone.

    Several requests of a claim can have shares of one device: the claim then has their sum.
    """
    places_by_instance: dict[tuple[str, Instance], tuple[_Place, int | None]] = {}
    for place in places:
        key = place.gpu.uuid, place.instance
        _, earlier_bytes = places_by_instance.get(key, (place, 0))
        share = place.allocated.memory_bytes if place.allocated.share_id else None
        total = None if share is None or earlier_bytes is None else earlier_bytes + share
        if total is not None and total >= place.instance.profile.memory_bytes:
            total = None
        places_by_instance[key] = place, total
    return list(places_by_instance.values())


def _own(gpu: Gpu, instance: Instance, owner: str) -> tuple[MigSlice, ...]:
    return tuple(s for s in gpu.slices if s.is_of(owner) and s.instance == instance)


def _claimed_bytes(s: MigSlice, owner: str) -> int | None:
    """Return how many bytes of a slice a claim has; None if it has the whole slice alone."""
    return next(
        (claim_share.memory_bytes for claim_share in s.shares if claim_share.owner == owner), None
    )


def _find_slices(inventory: Inventory, place: _Place, owner: str) -> tuple[MigSlice, ...]:
    """Return the slices of a device; with admin access, all slices at its place.

    Raises:
        _Blocked: a slice that this call created no longer exists.
    """
    gpu = next((g for g in inventory.gpus if g.uuid == place.gpu.uuid), place.gpu)
    if place.allocated.admin_access:
        placement = place.instance.placement
        return tuple(s for s in gpu.slices if s.instance.placement.overlaps(placement))
    own = _own(gpu, place.instance, owner)
    if not own:
        raise _Blocked(f"{place.allocated.device}: its slice no longer exists")
    return own


def _check_health(place: _Place, slices: Sequence[MigSlice]) -> None:
    """Refuse unhealthy devices, except for claims that only monitor. Raises ClaimError."""
    if place.allocated.admin_access:
        return
    if not is_in_service(place.gpu.health):
        raise ClaimError(f"{place.allocated.device}: GPU {place.gpu.index} is {place.gpu.health}")
    sick = next((s for s in slices if not is_in_service(s.health)), None)
    if sick is not None:
        raise ClaimError(f"{place.allocated.device} is {sick.health}")
