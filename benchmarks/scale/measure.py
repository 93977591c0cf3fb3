"""One fleet of one size: all phases, and the figures.

If a size runs out of time this is reported, and the figures measured until then are kept.
"""

import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.scale.cluster import GPUS_A_NODE, Cluster, Stuck
from benchmarks.scale.control_plane import ControlPlane, control_plane
from benchmarks.scale.fleet import name_of
from benchmarks.scale.processes import Fleet, Operator, used_s
from benchmarks.scale.scheduling import RESOURCE, Pods, Stalled

SEVEN = (("1g.10gb", 7),)
MIXED = (("3g.40gb", 1), ("2g.20gb", 1), ("1g.10gb", 2))
HALVES = (("3g.40gb", 2),)
BUSY_UNAVAILABLE = "10%"
POD_LASTS_S = 3.0
_CHANGES = 50


@dataclass
class Phase:
    """One phase: its duration (s), CPU time of each program (s), and requests to the API server.

    ``cpu_s`` is by program: "operator", "agents" with all stand-ins in their processes, "etcd"...
    """

    seconds: float
    cpu_s: dict[str, float]
    operator_requests: int
    operator: str
    agents: str
    agent_lists: int

    @property
    def cores(self) -> float:
        return self.cpu_s["operator"] / self.seconds if self.seconds else 0.0


