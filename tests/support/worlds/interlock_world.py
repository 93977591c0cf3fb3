"""A node for whose GPUs layouts, the device plugin and claims compete, with crashes.

gpud's inventory with its journal, the agent's loop, the kubelet's side and the driver of claims
are real; pods, scheduler, kubelet and API server are simulated here. There is one thread: at
every call to gpud, another actor may run first, and the caller may crash before or after the
call takes effect.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from device_plugin.agent import listing
from device_plugin.agent.holders import Holders
from device_plugin.agent.loop import Agent
from device_plugin.agent.orphans import Orphans
from device_plugin.config import Settings
from device_plugin.dp.allocations import Allocations
from device_plugin.dp.offer import HEALTHY, Offer
from device_plugin.dra.preparing import Prepared, Preparer
from device_plugin.errors import AgentError, ClaimError, GpudError, GpudUnreachable
from device_plugin.inventory import model
from device_plugin.inventory.claims import ClaimRef, slice_of
from device_plugin.inventory.model import HolderPod
from device_plugin.kube.claims import Allocated, Claim
from device_plugin.kube.gpu_object import GpuObject
from device_plugin.podresources.client import Listing
from gpu_operator.api import claim_devices as names
from gpu_operator.api.v1alpha1.gpu import GPUSpec, GPUStatus, PlacedInstance
from mig import geometry, planner
from vgpu_sim.gpud.devices.inventory import Inventory
from vgpu_sim.gpud.model import Gpu, GpuUuid, InstanceUuid, MigInstance
from vgpu_sim.system.admin_socket import errors

NODE, OWN_POD = "node-1", "agent"
BOARD = geometry.board("a30")  # only four units, so that collisions are frequent
GIB = 1 << 30
PLACES = [
    geometry.Instance(profile, start, inner)
    for profile in (*BOARD.profiles, BOARD.whole)
    for start in profile.starts
    for inner in (
        None,
        *(
            geometry.ComputePlace(one, at)
            for one in profile.ci_profiles
            for at in one.starts
            if not one.is_full
        ),
    )
]
UUIDS = tuple(GpuUuid(f"GPU-{i}1111111-1111-4111-8111-111111111111") for i in range(2))


class Crash(BaseException):
    """The process that made the call has crashed."""


@dataclass
class PluginPod:
    """A pod that the kubelet has admitted with a slice; ``listed``: in the kubelet's pod
    resources.
    """

    uuid: str
    listed: bool = False


@dataclass
class WorldClaim:
    """A ResourceClaim; ``prepared``: devices, as far as the kubelet knows; ``listed``: in its pod
    resources.

    ``memory_bytes`` is its share of each device; 0 if it was given whole devices.
    """

    ref: ClaimRef
    devices: tuple[str, ...]
    memory_bytes: int = 0
    exists: bool = True
    prepared: tuple[Prepared, ...] = ()
    listed: bool = False
    forgotten: bool = False  # by the kubelet: no actor will unprepare it


@dataclass
class World:
    """The simulated node; ``random`` makes all choices."""

    directory: Path
    random: random.Random
    now: float = 1000.0
    pods: dict[str, PluginPod] = field(default_factory=dict)
    claims: dict[str, WorldClaim] = field(default_factory=dict)
    wanted: dict[str, list[geometry.Instance]] = field(default_factory=dict)
    generation: int = 0
    calm: bool = False
    depth: int = 0
    busy: set[str] = field(default_factory=set)
    done: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inventory = Inventory(self.directory)
        self.inventory.configure([Gpu(u, i, BOARD.key) for i, u in enumerate(UUIDS)], 0)
        self.wanted = {uuid: [geometry.Instance(BOARD.whole, 0)] for uuid in UUIDS}
        self.offers: dict[str, Offer] = {}
        self.start_kubelet_side()
        self.start_agent()

    # Processes

    def start_kubelet_side(self) -> None:
        self.allocations = Allocations(clock=lambda: self.now)
        self.preparer = Preparer(
            _Gpud(self), _Api(self), NODE, self.directory / "cdi", "/lib", wait_s=0
        )

    def start_agent(self) -> None:
        self.allocations.allow_all()
        quiet: Any = SimpleNamespace(
            **{n: lambda *a, **k: True for n in ("post", "post_gpu", "post_health", "post_claim")}
        )
        binder: Any = SimpleNamespace(functions=(), wake=lambda: None, healthy=True)
        objects: Any = SimpleNamespace(gpus=self.objects, apply_status=lambda *a: None)
        pods: Any = SimpleNamespace(list=self.listing)
        gpud: Any = _Gpud(self)
        clock = lambda: self.now  # noqa: E731
        self.holders = Holders(pods, gpud, OWN_POD, clock)
        settings = Settings(NODE, OWN_POD, cdi_dir=self.directory / "cdi")
        side: Any = self
        event = threading.Event()
        directory = self.directory / "lib" / "0"
        directory.mkdir(parents=True, exist_ok=True)
        self.agent = Agent(
            *(settings, gpud, self.holders, objects, side, directory, event, quiet, binder)
        )
        self.orphans = Orphans(
            *(gpud, self.holders, _Api(self), quiet, NODE, self.directory / "cdi"),  # type: ignore[arg-type]
            clock=clock,
        )

    # The interface of the kubelet's side that the agent uses (dp.kubelet_side.KubeletSide)

    def update(self, offers: dict[str, Offer]) -> None:
        self.offers = offers

    def connected_resources(self) -> frozenset[str]:
        return frozenset(self.offers)

    def report_claim_health(self, healths: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name in ("confirm_listed", "keep_only", "forbid", "allow", "has_pending", "all_ours"):
            return getattr(self.allocations, name)
        raise AttributeError(name)

    # Answers of the API server and the kubelet

    def objects(self) -> list[GpuObject]:
        return [
            GpuObject(
                f"gpu-{index}",
                uuid,
                self.generation,
                False,
                GPUSpec(
                    node_name=NODE,
                    index=index,
                    board=BOARD.key,
                    uuid=uuid,
                    pool="p",
                    instances=tuple(
                        PlacedInstance.from_place(planner.place_of(i)) for i in self.wanted[uuid]
                    ),
                ),
                GPUStatus(),
            )
            for index, uuid in enumerate(UUIDS)
        ]

    def listing(self) -> Listing:
        holders: dict[str, tuple[HolderPod, ...]] = {}
        for name, pod in self.pods.items():
            pod.listed = True
            holders[pod.uuid] = (HolderPod("team", name, f"uid-{name}"),)
        for claim in self.claims.values():
            for one in claim.prepared if claim.listed else ():
                for device in one.cdi_ids:
                    name, uid = f"of-{claim.ref.name}", claim.ref.uid
                    pod = HolderPod("team", name, f"uid-{name}", claim=f"claim:{uid}")
                    holders[f"{slice_of(device)}::{uid}/team/{name}"] = (pod,)
        return Listing(holders, {}, frozenset({OWN_POD}))

    # Events

    def happen(self) -> None:
        """Perform one random event, and check that no unit has two owners."""
        actions: list[Callable[[], None]] = [
            *(self.agent_passes, self.agent_passes, self.time_passes, self.layout_changes),
            *(self.pod_comes, self.pod_comes, self.pod_goes, self.orphans_are_looked_for),
            *(self.claim_comes, self.claim_is_prepared, self.claim_is_prepared),
            *(self.claim_is_unprepared, self.claim_goes, self.pod_is_forced_away),
            self.claim_s_pod_is_listed,
            *(self.agent_restarts, self.kubelet_side_restarts, self.gpud_restarts),
        ]
        action = self.random.choice(actions)
        self.done[action.__name__] = self.done.get(action.__name__, 0) + 1
        action()
        self.check()

    def between(self) -> None:
        """Run another random event at this point, with some probability."""
        if not self.calm and self.depth < 2 and self.random.random() < 0.2:
            self.depth += 1
            try:
                self.happen()
            finally:
                self.depth -= 1

    @contextmanager
    def process(self, restart: Callable[[], None]) -> Iterator[None]:
        """Run the block as a process; restart the process if it crashes."""
        try:
            yield
        except Crash:
            restart()

    def agent_passes(self) -> None:
        if "agent" in self.busy:
            return
        self.busy.add("agent")
        with self.process(self.start_agent):
            self.agent.attempt()
        self.busy.discard("agent")

    def orphans_are_looked_for(self) -> None:
        with self.process(self.start_agent), suppress(AgentError):
            self.orphans.sweep()

    def time_passes(self) -> None:
        self.now += self.random.choice((0.3, 1.0, 3.0, 31.0, 70.0))

    def layout_changes(self) -> None:
        chosen: list[geometry.Instance] = []
        for place in self.random.sample(PLACES, len(PLACES)):
            if self.random.random() < 0.6 and not planner.violations(BOARD, [*chosen, place]):
                chosen.append(place)
        self.wanted[self.random.choice(UUIDS)] = chosen
        self.generation += 1

    def pod_comes(self) -> None:
        """Admit a pod as the kubelet does: with a listed device that no pod has."""
        taken = {pod.uuid for pod in self.pods.values()}
        free = [
            one.ID
            for offer in self.offers.values()
            for one in offer.devices()
            if one.ID not in taken and one.health == HEALTHY
        ]
        if not free:
            return
        uuid, chosen_at = self.random.choice(free), self.now
        self.between_lists()
        # The kubelet uses a choice at once or drops it, and admits one pod at a time.
        in_time = self.now - chosen_at < listing.SETTLE_S
        in_time = in_time and uuid not in {pod.uuid for pod in self.pods.values()}
        if in_time and self.allocations.allocate([uuid]) is None:
            self.pods[f"pod-{self.now}-{len(self.pods)}-{self.random.random()}"] = PluginPod(uuid)

    def between_lists(self) -> None:
        """Insert a pause between the kubelet's choice and its call."""
        if self.random.random() < 0.3:
            self.between()

    def pod_goes(self) -> None:
        listed = [name for name, pod in self.pods.items() if pod.listed]
        if listed:
            del self.pods[self.random.choice(listed)]

    def claim_comes(self) -> None:
        """Allocate random devices to a new claim: the scheduler's information may be outdated."""
        number = len(self.claims)
        uid = f"{number:08x}-3333-4333-8333-333333333333"
        devices = [
            names.Device(index, None if p.is_whole else p.name, None if p.is_whole else s).name
            for index in range(2)
            for p in (*BOARD.profiles, BOARD.whole)
            for s in p.starts
        ]
        chosen = tuple(self.random.sample(devices, self.random.choice((1, 1, 2))))
        share = self.random.choice((0, 2 * GIB, 4 * GIB))  # a 1g.6gb has 5.8 GiB
        there = [c.devices for c in self.claims.values() if c.prepared and c.memory_bytes]
        if share and there and self.random.random() < 0.7:
            chosen = self.random.choice(there)  # it prefers shared devices
        self.claims[uid] = WorldClaim(ClaimRef("team", f"claim-{number}", uid), chosen, share)

    def claim_is_prepared(self) -> None:
        waiting = [
            c
            for uid, c in self.claims.items()
            if c.exists and not c.forgotten and uid not in self.busy
        ]
        if not waiting:
            return
        claim = self.random.choice(waiting)
        self.busy.add(claim.ref.uid)
        with self.process(self.start_kubelet_side):
            try:
                prepared = self.preparer.prepare(claim.ref)
                if claim.exists:
                    claim.prepared = prepared
            except ClaimError:
                assert not claim.prepared or self.had_trouble, "a prepared claim is prepared again"
        self.busy.discard(claim.ref.uid)

    had_trouble: bool = False
    most_sharers: int = 0

    def claim_s_pod_is_listed(self) -> None:
        """Update which claims are listed. Listing may take long: images are pulled, and the next
        pod of a shared claim may not exist yet.
        """
        for claim in self.claims.values():
            claim.listed = bool(claim.prepared) and self.random.random() < 0.5

    def claim_is_unprepared(self) -> None:
        known = [c for uid, c in self.claims.items() if not c.forgotten and uid not in self.busy]
        if not known:
            return
        claim = self.random.choice(known)
        claim.prepared = ()  # the pod's containers have ended
        self.busy.add(claim.ref.uid)
        with self.process(self.start_kubelet_side):
            try:
                self.preparer.unprepare(claim.ref.uid)
                claim.exists = False
                claim.forgotten = True
            except ClaimError:
                pass
        self.busy.discard(claim.ref.uid)

    def claim_goes(self) -> None:
        """Delete a claim that was never prepared, as far as the kubelet knows."""
        free = [c for u, c in self.claims.items() if not c.prepared and u not in self.busy]
        if free:
            claim = self.random.choice(free)
            claim.exists, claim.forgotten = False, True

    def pod_is_forced_away(self) -> None:
        """Simulate a kubelet that has lost its checkpoint: the pod is gone, and its claim is never
        unprepared.
        """
        there = [c for u, c in self.claims.items() if c.prepared and u not in self.busy]
        if there and self.random.random() < 0.2:
            claim = self.random.choice(there)
            claim.prepared, claim.exists, claim.forgotten = (), False, True

    def agent_restarts(self) -> None:
        if "agent" not in self.busy:
            self.start_agent()

    def kubelet_side_restarts(self) -> None:
        if not self.busy - {"agent"}:
            self.start_kubelet_side()

    def gpud_restarts(self) -> None:
        self.inventory = Inventory(self.directory)

    # Invariants

    def check(self) -> None:
        """Check that no unit of a GPU has two owners, and that every owner's instance exists."""
        there = {one.uuid: one for one in self.inventory.instances}
        hands: list[MigInstance] = []
        for name, pod in self.pods.items():
            one = there.get(InstanceUuid(pod.uuid))
            assert one is not None, f"{name} has {pod.uuid}, which was destroyed"
            assert not one.owner, f"{name} has {pod.uuid}, which claim {one.owner_name} has"
            assert not one.shares, f"{name} has {pod.uuid}, which claims share"
            hands.append(one)
        shared: dict[InstanceUuid, int] = {}
        for claim in self.claims.values():
            for given in claim.prepared:
                for device in given.cdi_ids:
                    one = there.get(InstanceUuid(slice_of(device) or ""))
                    assert one is not None, f"{claim.ref} has {device}, which was destroyed"
                    share = one.share_of(f"claim:{claim.ref.uid}")
                    if share is None:
                        assert one.owner == f"claim:{claim.ref.uid}"
                        hands.append(one)
                        continue
                    assert share.memory_bytes == claim.memory_bytes
                    hands += [one] if one.uuid not in shared else []
                    shared[one.uuid] = shared.get(one.uuid, 0) + share.memory_bytes
        assert len({one.uuid for one in hands}) == len(hands), "one slice in two hands"
        for uuid, total in shared.items():
            assert total <= there[uuid].profile.memory_bytes, "shares of more memory than there is"
            self.most_sharers = max(self.most_sharers, len(there[uuid].shares))
        for uuid in UUIDS:
            mine = [one.placed for one in hands if one.gpu.uuid == uuid]
            assert not planner.violations(BOARD, mine)
        for offer in self.offers.values():
            for device in offer.devices():
                one = there.get(InstanceUuid(device.ID))
                mine = one is None or not (one.owner or one.shares)
                assert mine or (one is not None and one.profile.is_whole)

    def end(self) -> None:
        """End all pods and claims; check that the node then matches the layouts."""
        self.calm = True
        self.pods.clear()
        for claim in self.claims.values():
            if not claim.forgotten and (claim.prepared or self.random.random() < 0.5):
                claim.prepared = ()
                self.preparer.unprepare(claim.ref.uid)
            claim.prepared, claim.exists = (), False
        for _ in range(40):
            self.now += 20.0
            self.agent.attempt()
            self.orphans.sweep()
        there: dict[str, set[geometry.Instance]] = {uuid: set() for uuid in UUIDS}
        for one in self.inventory.instances:
            assert not one.owner, f"{one.owner_name} has left {one.uuid} behind"
            assert not one.shares, f"{one.shares} are left behind"
            there[one.gpu.uuid].add(one.placed)
        assert there == {uuid: set(wanted) for uuid, wanted in self.wanted.items()}
        files = sorted(path.name for path in (self.directory / "cdi").glob("tessera-claim-*"))
        assert not files
        taken = {d.ID for offer in self.offers.values() for d in offer.devices()}
        assert taken == {one.uuid for one in self.inventory.instances}
        assert all(self.allocations.allocate([uuid]) is None for uuid in taken)