@dataclass
class Figures:
    """The figures of one size."""

    nodes: int
    phases: dict[str, Phase] = field(default_factory=dict)
    memory_mib: float = 0.0
    status_bytes: int = 0
    change_ms: float = 0.0
    change_requests: float = 0.0
    lost_leader_s: float = 0.0
    restarts: int = 0
    away: int = 0
    slow: int = 0
    pods: int = 0
    bound_s: dict[str, float] = field(default_factory=dict)  # by what each pod requests
    stuck: str = ""

    def document(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


SLOW_TOO = ": slow nodes, too"
"""Suffix of the names of phases that wait for nodes whose gpud answers a second late."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters of a run. ``slow`` and ``away`` are shares of the nodes."""

    nodes: int
    quiet_s: float = 60.0
    within_s: float = 1800.0  # seconds for all phases
    pods: int = 0
    busy: bool = True
    slow: float = 0.01
    away: float = 0.01
    keep: Path | None = None


class Run:
    """A running fleet, and the measurement of its phases."""

    def __init__(self, settings: Wanted, plane: ControlPlane, root: Path, stack: ExitStack) -> None:
        self.wanted = settings
        self.figures = Figures(settings.nodes)
        self._plane = plane
        self._root = root
        self._cluster = Cluster(plane)
        self._fleet = Fleet()
        stack.callback(self._fleet.stop)
        self._operators: list[Operator] = []
        stack.callback(self._end_operators)
        count = settings.nodes
        self._away = _part(count, settings.away, 0)
        self._slow = _part(count, settings.slow, 1)
        self._here = (count - len(self._away)) * GPUS_A_NODE
        self.figures.away, self.figures.slow = len(self._away), len(self._slow)
        self._ends_at = time.monotonic() + settings.within_s

    def everything(self) -> Figures:
        """Measure all phases; ``Figures.stuck`` states what did not happen in time."""
        try:
            self._everything()
        except (Stuck, Stalled, OSError) as err:  # a loaded API server answers late too
            self.figures.stuck = str(err) or repr(err)
        self._sum_up()
        return self.figures

    def _everything(self) -> None:
        self._cluster.create_nodes(self.wanted.nodes)
        self._cluster.create_pool()
        self._operator("operator-0")
        self._fleet.start(
            self._root, self._plane, self.wanted.nodes, self._slow, self._away, POD_LASTS_S
        )
        self._phase("set up", self._set_up)
        self._relay("divide whole GPUs", SEVEN)
        self._relay("relay idle", MIXED)
        self._phase("quiet", lambda: time.sleep(self.wanted.quiet_s))
        self._single_changes()
        self._bind_pods()
        if not self.wanted.busy:
            return
        self._fleet.tell("free")
        self._fleet.tell("hold")
        self._cluster.wait("rest", self._is_idle, 120)
        self._operator("operator-1")
        self._phase("relay busy, leader killed", self._relay_and_kill)

    def _sum_up(self) -> None:
        self.figures.memory_mib = max(o.cost.memory_bytes for o in self._operators) / 2**20
        self.figures.restarts = sum(operator.restarts for operator in self._operators)
        if "divide whole GPUs" in self.figures.phases:
            self.figures.status_bytes = self._cluster.status_bytes()

    def _end_operators(self) -> None:
        for operator in self._operators:
            operator.end()

    def _operator(self, name: str) -> None:
        self._operators.append(Operator(self._root, self._plane, name))

    def _left_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def _set_up(self) -> None:
        present_nodes = [n for n in range(self.wanted.nodes) if n not in self._away]
        self._cluster.run_daemon_set(present_nodes)
        within_s = self._left_s()
        self._cluster.wait(
            "a report of every GPU",
            lambda: self._cluster.count_reported() >= self._here,
            within_s,
            every_s=max(1.0, self.wanted.nodes / 50),  # each check lists all GPUs
        )

    def _relay(self, name: str, instances: tuple[tuple[str, int], ...]) -> None:
        """Apply a layout to every GPU: first on the prompt nodes, then on the slow ones."""
        generation = 0

        def edit() -> None:
            nonlocal generation
            generation = self._cluster.layout(instances, "100%")
            self._wait_applied(generation, self._here - GPUS_A_NODE * len(self._slow))

        self._phase(name, edit)
        if self._slow:
            self._phase(f"{name}{SLOW_TOO}", lambda: self._wait_applied(generation, self._here))

    def _wait_applied(self, generation: int, gpus: int) -> None:
        def count() -> int:
            return self._cluster.count_applied(generation)

        try:
            self._cluster.wait(
                f"the layout on {gpus} GPUs", lambda: count() >= gpus, self._left_s()
            )
        except Stuck as err:
            raise Stuck(f"{err}: {count()} of {self._here} GPUs") from err

    def _relay_and_kill(self) -> None:
        generation = self._cluster.layout(HALVES, BUSY_UNAVAILABLE)
        half = self._here // 2
        within_s = self._left_s()
        applied = self._cluster.count_applied
        self._cluster.wait("half of the GPUs", lambda: applied(generation) >= half, within_s)
        leader = self._cluster.leader()
        (victim,) = (o for o in self._operators if o.name == leader)
        victim.end(kill=True)
        killed, earlier_count = time.monotonic(), applied(generation)
        self._cluster.wait(
            "a GPU after that", lambda: applied(generation) > earlier_count, within_s
        )
        self.figures.lost_leader_s = time.monotonic() - killed
        self._cluster.wait("all GPUs", lambda: applied(generation) >= self._here, within_s)

    def _single_changes(self) -> None:
        """Assign a pod to one GPU after another, and measure the operator's cost for each."""
        self._cluster.wait("rest", self._is_idle, 120)
        self._plane.take_counts()
        cpu_s, idle_s = self._cpu_s(), self._idle_share()
        began = time.monotonic()
        present_nodes = [n for n in range(self.wanted.nodes) if n not in (*self._away, *self._slow)]
        changed = 0
        for number in present_nodes[:_CHANGES]:
            changed += self._fleet.tell(f"hold {name_of(number)}")
            time.sleep(0.2)
        time.sleep(2)
        spent_s = self._cpu_s() - cpu_s - idle_s * (time.monotonic() - began)
        self.figures.change_ms = 1000 * spent_s / max(1, changed)
        self.figures.change_requests = self._plane.take_counts().of("operator") / max(1, changed)

    def _idle_share(self) -> float:
        return self.figures.phases["quiet"].cores

    def _is_idle(self) -> bool:
        """Return whether the operator was nearly idle for a second."""
        start_cpu_s = self._cpu_s()
        time.sleep(1)
        return self._cpu_s() - start_cpu_s < 0.2

    def _cpu_s(self) -> float:
        return sum(operator.cpu_s() for operator in self._operators)

    def _all_cpu_s(self) -> dict[str, float]:
        """Return the CPU time of every program so far."""
        count = {"operator": self._cpu_s(), "agents": self._fleet.cpu_s()}
        return count | {name: used_s(pid) for name, pid in self._plane.pids().items()}

    def _bind_pods(self) -> None:
        """Have the stock scheduler bind as many pods without GPUs, then with a slice each."""
        count = self.figures.pods = self.wanted.pods
        if not count:
            return
        self._plane.start_scheduler()
        pods = Pods(self._plane)
        pods.bound_within("warm-up", 1, RESOURCE, self._left_s())
        for device, resource in (("no device", ""), ("a slice", RESOURCE)):
            name = f"bound-{device.replace(' ', '-')}"
            seconds = pods.bound_within(name, count, resource, self._left_s())
            self.figures.bound_s[device] = seconds
            summary = (
                f"{self.wanted.nodes} nodes: {count} pods with {device} bound: {seconds:.1f} s"
            )
            print(f"  {summary}", flush=True)

    def _phase(self, name: str, work: Any) -> None:
        self._plane.take_counts()
        cpu_s, began = self._all_cpu_s(), time.monotonic()
        try:
            work()
        except Stuck as err:
            raise Stuck(f"{name}: {err}") from err
        seconds = time.monotonic() - began
        counts = self._plane.take_counts()
        self.figures.phases[name] = Phase(
            seconds,
            {who: used - cpu_s.get(who, 0.0) for who, used in self._all_cpu_s().items()},
            counts.of("operator"),
            counts.table("operator"),
            counts.table("agent"),
            counts.of("agent", "list"),
        )
        print(f"  {self.wanted.nodes} nodes: {name}: {seconds:.1f} s", flush=True)


def _part(count: int, share: float, first: int) -> list[int]:
    """Return a share of the nodes, by number, evenly spread."""
    step = round(1 / share) if share else 0
    return list(range(step // 2 + first, count, step)) if step else []


def measure(settings: Wanted, programs: Path) -> Figures:
    """Start a fleet, measure it, stop it. Raises MissingProgram, TimeoutError."""
    with ExitStack() as stack:
        root = settings.keep
        if root is None:
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tessera-scale-")))
        root.mkdir(parents=True, exist_ok=True)
        plane = stack.enter_context(control_plane(root, programs))
        return Run(settings, plane, root, stack).everything()