class _Api:
    """The API server's claims."""

    def __init__(self, world: World) -> None:
        self._world = world

    def claim(self, namespace: str, name: str) -> Claim | None:
        for one in self._world.claims.values():
            if one.ref.name == name and one.exists:
                more = {"share_id": "s", "memory_bytes": one.memory_bytes}
                share: dict[str, Any] = more if one.memory_bytes else {}
                given = (Allocated("r", names.DRIVER, NODE, d, **share) for d in one.devices)
                return Claim(one.ref, tuple(given))
        return None


class _Gpud:
    """gpud's administration socket, at which callers crash and connections are lost."""

    def __init__(self, world: World) -> None:
        self._world = world

    def inventory(self) -> model.Inventory:
        self._world.between()
        return self._seen()

    def create_instance(
        self,
        gpu_uuid: str,
        profile: str,
        start: int,
        owner: str = "",
        owner_name: str = "",
        compute_start: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        made = {"owner": owner, "owner_name": owner_name, "compute_start": compute_start}
        made["memory_bytes"] = memory_bytes
        uuid = GpuUuid(gpu_uuid)
        self._do(lambda: self._world.inventory.create_instance(uuid, profile, start, **made))  # type: ignore[arg-type]

    def destroy_instance(self, uuid: str, owner: str = "", evict: bool = False) -> None:
        del evict
        inventory = self._world.inventory
        self._do(lambda: inventory.destroy_instance(InstanceUuid(uuid), lambda _: False, owner))

    def configure(self, gpus: Any, budget_bytes: int = 0) -> None:
        pass

    def set_sharing(self, shares: Any) -> None:
        pass

    def set_holders(self, holders: Any, complete: bool) -> None:
        pass

    def _do(self, act: Callable[[], object]) -> None:
        world = self._world
        world.between()
        fate = 1.0 if world.calm else world.random.random()
        if fate < 0.04:
            raise Crash
        if fate < 0.08:
            raise GpudUnreachable("lost before gpud received it")
        try:
            act()
        except errors.RequestError as err:
            raise GpudError(err.code, str(err)) from err
        if fate < 0.12:
            raise Crash
        if fate < 0.16:
            raise GpudUnreachable("lost before it was answered")

    def _seen(self) -> model.Inventory:
        found = []
        for gpu in self._world.inventory.gpus:
            slices = tuple(
                model.MigSlice(
                    *(one.uuid, gpu.uuid, one.placed, 1, 0, 1),
                    *(f"/run/tessera/slices/{one.uuid}", 0, ()),
                    owner=one.owner,
                    owner_name=one.owner_name,
                    shares=tuple(
                        model.ClaimShare(share.owner, share.owner_name, share.memory_bytes)
                        for share in one.shares
                    ),
                )
                for one in self._world.inventory.instances_of(gpu)
            )
            found.append(model.Gpu(gpu.uuid, gpu.index, BOARD, "Healthy", slices))
        return model.Inventory("1", "/lib", 0, 0, True, "", (), tuple(found))
